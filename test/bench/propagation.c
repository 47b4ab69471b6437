/*
 * propagation.c
 *		How long a change takes to reach a number of live nodes and be acknowledged by all of them, against the
 *		same with NOTIFY: one process, one epoll loop, a real connection for each node.
 *
 *	propagation CONNINFO NODES CHANGES ROUNDS lease|notify
 *	propagation CONNINFO NODES
 *
 * With two arguments the nodes apply whatever others change, until the program is ended; it prints "ready" when all hold a lease.
 * lease: every node asks as libamoro_node does: it waits in node_heartbeat_text; told of a version with its changes, it
 * heartbeats with that version, which is the ack and waits for the next news; told without them, it reads them first. A
 * change is appended, committed and published as the coordinator does it; its time ends when the verdict is PROCEED.
 * notify: every node is a bare listener; a change is a commit of as many rows with NOTIFY; a listener that hears of it
 * sends a heartbeat at once, the ack in shared memory. The time ends when the last of them is answered.
 *
 * Prints the median, in milliseconds, of each round on a line of its own.
 */
#include "bench_connection.h"
#include "heartbeat_client.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define LONG_POLL_MS 5000

typedef struct Node
{
	PGconn	   *connection;
	int			number;
	char		incarnation[40];
	HeartbeatClient client;
	enum
	{
		WAITS,					/* in a heartbeat, or for a notification */
		FETCHES,				/* the changes */
		ACKNOWLEDGES
	}			activity;
} Node;

static Node *nodes;
static int	node_count;
static bool leases;
static long long fetches;
static PGconn *writer;
static int	poller;
static long long newest;
static int	acknowledged;

static void
prepare(PGconn *connection, const char *name, const char *statement)
{
	PGresult   *result = PQprepare(connection, name, statement, 0, NULL);

	if (PQresultStatus(result) != PGRES_COMMAND_OK)
		fail(statement, connection);
	PQclear(result);
}

static void
send_heartbeat(const Node *node, long wait_ms)
{
	if (!heartbeat_client_send(&node->client, node->connection, wait_ms, true))
		fail("heartbeat", node->connection);
}

static void
send_fetch(Node *node)
{
	char		applied[32];
	const char *values[] = {applied};

	snprintf(applied, sizeof(applied), "%lld", (long long) node->client.applied);
	if (!PQsendQueryPrepared(node->connection, "changes", 1, values, NULL, NULL, 0))
		fail("changes", node->connection);
	node->activity = FETCHES;
	fetches++;
}

static void
send_ack(Node *node)
{
	node->activity = ACKNOWLEDGES;
	send_heartbeat(node, leases ? LONG_POLL_MS : 0);
	if (leases && node->client.applied >= newest)
		acknowledged++;
}

/* The metadata version in the text form of node_grant: the eighth of its columns. */
static long long
version_of(const char *grant)
{
	for (int i = 0; i < 7 && grant != NULL; i++)
		grant = strchr(grant + 1, ',');
	if (grant == NULL)
		fail("an answer that makes no sense", NULL);
	return strtoll(grant + 1, NULL, 10);
}

/* What a node does with an answer. */
static void
handle_result(Node *node, PGresult *result)
{
	const char *answer;
	long long	version;

	if (PQresultStatus(result) != PGRES_TUPLES_OK)
		fail("answer", node->connection);
	if (node->activity == FETCHES)
	{
		if (PQntuples(result) > 0)
			node->client.applied = strtoll(PQgetvalue(result, PQntuples(result) - 1, 0), NULL, 10);
		send_ack(node);
		return;
	}
	answer = PQgetvalue(result, 0, 0);
	if (strncmp(answer, "(granted,", 9) != 0)
		fail("a node was not granted a lease", NULL);
	if (!leases)
	{
		node->activity = WAITS;
		acknowledged++;
	}
	else if ((version = version_of(answer)) <= node->client.applied)
		send_heartbeat(node, LONG_POLL_MS);
	else if (strchr(answer, '\n') == NULL)
		send_fetch(node);
	else
	{
		node->client.applied = version;
		send_ack(node);
	}
}

