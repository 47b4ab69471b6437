/*
 * blocker_count.h
 *		Counters of calls on table blockers, in shared memory: no row is written for them. Without preload there are none.
 */
#ifndef AMORO_META_BLOCKER_COUNT_H
#define AMORO_META_BLOCKER_COUNT_H

#include "postgres.h"

#include "shmem.h"

/* One more, also if the transaction is rolled back later. */
extern void blocker_count(BlockerCount what);
/* Sets them to nothing; AmoroShared->lock is held exclusively. */
extern void blocker_count_reset_locked(DatabaseEntry *entry);

#endif							/* AMORO_META_BLOCKER_COUNT_H */
