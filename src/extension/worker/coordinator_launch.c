/*
 * coordinator_launch.c
 *		Starts and follows coordinators. See the header.
 */
#include "postgres.h"

#include <signal.h>

#include "common/pg_prng.h"
#include "compat.h"
#include "lease/lease.h"
#include "miscadmin.h"
#include "shmem.h"
#include "utils/timestamp.h"
#include "worker/coordinator_launch.h"
#include "worker/lifecycle.h"

#define SECOND_US INT64CONST(1000000)
/* After a coordinator that had worked; and doubled from there after each one that had not. */
#define FIRST_BACKOFF_US (SECOND_US / 2)
#define LONGEST_BACKOFF_US (60 * SECOND_US)
#define HOLD_RETRY_US (SECOND_US / 5)
#define STARTUP_TIMEOUT_US (30 * SECOND_US)
/* Probes must not take all worker slots of the server at once. */
#define MOST_AT_ONCE 2

static bool no_slot_reported = false;

/* Copies the entry of a database; false when it has none. */
static bool
copy_entry(Oid database, DatabaseEntry *copy)
{
	DatabaseEntry *entry;

	LWLockAcquire(AmoroShared->lock, LW_SHARED);
	entry = database_entry_find(database);
	if (entry != NULL)
		memcpy(copy, entry, offsetof(DatabaseEntry, publish_times));
	LWLockRelease(AmoroShared->lock);
	return entry != NULL;
}

/* Claims the entry and sets its state; false when all entries are taken. */
static bool
set_entry_state(Oid database, CoordinatorState state, int64 backoff_us)
{
	DatabaseEntry *entry;

	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	entry = database_entry_claim(database);
	if (entry != NULL)
	{
		entry->state = state;
		entry->healthy = false;
		entry->backoff_until = backoff_us == 0 ? 0 :
			TimestampTzPlusMilliseconds(GetCurrentTimestamp(), backoff_us / 1000);
	}
	LWLockRelease(AmoroShared->lock);
	return entry != NULL;
}

static void
forget_state(Oid database)
{
	DatabaseEntry *entry;

	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	entry = database_entry_find(database);
	if (entry != NULL)
	{
		entry->state = COORDINATOR_NONE;
		entry->backoff_until = 0;
	}
	LWLockRelease(AmoroShared->lock);
}

/* See the header. */
void
coordinator_release_entry(Watch *watch)
{
	DatabaseEntry *entry;

	lease_forget_database(watch->database);
	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	entry = database_entry_find(watch->database);
	if (entry != NULL)
	{
		entry->term = 0;
		if (!watch->exists || entry->highest_term == 0)
			entry->database = InvalidOid;
	}
	LWLockRelease(AmoroShared->lock);
}

static void
back_off(Watch *watch)
{
	int64		delay = Min(FIRST_BACKOFF_US << Min(watch->failures, 10), LONGEST_BACKOFF_US);

	/* Scattered by a tenth, so that databases which failed together do not start together for ever. */
	delay += (int64) (delay / 10.0 * pg_prng_double(&pg_global_prng_state));
	watch->state = WATCH_WAITING;
	watch->due = lease_clock_now() + delay;
	(void) set_entry_state(watch->database, COORDINATOR_BACKOFF, delay);
}

/* A start that could not even be tried. One line in the log until one succeeds again. */
static void
report_no_slot(Watch *watch)
{
	watch->failures++;
	back_off(watch);
	if (no_slot_reported)
		return;
	no_slot_reported = true;
	ereport(WARNING,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("amoro_meta could not start the coordinator of database \"%s\": no free background worker slot",
					watch->name),
			 errdetail("It is tried again, at longer and longer intervals."),
			 errhint("Increase max_worker_processes and restart the server.")));
}

static void
start_coordinator(Watch *watch)
{
	BackgroundWorker worker = {0};
	DatabaseEntry entry;
	MemoryContext old;
	bool		registered;

	/* After a restart of this process its predecessor's coordinators are still there. */
	if (copy_entry(watch->database, &entry) && entry.coordinator.pid != 0)
	{
		watch->state = WATCH_RUNNING;
		return;
	}
	if (lifecycle_is_held(watch->database))
	{
		(void) set_entry_state(watch->database, COORDINATOR_HELD, 0);
		watch->due = lease_clock_now() + HOLD_RETRY_US;
		return;
	}
	watch->probe_again = false;
	if (!set_entry_state(watch->database, COORDINATOR_STARTING, 0))
	{
		report_no_slot(watch);
		return;
	}

	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION | BGWORKER_INTERRUPTIBLE;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	/* This process alone restarts it; two who do make two coordinators. */
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker.bgw_library_name, "amoro_meta", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "amoro_meta_coordinator_main", sizeof(worker.bgw_function_name));
	snprintf(worker.bgw_name, sizeof(worker.bgw_name), "amoro_meta coordinator of %s", watch->name);
	strlcpy(worker.bgw_type, "amoro_meta coordinator", sizeof(worker.bgw_type));
	worker.bgw_main_arg = ObjectIdGetDatum(watch->database);
	worker.bgw_notify_pid = MyProcPid;
	old = MemoryContextSwitchTo(launcher_context);
	registered = RegisterDynamicBackgroundWorker(&worker, &watch->handle);
	MemoryContextSwitchTo(old);
	if (!registered)
	{
		watch->handle = NULL;
		report_no_slot(watch);
		return;
	}
	no_slot_reported = false;
	watch->state = WATCH_STARTING;
	watch->due = lease_clock_now() + STARTUP_TIMEOUT_US;
}

