/*
 * privilege.c
 *		Checks of privileges in the library, from memory and under a lease, beside a plain hash lookup of user and table
 *		in one name. See test/bench/privilege.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "load.h"
#include "node.h"

#define BATCH 256
#define TRIALS 5
#define PLAIN_BITS 20

static AmoroNode *node;
static int	user_count = 1000;
static int	grant_count = 20;

/* The baseline: one table of chains; no lock, no lease, no count of references, one name for each user and table. */
typedef struct PlainEntry
{
	struct PlainEntry *next;
	char		key[56];
} PlainEntry;

static PlainEntry *plain[1 << PLAIN_BITS];

static uint64_t
plain_hash(const char *key)
{
	uint64_t	hash = UINT64_C(14695981039346656037);	/* FNV-1a */

	for (; *key != '\0'; key++)
		hash = (hash ^ (unsigned char) *key) * UINT64_C(1099511628211);
	return hash;
}

static bool
plain_find(const char *user, const char *table)
{
	char		key[56];
	size_t		length = strlen(user);
	PlainEntry *entry;

	memcpy(key, user, length);
	key[length] = '.';
	memcpy(key + length + 1, table, strlen(table) + 1);
	for (entry = plain[plain_hash(key) >> (64 - PLAIN_BITS)]; entry != NULL && strcmp(entry->key, key) != 0; entry = entry->next)
		;
	return entry != NULL;
}

static double
seconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

typedef enum Way
{
	PLAIN,						/* the baseline */
	TABLE,						/* a table that is granted, and one that is not, by turns */
	PATH,						/* a path of six nodes below one that is granted */
	WAY_COUNT
} Way;

static const char *const way_names[] = {"plain hash", "privilege on a table", "privilege on a path"};

typedef struct Worker
{
	pthread_t	thread;
	Way			way;
	uint64_t	failures;
	uint64_t	seed;
	double		rate;			/* checks a second of a core's time */
} Worker;

/* The names of a question, made once: to print numbers costs more than to answer. */
static char (*users)[16];
static char tables[64][16];

static void
check(Worker *worker, const char *user, int table)
{
	bool		granted = table < grant_count;
	AmoroScope	scope = {"warehouse", "sales", tables[table], NULL};
	AmoroTicket ticket;
	AmoroResult result;

	if (worker->way == PLAIN)
	{
		worker->failures += plain_find(user, tables[table]) != granted;
		return;
	}
	if (worker->way == PATH)
		scope = (AmoroScope) {"warehouse", "plant", NULL, "root.region7.site12.building3.turbine7.rotor"};
	result = amoro_privilege_check(node, user, worker->way == PATH ? AMORO_PRIVILEGE_READ_DATA : AMORO_PRIVILEGE_SELECT, &scope, &ticket);
	if (result != (granted || worker->way == PATH ? AMORO_OK : AMORO_NOT_FOUND) || amoro_ticket_check(node, &ticket) != AMORO_OK)
		worker->failures++;
}

static void *
work(void *argument)
{
	Worker	   *worker = argument;
	Random		random = {worker->seed};
	double		end = seconds(CLOCK_MONOTONIC) + 1.0;
	double		begin = seconds(CLOCK_THREAD_CPUTIME_ID);
	uint64_t	checks = 0;

	while (seconds(CLOCK_MONOTONIC) < end)
	{
		for (int i = 0; i < BATCH; i++)
		{
			uint64_t	draw = random_next(&random);

			/* without a division, which would cost as much as a tenth of a check */
			check(worker, users[((draw >> 32) * (uint64_t) user_count) >> 32],
				  (int) (((draw & UINT32_MAX) * (uint64_t) (grant_count * 2)) >> 32));
		}
		checks += BATCH;
	}
	worker->rate = (double) checks / (seconds(CLOCK_THREAD_CPUTIME_ID) - begin);
	return NULL;
}

static double
measure(Way way, int threads)
{
	Worker		workers[8];
	double		rate = 0;

	for (int i = 0; i < threads; i++)
	{
		workers[i] = (Worker) {.way = way, .seed = (uint64_t) i};
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	}
	for (int i = 0; i < threads; i++)
	{
		pthread_join(workers[i].thread, NULL);
		rate += workers[i].rate;
		if (workers[i].failures > 0)
		{
			fprintf(stderr, "%llu checks failed\n", (unsigned long long) workers[i].failures);
			exit(1);
		}
	}
	return rate / 1e6;
}

