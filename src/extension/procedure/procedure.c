/*
 * procedure.c
 *		The engine of the procedures. Called by the coordinator whenever something may have changed.
 *
 * A procedure is a row, and nothing of it is kept in memory from one step to the
 * next. A step is one short transaction: check the term, lock the row, look again
 * at everything, act, append the change. It must survive:
 *
 * - a crash anywhere: the step is there as a whole or not at all, and is made again;
 * - a step that fails: recorded on its row with a growing delay, the others go on;
 * - a row that makes no sense: quarantined with the reason, its names given free;
 * - a row or table that somebody else keeps locked: skipped, tried again later;
 * - a failure that cannot even be recorded: remembered here, with a growing delay.
 *
 * The frontier is computed once for a pass over the rows, before any of the steps that
 * rely on it. It stays true: a lease that ended is not revived, acknowledgements only grow,
 * and a node that activates meanwhile has loaded the newest version.
 */
#include "postgres.h"

#include "guc.h"
#include "lease/lease.h"
#include "miscadmin.h"
#include "procedure/procedure.h"
#include "procedure/procedure_machine.h"
#include "procedure/procedure_sql.h"
#include "procedure/procedure_step.h"
#include "shmem.h"
#include "storage/condition_variable.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "worker/coordinator.h"
#include "worker/coordinator_transaction.h"

/* For how long one call goes on before the coordinator gets to its other duties. */
#define RUN_LIMIT_US (500 * INT64CONST(1000))
#define PRUNE_BATCH 1000

typedef struct DueProcedures
{
	MemoryContext context;		/* of ids */
	int64	   *ids;			/* in the order of submission */
	int			count;
	int64		frontier;		/* of the pass */
	LeaseTime	next_moment;	/* at which one of the others becomes due; 0: none */
} DueProcedures;

static void
earlier(LeaseTime *moment, LeaseTime candidate)
{
	if (candidate != 0 && (*moment == 0 || candidate < *moment))
		*moment = candidate;
}

/* Deadlines and delays are kept as wall-clock times, because they outlive this boot. */
static LeaseTime
lease_time_of(TimestampTz when)
{
	TimestampTz now = GetCurrentTimestamp();

	return lease_clock_now() + Max(when - now, 0);
}

static int64
smallest_awaited_version(void)
{
	int64		awaited = 0;

	for (uint64 row = 0; row < SPI_processed; row++)
	{
		int64		version = result_bigint(row, 2);

		if (version != 0 && (awaited == 0 || version < awaited))
			awaited = version;
	}
	return awaited;
}

/* Whether the row of the last result can make a step; if not, from when on it perhaps can. */
static bool
is_due(uint64 row, const LeaseFrontier *frontier, LeaseTime *moment)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz not_before = result_timestamptz(row, 3);
	TimestampTz deadline = result_timestamptz(row, 4);
	LeaseTime	unrecorded = procedure_step_delayed_until(result_bigint(row, 1));

	if (unrecorded > lease_clock_now())
	{
		earlier(moment, unrecorded);
		return false;
	}
	if (not_before > now)
	{
		earlier(moment, lease_time_of(not_before));
		return false;
	}
	if (result_boolean(row, 5) || (deadline != DT_NOBEGIN && deadline <= now) ||
		result_bigint(row, 2) <= frontier->version)
		return true;
	earlier(moment, frontier->next_moment);
	if (deadline != DT_NOBEGIN)
		earlier(moment, lease_time_of(deadline));
	return false;
}

/* Finds what can make a step now; the frontier is computed here. */
static void
find_due(void *argument)
{
	DueProcedures *due = argument;
	LeaseFrontier frontier;

	/* a version that was never given out must not reach the nodes */
	procedure_sql("SELECT procedure_id, CASE WHEN wait_version BETWEEN 1 AND v.version THEN wait_version END,"
				  " not_before, deadline,"
				  " cancel_requested OR abandoned OR wait_version NOT BETWEEN 1 AND v.version OR NOT EXISTS"
				  " (SELECT FROM amoro_meta.procedure_machine_rows() m WHERE m.kind = p.kind AND m.state = p.state)"
				  " FROM amoro_meta.procedure p CROSS JOIN amoro_meta.metadata_version v"
				  " WHERE outcome IS NULL AND belongs_to = amoro_meta.identity_key() ORDER BY procedure_id",
				  SPI_OK_SELECT, 0, NULL);
	frontier = lease_frontier(MyDatabaseId, smallest_awaited_version());
	due->frontier = frontier.version;
	due->ids = MemoryContextAllocHuge(due->context, sizeof(int64) * Max(SPI_processed, 1));
	for (uint64 row = 0; row < SPI_processed; row++)
	{
		if (is_due(row, &frontier, &due->next_moment))
			due->ids[due->count++] = result_bigint(row, 1);
	}
}

