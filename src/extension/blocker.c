/*
 * blocker.c
 *		Table blockers: expiring claims of operations on one table.
 *
 * Acquire and renew read the head of the table, decide, and write it if it still is
 * what was read; a refusal writes nothing and waits for nobody. The clock is read
 * again once the head is written and thereby locked, since the write may have waited.
 * Blockers are compared with the wall clock of the database server alone: when it
 * jumps, a blocker ends early or late, but a new holder always has a larger id, and
 * assert_blocker keeps the old one from committing after it.
 */
#include "postgres.h"

#include "access/xact.h"
#include "blocker_answer.h"
#include "blocker_argument.h"
#include "blocker_count.h"
#include "blocker_record.h"
#include "error_codes.h"
#include "fmgr.h"
#include "guc.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(amoro_meta_acquire_blocker);
PG_FUNCTION_INFO_V1(amoro_meta_renew_blocker);
PG_FUNCTION_INFO_V1(amoro_meta_release_blocker);
PG_FUNCTION_INFO_V1(amoro_meta_force_release_blocker);
PG_FUNCTION_INFO_V1(amoro_meta_assert_blocker);
PG_FUNCTION_INFO_V1(amoro_meta_table_is_blocked);

/* A write that took longer has waited for another transaction, and the clock is read anew. */
#define WRITE_WITHOUT_WAIT_US 500

#define ALL_OPERATIONS ((1 << BLOCKER_OPERATIONS) - 1)

typedef struct AcquireRequest
{
	TableName	table;
	BlockerOperationSet operations;
	int64		timeout_ms;
	BlockerRecord record;
} AcquireRequest;

static void
require_writable(void)
{
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("cannot change blockers on a standby"),
				 errhint("Connect to the primary server.")));
	PreventCommandIfReadOnly("a change of blockers");
}

static TimestampTz
after_ms(TimestampTz moment, int64 timeout_ms)
{
	return moment + timeout_ms * 1000;
}

static void
set_expiry(BlockerHead *head, int64 blocker_id, TimestampTz expires_at)
{
	for (int i = 0; i < BLOCKER_OPERATIONS; i++)
	{
		if (head->holders[i] == blocker_id)
			head->expires_at[i] = expires_at;
	}
}

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
	TimestampTz expires_at = after_ms(now, request->timeout_ms);
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
	set_expiry(head, record->blocker_id, expires_at);
	if (!blocker_head_write(head, now))
	{
		BlockerRecord unused;

		(void) blocker_record_delete(record->blocker_id, &unused);
		return false;
	}
	written = GetCurrentTimestamp();
	if (written > now + WRITE_WITHOUT_WAIT_US)
	{
		record->created_at = written;
		expires_at = after_ms(written, request->timeout_ms);
		set_expiry(head, record->blocker_id, expires_at);
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

	require_writable();
	acquire(&request, &head, &record);
	answer = blocker_answer(fcinfo, &head, &record);
	return answer;
}

static pg_noreturn void
raise_not_held(int64 blocker_id, TimestampTz expired_at)
{
	blocker_count(BLOCKER_NOT_HELD);
	ereport(ERROR,
			(errcode(ERRCODE_AMORO_BLOCKER_NOT_HELD),
			 errmsg("blocker " INT64_FORMAT " is not held", blocker_id),
			 expired_at != DT_NOBEGIN ?
			 errdetail("It expired at %s.", timestamptz_to_str(expired_at)) :
			 errdetail("There is no such blocker; if there was, it was released or has expired."),
			 errhint("Acquire another one; nothing may be written for the sake of this one.")));
}

/* A blocker belongs to the role that acquired it, and to those that have its privileges. */
static void
require_owner(const BlockerRecord *record)
{
	if (record->acquired_by == GetOuterUserId() || has_privs_of_role(GetOuterUserId(), record->acquired_by))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("blocker " INT64_FORMAT " belongs to another role", record->blocker_id),
			 errhint("An operator can SELECT force_release_blocker(" INT64_FORMAT ")", record->blocker_id)));
}

