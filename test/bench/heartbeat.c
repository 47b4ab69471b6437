/*
 * heartbeat.c
 *		How many calls a second a number of clients get answered, whatever they call: one driver for heartbeats and what
 *		they are compared with. Two threads, each with an epoll loop over half of the connections.
 *
 *	heartbeat CONNINFO CLIENTS SECONDS select|update|columns|text FIRST_NODE UUID TERM
 *
 * select: SELECT 1. update: of one row each. columns: node_heartbeat, nine columns. text: as libamoro_node calls it.
 * All are prepared. Client i speaks for the node FIRST_NODE + i. Prints the calls a second.
 */
#include "heartbeat_client.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>

#define THREADS 2

typedef enum Form
{
	FORM_SELECT,
	FORM_UPDATE,
	FORM_COLUMNS,
	FORM_TEXT
} Form;

static const struct
{
	const char *name;
	const char *statement;
}			forms[] = {
	[FORM_SELECT] = {"select", "SELECT 1"},
	[FORM_UPDATE] = {"update", "UPDATE heartbeat_row SET heard = clock_timestamp() WHERE node_id = $1::int8"},
	[FORM_COLUMNS] = {"columns", "SELECT * FROM node_heartbeat($1::int8, $2::uuid, $3::int8, 1, 0)"},
	[FORM_TEXT] = {"text", HEARTBEAT_STATEMENT},
};

typedef struct Client
{
	PGconn	   *connection;
	HeartbeatClient node;
	char		number[24];
} Client;

static Client *clients;
static int	client_count;
static Form form;
static const char *uuid;
static char term[24];
static double seconds;
static long long calls[THREADS];

static void
fail(const char *what, PGconn *connection)
{
	fprintf(stderr, "heartbeat: %s: %s\n", what, connection != NULL ? PQerrorMessage(connection) : "");
	exit(1);
}

static double
now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static void
open_client(Client *client, const char *conninfo, int64_t id, int index)
{
	PGresult   *result;

	client->connection = PQconnectdb(conninfo);
	if (PQstatus(client->connection) != CONNECTION_OK)
		fail("connection", client->connection);
	result = PQprepare(client->connection, "heartbeat", forms[form].statement, 0, NULL);
	if (PQresultStatus(result) != PGRES_COMMAND_OK)
		fail(forms[form].statement, client->connection);
	PQclear(result);
	client->node.id = id;
	client->node.term = strtoll(term, NULL, 10);
	client->node.epoch = 1;
	heartbeat_client_set_uuid(&client->node, uuid);
	snprintf(client->number, sizeof(client->number), "%lld", form == FORM_UPDATE ? index + 1LL : (long long) id);
}

static void
ask(const Client *client)
{
	const char *values[] = {client->number, uuid, term};
	int			sent;

	if (form == FORM_TEXT)
		sent = heartbeat_client_send(&client->node, client->connection, 0, true);
	else
		sent = PQsendQueryPrepared(client->connection, "heartbeat", form == FORM_SELECT ? 0 : form == FORM_UPDATE ? 1 : 3, values,
								   NULL, NULL, 0);
	if (!sent)
		fail("send", client->connection);
}

/* What has to be in an answer for it to count. */
static void
check(const Client *client, const PGresult *result)
{
	static const char *const answers[] = {"1", NULL, "granted", "(granted,"};

	if (PQresultStatus(result) != (form == FORM_UPDATE ? PGRES_COMMAND_OK : PGRES_TUPLES_OK))
		fail("answer", client->connection);
	if (answers[form] != NULL && strncmp(PQgetvalue(result, 0, 0), answers[form], strlen(answers[form])) != 0)
		fail(PQgetvalue(result, 0, 0), NULL);
}

static bool
take_answer(const Client *client)
{
	PGresult   *result;
	bool		answered = false;

	if (!PQconsumeInput(client->connection))
		fail("input", client->connection);
	while (!PQisBusy(client->connection))
	{
		result = PQgetResult(client->connection);
		if (result == NULL)
			return answered;
		check(client, result);
		PQclear(result);
		answered = true;
	}
	return false;
}

static void *
drive(void *argument)
{
	int			thread = (int) (intptr_t) argument;
	int			poller = epoll_create1(0);
	double		end = now() + seconds;
	struct epoll_event events[64];

	for (int i = thread; i < client_count; i += THREADS)
	{
		struct epoll_event event = {.events = EPOLLIN, .data.ptr = &clients[i]};

		epoll_ctl(poller, EPOLL_CTL_ADD, PQsocket(clients[i].connection), &event);
		ask(&clients[i]);
	}
	while (now() < end)
	{
		int			count = epoll_wait(poller, events, 64, 100);

		for (int i = 0; i < count; i++)
		{
			if (take_answer(events[i].data.ptr))
			{
				calls[thread]++;
				ask(events[i].data.ptr);
			}
		}
	}
	return NULL;
}

int
main(int argc, char **argv)
{
	pthread_t	threads[THREADS];

	if (argc != 8)
	{
		fprintf(stderr, "usage: heartbeat CONNINFO CLIENTS SECONDS select|update|columns|text FIRST_NODE UUID TERM\n");
		return 2;
	}
	client_count = atoi(argv[2]);
	seconds = atof(argv[3]);
	while (form < FORM_TEXT && strcmp(argv[4], forms[form].name) != 0)
		form++;
	uuid = argv[6];
	snprintf(term, sizeof(term), "%s", argv[7]);
	clients = calloc(client_count, sizeof(Client));
	for (int i = 0; i < client_count; i++)
		open_client(&clients[i], argv[1], strtoll(argv[5], NULL, 10) + i, i);
	for (intptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, drive, (void *) i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%.0f\n", (calls[0] + calls[1]) / seconds);
	return 0;
}
