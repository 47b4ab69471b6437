/*
 * server_statement.c
 *		What the server is asked: a statement for each kind of request, and its parameters.
 */
#include "server_statement.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "name_array.h"

#define CHANGES_PAGE "1000"
#define PROTOCOL_VERSION "1"

#define GRANT_COLUMNS \
	"SELECT answer, node_id, term, lease_epoch, lease_ms, max_clock_drift_ppm, heartbeat_interval_ms," \
	" metadata_version, reason FROM "

/* The heartbeat is the one that counts: one value for an answer, and its parameters in binary form. */
static const ServerStatement statements[] = {
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

const ServerStatement *
server_statement(RequestKind kind)
{
	return &statements[kind];
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

void
parameters_free(Parameters *parameters)
{
	for (int i = 0; i < 3; i++)
		free(parameters->arrays[i]);
}

bool
parameters_fill(Parameters *parameters, const Registration *registration, const NodeRequest *request,
				const char *detail, const LookupQuestion *question)
{
	const char **values = parameters->values;

	memset(parameters, 0, sizeof(*parameters));
	switch (request->kind)
	{
		case REQUEST_REGISTER:
			values[0] = registration->node_name;
			values[1] = request->incarnation;
			values[2] = registration->node_kind;
			values[3] = registration->endpoint;
			values[4] = PROTOCOL_VERSION;
			return true;
		case REQUEST_CHANGES:
			values[0] = number(parameters, 0, request->version);
			return true;
		case REQUEST_LISTING:
			values[4] = number(parameters, 4, question->max_rows);
			/* fall through */
		case REQUEST_LOOKUP:
			values[0] = question->kind_name;
			values[1] = question->key->catalog_name;
			values[2] = question->key->database_name;
			values[3] = question->key->object_name;
			return true;
		case REQUEST_LOOKUP_MANY:
			return fill_many(parameters, question);
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
