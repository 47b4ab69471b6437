/*
 * worker_place.h
 *		How the coordinator and the explorer come to their database, and their places in its shared entry.
 */
#ifndef AMORO_META_WORKER_PLACE_H
#define AMORO_META_WORKER_PLACE_H

#include "postgres.h"

#include "shmem.h"
#include "storage/ipc.h"

typedef enum WorkerKind
{
	WORKER_COORDINATOR,
	WORKER_EXPLORER
} WorkerKind;

/* What else changes in the entry with the coming or going of this process; AmoroShared->lock is held. May be NULL. */
typedef void (*WorkerChange) (DatabaseEntry *entry);

/*
 * Connects this process to its database. leave, which is given its oid, is registered before, so it runs after the
 * transaction of an interrupted cycle is aborted, its locks with it.
 */
extern void worker_connect(Oid database, pg_on_exit_callback leave);
/* Enters this process into its place; false when another one is alive there, or the database has no entry. */
extern bool worker_place_enter(WorkerKind kind, WorkerChange change);
/* Takes it out again, if it is there, and tells the launcher. */
extern void worker_place_leave(WorkerKind kind, Oid database, WorkerChange change);
/* Wakes the one of that kind, having changed the entry. Nothing without the library, or without an entry. */
extern void worker_place_wake(WorkerKind kind, Oid database, WorkerChange change);
/* The process id of the one of that kind; 0: none. */
extern pid_t worker_place_pid(WorkerKind kind, Oid database);

#endif							/* AMORO_META_WORKER_PLACE_H */
