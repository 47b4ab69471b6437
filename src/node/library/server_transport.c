/*
 * server_transport.c
 *		The transport to a real server: the statements, and how they get there. What answers say: server_answer.c.
 */
#include "server_transport.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "connection.h"
#include "name_array.h"
#include "server_answer.h"

#define CHANGES_PAGE "1000"
#define PROTOCOL_VERSION "1"

#define GRANT_COLUMNS \
	"SELECT answer, node_id, term, lease_epoch, lease_ms, max_clock_drift_ppm, heartbeat_interval_ms," \
	" metadata_version, reason FROM "

/*
 * One statement a kind of request; %s is the schema of the extension. The heartbeat is the one that counts: one value
 * for an answer, and its parameters in binary form.
 */
static const struct
{
	const char *name;			/* NULL: too rare to be prepared */
	const char *sql;
	int			parameters;
	int			result_format;	/* 0 text, 1 binary */
}			statements[] = {
	[REQUEST_REGISTER] = {NULL, GRANT_COLUMNS
		"%sregister_node($1::pg_catalog.text, $2::pg_catalog.uuid, $3::pg_catalog.text, $4::pg_catalog.text,"
		" $5::pg_catalog.int4)", 5},
	[REQUEST_HEARTBEAT] = {"amoro_node_heartbeat",
		"SELECT %snode_heartbeat_text($1::pg_catalog.int8, $2::pg_catalog.uuid, $3::pg_catalog.int8, $4::pg_catalog.int8,"
		" $5::pg_catalog.int8, $6::pg_catalog.interval, $7::pg_catalog.text, true)", 7},
	[REQUEST_ACTIVATE] = {NULL, GRANT_COLUMNS
		"%sactivate_node($1::pg_catalog.int8, $2::pg_catalog.uuid, $3::pg_catalog.int8, $4::pg_catalog.int8,"
		" $5::pg_catalog.int8)", 5},
	[REQUEST_CHANGES] = {"amoro_node_changes",
		"SELECT version, object_kind, operation, catalog_name, database_name, table_name"
		" FROM %smetadata_changes($1::pg_catalog.int8, " CHANGES_PAGE ")", 1},
	[REQUEST_RELEASE] = {NULL, "SELECT %srelease_node($1::pg_catalog.int8, $2::pg_catalog.uuid)", 2},
	[REQUEST_SNAPSHOT] = {NULL, "SELECT metadata_version, term, object_id, catalog_name, database_name, object_name, state, object_version, document"
		" FROM %smetadata_snapshot_chunk($1::pg_catalog.text, $2::pg_catalog.int8, $3::pg_catalog.text, $4::pg_catalog.text,"
		" $5::pg_catalog.text, $6::pg_catalog.int4)", 6, 1},
	[REQUEST_LOOKUP] = {"amoro_node_lookup",
		"SELECT metadata_version, term, found, state, object_version, document"
		" FROM %smetadata_lookup($1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.text, $4::pg_catalog.text)", 4},
	[REQUEST_LOOKUP_MANY] = {"amoro_node_lookup_many",
		"SELECT metadata_version, term, found, state, object_version, document"
		" FROM %smetadata_lookup_many($1::pg_catalog.text, $2::pg_catalog.text[], $3::pg_catalog.text[], $4::pg_catalog.text[])"
		" ORDER BY ordinal", 4},
	[REQUEST_LISTING] = {"amoro_node_listing",
		"SELECT metadata_version, term, found, state, object_version, document"
		" FROM %smetadata_listing($1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.text, $4::pg_catalog.text,"
		" $5::pg_catalog.int4)", 5},
	[REQUEST_LEAD] = {"amoro_node_lead",
		"SELECT leader, token, term, lease_epoch, (EXTRACT(epoch FROM retry_after) OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8,"
		" leader_name, reason FROM %sacquire_leadership($1::pg_catalog.text, $2::pg_catalog.int8, $3::pg_catalog.uuid)", 3},
	[REQUEST_CEDE] = {NULL,
		"SELECT %srelease_leadership($1::pg_catalog.text, $2::pg_catalog.int8, $3::pg_catalog.uuid, $4::pg_catalog.int8)", 4},
};

