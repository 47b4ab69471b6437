/*
 * node.c
 *		The SQL functions that a node calls while it lives: heartbeat, activation, release.
 *		They read and write shared memory alone: no row, no WAL, no catalog.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xlog.h"
#include "clock.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lease/lease.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "node/node.h"
#include "node/node_grant.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

/* A waiting heartbeat holds a snapshot, so it may not wait for long. */
#define LONGEST_WAIT_US INT64CONST(5000000)
/* How long a version that a node has read may stay unpublished: its committer is between the two. */
#define PUBLICATION_WAIT_US INT64CONST(1000000)

PG_FUNCTION_INFO_V1(amoro_meta_node_heartbeat);
PG_FUNCTION_INFO_V1(amoro_meta_node_heartbeat_text);
PG_FUNCTION_INFO_V1(amoro_meta_activate_node);
PG_FUNCTION_INFO_V1(amoro_meta_release_node);

static const char *const answer_names[] = {
	[GRANT_GRANTED] = "granted",
	[GRANT_RELOAD] = "reload",
	[GRANT_BEHIND] = "behind",
	[GRANT_HELD] = "held",
	[GRANT_LEAVE] = "leave",
};

/*
 * The shape of node_grant, looked up once a session and SQL function: a heartbeat reads no catalog. The key is the
 * function, because the type gets another oid when the extension is created again.
 */
static TupleDesc
grant_descriptor(FunctionCallInfo fcinfo)
{
	static Oid	function = InvalidOid;
	static TupleDesc descriptor = NULL;

	if (function != fcinfo->flinfo->fn_oid)
	{
		TupleDesc	found;
		MemoryContext caller;

		if (get_call_result_type(fcinfo, NULL, &found) != TYPEFUNC_COMPOSITE)
			elog(ERROR, "node_grant is not a composite type");
		caller = MemoryContextSwitchTo(TopMemoryContext);
		function = InvalidOid;
		if (descriptor != NULL)
			FreeTupleDesc(descriptor);
		descriptor = BlessTupleDesc(CreateTupleDescCopy(found));
		MemoryContextSwitchTo(caller);
		function = fcinfo->flinfo->fn_oid;
	}
	return descriptor;
}

/* See node_grant.h. */
Datum
node_grant_datum(FunctionCallInfo fcinfo, int64 node_id, const LeaseGrant *grant)
{
	Datum		values[9];
	bool		nulls[9] = {false};

	values[0] = CStringGetTextDatum(answer_names[grant->answer]);
	values[1] = Int64GetDatum(node_id);
	values[2] = Int64GetDatum(grant->term);
	values[3] = Int64GetDatum(grant->lease_epoch);
	values[4] = Int32GetDatum((int32) (grant->settings.lease_us / 1000));
	values[5] = Int32GetDatum(grant->settings.max_clock_drift_ppm);
	values[6] = Int32GetDatum(grant->settings.heartbeat_interval_ms);
	values[7] = Int64GetDatum(grant->metadata_version);
	nulls[8] = grant->reason == NULL;
	values[8] = nulls[8] ? (Datum) 0 : CStringGetTextDatum(grant->reason);
	return HeapTupleGetDatum(heap_form_tuple(grant_descriptor(fcinfo), values, nulls));
}

/* See node_grant.h. */
void
node_require_primary(void)
{
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("a standby grants no leases"),
				 errhint("Connect to the primary server.")));
	if (AmoroShared == NULL)
		lease_require_coordinator();
}

/* What a request may lack. */
static void
require_arguments(FunctionCallInfo fcinfo, int count)
{
	static const char *const names[] = {
		"node_id", "incarnation", "term", "lease_epoch", "version", "wait"
	};

	for (int i = 0; i < count; i++)
	{
		if (PG_ARGISNULL(i))
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("%s must not be null", names[i])));
	}
}

/* The first two arguments, and for five those of a heartbeat or an activation. */
static LeaseRequest
read_request(FunctionCallInfo fcinfo, bool whole)
{
	LeaseRequest request = {.database = MyDatabaseId};

	require_arguments(fcinfo, whole ? 5 : 2);
	node_require_primary();
	/* not GetUserId(): a definer function of somebody else must not lend its owner's nodes */
	request.role = GetOuterUserId();
	request.node_id = PG_GETARG_INT64(0);
	request.incarnation = *PG_GETARG_UUID_P(1);
	if (whole)
	{
		request.term = PG_GETARG_INT64(2);
		request.lease_epoch = PG_GETARG_INT64(3);
		request.version = PG_GETARG_INT64(4);
		if (request.version < 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("a version must not be negative")));
	}
	return request;
}

/* Asks again when the node speaks of a version that is committed and not published yet. */
static void
ask(LeaseRefusal (*question) (const LeaseRequest *, LeaseGrant *), LeaseRequest *request, LeaseGrant *grant)
{
	LeaseRefusal refusal = question(request, grant);

	if (refusal == LEASE_AHEAD)
	{
		(void) lease_wait_for_version(request->database, request->version, PUBLICATION_WAIT_US);
		request->ahead_is_final = true;
		refusal = question(request, grant);
	}
	if (refusal != LEASE_ACCEPTED)
		lease_raise(refusal, request);
}

