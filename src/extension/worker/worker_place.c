/*
 * worker_place.c
 *		How the coordinator and the explorer come to their database, and their places in its shared entry.
 */
#include "worker/worker_place.h"

#include "compat.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/lock.h"
#include "storage/lwlock.h"
#include "tcop/tcopprot.h"
#include "worker/lifecycle.h"

static WorkerPlace *
place_in(DatabaseEntry *entry, WorkerKind kind)
{
	return kind == WORKER_COORDINATOR ? &entry->coordinator : &entry->explorer;
}

/* See worker_place.h. */
void
worker_connect(Oid database, pg_on_exit_callback leave)
{
	before_shmem_exit(leave, ObjectIdGetDatum(database));
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	/* Not a flag of our own: a wait for a synchronous standby ends for this one only, and so does a fast shutdown. */
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(database, InvalidOid, 0);
}

/* See worker_place.h. */
bool
worker_place_enter(WorkerKind kind, WorkerChange change)
{
	DatabaseEntry *entry;
	LOCKTAG		tag;

	SET_LOCKTAG_AMORO(tag, MyDatabaseId, kind == WORKER_COORDINATOR ? LOCK_CLASS_COORDINATOR : LOCK_CLASS_EXPLORER);
	if (LockAcquire(&tag, ExclusiveLock, /* sessionLock= */ true, /* dontWait= */ true) == LOCKACQUIRE_NOT_AVAIL)
		return false;
	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	entry = database_entry_find(MyDatabaseId);
	if (entry != NULL)
	{
		place_in(entry, kind)->pid = MyProcPid;
		place_in(entry, kind)->proc = MyProcNumber;
		if (change != NULL)
			change(entry);
	}
	LWLockRelease(AmoroShared->lock);
	return entry != NULL;
}

/* See worker_place.h. */
void
worker_place_leave(WorkerKind kind, Oid database, WorkerChange change)
{
	DatabaseEntry *entry;

	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	entry = database_entry_find(database);
	if (entry != NULL && place_in(entry, kind)->pid == MyProcPid)
	{
		place_in(entry, kind)->pid = 0;
		place_in(entry, kind)->proc = INVALID_PROC_NUMBER;
		if (change != NULL)
			change(entry);
	}
	database_entry_set_latch(AmoroShared->launcher_proc);
	LWLockRelease(AmoroShared->lock);
}

/* See worker_place.h. */
void
worker_place_wake(WorkerKind kind, Oid database, WorkerChange change)
{
	DatabaseEntry *entry;

	if (AmoroShared == NULL)
		return;
	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	entry = database_entry_find(database);
	if (entry != NULL)
	{
		if (change != NULL)
			change(entry);
		place_in(entry, kind)->wakes++;
		database_entry_set_latch(place_in(entry, kind)->proc);
	}
	LWLockRelease(AmoroShared->lock);
}

/* See worker_place.h. */
pid_t
worker_place_pid(WorkerKind kind, Oid database)
{
	DatabaseEntry *entry;
	pid_t		pid;

	if (AmoroShared == NULL)
		return 0;
	LWLockAcquire(AmoroShared->lock, LW_SHARED);
	entry = database_entry_find(database);
	pid = entry == NULL ? 0 : place_in(entry, kind)->pid;
	LWLockRelease(AmoroShared->lock);
	return pid;
}
