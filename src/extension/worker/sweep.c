/*
 * sweep.c
 *		What the coordinator does again and again: SQL functions, one bounded transaction at a time.
 *
 * A sweep is a function of the API without arguments that an operator may call as
 * well. It treats at most SWEEP_BATCH rows and returns how many; after a full batch it
 * is called again at once, but procedures have their turn in between. It waits for no
 * lock (SKIP LOCKED), and isolates a row that fails from the others by itself.
 */
#include "postgres.h"

#include "access/xact.h"
#include "compat.h"
#include "fmgr.h"
#include "funcapi.h"
#include "guc.h"
#include "miscadmin.h"
#include "procedure/procedure_sql.h"
#include "utils/guc.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"
#include "worker/coordinator.h"
#include "worker/coordinator_transaction.h"
#include "worker/stop_point.h"
#include "worker/sweep.h"

#define SWEEP_BATCH 1000
/* Longer than any sweep takes; one that does not end by itself must not keep the verdicts waiting. */
#define LONGEST_RUN_MS 5000
#define FIRST_DELAY_US INT64CONST(1000000)
#define LONGEST_DELAY_US (300 * INT64CONST(1000000))
#define STATUS_COLUMNS 13

typedef struct Sweep
{
	const char *name;			/* of a function in the schema of the API: () returns bigint */
	const int  *interval_ms;	/* a setting */
	bool		local;			/* what it writes is of this moment: no standby has to confirm it */
} Sweep;

static const Sweep sweeps[] = {
	{"purge_blockers", &guc_blocker_timeout},
	{"refresh_table_runtimes", &guc_refresh_interval},
	{"expire_optimizers", &guc_optimizing_check_interval},
	{"reset_tasks", &guc_optimizing_check_interval},
	{"settle_processes", &guc_optimizing_check_interval},
	{"purge_history", &guc_refresh_interval},
	{"purge_terminal_sessions", &guc_refresh_interval},
	{"announce_leaders", &guc_refresh_interval},
	{"purge_calls", &guc_refresh_interval},
	{"note_absent_nodes", &guc_assignment_interval, true},
	{"balance_buckets", &guc_assignment_interval},
	{"repair_partitions", &guc_assignment_interval},
};

StaticAssertDecl(lengthof(sweeps) <= MAX_SWEEPS, "more sweeps than there is room for in shared memory");

typedef struct SweepRun
{
	const Sweep *sweep;
	int64		rows;
} SweepRun;

/* The functions of the extension stand in the schema that CREATE EXTENSION was given. */
static Oid
find_function(const char *name)
{
	SqlArgument arguments[] = {
		{OIDOID, ObjectIdGetDatum(coordinator_extension()), false}, sql_text(name)
	};

	if (procedure_sql("SELECT p.oid::bigint FROM pg_proc p JOIN pg_extension e ON e.extnamespace = p.pronamespace"
					  " WHERE e.oid = $1 AND p.proname = $2::name AND p.pronargs = 0",
					  SPI_OK_SELECT, lengthof(arguments), arguments) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("function %s() of amoro_meta does not exist", name)));
	return (Oid) result_bigint(0, 1);
}

static void
run(void *argument)
{
	SweepRun   *work = argument;

	coordinator_check_term();
	stop_point(psprintf("sweep.%s", work->sweep->name));
	if (work->sweep->local)
		(void) set_config_option("synchronous_commit", "local", PGC_SUSET, PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0, false);
	enable_timeout_after(STATEMENT_TIMEOUT, LONGEST_RUN_MS);
	work->rows = DatumGetInt64(OidFunctionCall0(find_function(work->sweep->name)));
	disable_timeout(STATEMENT_TIMEOUT, false);
	stop_point(psprintf("sweep.%s.commit", work->sweep->name));
}