static void
handle_input(Node *node)
{
	PGnotify   *notification;
	PGresult   *result;

	if (!PQconsumeInput(node->connection))
		fail("input", node->connection);
	/* A prepared statement has one result, then NULL; what is sent next must come after that. */
	while (!PQisBusy(node->connection) && (result = PQgetResult(node->connection)) != NULL)
	{
		PGresult   *end;

		while ((end = PQgetResult(node->connection)) != NULL)
			PQclear(end);
		handle_result(node, result);
		PQclear(result);
	}
	while ((notification = PQnotifies(node->connection)) != NULL)
	{
		PQfreemem(notification);
		if (node->activity == WAITS)
			send_ack(node);
	}
}

/* Serves the connections until all have acknowledged, or for that many milliseconds when it is not negative. */
static void
serve(double milliseconds)
{
	double		end = now_ms() + milliseconds;
	struct epoll_event events[256];

	while (milliseconds < 0 ? acknowledged < node_count : now_ms() < end)
	{
		int			count = epoll_wait(poller, events, 256, milliseconds < 0 ? 1000 : 5);

		if (count < 0 && errno != EINTR)
			fail("epoll_wait", NULL);
		for (int i = 0; i < count; i++)
			handle_input(events[i].data.ptr);
	}
}

static void
open_node(const char *conninfo, int number)
{
	Node	   *node = &nodes[number];
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = node};
	char		statement[400];
	PGresult   *result;

	node->number = number;
	node->connection = connect_to(conninfo);
	snprintf(node->incarnation, sizeof(node->incarnation), "%08x-0000-4000-8000-%012x", (unsigned) getpid(), (unsigned) number);
	heartbeat_client_set_uuid(&node->client, node->incarnation);
	snprintf(statement, sizeof(statement), "SELECT node_id, term, lease_epoch, metadata_version FROM register_node('bench %d', '%s')",
			 number, node->incarnation);
	result = run(node->connection, statement);
	node->client.id = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
	node->client.term = strtoll(PQgetvalue(result, 0, 1), NULL, 10);
	node->client.epoch = strtoll(PQgetvalue(result, 0, 2), NULL, 10);
	node->client.applied = strtoll(PQgetvalue(result, 0, 3), NULL, 10);
	PQclear(result);
	snprintf(statement, sizeof(statement), "SELECT answer FROM activate_node(%lld, '%s', %lld, %lld, %lld)", (long long) node->client.id, node->incarnation,
			 (long long) node->client.term, (long long) node->client.epoch, (long long) node->client.applied);
	PQclear(run(node->connection, statement));
	prepare(node->connection, "heartbeat", HEARTBEAT_STATEMENT);
	if (leases)
		prepare(node->connection, "changes", "SELECT version, object_kind, operation, catalog_name, database_name, table_name"
				" FROM metadata_changes($1)");
	else
		PQclear(run(node->connection, "LISTEN amoro_bench"));
	if (epoll_ctl(poller, EPOLL_CTL_ADD, PQsocket(node->connection), &event) != 0)
		fail("epoll_ctl", NULL);
	if (leases)
		send_heartbeat(node, LONG_POLL_MS);
}

/* Whether the server has seen every ack. */
static bool
proceeds(void)
{
	char		statement[100];
	PGresult   *result;
	bool		yes;

	snprintf(statement, sizeof(statement), "SELECT verdict FROM broadcast_verdict(%lld)", newest);
	result = run(writer, statement);
	yes = strcmp(PQgetvalue(result, 0, 0), "PROCEED") == 0;
	PQclear(result);
	return yes;
}