#define MAX_PARAMETERS 7

typedef struct ServerTransport
{
	Transport	methods;		/* first, so that one is the other */
	Connection	connection;
	const Registration *registration;
} ServerTransport;

/* Parameters, and room for the numbers among them. */
typedef struct Parameters
{
	const char *values[MAX_PARAMETERS];
	int			lengths[MAX_PARAMETERS];	/* of those in binary form */
	int			formats[MAX_PARAMETERS];	/* 0 text, 1 binary */
	char		numbers[MAX_PARAMETERS][32];
	char	   *arrays[3];		/* allocated */
} Parameters;

static Connection *
connection_of(Transport *transport)
{
	return &((ServerTransport *) transport)->connection;
}

static const char *
number(Parameters *parameters, int index, int64_t value)
{
	snprintf(parameters->numbers[index], sizeof(parameters->numbers[index]), "%lld", (long long) value);
	return parameters->numbers[index];
}

static void
put_binary(Parameters *parameters, int index, const void *value, int length)
{
	memcpy(parameters->numbers[index], value, (size_t) length);
	parameters->values[index] = parameters->numbers[index];
	parameters->lengths[index] = length;
	parameters->formats[index] = 1;
}

static void
put_int8(Parameters *parameters, int index, int64_t value)
{
	uint64_t	network = htobe64((uint64_t) value);

	put_binary(parameters, index, &network, sizeof(network));
}

/* An interval is microseconds, days and months. */
static void
put_interval(Parameters *parameters, int index, int64_t ms)
{
	uint64_t	network[2] = {htobe64((uint64_t) ms * 1000), 0};

	put_binary(parameters, index, network, sizeof(network));
}

/* The sixteen bytes of a uuid in its usual form. */
static void
put_uuid(Parameters *parameters, int index, const char *uuid)
{
	unsigned char bytes[16];
	size_t		count = 0;

	while (count < sizeof(bytes) && sscanf(uuid, "%2hhx", &bytes[count]) == 1)
	{
		uuid += uuid[2] == '-' ? 3 : 2;
		count++;
	}
	put_binary(parameters, index, bytes, (int) count);
}

static void
fill_heartbeat(Parameters *parameters, const NodeRequest *request, const char *detail)
{
	put_int8(parameters, 0, request->node_id);
	put_uuid(parameters, 1, request->incarnation);
	put_int8(parameters, 2, request->term);
	put_int8(parameters, 3, request->lease_epoch);
	put_int8(parameters, 4, request->version);
	put_interval(parameters, 5, request->wait_ms);
	parameters->values[6] = detail;
}

static void
fill_snapshot(Parameters *parameters, const LookupQuestion *question)
{
	parameters->values[0] = question->kind_name;
	parameters->values[5] = number(parameters, 5, question->max_rows);
	if (question->key == NULL)
		return;
	parameters->values[1] = number(parameters, 1, question->after_object_id);
	parameters->values[2] = question->key->catalog_name;
	parameters->values[3] = question->key->database_name;
	parameters->values[4] = question->key->object_name;
}

/* False when memory is short. */
static bool
fill_many(Parameters *parameters, const LookupQuestion *question)
{
	parameters->values[0] = question->kind_name;
	for (int i = 0; i < 3; i++)
	{
		if (i > 0 && name_of_key(question->key, i) == NULL)
			continue;
		parameters->arrays[i] = name_array(question->key, question->key_count, i);
		if (parameters->arrays[i] == NULL)
			return false;
		parameters->values[i + 1] = parameters->arrays[i];
	}
	return true;
}

static void
free_parameters(Parameters *parameters)
{
	for (int i = 0; i < 3; i++)
		free(parameters->arrays[i]);
}

