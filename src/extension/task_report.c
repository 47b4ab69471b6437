/*
 * task_report.c
 *		ack_task and complete_task: what a thread says of the task it was handed out.
 *
 * The common case is one statement that finds the thread's own attempt or nothing.
 * Whatever else it may be is found out by a function of src/schema/task.sql.
 */
#include "postgres.h"

#include "funcapi.h"
#include "miscadmin.h"
#include "optimizer.h"
#include "task_activity.h"

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

/* The attempt that is reported on, if it is the one that this thread holds, in a process that goes on. */
#define OWN_ATTEMPT \
	" FROM amoro_meta.optimizer o, amoro_meta.process p" \
	" WHERE o.token = $1 AND o.registered_by = $2 AND o.expired_at IS NULL AND p.process_id = $4 AND p.ended_at IS NULL" \
	" AND t.process_id = $4 AND t.task_id = $5 AND t.attempt = $6 AND t.optimizer_id = o.optimizer_id AND t.thread_id = $3"

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
	if (!report.complete ||
		procedure_sql("UPDATE amoro_meta.task t SET state = 'ACKED', acked_at = clock_timestamp()"
					  OWN_ATTEMPT " AND t.state IN ('SCHEDULED', 'ACKED')",
					  SPI_OK_UPDATE, REPORT_ARGUMENTS, report.arguments) == 0)
	{
		procedure_sql("SELECT amoro_meta.refuse_ack($1, $3, $4, $5, $6) WHERE $2 IS NOT NULL", SPI_OK_SELECT, REPORT_ARGUMENTS, report.arguments);
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

/* One success among many: the task at the end of the line is still waiting, so nothing follows for the process. */
static bool
succeed_among_many(Report *report)
{
	return procedure_sql("UPDATE amoro_meta.task t SET state = 'SUCCESS', ended_at = clock_timestamp(), cost_ms = t.cost_ms +"
						 " greatest(extract(epoch FROM clock_timestamp() - t.acked_at) * 1000, 0)::bigint"
						 OWN_ATTEMPT " AND t.state = 'ACKED'"
						 " AND (SELECT l.state FROM amoro_meta.task l WHERE l.process_id = $4 ORDER BY l.position DESC LIMIT 1) = 'PLANNED'",
						 SPI_OK_UPDATE, REPORT_ARGUMENTS, report->arguments) != 0;
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
	if (!report.complete || !PG_ARGISNULL(6) || !succeed_among_many(&report))
	{
		SqlArgument arguments[] = {
			report.arguments[0], report.arguments[2], report.arguments[3], report.arguments[4], report.arguments[5],
			{TEXTOID, PG_GETARG_DATUM(6), PG_ARGISNULL(6)}
		};

		procedure_sql("SELECT amoro_meta.end_task($1, $2, $3, $4, $5, $6)", SPI_OK_SELECT, lengthof(arguments), arguments);
		answer = MemoryContextStrdup(caller, result_text(0, 1));
	}
	if (strcmp(answer, "ignored") != 0 && strcmp(answer, "cancelled") != 0)
		keep_result(fcinfo, &report);
	count_answer(answer);
	SPI_finish();
	PG_RETURN_TEXT_P(cstring_to_text(answer));
}