/* Finds the sweep that is due first; an interval that was made shorter counts from now. */
static int
first_due(LeaseTime now, LeaseTime *due_at)
{
	DatabaseEntry *entry;
	int			first = 0;

	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	entry = database_entry_find(MyDatabaseId);
	for (int i = 0; i < lengthof(sweeps); i++)
	{
		SweepStatus *status = &entry->sweeps[i];

		if (status->consecutive_failures == 0)
			status->due_at = Min(status->due_at, now + (int64) *sweeps[i].interval_ms * 1000);
		if (status->due_at < entry->sweeps[first].due_at)
			first = i;
	}
	*due_at = entry->sweeps[first].due_at;
	/* 0 is what a request sets: one that comes during a run asks for another */
	if (*due_at <= now)
		entry->sweeps[first].due_at = now;
	LWLockRelease(AmoroShared->lock);
	return first;
}

static void
record_error(SweepStatus *status, int code, const char *message)
{
	status->last_error_code = code;
	status->last_error_at = GetCurrentTimestamp();
	strlcpy(status->last_error, message, sizeof(status->last_error));
}

/* Records what became of a run; true when it failed in another way than the time before. */
static bool
record(int index, const SweepRun *work, const ErrorData *error, LeaseTime began)
{
	LeaseTime	now = lease_clock_now();
	int64		interval_us = (int64) *work->sweep->interval_ms * 1000;
	SweepStatus *status;
	bool		news = false;

	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	status = &database_entry_find(MyDatabaseId)->sweeps[index];
	status->runs++;
	status->last_run_at = GetCurrentTimestamp();
	status->last_duration_us = now - began;
	status->last_rows = work->rows;
	status->rows += work->rows;
	if (error == NULL)
	{
		status->consecutive_failures = 0;
		if (status->due_at != 0)
			status->due_at = work->rows >= SWEEP_BATCH ? now : now + interval_us;
	}
	else
	{
		news = status->consecutive_failures == 0 || status->last_error_code != error->sqlerrcode;
		status->due_at = now + Max(interval_us, Min(FIRST_DELAY_US << Min(status->consecutive_failures, 10), LONGEST_DELAY_US));
		status->errors++;
		status->consecutive_failures++;
		record_error(status, error->sqlerrcode, error->message ? error->message : "");
	}
	LWLockRelease(AmoroShared->lock);
	return news;
}

/*
 * sweep_run_due runs one batch of one sweep. See the header.
 */
LeaseTime
sweep_run_due(void)
{
	LeaseTime	now = lease_clock_now();
	LeaseTime	due_at;
	int			index = first_due(now, &due_at);
	SweepRun	work = {.sweep = &sweeps[index]};
	ErrorData  *error;

	if (due_at > now)
		return due_at;
	error = coordinator_transaction(run, &work);
	if (error != NULL)
	{
		/* where the run failed its timeout is still armed, or has just struck */
		disable_timeout(STATEMENT_TIMEOUT, false);
		QueryCancelPending = false;
		work.rows = 0;
	}
	if (record(index, &work, error, now))
		ereport(LOG,
				(errcode(error->sqlerrcode),
				 errmsg("sweep %s() of amoro_meta failed: %s", work.sweep->name, error->message),
				 error->detail ? errdetail_internal("%s", error->detail) : 0,
				 errhint("SELECT * FROM amoro_stat_sweep; it is tried again.")));
	(void) first_due(now, &due_at);
	return due_at;
}

/* See sweep.h. */
void
sweep_reset_locked(DatabaseEntry *entry)
{
	for (int i = 0; i < MAX_SWEEPS; i++)
	{
		SweepStatus *status = &entry->sweeps[i];

		*status = (SweepStatus) {.due_at = status->due_at, .consecutive_failures = status->consecutive_failures};
	}
}

/* Sweeps that are to run once this transaction is committed, a bit each. */
static uint32 requested = 0;

static void
transaction_ends(XactEvent event, void *argument)
{
	DatabaseEntry *entry;

	if (requested == 0 || (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT && event != XACT_EVENT_PREPARE))
		return;
	if (event == XACT_EVENT_COMMIT && AmoroShared != NULL)
	{
		LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
		entry = database_entry_find(MyDatabaseId);
		for (int i = 0; entry != NULL && i < lengthof(sweeps); i++)
		{
			if ((requested & (1U << i)) && entry->sweeps[i].consecutive_failures == 0)
				entry->sweeps[i].due_at = 0;
		}
		if (entry != NULL)
			database_entry_set_latch(entry->coordinator.proc);
		LWLockRelease(AmoroShared->lock);
	}
	requested = 0;
}