/* Tells the world what happened; one wake-up for many ends. */
static void
announce(int64 steps, bool ended)
{
	DatabaseEntry *entry;

	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	entry = database_entry_find(MyDatabaseId);
	if (entry != NULL)
	{
		entry->procedure_events += steps;
		entry->steps += steps;
	}
	LWLockRelease(AmoroShared->lock);
	if (ended)
		ConditionVariableBroadcast(&AmoroShared->procedure_ended);
}

/* The place of the first that was submitted after a procedure; any place when there is none. */
static int
place_behind(const DueProcedures *due, int64 procedure_id)
{
	int			place = 0;

	while (place < due->count && due->ids[place] <= procedure_id)
		place++;
	return place;
}

/*
 * Makes one step of each that is due; returns how many got on. A pass that runs out of time is gone on with by the next
 * one: long steps of the first must not keep the others from their turn.
 */
static int
run_pass(DueProcedures *due, LeaseTime stop_at)
{
	static int64 stopped_at = 0;
	int			first = place_behind(due, stopped_at);
	int			progress = 0;
	bool		ended = false;

	stopped_at = 0;
	for (int i = 0; i < due->count; i++)
	{
		int64		procedure_id = due->ids[(first + i) % due->count];
		LeaseTime	moment = 0;

		CHECK_FOR_INTERRUPTS();
		switch (procedure_step_run(procedure_id, due->frontier, &moment))
		{
			case STEP_ENDED:
				ended = true;
				/* FALLTHROUGH */
			case STEP_MADE:
				progress++;
				break;
			case STEP_NOT_MADE:
				break;
		}
		earlier(&due->next_moment, moment);
		if (lease_clock_now() >= stop_at)
		{
			stopped_at = procedure_id;
			due->next_moment = lease_clock_now();
			break;
		}
	}
	if (progress > 0)
		announce(progress, ended);
	return progress;
}

/*
 * procedure_run_due runs the procedures that can make a step. See the header.
 */
LeaseTime
procedure_run_due(void)
{
	LeaseTime	stop_at = lease_clock_now() + RUN_LIMIT_US;
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "amoro_meta procedures",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(context);
	DueProcedures due;
	ErrorData  *error;

	do
	{
		MemoryContextReset(context);
		due = (DueProcedures) {.context = context};
		error = coordinator_transaction(find_due, &due);
		if (error != NULL)
			ReThrowError(error);
	} while (run_pass(&due, stop_at) > 0 && lease_clock_now() < stop_at);

	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
	return due.next_moment;
}

static void
prune(void *argument)
{
	SqlArgument arguments[] = {sql_integer(guc_history_retention), sql_integer(PRUNE_BATCH)};
	bool	   *more = argument;

	coordinator_check_term();
	*more = procedure_sql("DELETE FROM amoro_meta.procedure WHERE procedure_id IN"
						  " (SELECT procedure_id FROM amoro_meta.procedure WHERE outcome IS NOT NULL"
						  "  AND ended_at < clock_timestamp() - make_interval(secs => $1)"
						  "  ORDER BY ended_at LIMIT $2 FOR UPDATE SKIP LOCKED)",
						  SPI_OK_DELETE, lengthof(arguments), arguments) == PRUNE_BATCH;
}

/*
 * procedure_prune deletes ended procedures. See the header.
 */
bool
procedure_prune(void)
{
	bool		more = false;
	ErrorData  *error = coordinator_transaction(prune, &more);

	if (error != NULL)
		ReThrowError(error);
	return more;
}
