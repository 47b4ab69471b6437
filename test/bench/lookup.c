/*
 * lookup.c
 *		Lookups in the library, from memory and under a lease, beside a plain hash lookup of the same names; and the
 *		memory of a node full of tables beside the documents in it. See test/bench/lookup.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "load.h"
#include "node.h"

#define BATCH 256
#define TRIALS 5

typedef struct Name
{
	char		table[24];
} Name;

static int	table_count;
static Name *names;
static AmoroNode *node;

/* The baseline: one table of chains, names compared by their bytes; no lock, no lease, no count of references. */
typedef struct PlainEntry
{
	struct PlainEntry *next;
	const char *document;
	char		key[64];
} PlainEntry;

static PlainEntry **plain;
static int	plain_shift;		/* of a hash, to the number of a chain: there are at least as many as entries */

static uint64_t
plain_hash(const char *key)
{
	uint64_t	hash = UINT64_C(14695981039346656037);	/* FNV-1a */

	for (; *key != '\0'; key++)
		hash = (hash ^ (unsigned char) *key) * UINT64_C(1099511628211);
	return hash;
}

static const char *
plain_find(const char *table)
{
	char		key[64] = "warehouse.sales.";
	PlainEntry *entry;

	memcpy(key + 16, table, strlen(table) + 1);
	for (entry = plain[plain_hash(key) >> plain_shift]; entry != NULL && strcmp(entry->key, key) != 0; entry = entry->next)
		;
	return entry != NULL ? entry->document : NULL;
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
	PEEK,						/* peek (with the test of the lease) and release */
	WHOLE						/* and the check of the ticket in between */
} Way;

typedef struct Worker
{
	pthread_t	thread;
	Way			way;
	int			tables;			/* so many of them are asked for */
	uint64_t	failures;
	uint64_t	seed;
	double		rate;			/* lookups a second of a core's time */
} Worker;

static void
look_up(Worker *worker, const char *table)
{
	AmoroKey	key = {"warehouse", "sales", table};
	AmoroEntry *entry;
	AmoroTicket ticket;

	if (worker->way == PLAIN)
	{
		worker->failures += plain_find(table) == NULL;
		return;
	}
	if (amoro_cache_peek(node, AMORO_CACHE_TABLE, &key, &entry, &ticket) != AMORO_OK ||
		(worker->way == WHOLE && amoro_ticket_check(node, &ticket) != AMORO_OK))
		worker->failures++;
	amoro_entry_release(entry);
}

static void *
work(void *argument)
{
	Worker	   *worker = argument;
	Random		random = {worker->seed};
	double		end = seconds(CLOCK_MONOTONIC) + 1.0;
	double		begin = seconds(CLOCK_THREAD_CPUTIME_ID);
	uint64_t	lookups = 0;

	while (seconds(CLOCK_MONOTONIC) < end)
	{
		for (int i = 0; i < BATCH; i++)
			look_up(worker, names[random_next(&random) % (uint64_t) worker->tables].table);
		lookups += BATCH;
	}
	worker->rate = (double) lookups / (seconds(CLOCK_THREAD_CPUTIME_ID) - begin);
	return NULL;
}