static int
compare_doubles(const void *a, const void *b)
{
	return (*(const double *) a > *(const double *) b) - (*(const double *) a < *(const double *) b);
}

/* All ways by turns, so that what else the machine does meets them all; medians. */
static void
compare(int threads)
{
	double		rates[WAY_COUNT][TRIALS];

	for (int i = 0; i < TRIALS; i++)
		for (int way = PLAIN; way < WAY_COUNT; way++)
			rates[way][i] = measure((Way) way, threads);
	printf("%d thread%s:", threads, threads == 1 ? " " : "s");
	for (int way = PLAIN; way < WAY_COUNT; way++)
	{
		qsort(rates[way], TRIALS, sizeof(double), compare_doubles);
		printf("%s %6.2f M/s %s", way > 0 ? "," : "", rates[way][TRIALS / 2], way_names[way]);
	}
	printf("\n");
}

/* What a server would say of a user. */
static size_t
make_document(char *document, size_t size, int user)
{
	size_t		length = (size_t) snprintf(document, size, "{\"user\" : \"%s\"}\npath\twarehouse\tplant\troot.region7.**\tREAD_DATA,READ_SCHEMA",
										   users[user]);

	for (int i = 0; i < grant_count; i++)
		length += (size_t) snprintf(document + length, size - length, "\ntable\twarehouse\tsales\t%s\tINSERT,SELECT", tables[i]);
	return length;
}

static void
fill(void)
{
	char		document[8192];

	for (int user = 0; user < user_count; user++)
	{
		AmoroKey	key = {.catalog_name = users[user]};
		LookupAnswer answer = {.metadata_version = 1, .term = 1, .found = true, .state = "normal", .object_version = 1,
		.document = document, .document_size = make_document(document, sizeof(document), user)};
		AmoroResult result;
		AmoroTicket ticket;
		AmoroEntry *entry;
		LoadNote	note;
		KeyParts	parts;

		if (!key_parts(&parts, AMORO_CACHE_AUTHORITY, &key, node->cache.seed) || !load_begin(&node->lease, &node->cache, &parts, &note))
			exit(1);
		load_finish(&node->lease, &node->cache, AMORO_CACHE_AUTHORITY, &parts, &note, &answer, &result, &entry, &ticket);
		amoro_entry_release(entry);
		for (int i = 0; i < grant_count; i++)
		{
			PlainEntry *plain_entry = calloc(1, sizeof(PlainEntry));

			snprintf(plain_entry->key, sizeof(plain_entry->key), "%s.%s", users[user], tables[i]);
			plain_entry->next = plain[plain_hash(plain_entry->key) >> (64 - PLAIN_BITS)];
			plain[plain_hash(plain_entry->key) >> (64 - PLAIN_BITS)] = plain_entry;
		}
	}
}

static void
destroy_nothing(Transport *transport)
{
}

int
main(int argc, char **argv)
{
	static Transport transport = {.destroy = destroy_nothing};
	int			threads = argc > 3 ? atoi(argv[3]) : 2;
	AmoroNodeStatus status;

	user_count = argc > 1 ? atoi(argv[1]) : user_count;
	grant_count = argc > 2 ? atoi(argv[2]) : grant_count;
	if (user_count < 1 || grant_count < 1 || grant_count > 32 || threads < 1)
	{
		fprintf(stderr, "usage: privilege [users] [grants of each, at most 32] [threads]\n");
		return 2;
	}
	users = calloc((size_t) user_count, sizeof(*users));
	for (int i = 0; i < user_count; i++)
		snprintf(users[i], sizeof(users[i]), "user_%06d", i);
	for (int i = 0; i < 64; i++)
		snprintf(tables[i], sizeof(tables[i]), "table_%06d", i);
	node = node_create(&clock_boottime, &transport, 0, 1000000, 0);
	node->lease.state = AMORO_NODE_ACTIVE;
	node->lease.term = 1;
	node->lease.end = clock_now(&clock_boottime) + INT64_C(3600000000);
	fill();
	amoro_node_status(node, &status);
	printf("%d users of %d grants each, %.0f bytes of memory a user; checks with test of the lease and of the ticket, by time of the processor:\n",
		   user_count, grant_count, (double) status.caches[AMORO_CACHE_AUTHORITY].bytes / user_count);
	compare(1);
	if (threads > 1)
		compare(threads > 8 ? 8 : threads);
	node_destroy(node);
	return 0;
}
