/*
 * call_wait.c
 *		Waiting for the answer of a leader, without polling.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "clock.h"
#include "compat.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "shmem.h"
#include "storage/condition_variable.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(amoro_meta_call_result);

/* Covers an end that nobody announced: a row that was changed by hand. */
#define LOOK_AGAIN_MS 5000
#define RESULT_COLUMNS 7

/* The row of a call as it is committed now, in the context of the caller. */
typedef struct CallLook
{
	Datum		row;			/* of the result */
	bool		ended;
} CallLook;

static void
check_row(int64 call_id, HeapTuple row, TupleDesc shape, bool ended)
{
	bool		isnull;
	Oid			role = DatumGetObjectId(SPI_getbinval(row, shape, RESULT_COLUMNS + 1, &isnull));
	TransactionId writer = DatumGetTransactionId(SPI_getbinval(row, shape, RESULT_COLUMNS + 2, &isnull));

	if (!has_privs_of_role(GetOuterUserId(), role))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("call " INT64_FORMAT " belongs to another role", call_id)));
	if (!ended && TransactionIdIsCurrentTransactionId(writer))
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("cannot wait for call " INT64_FORMAT " in the transaction that has made it", call_id),
				 errhint("COMMIT first.")));
}

static CallLook
look_at_call(int64 call_id, TupleDesc result)
{
	static SPIPlanPtr plan = NULL;
	MemoryContext caller = CurrentMemoryContext;
	Datum		values[] = {Int64GetDatum(call_id)};
	Datum		columns[RESULT_COLUMNS];
	bool		nulls[RESULT_COLUMNS];
	CallLook	look;

	SPI_connect();
	if (plan == NULL)
	{
		plan = SPI_prepare("SELECT state, status, answer, truncated, error, attempts, token, requested_by::oid, xmin"
						   " FROM amoro_meta.call WHERE call_id OPERATOR(pg_catalog.=) $1", 1, (Oid[]) {INT8OID});
		if (plan == NULL || SPI_keepplan(plan) != 0)
			elog(ERROR, "could not prepare to look at a call: %s", SPI_result_code_string(SPI_result));
	}
	if (SPI_execute_snapshot(plan, values, NULL, GetLatestSnapshot(), InvalidSnapshot,
							 /* read_only= */ true, /* fire_triggers= */ false, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not look at a call");
	if (SPI_processed == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("call " INT64_FORMAT " does not exist", call_id),
				 errdetail("It was never made, is not committed, or ended longer ago than amoro_meta.history_retention.")));
	for (int i = 0; i < RESULT_COLUMNS; i++)
		columns[i] = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, i + 1, &nulls[i]);
	look.ended = strcmp(TextDatumGetCString(columns[0]), "waiting") != 0;
	check_row(call_id, SPI_tuptable->vals[0], SPI_tuptable->tupdesc, look.ended);
	MemoryContextSwitchTo(caller);
	look.row = HeapTupleGetDatum(heap_form_tuple(result, columns, nulls));
	SPI_finish();
	return look;
}

/* Milliseconds until the wait is over, at most as long as one may be; 0 or less: it is. On the clock of leases. */
static long
time_left(bool limited, LeaseTime until)
{
	return limited ? (long) Min((until - lease_clock_now() + 999) / 1000, LOOK_AGAIN_MS) : LOOK_AGAIN_MS;
}

static Datum
wait_for_answer(int64 call_id, bool limited, LeaseTime until, TupleDesc result)
{
	static uint32 wait_event = 0;
	MemoryContext looks = AllocSetContextCreate(CurrentMemoryContext, "amoro_meta looks at a call", ALLOCSET_SMALL_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(looks);
	CallLook	look;

	if (wait_event == 0)
		wait_event = WaitEventExtensionNew("AmoroMetaCallEnd");
	ConditionVariablePrepareToSleep(&AmoroShared->call_ended);
	for (;;)
	{
		long		left;

		/* whatever ends anywhere wakes us, and what an attempt has brought may be large */
		MemoryContextReset(looks);
		look = look_at_call(call_id, result);
		left = time_left(limited, until);
		if (look.ended || left <= 0)
			break;
		(void) ConditionVariableTimedSleep(&AmoroShared->call_ended, left, wait_event);
	}
	ConditionVariableCancelSleep();
	MemoryContextSwitchTo(caller);
	return look.row;
}

/*
 * amoro_meta_call_result(call_id, timeout) returns the row of a call once it has ended, or the timeout (NULL: none) has.
 * Errors: 42704 no such call, 42501 of another role, 25001 it is not committed yet, 22004, 22023, 25006.
 */
Datum
amoro_meta_call_result(PG_FUNCTION_ARGS)
{
	TupleDesc	result;
	bool		limited = !PG_ARGISNULL(1);
	LeaseTime	until = 0;

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("call_id must not be null")));
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("cannot wait for a call on a standby"),
				 errhint("Connect to the primary server.")));
	if (limited)
	{
		Interval   *timeout = PG_GETARG_INTERVAL_P(1);
		int64		us = timeout->time + (int64) timeout->day * USECS_PER_DAY;

		if (timeout->month != 0 || timeout->day < 0 || timeout->day > 10000 || us < 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("timeout must not be negative, nor longer than 10000 days")));
		until = lease_clock_now() + us;
	}
	if (get_call_result_type(fcinfo, NULL, &result) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "call_result does not return a row");
	result = BlessTupleDesc(result);
	/* without the library nobody ever works on it */
	if (AmoroShared == NULL)
		return look_at_call(PG_GETARG_INT64(0), result).row;
	return wait_for_answer(PG_GETARG_INT64(0), limited, until, result);
}