/* A worker slot has become free: who could not be started for want of one need not wait for the end of its delay. */
static void
retry_for_slot(void)
{
	ListCell   *cell;

	if (!no_slot_reported)
		return;
	foreach(cell, database_watches)
	{
		if (((Watch *) lfirst(cell))->state == WATCH_WAITING)
			((Watch *) lfirst(cell))->due = 0;
	}
}

/* The process has ended; its entry says why. */
static void
coordinator_ended(Watch *watch)
{
	DatabaseEntry entry;
	bool		known = copy_entry(watch->database, &entry);

	if (watch->handle != NULL)
		pfree(watch->handle);
	watch->handle = NULL;

	if (known && entry.coordinator.pid != 0)
		watch->state = WATCH_RUNNING;	/* another one was there before it */
	else if (known && entry.state == COORDINATOR_ABSENT)
	{
		coordinator_release_entry(watch);
		watch->state = WATCH_ABSENT;
		watch->failures = 0;
		watch->due = watch->probe_again ? 0 : lease_clock_now() + DATABASE_SWEEP_US;
		retry_for_slot();
	}
	else if ((known && entry.state == COORDINATOR_HELD) || lifecycle_is_held(watch->database))
	{
		watch->state = WATCH_WAITING;
		watch->due = lease_clock_now();
	}
	else
	{
		watch->failures = known && entry.healthy ? 0 : watch->failures + 1;
		back_off(watch);
	}
}

static void
stop_coordinator(Watch *watch)
{
	DatabaseEntry entry;

	if (watch->handle != NULL)
		TerminateBackgroundWorker(watch->handle);
	else if (copy_entry(watch->database, &entry) && entry.coordinator.pid != 0)
		(void) kill(entry.coordinator.pid, SIGTERM);
}

/* Follows a process that should be there. */
static void
follow_coordinator(Watch *watch)
{
	DatabaseEntry entry;
	bool		announced = copy_entry(watch->database, &entry) && entry.coordinator.pid != 0;
	pid_t		pid;

	if (watch->handle != NULL ? GetBackgroundWorkerPid(watch->handle, &pid) == BGWH_STOPPED : !announced)
	{
		coordinator_ended(watch);
		return;
	}
	if (!watch->wanted)
		stop_coordinator(watch);
	else if (announced)
		watch->state = WATCH_RUNNING;
	else if (lease_clock_now() >= watch->due)
	{
		/* A fork that failed, or a library that does not load: there may never be any other sign of it. */
		stop_coordinator(watch);
		watch->due = lease_clock_now() + STARTUP_TIMEOUT_US;
	}
}

/* See the header. */
int
coordinator_count_starting(void)
{
	ListCell   *cell;
	int			count = 0;

	foreach(cell, database_watches)
		count += ((Watch *) lfirst(cell))->state == WATCH_STARTING;
	return count;
}

/* See the header. */
void
coordinator_attend(Watch *watch)
{
	if (watch->state == WATCH_STARTING || watch->state == WATCH_RUNNING)
		follow_coordinator(watch);
	if (watch->state != WATCH_WAITING && watch->state != WATCH_ABSENT)
		return;
	if (!watch->wanted)
	{
		/* Its leases stay as they are: a coordinator that does not run fences nobody. */
		if (watch->state == WATCH_WAITING)
			forget_state(watch->database);
		watch->state = WATCH_ABSENT;
	}
	else if (lease_clock_now() >= watch->due && coordinator_count_starting() < MOST_AT_ONCE)
		start_coordinator(watch);
}

/* See the header. */
bool
coordinator_is_at_work(const Watch *watch)
{
	DatabaseEntry entry;

	return watch->wanted && watch->state == WATCH_RUNNING && copy_entry(watch->database, &entry) &&
		entry.state == COORDINATOR_RUNNING;
}

/* See the header. */
bool
coordinator_lacks_slot(void)
{
	return no_slot_reported;
}
