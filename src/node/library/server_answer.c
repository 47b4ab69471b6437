/*
 * server_answer.c
 *		What the answers of a real server say.
 */
#include "server_answer.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer_text.h"

static int64_t
number_at(const PGresult *result, int row, int column)
{
	return strtoll(PQgetvalue(result, row, column), NULL, 10);
}

/* NULL for null. */
static const char *
text_at(const PGresult *result, int row, int column)
{
	return PQgetisnull(result, row, column) ? NULL : PQgetvalue(result, row, column);
}

static bool
read_grant(const PGresult *result, NodeGrant *grant)
{
	grant->node_id = number_at(result, 0, 1);
	grant->term = number_at(result, 0, 2);
	grant->lease_epoch = number_at(result, 0, 3);
	grant->lease_ms = number_at(result, 0, 4);
	grant->max_clock_drift_ppm = number_at(result, 0, 5);
	grant->heartbeat_interval_ms = number_at(result, 0, 6);
	grant->metadata_version = number_at(result, 0, 7);
	snprintf(grant->reason, sizeof(grant->reason), "%s", PQgetvalue(result, 0, 8));
	return grant_answer_read(PQgetvalue(result, 0, 0), (size_t) PQgetlength(result, 0, 0), &grant->answer);
}

static bool
read_changes(const PGresult *result, NodeAnswer *answer)
{
	int			rows = PQntuples(result);

	answer->changes = calloc(rows > 0 ? (size_t) rows : 1, sizeof(MetadataChange));
	if (answer->changes == NULL)
		return false;
	answer->change_count = rows;
	for (int i = 0; i < rows; i++)
	{
		MetadataChange *change = &answer->changes[i];

		change->version = number_at(result, i, 0);
		change->object_kind = text_at(result, i, 1);
		change->operation = text_at(result, i, 2);
		change->catalog_name = text_at(result, i, 3);
		change->database_name = text_at(result, i, 4);
		change->object_name = text_at(result, i, 5);
	}
	return true;
}

static void
read_lookup(const PGresult *result, int row, LookupAnswer *lookup)
{
	lookup->metadata_version = number_at(result, row, 0);
	lookup->term = number_at(result, row, 1);
	lookup->found = PQgetvalue(result, row, 2)[0] == 't';
	lookup->state = text_at(result, row, 3);
	lookup->object_version = number_at(result, row, 4);
	lookup->document = text_at(result, row, 5);
	lookup->document_size = (size_t) PQgetlength(result, row, 5);
}

static bool
read_many(const PGresult *result, NodeAnswer *answer)
{
	int			rows = PQntuples(result);

	if (rows == 0 || (answer->rows = calloc((size_t) rows, sizeof(ObjectRow))) == NULL)
		return false;
	for (int i = 0; i < rows; i++)
		read_lookup(result, i, &answer->rows[i].answer);
	answer->row_count = rows;
	return true;
}

static void
read_leadership(const PGresult *result, LeadershipAnswer *leadership)
{
	leadership->leader = PQgetvalue(result, 0, 0)[0] == 't';
	leadership->token = number_at(result, 0, 1);
	leadership->term = number_at(result, 0, 2);
	leadership->lease_epoch = number_at(result, 0, 3);
	leadership->retry_after_us = number_at(result, 0, 4);
	leadership->leader_name = text_at(result, 0, 5);
	leadership->reason = text_at(result, 0, 6);
}

/* In binary form: a chunk has thousands of these. 0 for null. */
static int64_t
binary_at(const PGresult *result, int row, int column)
{
	uint64_t	network = 0;

	if (PQgetlength(result, row, column) == sizeof(network))
		memcpy(&network, PQgetvalue(result, row, column), sizeof(network));
	return (int64_t) be64toh(network);
}

/* Rows of a chunk, in binary form; the one without names is the end. A chunk without a row is no answer. */
static bool
read_snapshot(const PGresult *result, NodeAnswer *answer)
{
	int			rows = PQntuples(result);

	if (rows == 0 || (answer->rows = calloc((size_t) rows, sizeof(ObjectRow))) == NULL)
		return false;
	answer->lookup.metadata_version = binary_at(result, 0, 0);
	answer->lookup.term = binary_at(result, 0, 1);
	for (int i = 0; i < rows && !answer->last; i++)
	{
		ObjectRow  *row = &answer->rows[answer->row_count];

		answer->last = PQgetisnull(result, i, 3);
		if (answer->last)
			break;
		row->object_id = binary_at(result, i, 2);
		row->key = (AmoroKey) {text_at(result, i, 3), text_at(result, i, 4), text_at(result, i, 5)};
		row->answer = (LookupAnswer) {
			.metadata_version = answer->lookup.metadata_version, .term = answer->lookup.term, .found = true,
			.state = text_at(result, i, 6), .object_version = binary_at(result, i, 7),
			.document = text_at(result, i, 8), .document_size = (size_t) PQgetlength(result, i, 8),
		};
		answer->row_count++;
	}
	return true;
}

bool
server_answer_read(const PGresult *result, const NodeRequest *request, NodeAnswer *answer)
{
	RequestKind kind = request->kind;

	if (kind == REQUEST_CHANGES)
		return read_changes(result, answer);
	if (kind == REQUEST_SNAPSHOT)
		return read_snapshot(result, answer);
	if (kind == REQUEST_LOOKUP_MANY)
		return read_many(result, answer);
	if (PQntuples(result) != 1)
		return false;
	if (kind == REQUEST_RELEASE || kind == REQUEST_CEDE)
		answer->released = PQgetvalue(result, 0, 0)[0] == 't';
	else if (kind == REQUEST_LOOKUP || kind == REQUEST_LISTING)
		read_lookup(result, 0, &answer->lookup);
	else if (kind == REQUEST_LEAD)
		read_leadership(result, &answer->leadership);
	else if (kind == REQUEST_HEARTBEAT)
		return answer_text_read(PQgetvalue(result, 0, 0), request->version, answer);
	else
		return read_grant(result, &answer->grant);
	return true;
}
