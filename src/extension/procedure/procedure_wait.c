/*
 * procedure_wait.c
 *		Waiting for the end of a procedure, without polling.
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
#include "miscadmin.h"
#include "shmem.h"
#include "storage/condition_variable.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(amoro_meta_wait_for_procedure);

/* Covers an end that nobody announced: a row that was changed by hand. */
#define LOOK_AGAIN_MS 5000
#define NO_TIMEOUT PG_INT64_MAX

typedef struct ProcedureLook
{
	bool		found;
	bool		own_change;		/* made or changed by this transaction, which nobody else sees yet */
	char	   *outcome;		/* NULL: running; in the context of the caller */
} ProcedureLook;

static ProcedureLook
read_result(MemoryContext caller)
{
	ProcedureLook look = {0};
	TupleDesc	descriptor = SPI_tuptable->tupdesc;
	HeapTuple	row;
	bool		isnull;
	Datum		value;

	if (SPI_processed == 0)
		return look;
	row = SPI_tuptable->vals[0];
	look.found = true;
	value = SPI_getbinval(row, descriptor, 1, &isnull);
	if (!isnull)
	{
		MemoryContext old = MemoryContextSwitchTo(caller);

		look.outcome = TextDatumGetCString(value);
		MemoryContextSwitchTo(old);
	}
	value = SPI_getbinval(row, descriptor, 2, &isnull);
	look.own_change = TransactionIdIsCurrentTransactionId(DatumGetTransactionId(value));
	return look;
}

/* Looks at the row as it is committed now, whatever the isolation level of the caller. */
static ProcedureLook
look_at_procedure(int64 procedure_id)
{
	static SPIPlanPtr plan = NULL;
	MemoryContext caller = CurrentMemoryContext;
	Datum		values[] = {Int64GetDatum(procedure_id)};
	ProcedureLook look;

	SPI_connect();
	if (plan == NULL)
	{
		plan = SPI_prepare("SELECT outcome, xmin FROM amoro_meta.procedure WHERE procedure_id OPERATOR(pg_catalog.=) $1",
						   1, (Oid[]) {INT8OID});
		if (plan == NULL || SPI_keepplan(plan) != 0)
			elog(ERROR, "could not prepare to look at a procedure: %s", SPI_result_code_string(SPI_result));
	}
	if (SPI_execute_snapshot(plan, values, NULL, GetLatestSnapshot(), InvalidSnapshot,
							 /* read_only= */ true, /* fire_triggers= */ false, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not look at a procedure");
	look = read_result(caller);
	SPI_finish();
	return look;
}

static void
require_waitable(int64 procedure_id, const ProcedureLook *look)
{
	if (!look->found)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("procedure " INT64_FORMAT " does not exist", procedure_id),
				 errdetail("It was never submitted, its submission is not committed, or it ended longer ago than "
						   "amoro_meta.history_retention.")));
	if (look->outcome == NULL && look->own_change)
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("cannot wait for procedure " INT64_FORMAT " in the transaction that submitted or cancelled it",
						procedure_id),
				 errhint("COMMIT first.")));
}

/* What is left of the timeout, in milliseconds, at most as long as a wait may be; 0 or less: it is over. */
static long
time_left(LeaseTime until)
{
	LeaseTime	left_us;

	if (until == NO_TIMEOUT)
		return LOOK_AGAIN_MS;
	left_us = until - lease_clock_now();
	return (long) Min((left_us + 999) / 1000, LOOK_AGAIN_MS);
}

static char *
wait_for_end(int64 procedure_id, LeaseTime until)
{
	static uint32 wait_event = 0;
	ProcedureLook look;
	long		left;

	if (wait_event == 0)
		wait_event = WaitEventExtensionNew("AmoroMetaProcedureEnd");
	ConditionVariablePrepareToSleep(&AmoroShared->procedure_ended);
	for (;;)
	{
		look = look_at_procedure(procedure_id);
		require_waitable(procedure_id, &look);
		left = time_left(until);
		if (look.outcome != NULL || left <= 0)
			break;
		(void) ConditionVariableTimedSleep(&AmoroShared->procedure_ended, left, wait_event);
	}
	ConditionVariableCancelSleep();
	return look.outcome != NULL ? look.outcome : pstrdup("running");
}

/* On the clock of leases: a wall clock that is set while somebody waits makes the wait neither longer nor shorter. */
static LeaseTime
end_of_timeout(Interval *timeout)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz until = DatumGetTimestampTz(DirectFunctionCall2(timestamptz_pl_interval,
																TimestampTzGetDatum(now), IntervalPGetDatum(timeout)));

	if (until < now)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("timeout must not be negative")));
	return until == DT_NOEND ? NO_TIMEOUT : lease_clock_now() + (until - now);
}

/*
 * amoro_meta_wait_for_procedure(procedure_id, timeout) returns 'done', 'rolled_back' or 'quarantined', or 'running'
 * when the timeout (NULL: none) ended first. Errors: 42704 no such procedure, 25001 it is not committed yet, 22004, 25006.
 */
Datum
amoro_meta_wait_for_procedure(PG_FUNCTION_ARGS)
{
	LeaseTime	until = PG_ARGISNULL(1) ? NO_TIMEOUT : end_of_timeout(PG_GETARG_INTERVAL_P(1));
	int64		procedure_id;

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("procedure_id must not be null")));
	procedure_id = PG_GETARG_INT64(0);
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("cannot wait for a procedure on a standby"),
				 errhint("Connect to the primary server.")));
	if (AmoroShared == NULL)
	{
		ProcedureLook look = look_at_procedure(procedure_id);

		/* nobody would ever work on it, but what has ended has ended */
		require_waitable(procedure_id, &look);
		PG_RETURN_TEXT_P(cstring_to_text(look.outcome != NULL ? look.outcome : "running"));
	}
	PG_RETURN_TEXT_P(cstring_to_text(wait_for_end(procedure_id, until)));
}
