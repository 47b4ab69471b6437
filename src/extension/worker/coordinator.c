/*
 * coordinator.c
 *		The background worker of one database: an event loop on its latch.
 *
 * It is also the probe: where the extension is missing it says so and ends. An ERROR
 * never ends it, the cycle is given up and tried again later and later. It starts no
 * transaction of its own accord while it waits, and serves interrupts everywhere:
 * DROP DATABASE, even of another database, waits for every process to do so.
 */
#include "postgres.h"

#include "access/xact.h"
#include "change/change.h"
#include "commands/dbcommands.h"
#include "compat.h"
#include "guc.h"
#include "lease/lease.h"
#include "lease/term.h"
#include "lease/tick.h"
#include "miscadmin.h"
#include "node/node.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "procedure/procedure.h"
#include "storage/condition_variable.h"
#include "storage/latch.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "worker/coordinator.h"
#include "worker/coordinator_entry.h"
#include "worker/coordinator_transaction.h"
#include "worker/lifecycle.h"
#include "worker/stop_point.h"
#include "worker/sweep.h"
#include "worker/worker_place.h"

/* Covers a lost wake-up, and how often it is looked whether extension and identity are still as they were. */
#define TICK_US (1000 * 1000)
#define HOUSEKEEPING_US (2 * TICK_US)
/* How soon it is tried again while somebody drops the extension and may yet roll back. */
#define EXTENSION_RETRY_US (250 * 1000)

static MemoryContext cycle_context = NULL;
static char *database_name = NULL;

/* Makes the state that the rest of a cycle needs; false when there is nothing to do but to wait. */
static bool
prepare_cycle(LeaseTime *next)
{
	static LeaseTime checked_at = 0;
	static int64 logged_term = 0;
	LeaseTime	now = lease_clock_now();

	if (!coordinator_entry_take_recheck() && !term_is_lost() && now >= checked_at && now < checked_at + TICK_US)
		return true;
	checked_at = 0;
	switch (coordinator_probe_extension())
	{
		case EXTENSION_ABSENT:
			(void) coordinator_entry_set_state(COORDINATOR_ABSENT);
			proc_exit(0);
		case EXTENSION_LOCKED:
			*next = now + EXTENSION_RETRY_US;
			return false;
		case EXTENSION_OTHER_VERSION:
			if (coordinator_entry_set_state(COORDINATOR_OTHER_VERSION))
				ereport(WARNING,
						(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						 errmsg("amoro_meta coordinator of database \"%s\" waits: the extension is not of version %s of the library",
								database_name, AMORO_META_VERSION),
						 errhint("Run ALTER EXTENSION amoro_meta UPDATE.")));
			return false;
		case EXTENSION_PRESENT:
			break;
	}
	if (!term_establish())
	{
		if (coordinator_entry_set_state(COORDINATOR_NOT_ADOPTED))
			ereport(WARNING,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("amoro_meta coordinator of database \"%s\" waits: the data belongs to another server or database",
							database_name),
					 errhint("If the original no longer coordinates its nodes, run SELECT adopt_database().")));
		return false;
	}
	if (coordinator_entry_set_state(COORDINATOR_RUNNING) || logged_term != coordinator_term())
		ereport(LOG,
				(errmsg("amoro_meta coordinator of database \"%s\" is running, term %lld",
						database_name, (long long) coordinator_term())));
	logged_term = coordinator_term();
	checked_at = now;
	return true;
}

typedef struct Prune
{
	bool		changes;		/* in: whether there may be any to delete */
	bool		more;			/* out: whether more is left */
} Prune;

static void
prune(void *argument)
{
	Prune	   *work = argument;

	coordinator_check_term();
	work->more = work->changes && change_prune();
	work->more |= node_registry_prune();
}

/*
 * Deletes what nobody needs any more, a batch of each; true when more is left. A coordinator with nothing to do writes
 * no WAL, so it does not touch the log of changes as long as that has not grown.
 */
static bool
keep_house(void)
{
	static int64 pruned_version = -1;
	static int	pruned_history = -1;
	int64		version = lease_published_version(MyDatabaseId);
	Prune		work = {.changes = version != pruned_version || guc_change_history != pruned_history};
	ErrorData  *error;

	(void) lease_reap(MyDatabaseId);
	error = coordinator_transaction(prune, &work);
	if (error != NULL)
		ReThrowError(error);
	if (!work.more)
	{
		pruned_version = version;
		pruned_history = guc_change_history;
	}
	return procedure_prune() || work.more;
}

