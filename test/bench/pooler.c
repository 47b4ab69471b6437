/*
 * pooler.c
 *		Many nodes that heartbeat once an interval, in one process with one epoll loop: what the answers take, and whether
 *		every node keeps its lease. Beside it the same clients with SELECT 1, for what the connections alone cost.
 *
 *	pooler CONNINFO NODES SECONDS INTERVAL_MS
 *
 * Plain heartbeats, which do not wait for news, each of them a statement of its own: that is what a node sends through a
 * transaction pooler. The nodes are spread evenly over the interval.
 */
#include "bench_connection.h"
#include "heartbeat_client.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

typedef struct Node
{
	PGconn	   *connection;
	char		incarnation[40];
	HeartbeatClient client;
	double		due;
	double		sent;			/* 0: no answer is due */
} Node;

static Node *nodes;
static int	node_count;
static int	poller;
static bool leases;
static double *latencies;
static size_t answers;
static size_t latency_room;
static size_t refused;
static size_t late;				/* was not answered when the next was due */

static void
open_node(const char *conninfo, int number)
{
	Node	   *node = &nodes[number];
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = node};
	char		statement[400];
	PGresult   *result;

	node->connection = PQconnectdb(conninfo);
	if (PQstatus(node->connection) != CONNECTION_OK)
		fail("connection", node->connection);
	snprintf(node->incarnation, sizeof(node->incarnation), "%08x-0000-4000-8000-%012x", (unsigned) getpid(), (unsigned) number);
	snprintf(statement, sizeof(statement), "SELECT node_id, term, lease_epoch, metadata_version FROM register_node('bench %d', '%s')",
			 number, node->incarnation);
	result = run(node->connection, statement);
	heartbeat_client_set_uuid(&node->client, node->incarnation);
	node->client.id = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
	node->client.term = strtoll(PQgetvalue(result, 0, 1), NULL, 10);
	node->client.epoch = strtoll(PQgetvalue(result, 0, 2), NULL, 10);
	node->client.applied = strtoll(PQgetvalue(result, 0, 3), NULL, 10);
	PQclear(result);
	if (epoll_ctl(poller, EPOLL_CTL_ADD, PQsocket(node->connection), &event) != 0)
		fail("epoll_ctl", NULL);
}

static void
activate(Node *node)
{
	char		statement[400];
	PGresult   *result;

	snprintf(statement, sizeof(statement), "SELECT answer FROM activate_node(%lld, '%s', %lld, %lld, %lld)", (long long) node->client.id,
			 node->incarnation, (long long) node->client.term, (long long) node->client.epoch, (long long) node->client.applied);
	result = run(node->connection, statement);
	if (strcmp(PQgetvalue(result, 0, 0), "granted") != 0)
		fail("a node was not activated", NULL);
	PQclear(result);
}

static void
send_beat(Node *node, double now)
{
	int			sent;

	if (leases)
		sent = heartbeat_client_send(&node->client, node->connection, 0, false);
	else
		sent = PQsendQueryParams(node->connection, "SELECT '(granted,'", 0, NULL, NULL, NULL, NULL, 0);
	if (!sent)
		fail("heartbeat", node->connection);
	node->sent = now;
}

static void
handle_input(Node *node)
{
	PGresult   *result;

	if (!PQconsumeInput(node->connection))
		fail("input", node->connection);
	while (!PQisBusy(node->connection) && (result = PQgetResult(node->connection)) != NULL)
	{
		if (PQresultStatus(result) != PGRES_TUPLES_OK)
			fail("answer", node->connection);
		if (strncmp(PQgetvalue(result, 0, 0), "(granted,", 9) != 0)
			refused++;
		PQclear(result);
		if (answers < latency_room)
			latencies[answers++] = now_ms() - node->sent;
		node->sent = 0;
	}
}

static int
compare(const void *a, const void *b)
{
	double		difference = *(const double *) a - *(const double *) b;

	return difference < 0 ? -1 : difference > 0;
}

static void
beat(double seconds, double interval)
{
	struct epoll_event events[256];
	double		start = now_ms();
	double		now;

	answers = refused = late = 0;
	for (int i = 0; i < node_count; i++)
		nodes[i].due = start + interval * i / node_count;
	while ((now = now_ms()) < start + seconds * 1e3)
	{
		int			count;

		for (int i = 0; i < node_count; i++)
		{
			if (nodes[i].due > now)
				continue;
			if (nodes[i].sent != 0)
				late++;
			else
				send_beat(&nodes[i], now);
			nodes[i].due += interval;
		}
		count = epoll_wait(poller, events, 256, 1);
		for (int i = 0; i < count; i++)
			handle_input(events[i].data.ptr);
	}
	/* what is still due */
	for (int i = 0; i < node_count; i++)
		while (nodes[i].sent != 0)
			handle_input(&nodes[i]);
	if (answers == 0)
		fail("no answers", NULL);
	qsort(latencies, answers, sizeof(double), compare);
	printf("%-10s %7.0f/s  median %6.2f ms  99%% %7.2f ms  longest %7.1f ms  not granted %zu  late %zu\n",
		   leases ? "heartbeat" : "SELECT 1", answers / seconds, latencies[answers / 2], latencies[answers * 99 / 100],
		   latencies[answers - 1], refused, late);
	fflush(stdout);
}

int
main(int argc, char **argv)
{
	double		seconds;
	double		interval;
	double		started;

	if (argc != 5)
	{
		fprintf(stderr, "usage: pooler CONNINFO NODES SECONDS INTERVAL_MS\n");
		return 2;
	}
	node_count = atoi(argv[2]);
	seconds = atof(argv[3]);
	interval = atof(argv[4]);
	nodes = calloc(node_count, sizeof(Node));
	latency_room = node_count * (seconds * 1e3 / interval + 2);
	latencies = calloc(latency_room, sizeof(double));
	poller = epoll_create1(EPOLL_CLOEXEC);
	started = now_ms();
	for (int i = 0; i < node_count; i++)
		open_node(argv[1], i);
	printf("%d nodes registered in %.1f s\n", node_count, (now_ms() - started) / 1e3);
	fflush(stdout);
	beat(seconds, interval);
	for (int i = 0; i < node_count; i++)
		activate(&nodes[i]);
	leases = true;
	beat(seconds, interval);
	/* the script looks at the server while the connections are open */
	getchar();
	return 0;
}