/* What is changed: one object of each kind that nodes keep. */
static const struct
{
	const char *kind;
	const char *statement;
}			statements[] = {
	{"table", "SELECT amoro_meta.append_change('table', 'alter', 'c', 'd', 't', 1)"},
	{"partition", "SELECT amoro_meta.append_change('partition', 'move', 'c', 'd', '7', 1)"},
	{"device", "SELECT amoro_meta.append_change('device', 'alter', 'c', 'd', 'root.site1.turbine7', 1)"},
	{"bucket", "SELECT amoro_meta.append_change('bucket', 'assign', 'service', '7', NULL, 1)"},
	{"authority", "SELECT amoro_meta.append_change('authority', 'revoke', 'ann', NULL, NULL, 1)"},
};
static const char *change_statement;

static bool
choose_kind(const char *kind)
{
	for (size_t i = 0; i < sizeof(statements) / sizeof(statements[0]); i++)
	{
		if (strcmp(statements[i].kind, kind) == 0)
			change_statement = statements[i].statement;
	}
	return change_statement != NULL;
}

/* One change from its statement to the last ack, in milliseconds. */
static double
one_change(void)
{
	double		start = now_ms();
	PGresult   *result;

	acknowledged = 0;
	if (leases)
	{
		newest++;
		result = run(writer, change_statement);
	}
	else
		result = run(writer, "WITH v AS (UPDATE bench_version SET version = version + 1 RETURNING version),"
					 " c AS (INSERT INTO bench_change SELECT version, 0, 'table', 'alter', 'c', 'd', 't' FROM v)"
					 " SELECT pg_notify('amoro_bench', version::text) FROM v");
	PQclear(result);
	serve(-1);
	while (leases && !proceeds())
		;
	return now_ms() - start;
}

/* So that the next run does not wait for this node. */
static void
release(const Node *node)
{
	char		statement[200];

	snprintf(statement, sizeof(statement), "SELECT release_node(%lld, '%s')", (long long) node->client.id, node->incarnation);
	PQclear(run(writer, statement));
}

static int
compare(const void *a, const void *b)
{
	double		difference = *(const double *) a - *(const double *) b;

	return difference < 0 ? -1 : difference > 0;
}

static void
open_nodes(const char *conninfo, int count)
{
	node_count = count;
	nodes = calloc(node_count, sizeof(Node));
	poller = epoll_create1(0);
	for (int i = 0; i < node_count; i++)
		open_node(conninfo, i);
}

static void
serve_others(const char *conninfo, int count)
{
	leases = true;
	open_nodes(conninfo, count);
	puts("ready");
	fflush(stdout);
	for (;;)
		serve(1000);
}

int
main(int argc, char **argv)
{
	int			changes;
	int			rounds;
	double	   *times;
	PGresult   *result;

	if (argc == 3)
		serve_others(argv[1], atoi(argv[2]));
	if (argc < 6 || !choose_kind(argc > 6 ? argv[6] : "table"))
	{
		fprintf(stderr, "usage: propagation CONNINFO NODES CHANGES ROUNDS lease|notify [table|partition|device|bucket|authority]\n");
		return 2;
	}
	changes = atoi(argv[3]);
	rounds = atoi(argv[4]);
	leases = strcmp(argv[5], "lease") == 0;
	times = calloc(changes, sizeof(double));
	writer = connect_to(argv[1]);
	open_nodes(argv[1], atoi(argv[2]));
	result = run(writer, "SELECT version FROM amoro_meta.metadata_version");
	newest = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
	PQclear(result);
	serve(1000);
	for (int round = 0; round < rounds; round++)
	{
		for (int i = 0; i < changes; i++)
		{
			times[i] = one_change();
			/* the nodes are to wait again, as they do between changes that are rare */
			serve(node_count / 10 + 5);
		}
		qsort(times, changes, sizeof(double), compare);
		printf("%.3f\n", times[changes / 2]);
		fflush(stdout);
	}
	if (fetches > 0)
		fprintf(stderr, "%lld reads of the change log: answers did not carry the changes\n", fetches);
	for (int i = 0; i < node_count; i++)
		release(&nodes[i]);
	return 0;
}
