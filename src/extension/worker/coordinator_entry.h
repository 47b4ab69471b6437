/*
 * coordinator_entry.h
 *		The coordinator in the shared entry of its database.
 */
#ifndef AMORO_META_COORDINATOR_ENTRY_H
#define AMORO_META_COORDINATOR_ENTRY_H

#include "postgres.h"

#include "shmem.h"

/* How long it stays away after an error; twice as long after each that follows, up to ten seconds. */
#define COORDINATOR_ERROR_DELAY_US (100 * 1000)

/* Enters this process into the entry of its database; false when another one is alive there. */
extern bool coordinator_entry_announce(void);
/* Takes the process out of the entry and tells the launcher; see worker_connect. */
extern void coordinator_entry_leave(int code, Datum database);
/* Sets the state in the entry; true when it was another one, which is then worth a line in the log. */
extern bool coordinator_entry_set_state(CoordinatorState state);
/* Counts a cycle that came to its end. */
extern void coordinator_entry_count_cycle(void);
/* Counts a failed cycle; returns how long to stay away from the next one. */
extern int64 coordinator_entry_count_error(const ErrorData *error);
/* True once after coordinator_recheck. */
extern bool coordinator_entry_take_recheck(void);

#endif							/* AMORO_META_COORDINATOR_ENTRY_H */