/* The argument wait in microseconds; 22023 outside of 0 to 5 s. */
static int64
wait_argument(FunctionCallInfo fcinfo)
{
	const Interval *wait = PG_GETARG_INTERVAL_P(5);

	if (wait->month != 0 || wait->day != 0 || wait->time < 0 || wait->time > LONGEST_WAIT_US)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("wait must be between 0 and 5 seconds"),
				 errdetail("It is %s.", DatumGetCString(DirectFunctionCall1(interval_out, IntervalPGetDatum(wait))))));
	return wait_within_statement(wait->time);
}

/* What both forms of the heartbeat do; returns the id of the node. */
static int64
heartbeat(FunctionCallInfo fcinfo, bool with_news, LeaseGrant *grant)
{
	LeaseRequest request = read_request(fcinfo, true);
	char		detail[SLOT_TEXT_SIZE];

	if (PG_ARGISNULL(5))
		require_arguments(fcinfo, 6);
	request.wait_us = wait_argument(fcinfo);
	request.with_news = with_news;
	if (!PG_ARGISNULL(6))
	{
		text	   *given = PG_GETARG_TEXT_PP(6);
		int			length = pg_mbcliplen(VARDATA_ANY(given), VARSIZE_ANY_EXHDR(given), SLOT_TEXT_SIZE - 1);

		memcpy(detail, VARDATA_ANY(given), length);
		detail[length] = '\0';
		request.detail = detail;
	}
	ask(lease_heartbeat, &request, grant);
	if (grant->waiting)
		lease_wait_for_news(&request, grant);
	return request.node_id;
}

/*
 * amoro_meta_node_heartbeat(node_id, incarnation, term, lease_epoch, applied_version, wait interval, detail text)
 * returns node_grant: extends the lease of an active node and takes its ack, then, if it was granted, waits for up
 * to wait for a version that the node has not applied. Errors: see lease_raise; 22004, 22023 for bad arguments.
 */
Datum
amoro_meta_node_heartbeat(PG_FUNCTION_ARGS)
{
	LeaseGrant	grant;
	int64		node_id = heartbeat(fcinfo, false, &grant);

	return node_grant_datum(fcinfo, node_id, &grant);
}

/* Adds a number and a comma, or what there is instead; the room is there. */
static char *
put_number(char *at, int64 number)
{
	at += pg_lltoa(number, at);
	*at++ = ',';
	return at;
}

static char *
put_text(char *at, const char *value)
{
	size_t		length = strlen(value);

	memcpy(at, value, length);
	return at + length;
}

/* The text form of node_grant: reasons are constants of letters, spaces, commas and colons. Returns its end. */
static char *
put_grant(char *at, int64 node_id, const LeaseGrant *grant)
{
	*at++ = '(';
	at = put_text(at, answer_names[grant->answer]);
	*at++ = ',';
	at = put_number(at, node_id);
	at = put_number(at, grant->term);
	at = put_number(at, grant->lease_epoch);
	at = put_number(at, grant->settings.lease_us / 1000);
	at = put_number(at, grant->settings.max_clock_drift_ppm);
	at = put_number(at, grant->settings.heartbeat_interval_ms);
	at = put_number(at, grant->metadata_version);
	if (grant->reason != NULL)
	{
		*at++ = '"';
		at = put_text(at, grant->reason);
		*at++ = '"';
	}
	*at++ = ')';
	return at;
}

/* Eight numbers of at most 20 characters with their commas, the answer, and a reason. */
#define LONGEST_GRANT 384

/*
 * amoro_meta_node_heartbeat_text(..., with_changes boolean) returns text: as node_heartbeat, the answer being the text
 * form of node_grant in one value. Looking up how to print nine columns costs the server more than the heartbeat itself.
 * With with_changes, and when they are in memory, the changes after applied_version up to the metadata version of the
 * answer follow: a line each, of the columns of metadata_changes in the text format of COPY.
 */
Datum
amoro_meta_node_heartbeat_text(PG_FUNCTION_ARGS)
{
	LeaseGrant	grant;
	int64		node_id = heartbeat(fcinfo, !PG_ARGISNULL(7) && PG_GETARG_BOOL(7), &grant);
	text	   *answer = palloc(VARHDRSZ + LONGEST_GRANT + grant.news_length);
	char	   *end = put_grant(VARDATA(answer), node_id, &grant);

	Assert(end - VARDATA(answer) <= LONGEST_GRANT);
	if (grant.news != NULL)
	{
		memcpy(end, grant.news, grant.news_length);
		end += grant.news_length;
	}
	SET_VARSIZE(answer, end - (char *) answer);
	PG_RETURN_TEXT_P(answer);
}

/*
 * amoro_meta_activate_node(node_id, incarnation, term, lease_epoch, loaded_version) returns node_grant: the first
 * lease of an epoch, given only to a node that has loaded the current version (rule 6). Errors as above.
 */
Datum
amoro_meta_activate_node(PG_FUNCTION_ARGS)
{
	LeaseRequest request = read_request(fcinfo, true);
	LeaseGrant	grant;

	ask(lease_activate, &request, &grant);
	return node_grant_datum(fcinfo, request.node_id, &grant);
}

/*
 * amoro_meta_release_node(node_id, incarnation) returns boolean: ends the lease at once (rule 9); false when there
 * was nothing left to release. Errors as above.
 */
Datum
amoro_meta_release_node(PG_FUNCTION_ARGS)
{
	LeaseRequest request = read_request(fcinfo, false);
	bool		released;
	LeaseRefusal refusal = lease_release(&request, &released);

	if (refusal != LEASE_ACCEPTED)
		lease_raise(refusal, &request);
	PG_RETURN_BOOL(released);
}
