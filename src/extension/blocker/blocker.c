/*
 * blocker.c
 *		Table blockers: expiring claims of operations on one table.
 *
 * Acquire (blocker_acquire.c) and renew read the head of the table, decide, and write it if it still is
 * what was read; a refusal writes nothing and waits for nobody. The clock is read
 * again once the head is written and thereby locked, since the write may have waited.
 * Blockers are compared with the wall clock of the database server alone: when it
 * jumps, a blocker ends early or late, but a new holder always has a larger id, and
 * assert_blocker keeps the old one from committing after it.
 */
#include "postgres.h"

#include "blocker/blocker_answer.h"
#include "blocker/blocker_argument.h"
#include "blocker/blocker_count.h"
#include "blocker/blocker_record.h"
#include "error_codes.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(amoro_meta_renew_blocker);
PG_FUNCTION_INFO_V1(amoro_meta_release_blocker);
PG_FUNCTION_INFO_V1(amoro_meta_force_release_blocker);
PG_FUNCTION_INFO_V1(amoro_meta_assert_blocker);
PG_FUNCTION_INFO_V1(amoro_meta_table_is_blocked);

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
		blocker_head_set_expiry(head, record->blocker_id, blocker_expiry(now, timeout_ms));
		if (!blocker_head_write(head, now))
		{
			blocker_head_lock(head);
			continue;
		}
		written = GetCurrentTimestamp();
		if (expiry <= written)
			raise_not_held(record->blocker_id, expiry);
		if (written > now + BLOCKER_WRITE_WITHOUT_WAIT_US)
		{
			blocker_head_set_expiry(head, record->blocker_id, blocker_expiry(written, timeout_ms));
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

	blocker_require_writable();
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

	blocker_require_writable();
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

	blocker_require_writable();
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