/* Moves the expiry of a blocker that holds; raises AM102 when it does not, be it that it expired while we waited. */
static void
renew(const BlockerRecord *record, int64 timeout_ms, BlockerHead *head)
{
	for (;;)
	{
		TimestampTz now;
		TimestampTz written;
		TimestampTz expiry;

		CHECK_FOR_INTERRUPTS();
		if (!blocker_head_read_by_id(record->head_id, true, head))
			raise_not_held(record->blocker_id, DT_NOBEGIN);
		expiry = blocker_head_expiry(head, record->blocker_id);
		now = GetCurrentTimestamp();
		if (expiry <= now)
			raise_not_held(record->blocker_id, expiry);
		set_expiry(head, record->blocker_id, after_ms(now, timeout_ms));
		if (!blocker_head_write(head, now))
		{
			blocker_head_lock(head);
			continue;
		}
		written = GetCurrentTimestamp();
		if (expiry <= written)
			raise_not_held(record->blocker_id, expiry);
		if (written > now + WRITE_WITHOUT_WAIT_US)
		{
			set_expiry(head, record->blocker_id, after_ms(written, timeout_ms));
			(void) blocker_head_write(head, written);
		}
		return;
	}
}

/* See src/schema/blocker.sql. */
Datum
amoro_meta_renew_blocker(PG_FUNCTION_ARGS)
{
	int64		blocker_id = blocker_id_argument(fcinfo, 0);
	int64		timeout_ms = blocker_timeout_argument(fcinfo, 1, 0);
	BlockerHead head;
	BlockerRecord record;
	Datum		answer;

	require_writable();
	if (!blocker_record_read(blocker_id, &record))
		raise_not_held(blocker_id, DT_NOBEGIN);
	require_owner(&record);
	renew(&record, timeout_ms > 0 ? timeout_ms : record.timeout_ms, &head);
	answer = blocker_answer(fcinfo, &head, &record);
	blocker_count(BLOCKER_RENEWED);
	return answer;
}

/* Ends a blocker; whether it held to the end. */
static bool
release(int64 blocker_id, bool forced)
{
	BlockerHead head;
	BlockerRecord record;

	if (!blocker_record_delete(blocker_id, &record))
		return false;
	if (!forced)
		require_owner(&record);
	for (;;)
	{
		TimestampTz now;
		TimestampTz expiry;

		CHECK_FOR_INTERRUPTS();
		if (!blocker_head_read_by_id(record.head_id, true, &head))
			return false;
		expiry = blocker_head_expiry(&head, blocker_id);
		if (expiry == DT_NOBEGIN)
			return false;
		blocker_head_clear(&head, blocker_id);
		now = GetCurrentTimestamp();
		if (blocker_head_write(&head, now))
			return expiry > now;
		blocker_head_lock(&head);
	}
}

static Datum
release_argument(FunctionCallInfo fcinfo, bool forced)
{
	int64		blocker_id = blocker_id_argument(fcinfo, 0);
	bool		held;

	require_writable();
	held = release(blocker_id, forced);
	if (held)
		blocker_count(BLOCKER_RELEASED);
	PG_RETURN_BOOL(held);
}

/* See src/schema/blocker.sql. */
Datum
amoro_meta_release_blocker(PG_FUNCTION_ARGS)
{
	return release_argument(fcinfo, false);
}

/* See src/schema/blocker.sql. */
Datum
amoro_meta_force_release_blocker(PG_FUNCTION_ARGS)
{
	return release_argument(fcinfo, true);
}

/*
 * See src/schema/blocker.sql. The record is held first: who ends the blocker deletes it before the head is changed. So
 * what the head says after that stays true, except for the clock, and an expired blocker is not taken over either.
 */
Datum
amoro_meta_assert_blocker(PG_FUNCTION_ARGS)
{
	int64		blocker_id = blocker_id_argument(fcinfo, 0);
	BlockerHead head;
	BlockerRecord record;
	TimestampTz expiry = DT_NOBEGIN;

	require_writable();
	if (!blocker_record_lock(blocker_id, &record))
		raise_not_held(blocker_id, DT_NOBEGIN);
	require_owner(&record);
	if (blocker_head_read_by_id(record.head_id, false, &head))
		expiry = blocker_head_expiry(&head, blocker_id);
	if (expiry <= GetCurrentTimestamp())
		raise_not_held(blocker_id, expiry);
	blocker_count(BLOCKER_ASSERTED);
	PG_RETURN_INT64(blocker_id);
}

/* See src/schema/blocker.sql. */
Datum
amoro_meta_table_is_blocked(PG_FUNCTION_ARGS)
{
	TableName	table = blocker_table_argument(fcinfo, 0);

	PG_RETURN_BOOL(blocker_table_is_blocked(&table, blocker_operation_argument(fcinfo, 3)));
}
