/*
 * server_transport.c
 *		The transport to a real server: how statements get there, and answers back. What they say: server_statement.c,
 *		server_answer.c.
 */
#include "server_transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "connection.h"
#include "server_answer.h"
#include "server_statement.h"

typedef struct ServerTransport
{
	Transport	methods;		/* first, so that one is the other */
	Connection	connection;
	const Registration *registration;
} ServerTransport;

static Connection *
connection_of(Transport *transport)
{
	return &((ServerTransport *) transport)->connection;
}

/*
 * A prepared statement belongs to a server session. When one is gone, or is there already, the sessions are not ours: a
 * pooler hands them out by the transaction, and from now on we do without.
 */
static TransportStatus
notice_pooler(Connection *connection, TransportStatus status, const TransportFailure *failure)
{
	if (status == TRANSPORT_REFUSED &&
		(strcmp(failure->sqlstate, "26000") == 0 || strcmp(failure->sqlstate, "42P05") == 0 ||
		 strcmp(failure->sqlstate, "08P01") == 0))
		connection->pooled = true;
	return status;
}

/* Goes on when called again after a wake. */
static TransportStatus
prepare(Connection *connection, RequestKind kind, const char *sql, NodeTime deadline, TransportFailure *failure)
{
	const uint32_t bit = UINT32_C(1) << kind;
	PGresult   *result;
	TransportStatus status;

	if (connection->preparing != bit && !PQsendPrepare(connection->conn, server_statement(kind)->name, sql, 0, NULL))
	{
		connection_note_failure(failure, PQerrorMessage(connection->conn));
		return TRANSPORT_BROKEN;
	}
	connection->preparing = bit;
	status = connection_result(connection, deadline, &result, failure);
	PQclear(result);
	if (status == TRANSPORT_DONE || status == TRANSPORT_REFUSED)
		connection->preparing = 0;
	if (status == TRANSPORT_DONE)
		connection->prepared |= bit;
	return notice_pooler(connection, status, failure);
}

static TransportStatus
send_statement(Connection *connection, RequestKind kind, const Parameters *parameters, NodeTime deadline, TransportFailure *failure)
{
	const ServerStatement *statement = server_statement(kind);
	bool		prepared = statement->name != NULL && !connection->pooled;
	char		sql[768];
	int			sent;

	snprintf(sql, sizeof(sql), statement->sql, connection->schema);
	if (prepared && (connection->prepared & (UINT32_C(1) << kind)) == 0)
	{
		TransportStatus status = prepare(connection, kind, sql, deadline, failure);

		if (status != TRANSPORT_DONE)
			return status;
	}
	if (prepared)
		sent = PQsendQueryPrepared(connection->conn, statement->name, statement->parameters,
								   parameters->values, parameters->lengths, parameters->formats, statement->result_format);
	else
		sent = PQsendQueryParams(connection->conn, sql, statement->parameters, NULL,
								 parameters->values, parameters->lengths, parameters->formats, statement->result_format);
	if (sent)
		return TRANSPORT_DONE;
	connection_note_failure(failure, PQerrorMessage(connection->conn));
	return TRANSPORT_BROKEN;
}

static TransportStatus
server_send(Transport *transport, const NodeRequest *request, const char *detail,
			const LookupQuestion *question, NodeTime deadline, TransportFailure *failure)
{
	ServerTransport *server = (ServerTransport *) transport;
	Parameters	parameters;
	TransportStatus status = TRANSPORT_BROKEN;

	if (parameters_fill(&parameters, server->registration, request, detail, question))
		status = send_statement(&server->connection, request->kind, &parameters, deadline, failure);
	else
		snprintf(failure->message, sizeof(failure->message), "out of memory");
	parameters_free(&parameters);
	return status;
}

static void
server_answer_release(Transport *transport, NodeAnswer *answer)
{
	free(answer->changes);
	free(answer->rows);
	PQclear(answer->storage);
	memset(answer, 0, sizeof(*answer));
}

static TransportStatus
server_receive(Transport *transport, const NodeRequest *request, NodeTime deadline,
			   NodeAnswer *answer, TransportFailure *failure)
{
	Connection *connection = connection_of(transport);
	PGresult   *result;
	TransportStatus status = connection_result(connection, deadline, &result, failure);

	if (status != TRANSPORT_DONE)
		return notice_pooler(connection, status, failure);
	memset(answer, 0, sizeof(*answer));
	answer->storage = result;
	if (server_answer_read(result, request, answer))
		return TRANSPORT_DONE;
	server_answer_release(transport, answer);
	snprintf(failure->message, sizeof(failure->message), "the server's answer makes no sense");
	return TRANSPORT_BROKEN;
}

static TransportStatus
server_open(Transport *transport, NodeTime wait_until, NodeTime deadline, TransportFailure *failure)
{
	return connection_open(connection_of(transport), wait_until, deadline, failure);
}

static bool
server_is_open(const Transport *transport)
{
	return ((const ServerTransport *) transport)->connection.stage == CONNECTION_READY;
}

static void
server_close(Transport *transport)
{
	connection_close(connection_of(transport));
}

static void
server_set_aside(Transport *transport)
{
	connection_set_aside(connection_of(transport));
}

/* Behind a pooler a waiting heartbeat would keep a server session from everybody else. */
static bool
server_can_wait(const Transport *transport)
{
	return !((const ServerTransport *) transport)->connection.pooled;
}

static TransportStatus
server_sleep(Transport *transport, NodeTime until)
{
	return connection_sleep(connection_of(transport), until);
}

static void
server_wake(Transport *transport)
{
	connection_wake(connection_of(transport));
}

static void
server_wake_reset(Transport *transport)
{
	connection_wake_reset(connection_of(transport));
}

static void
server_destroy(Transport *transport)
{
	connection_destroy(connection_of(transport));
	free(transport);
}

Transport *
server_transport_create(const char *conninfo, const Registration *registration, const NodeClock *clock,
						char *error, size_t error_size)
{
	static const Transport methods = {
		.open = server_open,
		.is_open = server_is_open,
		.close = server_close,
		.set_aside = server_set_aside,
		.can_wait = server_can_wait,
		.send = server_send,
		.receive = server_receive,
		.answer_release = server_answer_release,
		.sleep = server_sleep,
		.wake = server_wake,
		.wake_reset = server_wake_reset,
		.destroy = server_destroy,
	};
	ServerTransport *server = calloc(1, sizeof(ServerTransport));
	char		application_name[64];

	if (server == NULL)
		return NULL;
	snprintf(application_name, sizeof(application_name), "amoro-node %.50s", registration->node_name);
	server->methods = methods;
	server->registration = registration;
	if (!connection_init(&server->connection, conninfo, application_name, clock, error, error_size))
	{
		free(server);
		return NULL;
	}
	return &server->methods;
}