/* See sweep.h. */
void
sweep_install_callbacks(void)
{
	RegisterXactCallback(transaction_ends, NULL);
}

PG_FUNCTION_INFO_V1(amoro_meta_request_sweep);
PG_FUNCTION_INFO_V1(amoro_meta_count_row_error);
PG_FUNCTION_INFO_V1(amoro_meta_sweep_batch);
PG_FUNCTION_INFO_V1(amoro_meta_sweeps);

static int
sweep_index(const char *name)
{
	for (int i = 0; i < lengthof(sweeps); i++)
	{
		if (strcmp(sweeps[i].name, name) == 0)
			return i;
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("there is no sweep of that name")));
	return -1;					/* keep compiler quiet */
}

/* amoro_meta_request_sweep(name) makes the commit of this transaction wake the coordinator for that sweep. */
Datum
amoro_meta_request_sweep(PG_FUNCTION_ARGS)
{
	requested |= 1U << sweep_index(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	PG_RETURN_VOID();
}

/* amoro_meta_count_row_error(name, code, message) records an error that a sweep goes on after; it is not transactional. */
Datum
amoro_meta_count_row_error(PG_FUNCTION_ARGS)
{
	int			index = sweep_index(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	char	   *code = text_to_cstring(PG_GETARG_TEXT_PP(1));
	char	   *message = text_to_cstring(PG_GETARG_TEXT_PP(2));
	DatabaseEntry *entry;

	if (strlen(code) != 5)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("an error code has five characters")));
	if (AmoroShared == NULL)
		PG_RETURN_VOID();
	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	entry = database_entry_find(MyDatabaseId);
	if (entry != NULL)
	{
		entry->sweeps[index].row_errors++;
		record_error(&entry->sweeps[index], MAKE_SQLSTATE(code[0], code[1], code[2], code[3], code[4]), message);
	}
	LWLockRelease(AmoroShared->lock);
	PG_RETURN_VOID();
}

/* How many rows one call of a sweep treats at most; that many mean that there may be more. */
Datum
amoro_meta_sweep_batch(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(SWEEP_BATCH);
}

static void
put_status(ReturnSetInfo *result, const Sweep *sweep, const SweepStatus *status)
{
	Datum		values[] = {
		CStringGetTextDatum(sweep->name), Int64GetDatum(*sweep->interval_ms),
		TimestampTzGetDatum(status->last_run_at), Int64GetDatum(status->last_duration_us), Int64GetDatum(status->last_rows),
		Int64GetDatum(status->runs), Int64GetDatum(status->rows), Int64GetDatum(status->errors),
		Int64GetDatum(status->row_errors),
		Int32GetDatum(status->consecutive_failures), CStringGetTextDatum(unpack_sql_state(status->last_error_code)),
		CStringGetTextDatum(status->last_error), TimestampTzGetDatum(status->last_error_at)
	};
	bool		nulls[STATUS_COLUMNS] = {0};

	StaticAssertStmt(lengthof(values) == STATUS_COLUMNS, "a value for each column");
	nulls[2] = nulls[3] = nulls[4] = status->last_run_at == 0;
	nulls[10] = nulls[11] = nulls[12] = status->last_error_at == 0;
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/* One row for every sweep, with what this server start has seen of it in this database. */
Datum
amoro_meta_sweeps(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	SweepStatus seen[MAX_SWEEPS] = {0};
	DatabaseEntry *entry;

	InitMaterializedSRF(fcinfo, 0);
	if (AmoroShared != NULL)
	{
		LWLockAcquire(AmoroShared->lock, LW_SHARED);
		entry = database_entry_find(MyDatabaseId);
		if (entry != NULL)
			memcpy(seen, entry->sweeps, sizeof(seen));
		LWLockRelease(AmoroShared->lock);
	}
	for (int i = 0; i < lengthof(sweeps); i++)
		put_status(result, &sweeps[i], &seen[i]);
	return (Datum) 0;
}
