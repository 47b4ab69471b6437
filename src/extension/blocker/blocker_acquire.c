/*
 * blocker_acquire.c
 *		acquire_blocker: operations of a table that nobody holds are given to whoever asks.
 */
#include "postgres.h"

#include "blocker/blocker_answer.h"
#include "blocker/blocker_argument.h"
#include "blocker/blocker_count.h"
#include "blocker/blocker_record.h"
#include "fmgr.h"
#include "guc.h"
#include "miscadmin.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(amoro_meta_acquire_blocker);

#define ALL_OPERATIONS ((1 << BLOCKER_OPERATIONS) - 1)

typedef struct AcquireRequest
{
	TableName	table;
	BlockerOperationSet operations;
	int64		timeout_ms;
	BlockerRecord record;
} AcquireRequest;

/* The blocker that an earlier call with this request id has got, if it holds. */
static bool
find_repeated(const AcquireRequest *request, const BlockerHead *head, TimestampTz now, BlockerRecord *record)
{
	if (!request->record.has_request_id)
		return false;
	for (int i = 0; i < BLOCKER_OPERATIONS; i++)
	{
		if (head->holders[i] == 0 || head->expires_at[i] <= now || !blocker_record_read(head->holders[i], record))
			continue;
		if (!record->has_request_id || record->acquired_by != request->record.acquired_by ||
			memcmp(&record->request_id, &request->record.request_id, UUID_LEN) != 0)
			continue;
		if (blocker_head_operations(head, record->blocker_id) != request->operations)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("request_id was used for other operations of this table"),
					 errdetail("Blocker " INT64_FORMAT " was acquired with it.", record->blocker_id)));
		return true;
	}
	return false;
}

/*
 * Ends the expired blockers in the way. The first time it waits for transactions that have asserted one. Later the row
 * of the head may be locked, for which a release waits that has the record: to wait for that would be a deadlock.
 */
static void
take_over(BlockerHead *head, BlockerOperationSet operations, bool may_wait)
{
	for (int i = 0; i < BLOCKER_OPERATIONS; i++)
	{
		int64		holder = head->holders[i];
		BlockerRecord record;

		if (holder == 0 || !(operations & (1 << i)))
			continue;
		if (!may_wait && !blocker_record_try_lock(holder))
			ereport(ERROR,
					(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
					 errmsg("blockers of table \"%s\".\"%s\".\"%s\" are being changed",
							head->table.catalog_name, head->table.database_name, head->table.table_name),
					 errdetail("Another transaction has asserted or releases blocker " INT64_FORMAT ", which has expired.", holder),
					 errhint("Try again.")));
		(void) blocker_record_delete(holder, &record);
		blocker_head_clear(head, holder);
		blocker_count(BLOCKER_TAKEN_OVER);
	}
}

/* Gives the operations, free in *head, to a new blocker; false when the head has changed since it was read. */
static bool
grant(AcquireRequest *request, BlockerHead *head, TimestampTz now)
{
	BlockerRecord *record = &request->record;
	TimestampTz expires_at = blocker_expiry(now, request->timeout_ms);
	TimestampTz written;

	record->prev_blocker_id = head->newest_blocker_id > 0 ? head->newest_blocker_id : -1;
	record->created_at = now;
	blocker_record_insert(record, head, expires_at);
	head->newest_blocker_id = record->blocker_id;
	for (int i = 0; i < BLOCKER_OPERATIONS; i++)
	{
		if (request->operations & (1 << i))
			head->holders[i] = record->blocker_id;
	}
	blocker_head_set_expiry(head, record->blocker_id, expires_at);
	if (!blocker_head_write(head, now))
	{
		BlockerRecord unused;

		(void) blocker_record_delete(record->blocker_id, &unused);
		return false;
	}
	written = GetCurrentTimestamp();
	if (written > now + BLOCKER_WRITE_WITHOUT_WAIT_US)
	{
		record->created_at = written;
		expires_at = blocker_expiry(written, request->timeout_ms);
		blocker_head_set_expiry(head, record->blocker_id, expires_at);
		(void) blocker_head_write(head, written);
		blocker_record_date(record, expires_at);
	}
	return true;
}

/*
 * Nobody fills the server with names (X09). Of the tables that are blocked for the first time every 256th, about, is the
 * occasion to count, so that it costs nothing to speak of.
 */
static void
check_limit(int64 head_id, Oid role)
{
	if (head_id == 0 || head_id % 256 > 1 || !blocker_role_has(role, guc_max_blockers_per_role))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("role \"%s\" has too many blockers", GetUserNameFromId(role, true)),
			 errdetail("The limit is %d (amoro_meta.max_blockers_per_role).", guc_max_blockers_per_role),
			 errhint("Release what is not needed, or SELECT purge_blockers()")));
}

/* Whether the request is answered by what holds already, in *record and *head; raises AM101 when that is in its way. */
static bool
is_answered(const AcquireRequest *request, BlockerHead *head, BlockerRecord *record)
{
	TimestampTz now;

	/* again, since it will not be written: another transaction that writes it comes after this one */
	if (!blocker_head_read(&request->table, false, head))
		return false;
	now = GetCurrentTimestamp();
	if (find_repeated(request, head, now, record))
	{
		blocker_count(BLOCKER_REPEATED);
		return true;
	}
	if (blocker_head_is_held(head, request->operations, now))
	{
		blocker_count(BLOCKER_CONFLICT);
		blocker_raise_conflict(head, request->operations, now);
	}
	return false;
}

/* The blocker that the request gets, in *record and *head; raises AM101. */
static void
acquire(AcquireRequest *request, BlockerHead *head, BlockerRecord *record)
{
	bool		may_wait = true;

	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		if (!blocker_head_read(&request->table, true, head))
		{
			check_limit(blocker_head_create(&request->table), request->record.acquired_by);
			continue;
		}
		if (blocker_head_is_held(head, request->record.has_request_id ? ALL_OPERATIONS : request->operations, GetCurrentTimestamp()) &&
			is_answered(request, head, record))
			return;
		take_over(head, request->operations, may_wait);
		/* the head was read without a lock, and taking over may have waited */
		if (!grant(request, head, GetCurrentTimestamp()))
		{
			may_wait = false;
			continue;
		}
		*record = request->record;
		blocker_count(BLOCKER_ACQUIRED);
		return;
	}
}

/* See src/schema/blocker.sql. */
Datum
amoro_meta_acquire_blocker(PG_FUNCTION_ARGS)
{
	AcquireRequest request = {0};
	BlockerHead head;
	BlockerRecord record;
	Datum		answer;

	request.table = blocker_table_argument(fcinfo, 0);
	request.operations = blocker_operations_argument(fcinfo, 3);
	request.timeout_ms = blocker_timeout_argument(fcinfo, 4, guc_blocker_timeout);
	request.record.timeout_ms = request.timeout_ms;
	request.record.properties = blocker_properties_argument(fcinfo, 5);
	request.record.has_request_id = !PG_ARGISNULL(6);
	if (request.record.has_request_id)
		request.record.request_id = *PG_GETARG_UUID_P(6);
	request.record.acquired_by = GetOuterUserId();

	blocker_require_writable();
	acquire(&request, &head, &record);
	answer = blocker_answer(fcinfo, &head, &record);
	return answer;
}
