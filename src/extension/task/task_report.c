/*
 * task_report.c
 *		ack_task and complete_task: what a thread says of the task it was handed out.
 *
 * The common case is a few lookups and one update. Whatever else it may be is found out by a function of src/schema/task.sql.
 */
#include "postgres.h"

#include "funcapi.h"
#include "miscadmin.h"
#include "own_table.h"
#include "task/optimizer.h"
#include "task/task_activity.h"
#include "task/task_state.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(amoro_meta_ack_task);
PG_FUNCTION_INFO_V1(amoro_meta_complete_task);

#define REPORT_ARGUMENTS 6

/* token, role, thread_id, process_id, task_id, attempt */
typedef struct Report
{
	SqlArgument arguments[REPORT_ARGUMENTS];
	bool		complete;		/* no argument is null */
} Report;

static Report
report_arguments(FunctionCallInfo fcinfo)
{
	OptimizerThread thread = optimizer_thread(fcinfo);
	Report		report = {
		.arguments = {
			thread.token, thread.role, sql_integer(thread.thread_id),
			{INT8OID, PG_GETARG_DATUM(2), PG_ARGISNULL(2)},
			{INT4OID, PG_GETARG_DATUM(3), PG_ARGISNULL(3)},
			{INT4OID, PG_GETARG_DATUM(4), PG_ARGISNULL(4)}
		},
		.complete = !PG_ARGISNULL(2) && !PG_ARGISNULL(3) && !PG_ARGISNULL(4)
	};

	return report;
}

static bool
process_goes_on(int64 process_id)
{
	OwnTable	processes = own_table_open("process", "process_pkey", AccessShareLock);
	OwnKey		key = OWN_KEY_BIGINT("process_id", process_id);
	HeapTuple	row = own_table_find(&processes, 1, &key, ForwardScanDirection);
	bool		goes_on = row != NULL && own_column(&processes, row, "ended_at") == 0;

	own_table_close(&processes, AccessShareLock);
	return goes_on;
}

/* The task that is reported on, if this thread holds it by that attempt in a process that goes on; else NULL. */
static HeapTuple
own_task(const Report *report, OwnTable *tasks)
{
	OwnKey		keys[] = {
		{"process_id", BTEqualStrategyNumber, F_INT8EQ, report->arguments[3].value},
		{"task_id", BTEqualStrategyNumber, F_INT4EQ, report->arguments[4].value}
	};
	OptimizerThread thread = {report->arguments[0], report->arguments[1], DatumGetInt32(report->arguments[2].value)};
	Optimizer	optimizer;
	HeapTuple	row;

	if (!report->complete || !optimizer_look_up(&thread, &optimizer) || !process_goes_on(DatumGetInt64(report->arguments[3].value)))
		return NULL;
	row = own_table_find(tasks, lengthof(keys), keys, ForwardScanDirection);
	if (row == NULL || own_column(tasks, row, "attempt") != report->arguments[5].value ||
		DatumGetInt64(own_column(tasks, row, "optimizer_id")) != optimizer.id ||
		DatumGetInt32(own_column(tasks, row, "thread_id")) != thread.thread_id)
		return NULL;
	return row;
}

static bool
acknowledge(const Report *report)
{
	OwnTable	tasks = own_table_open("task", "task_pkey", RowExclusiveLock);
	HeapTuple	row = own_task(report, &tasks);
	bool		done = false;

	if (row != NULL && (own_column(&tasks, row, "state") == task_state("SCHEDULED") ||
						own_column(&tasks, row, "state") == task_state("ACKED")))
	{
		OwnColumn	changes[] = {
			{"state", task_state("ACKED")}, {"acked_at", TimestampTzGetDatum(GetCurrentTimestamp())}
		};

		done = own_table_update(&tasks, row, lengthof(changes), changes, true) != NULL;
	}
	own_table_close(&tasks, NoLock);
	return done;
}

/*
 * amoro_meta_ack_task(token, thread_id, process_id, task_id, attempt): see the COMMENT in src/schema/task.sql.
 */
Datum
amoro_meta_ack_task(PG_FUNCTION_ARGS)
{
	Report		report = report_arguments(fcinfo);
	MemoryContext caller = CurrentMemoryContext;
	const char *answer = "acked";

	SPI_connect();
	if (!acknowledge(&report))
	{
		procedure_sql_along_index("SELECT amoro_meta.refuse_ack($1, $3, $4, $5, $6) WHERE $2 IS NOT NULL", SPI_OK_SELECT, REPORT_ARGUMENTS, report.arguments);
		answer = MemoryContextStrdup(caller, result_text(0, 1));
	}
	else
		task_count(TASK_ACK);
	SPI_finish();
	PG_RETURN_TEXT_P(cstring_to_text(answer));
}

