/*
 * task_poll.c
 *		poll_task: a thread of an optimizer asks for a task, and may wait for one.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "clock.h"
#include "executor/executor.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "task/task_activity.h"
#include "task/task_claim.h"
#include "task/task_queue.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(amoro_meta_poll_task);

#define LONGEST_WAIT_US (5 * INT64CONST(1000000))
/* Covers what is not announced: a blocker that ended, a quota that is free again. */
#define LOOK_AGAIN_MS 1000

/* Whether there is any work in the group, or a task that this thread still holds: a look that takes no lock. */
static bool
anything_to_do(const OptimizerThread *thread, const Optimizer *optimizer)
{
	SqlArgument arguments[] = {
		sql_text(optimizer->group_name), sql_bigint(optimizer->id), sql_integer(thread->thread_id)
	};

	procedure_sql_along_index("SELECT EXISTS (SELECT FROM amoro_meta.task_queue q, LATERAL (SELECT FROM amoro_meta.process p"
							  "  WHERE p.queue_id = q.queue_id AND p.waiting AND p.turn >= coalesce((SELECT f.turn FROM amoro_meta.queue_floor f"
							  "   WHERE f.queue_id = q.queue_id ORDER BY f.turn DESC LIMIT 1), 0) ORDER BY p.turn LIMIT 1) p WHERE q.group_name = $1)"
							  " OR (SELECT (SELECT t.attempt = c.attempt AND t.state IN ('SCHEDULED', 'ACKED')"
							  "   FROM amoro_meta.task t WHERE t.process_id = c.process_id AND t.task_id = c.task_id)"
							  "  FROM amoro_meta.task_claim c WHERE c.optimizer_id = $2 AND c.thread_id = $3 ORDER BY c.number DESC LIMIT 1)",
							  SPI_OK_SELECT, lengthof(arguments), arguments);
	return result_boolean(0, 1);
}

/* One attempt to find a task; NULL when there is none for this thread. */
static HeapTuple
try_to_claim(Claimant *claimant)
{
	optimizer_lock_thread(&claimant->thread);
	/* again, now that it stays */
	claimant->optimizer = optimizer_find(&claimant->thread);
	claimant->last = task_claim_end_last(claimant);
	claimant->ring = claimant->last.number % 2 == 1;
	return claimant->optimizer.draining ? NULL : task_queue_claim(claimant);
}

/* Looks once; the row of the task is of the result type of the function and outlives SPI. */
static HeapTupleHeader
look_for_task(const OptimizerThread *thread, bool first_look_locks, TupleDesc row_type, char **group_name, uint64 *seen)
{
	MemoryContext caller = CurrentMemoryContext;
	Claimant	claimant = {.thread = *thread, .row_type = row_type};
	HeapTuple	task = NULL;
	HeapTupleHeader result = NULL;

	SPI_connect();
	if (!first_look_locks)
	{
		claimant.optimizer = optimizer_find(thread);
		*group_name = MemoryContextStrdup(caller, claimant.optimizer.group_name);
		*seen = task_announcements(*group_name);
	}
	if (first_look_locks || anything_to_do(thread, &claimant.optimizer))
		task = try_to_claim(&claimant);
	if (task != NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(caller);

		result = (HeapTupleHeader) DatumGetPointer(heap_copy_tuple_as_datum(task, row_type));
		MemoryContextSwitchTo(old);
	}
	SPI_finish();
	return result;
}

static int64
wait_argument(FunctionCallInfo fcinfo)
{
	Interval   *wait;
	int64		wait_us;

	if (PG_ARGISNULL(2))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("wait must not be null")));
	wait = PG_GETARG_INTERVAL_P(2);
	wait_us = wait->time;
	if (wait->month != 0 || wait->day != 0 || wait_us < 0 || wait_us > LONGEST_WAIT_US)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("wait is not between 0 and 5 seconds")));
	return wait_within_statement(wait_us);
}

/*
 * amoro_meta_poll_task(token, thread_id, wait): see the COMMENT in src/schema/task.sql.
 */
Datum
amoro_meta_poll_task(PG_FUNCTION_ARGS)
{
	OptimizerThread thread = optimizer_thread(fcinfo);
	int64		wait_us = wait_argument(fcinfo);
	LeaseTime	end = lease_clock_now() + wait_us;
	TupleDesc	row_type;

	if (get_call_result_type(fcinfo, NULL, &row_type) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "poll_task does not return a row");
	BlessTupleDesc(row_type);
	task_count(TASK_POLL);
	for (;;)
	{
		char	   *group_name = NULL;
		uint64		seen = 0;
		HeapTupleHeader task = look_for_task(&thread, wait_us == 0, row_type, &group_name, &seen);
		int64		left = end - lease_clock_now();

		if (task != NULL)
		{
			task_count(TASK_CLAIM);
			PG_RETURN_HEAPTUPLEHEADER(task);
		}
		if (left <= 0 || wait_us == 0)
			break;
		task_wait(group_name, seen, Min(left / 1000 + 1, LOOK_AGAIN_MS));
	}
	task_count(TASK_EMPTY_POLL);
	PG_RETURN_NULL();
}
