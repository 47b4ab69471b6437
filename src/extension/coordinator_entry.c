/*
 * coordinator_entry.c
 *		The coordinator in the shared entry of its database: how it is woken, and how it fares.
 */
#include "postgres.h"

#include "compat.h"
#include "coordinator.h"
#include "coordinator_entry.h"
#include "lifecycle.h"
#include "miscadmin.h"
#include "shmem.h"
#include "storage/lock.h"
#include "storage/lwlock.h"
#include "utils/timestamp.h"

#define LONGEST_ERROR_DELAY_US (10 * 1000 * 1000)

static void
wake(Oid database, bool recheck)
{
	DatabaseEntry *entry;

	if (AmoroShared == NULL)
		return;
	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	entry = database_entry_find(database);
	if (entry != NULL)
	{
		entry->recheck = entry->recheck || recheck;
		database_entry_set_latch(entry->coordinator_proc);
	}
	LWLockRelease(AmoroShared->lock);
}

/* See coordinator.h. */
void
coordinator_wake(Oid database)
{
	wake(database, false);
}

/* See coordinator.h. */
void
coordinator_recheck(Oid database)
{
	wake(database, true);
}

/* See coordinator_entry.h. */
void
coordinator_entry_leave(int code, Datum database)
{
	DatabaseEntry *entry;

	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	entry = database_entry_find(DatumGetObjectId(database));
	if (entry != NULL && entry->coordinator_pid == MyProcPid)
	{
		entry->coordinator_pid = 0;
		entry->coordinator_proc = INVALID_PROC_NUMBER;
		entry->stopped_at[0] = '\0';
		if (entry->state != COORDINATOR_ABSENT && entry->state != COORDINATOR_HELD)
			entry->state = COORDINATOR_BACKOFF;
	}
	database_entry_set_latch(AmoroShared->launcher_proc);
	LWLockRelease(AmoroShared->lock);
}

/* See coordinator_entry.h. */
bool
coordinator_entry_announce(void)
{
	DatabaseEntry *entry;
	LOCKTAG		tag;

	SET_LOCKTAG_AMORO(tag, MyDatabaseId, LOCK_CLASS_COORDINATOR);
	if (LockAcquire(&tag, ExclusiveLock, /* sessionLock= */ true, /* dontWait= */ true) == LOCKACQUIRE_NOT_AVAIL)
		return false;

	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	entry = database_entry_find(MyDatabaseId);
	if (entry != NULL)
	{
		entry->coordinator_pid = MyProcPid;
		entry->coordinator_proc = MyProcNumber;
		entry->state = COORDINATOR_STARTING;
		entry->started_at = GetCurrentTimestamp();
		entry->starts++;
		entry->healthy = false;
		entry->consecutive_failures = 0;
		entry->backoff_until = 0;
	}
	LWLockRelease(AmoroShared->lock);
	return entry != NULL;
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
