/*
 * coordinator_entry.c
 *		The coordinator in the shared entry of its database: how it is woken, and how it fares.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "shmem.h"
#include "storage/lwlock.h"
#include "utils/timestamp.h"
#include "worker/coordinator.h"
#include "worker/coordinator_entry.h"
#include "worker/worker_place.h"

#define LONGEST_ERROR_DELAY_US (10 * 1000 * 1000)

/* See coordinator.h. */
void
coordinator_wake(Oid database)
{
	worker_place_wake(WORKER_COORDINATOR, database, NULL);
}

static void
ask_for_recheck(DatabaseEntry *entry)
{
	entry->recheck = true;
}

/* See coordinator.h. */
void
coordinator_recheck(Oid database)
{
	worker_place_wake(WORKER_COORDINATOR, database, ask_for_recheck);
}

static void
note_leave(DatabaseEntry *entry)
{
	entry->stopped_at[0] = '\0';
	if (entry->state != COORDINATOR_ABSENT && entry->state != COORDINATOR_HELD)
		entry->state = COORDINATOR_BACKOFF;
}

/* See coordinator_entry.h. */
void
coordinator_entry_leave(int code, Datum database)
{
	worker_place_leave(WORKER_COORDINATOR, DatumGetObjectId(database), note_leave);
}

static void
note_start(DatabaseEntry *entry)
{
	entry->state = COORDINATOR_STARTING;
	entry->started_at = GetCurrentTimestamp();
	entry->starts++;
	entry->healthy = false;
	entry->consecutive_failures = 0;
	entry->backoff_until = 0;
}

/* See coordinator_entry.h. */
bool
coordinator_entry_announce(void)
{
	return worker_place_enter(WORKER_COORDINATOR, note_start);
}

/* See coordinator_entry.h. */
bool
coordinator_entry_set_state(CoordinatorState state)
{
	DatabaseEntry *entry;
	bool		changed;

	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	entry = database_entry_find(MyDatabaseId);
	changed = entry->state != state;
	entry->state = state;
	/* whoever sees it run may terminate it: that is no failure to start */
	entry->healthy = entry->healthy || state == COORDINATOR_RUNNING;
	/* an explorer is there while the coordinator works */
	if (changed)
		database_entry_set_latch(AmoroShared->launcher_proc);
	LWLockRelease(AmoroShared->lock);
	return changed;
}

/* See coordinator_entry.h. */
void
coordinator_entry_count_cycle(void)
{
	DatabaseEntry *entry;

	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	entry = database_entry_find(MyDatabaseId);
	entry->cycles++;
	entry->last_cycle_at = GetCurrentTimestamp();
	entry->healthy = true;
	entry->consecutive_failures = 0;
	entry->backoff_until = 0;
	LWLockRelease(AmoroShared->lock);
}

/* See coordinator_entry.h. */
int64
coordinator_entry_count_error(const ErrorData *error)
{
	DatabaseEntry *entry;
	int64		delay;

	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	entry = database_entry_find(MyDatabaseId);
	delay = Min(COORDINATOR_ERROR_DELAY_US << Min(entry->consecutive_failures, 10), LONGEST_ERROR_DELAY_US);
	entry->errors++;
	entry->consecutive_failures++;
	entry->last_error_code = error->sqlerrcode;
	strlcpy(entry->last_error, error->message ? error->message : "", sizeof(entry->last_error));
	entry->backoff_until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), delay / 1000);
	LWLockRelease(AmoroShared->lock);
	return delay;
}

/* See coordinator_entry.h. */
bool
coordinator_entry_take_recheck(void)
{
	DatabaseEntry *entry;
	bool		recheck;

	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	entry = database_entry_find(MyDatabaseId);
	recheck = entry->recheck;
	entry->recheck = false;
	LWLockRelease(AmoroShared->lock);
	return recheck;
}