/* What there is to be kept of an attempt that counts. */
static void
keep_result(FunctionCallInfo fcinfo, const Report *report)
{
	SqlArgument arguments[] = {
		report->arguments[3], report->arguments[4], report->arguments[5],
		{BYTEAOID, PG_GETARG_DATUM(5), PG_ARGISNULL(5)},
		{TEXTOID, PG_GETARG_DATUM(6), PG_ARGISNULL(6)},
		{JSONBOID, PG_GETARG_DATUM(7), PG_ARGISNULL(7)}
	};

	if (PG_ARGISNULL(5) && PG_ARGISNULL(6) && (PG_ARGISNULL(7) || JB_ROOT_COUNT(PG_GETARG_JSONB_P(7)) == 0))
		return;
	procedure_sql("INSERT INTO amoro_meta.task_result (process_id, task_id, attempt, output, error, metrics, ended_at)"
				  " VALUES ($1, $2, $3, $4, amoro_meta.printable_text($5, 4000), $6, clock_timestamp())",
				  SPI_OK_INSERT, lengthof(arguments), arguments);
}

static void
count_answer(const char *answer)
{
	if (strcmp(answer, "success") == 0)
		task_count(TASK_SUCCESS);
	else if (strcmp(answer, "ignored") == 0)
		task_count(TASK_LATE_COMPLETION);
	else if (strcmp(answer, "cancelled") == 0)
		task_count(TASK_CANCELLED_COMPLETION);
	else
		task_count(TASK_FAILURE);
}

/* Whether the task at the end of the line still waits: then nothing follows for the process from the end of another. */
static bool
is_one_of_many(int64 process_id)
{
	OwnTable	tasks = own_table_open("task", "task_position", AccessShareLock);
	OwnKey		key = OWN_KEY_BIGINT("process_id", process_id);
	HeapTuple	row = own_table_find(&tasks, 1, &key, BackwardScanDirection);
	bool		waits = row != NULL && own_column(&tasks, row, "state") == task_state("PLANNED");

	own_table_close(&tasks, AccessShareLock);
	return waits;
}

static bool
succeed_among_many(const Report *report)
{
	OwnTable	tasks = own_table_open("task", "task_pkey", RowExclusiveLock);
	HeapTuple	row = own_task(report, &tasks);
	bool		done = false;

	if (row != NULL && own_column(&tasks, row, "state") == task_state("ACKED") &&
		is_one_of_many(DatumGetInt64(report->arguments[3].value)))
	{
		TimestampTz now = GetCurrentTimestamp();
		int64		cost_ms = (now - DatumGetTimestampTz(own_column(&tasks, row, "acked_at"))) / 1000;
		OwnColumn	changes[] = {
			{"state", task_state("SUCCESS")}, {"ended_at", TimestampTzGetDatum(now)},
			{"cost_ms", Int64GetDatum(DatumGetInt64(own_column(&tasks, row, "cost_ms")) + Max(cost_ms, 0))}
		};

		done = own_table_update(&tasks, row, lengthof(changes), changes, true) != NULL;
	}
	own_table_close(&tasks, NoLock);
	return done;
}

/*
 * amoro_meta_complete_task(token, thread_id, process_id, task_id, attempt, output, error, metrics): see the COMMENT in
 * src/schema/task.sql.
 */
Datum
amoro_meta_complete_task(PG_FUNCTION_ARGS)
{
	Report		report = report_arguments(fcinfo);
	MemoryContext caller = CurrentMemoryContext;
	const char *answer = "success";

	if (!PG_ARGISNULL(7) && !JB_ROOT_IS_OBJECT(PG_GETARG_JSONB_P(7)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("metrics is not an object")));
	SPI_connect();
	if (!PG_ARGISNULL(6) || !succeed_among_many(&report))
	{
		SqlArgument arguments[] = {
			report.arguments[0], report.arguments[2], report.arguments[3], report.arguments[4], report.arguments[5],
			{TEXTOID, PG_GETARG_DATUM(6), PG_ARGISNULL(6)}
		};

		procedure_sql_along_index("SELECT amoro_meta.end_task($1, $2, $3, $4, $5, $6)", SPI_OK_SELECT, lengthof(arguments), arguments);
		answer = MemoryContextStrdup(caller, result_text(0, 1));
	}
	if (strcmp(answer, "ignored") != 0 && strcmp(answer, "cancelled") != 0)
		keep_result(fcinfo, &report);
	count_answer(answer);
	SPI_finish();
	PG_RETURN_TEXT_P(cstring_to_text(answer));
}