/* False when memory is short. */
static bool
fill_parameters(Parameters *parameters, const ServerTransport *server, const NodeRequest *request,
				const char *detail, const LookupQuestion *question)
{
	const char **values = parameters->values;

	switch (request->kind)
	{
		case REQUEST_REGISTER:
			values[0] = server->registration->node_name;
			values[1] = request->incarnation;
			values[2] = server->registration->node_kind;
			values[3] = server->registration->endpoint;
			values[4] = PROTOCOL_VERSION;
			return true;
		case REQUEST_CHANGES:
			values[0] = number(parameters, 0, request->version);
			return true;
		case REQUEST_LOOKUP:
			values[0] = question->kind_name;
			values[1] = question->key->catalog_name;
			values[2] = question->key->database_name;
			values[3] = question->key->object_name;
			return true;
		case REQUEST_LOOKUP_MANY:
			return fill_many(parameters, question);
		case REQUEST_LISTING:
			values[0] = question->kind_name;
			values[1] = question->key->catalog_name;
			values[2] = question->key->database_name;
			values[3] = question->key->object_name;
			values[4] = number(parameters, 4, question->max_rows);
			return true;
		case REQUEST_SNAPSHOT:
			fill_snapshot(parameters, question);
			return true;
		case REQUEST_HEARTBEAT:
			fill_heartbeat(parameters, request, detail);
			return true;
		case REQUEST_ACTIVATE:
			values[2] = number(parameters, 2, request->term);
			values[3] = number(parameters, 3, request->lease_epoch);
			values[4] = number(parameters, 4, request->version);
			/* fall through */
		case REQUEST_RELEASE:
			values[0] = number(parameters, 0, request->node_id);
			values[1] = request->incarnation;
			return true;
		case REQUEST_CEDE:
			values[3] = number(parameters, 3, request->token);
			/* fall through */
		case REQUEST_LEAD:
			values[0] = request->service;
			values[1] = number(parameters, 1, request->node_id);
			values[2] = request->incarnation;
			return true;
	}
	return true;
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

static TransportStatus
prepare(Connection *connection, RequestKind kind, const char *sql, NodeTime deadline, TransportFailure *failure)
{
	PGresult   *result;
	TransportStatus status;

	if (!PQsendPrepare(connection->conn, statements[kind].name, sql, 0, NULL))
	{
		connection_note_failure(failure, PQerrorMessage(connection->conn));
		return TRANSPORT_BROKEN;
	}
	status = connection_result(connection, deadline, &result, failure);
	PQclear(result);
	if (status == TRANSPORT_DONE)
		connection->prepared |= UINT32_C(1) << kind;
	return notice_pooler(connection, status, failure);
}

static TransportStatus
send_statement(Connection *connection, RequestKind kind, const Parameters *parameters, NodeTime deadline, TransportFailure *failure)
{
	bool		prepared = statements[kind].name != NULL && !connection->pooled;
	char		sql[768];
	int			sent;

	snprintf(sql, sizeof(sql), statements[kind].sql, connection->schema);
	if (prepared && (connection->prepared & (UINT32_C(1) << kind)) == 0)
	{
		TransportStatus status = prepare(connection, kind, sql, deadline, failure);

		if (status != TRANSPORT_DONE)
			return status;
	}
	if (prepared)
		sent = PQsendQueryPrepared(connection->conn, statements[kind].name, statements[kind].parameters,
								   parameters->values, parameters->lengths, parameters->formats, statements[kind].result_format);
	else
		sent = PQsendQueryParams(connection->conn, sql, statements[kind].parameters, NULL,
								 parameters->values, parameters->lengths, parameters->formats, statements[kind].result_format);
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

	memset(&parameters, 0, sizeof(parameters));
	if (fill_parameters(&parameters, server, request, detail, question))
		status = send_statement(&server->connection, request->kind, &parameters, deadline, failure);
	else
		snprintf(failure->message, sizeof(failure->message), "out of memory");
	free_parameters(&parameters);
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