/* One round of everything there is to do; returns the moment of the next one. */
static LeaseTime
run_cycle(void)
{
	static LeaseTime housekeeping_at = 0;
	LeaseTime	now = lease_clock_now();
	LeaseTime	next = now + TICK_US;
	LeaseTime	procedures_next;
	LeaseTime	sweeps_next;

	stop_point("cycle");
	if (!prepare_cycle(&next))
		return next;
	term_apply_settings();

	procedures_next = procedure_run_due();
	if (procedures_next != 0)
		next = Min(next, procedures_next);

	/* Min() evaluates what it is given twice */
	sweeps_next = sweep_run_due();
	next = Min(next, sweeps_next);

	now = lease_clock_now();
	if (now >= housekeeping_at || housekeeping_at > now + HOUSEKEEPING_US)
	{
		bool		more = keep_house();

		housekeeping_at = more ? now : now + HOUSEKEEPING_US;
		if (more)
			next = now;
	}
	return next;
}

/* What a backend does between two statements of its client. */
static void
clean_up_after_error(void)
{
	AbortCurrentTransaction();
	LWLockReleaseAll();
	ConditionVariableCancelSleep();
	pgstat_report_wait_end();
	MemoryContextSwitchTo(cycle_context);
	FlushErrorState();
	pgstat_report_activity(STATE_IDLE, NULL);
}

/* Runs a cycle and survives its errors; returns how many microseconds to wait, and whether a wake-up shortens that. */
static int64
guarded_cycle(bool *wakeable)
{
	volatile int64 delay = 0;

	*wakeable = true;
	MemoryContextReset(cycle_context);
	MemoryContextSwitchTo(cycle_context);
	PG_TRY();
	{
		int64		left = run_cycle();

		coordinator_entry_count_cycle();
		left -= lease_clock_now();
		delay = Max(left, 0);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		HOLD_INTERRUPTS();
		MemoryContextSwitchTo(cycle_context);
		error = CopyErrorData();
		EmitErrorReport();
		clean_up_after_error();
		delay = coordinator_entry_count_error(error);
		*wakeable = false;
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(cycle_context);
	return delay;
}

/* Waits for a wake-up, or for all of the delay when the last cycle failed. Interrupts are served in any case. */
static void
wait_for_work(int64 delay_us, bool wakeable)
{
	static uint32 wait_event = 0;
	LeaseTime	deadline = lease_clock_now() + delay_us;
	bool		woken = false;

	if (wait_event == 0)
		wait_event = WaitEventExtensionNew("AmoroMetaCoordinatorMain");
	do
	{
		LeaseTime	tick_at = tick_keep_up();
		LeaseTime	now = lease_clock_now();
		int64		left = tick_at != 0 ? Min(deadline, tick_at) - now : deadline - now;

		/* The lease clock may be shifted by a test: never wait for longer than was asked for. */
		left = Min(Max(left, 0), delay_us);
		if (WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, (long) (left + 999) / 1000,
					  wait_event) & WL_LATCH_SET)
			woken = true;
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
			return;
		}
	} while (lease_clock_now() < deadline && !(woken && wakeable));
}

/*
 * Errors can come outside of a cycle as well. A cancellation finds nothing to cancel; whatever else it is must not come
 * again at once.
 */
static void
guarded_wait(int64 delay_us, bool wakeable)
{
	PG_TRY();
	{
		wait_for_work(delay_us, wakeable);
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		if (geterrcode() != ERRCODE_QUERY_CANCELED)
		{
			EmitErrorReport();
			pg_usleep(COORDINATOR_ERROR_DELAY_US);
		}
		clean_up_after_error();
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
}

/* Entry point of the process; its argument is the oid of the database. */
void
amoro_meta_coordinator_main(Datum database)
{
	bool		wakeable;

	worker_connect(DatumGetObjectId(database), coordinator_entry_leave);
	if (!coordinator_entry_announce())
		proc_exit(0);
	/* Only now: who takes the hold after this look finds our pid in the entry. */
	if (lifecycle_is_held(MyDatabaseId))
	{
		(void) coordinator_entry_set_state(COORDINATOR_HELD);
		proc_exit(0);
	}
	coordinator_pin_settings();
	cycle_context = AllocSetContextCreate(TopMemoryContext, "amoro_meta cycle", ALLOCSET_DEFAULT_SIZES);
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	database_name = MemoryContextStrdup(TopMemoryContext, get_database_name(MyDatabaseId));
	CommitTransactionCommand();
	pgstat_report_appname("amoro_meta coordinator");
	pgstat_report_activity(STATE_IDLE, NULL);

	for (;;)
	{
		int64		delay = guarded_cycle(&wakeable);

		guarded_wait(delay, wakeable);
	}
}
