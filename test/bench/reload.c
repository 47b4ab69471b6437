/*
 * reload.c
 *		How fast a node loads everything of a kind before it serves, beside a bare COPY of the same rows through libpq.
 *		By the clock, and by the time of the processor that node and server take together. See test/bench/reload.
 */
#include <sys/resource.h>
#include <unistd.h>

#include "amoro_node.h"
#include "bench_connection.h"

#define MOST_ROUNDS 9

typedef struct Round
{
	double		seconds;		/* by the clock */
	double		client;			/* seconds of the processor */
	double		server;
} Round;

static const char *conninfo;

static double
own_seconds(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double) (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + (double) (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* Of another process: fields 14 and 15 of its stat, ticks. */
static double
seconds_of(int pid)
{
	char		path[64];
	char		stat[1024] = "";
	unsigned long user = 0;
	unsigned long system = 0;
	FILE	   *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "r");
	if (file == NULL || fgets(stat, sizeof(stat), file) == NULL || strrchr(stat, ')') == NULL ||
		sscanf(strrchr(stat, ')') + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
		fail(path, NULL);
	fclose(file);
	return (double) (user + system) / (double) sysconf(_SC_CLK_TCK);
}

static Round
copy(const char *kind, long *rows)
{
	PGconn	   *connection = connect_to(conninfo);
	char		statement[512];
	double		client = own_seconds();
	double		server = seconds_of(PQbackendPID(connection));
	double		begin = now_ms();
	char	   *row;
	Round		round;

	snprintf(statement, sizeof(statement), "COPY (SELECT object_id, catalog_name, database_name, object_name, state, version, document"
			 " FROM amoro_meta.%s_object ORDER BY object_id) TO STDOUT", kind);
	PQclear(PQexec(connection, statement));
	for (*rows = 0; PQgetCopyData(connection, &row, 0) > 0; ++*rows)
		PQfreemem(row);
	round = (Round) {(now_ms() - begin) / 1e3, own_seconds() - client, seconds_of(PQbackendPID(connection)) - server};
	PQfinish(connection);
	return round;
}

/* The session of the node that has taken most time of the server. */
static double
node_session_seconds(PGconn *control)
{
	PGresult   *result = run(control, "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'amoro-node%'");
	double		most = 0;

	for (int i = 0; i < PQntuples(result); i++)
	{
		double		seconds = seconds_of(atoi(PQgetvalue(result, i, 0)));

		if (seconds > most)
			most = seconds;
	}
	PQclear(result);
	return most;
}

static Round
reload(AmoroCacheKind kind, long *entries)
{
	AmoroNodeOptions options = {.conninfo = conninfo, .node_name = "bench", .preload = 1U << kind};
	PGconn	   *control = connect_to(conninfo);
	AmoroNodeStatus status;
	AmoroNode  *node;
	char		error[256];
	double		client = own_seconds();
	Round		round;

	if (amoro_node_open(&options, &node, error, sizeof(error)) != AMORO_OK)
	{
		fprintf(stderr, "%s\n", error);
		exit(1);
	}
	do
	{
		usleep(2000);
		amoro_node_status(node, &status);
	} while (!status.serving);
	round = (Round) {(double) status.caches[kind].last_reload_ms / 1e3, own_seconds() - client, node_session_seconds(control)};
	*entries = (long) status.caches[kind].entries;
	amoro_node_close(node);
	PQfinish(control);
	return round;
}

static int
compare_rounds(const void *a, const void *b)
{
	const Round *x = a;
	const Round *y = b;

	return (x->client + x->server > y->client + y->server) - (x->client + x->server < y->client + y->server);
}

static void
print(const char *what, Round *rounds, int count, long rows)
{
	Round	   *middle;

	qsort(rounds, (size_t) count, sizeof(Round), compare_rounds);
	middle = &rounds[count / 2];
	printf("  %-6s %8.0f entries/s a core (%.2f us of the server, %.2f us of the client each); %8.0f/s by the clock\n", what,
		   (double) rows / (middle->client + middle->server), middle->server / (double) rows * 1e6, middle->client / (double) rows * 1e6,
		   (double) rows / middle->seconds);
}

static AmoroCacheKind
kind_of(const char *name)
{
	int			kind = 0;

	while (kind < AMORO_CACHE_KIND_COUNT && strcmp(amoro_cache_kind_name((AmoroCacheKind) kind), name) != 0)
		kind++;
	return (AmoroCacheKind) kind;
}

/* conninfo, rounds, kinds */
int
main(int argc, char **argv)
{
	int			count = atoi(argv[2]);

	conninfo = argv[1];
	for (int i = 3; i < argc; i++)
	{
		Round		copies[MOST_ROUNDS];
		Round		reloads[MOST_ROUNDS];
		long		rows = 0;
		long		entries = 0;

		for (int j = 0; j < count && j < MOST_ROUNDS; j++)
		{
			copies[j] = copy(argv[i], &rows);
			reloads[j] = reload(kind_of(argv[i]), &entries);
		}
		if (rows != entries)
		{
			fprintf(stderr, "%ld entries of %ld rows\n", entries, rows);
			return 1;
		}
		printf("%ld of kind %s:\n", rows, argv[i]);
		print("reload", reloads, count, rows);
		print("COPY", copies, count, rows);
	}
	return 0;
}