static double
measure(Way way, int tables, int threads)
{
	Worker		workers[8];
	double		rate = 0;

	for (int i = 0; i < threads; i++)
	{
		workers[i] = (Worker) {.way = way, .tables = tables, .seed = (uint64_t) i};
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	}
	for (int i = 0; i < threads; i++)
	{
		pthread_join(workers[i].thread, NULL);
		rate += workers[i].rate;
		if (workers[i].failures > 0)
		{
			fprintf(stderr, "%llu lookups failed\n", (unsigned long long) workers[i].failures);
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
compare(int tables, int threads)
{
	double		rates[3][TRIALS];

	for (int i = 0; i < TRIALS; i++)
		for (int way = PLAIN; way <= WHOLE; way++)
			rates[way][i] = measure((Way) way, tables, threads);
	for (int way = PLAIN; way <= WHOLE; way++)
		qsort(rates[way], TRIALS, sizeof(double), compare_doubles);
	printf("%7d tables, %d thread%s: %6.2f M/s peek and release, %6.2f M/s with ticket check; plain hash %6.2f M/s\n",
		   tables, threads, threads == 1 ? " " : "s", rates[PEEK][TRIALS / 2], rates[WHOLE][TRIALS / 2],
		   rates[PLAIN][TRIALS / 2]);
}

/* Documents between half and one and a half of the size that is asked for. */
static size_t
make_document(char *document, size_t size, Random *random)
{
	size_t		length = size / 2 + (size_t) (random_next(random) % size);

	memset(document, 'x', length);
	document[length] = '\0';
	return length;
}

static void
fill(size_t document_size)
{
	char	   *document = malloc(document_size * 2 + 1);
	Random		random = {7};
	size_t		documents = 0;
	size_t		before = mallinfo2().uordblks + mallinfo2().hblkhd;
	AmoroNodeStatus status;

	for (int i = 0; i < table_count; i++)
	{
		AmoroKey	key = {"warehouse", "sales", names[i].table};
		LookupAnswer answer = {.metadata_version = 1, .term = 1, .found = true, .state = "normal", .object_version = 1,
		.document = document};
		AmoroResult result;
		AmoroTicket ticket;
		AmoroEntry *entry;
		LoadNote	note;
		KeyParts	parts;

		answer.document_size = make_document(document, document_size, &random);
		documents += answer.document_size;
		key_parts(&parts, AMORO_CACHE_TABLE, &key, node->cache.seed);
		if (!load_begin(&node->lease, &node->cache, &parts, &note))
			exit(1);
		load_finish(&node->lease, &node->cache, AMORO_CACHE_TABLE, &parts, &note, &answer, &result, &entry, &ticket);
		amoro_entry_release(entry);
	}
	amoro_node_status(node, &status);
	printf("memory of %lld tables: %.1f MB allocated (%.1f MB by the node's own count) for %.1f MB of documents: %.2f x\n",
		   (long long) status.caches[0].entries, (double) (mallinfo2().uordblks + mallinfo2().hblkhd - before) / 1e6,
		   (double) status.caches[0].bytes / 1e6, (double) documents / 1e6,
		   (double) (mallinfo2().uordblks + mallinfo2().hblkhd - before) / (double) documents);
	free(document);
}

static void
fill_plain(void)
{
	plain_shift = 64;
	while (UINT64_C(1) << (64 - plain_shift) < (uint64_t) table_count)
		plain_shift--;
	plain = calloc((size_t) 1 << (64 - plain_shift), sizeof(PlainEntry *));
	for (int i = 0; i < table_count; i++)
	{
		PlainEntry *entry = calloc(1, sizeof(PlainEntry));

		snprintf(entry->key, sizeof(entry->key), "warehouse.sales.%s", names[i].table);
		entry->document = "{}";
		entry->next = plain[plain_hash(entry->key) >> plain_shift];
		plain[plain_hash(entry->key) >> plain_shift] = entry;
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
	size_t		document_size = argc > 1 ? (size_t) atol(argv[1]) : 1000;
	int			threads = argc > 2 ? atoi(argv[2]) : 2;

	table_count = argc > 3 ? atoi(argv[3]) : 100000;
	names = calloc((size_t) table_count, sizeof(Name));
	mallopt(M_ARENA_MAX, 1);	/* mallinfo2 counts the main arena */
	for (int i = 0; i < table_count; i++)
		snprintf(names[i].table, sizeof(names[i].table), "table_%06d", i);
	node = node_create(&clock_boottime, &transport, 0, 1000000, 0);
	node->lease.state = AMORO_NODE_ACTIVE;
	node->lease.term = 1;
	node->lease.end = clock_now(&clock_boottime) + INT64_C(3600000000);
	fill(document_size);
	fill_plain();
	printf("lookups of random tables, by time of the processor:\n");
	for (int tables = table_count / 100; tables <= table_count; tables *= 100)
	{
		compare(tables, 1);
		if (threads > 1)
			compare(tables, threads > 8 ? 8 : threads);
	}
	node_destroy(node);
	return 0;
}
