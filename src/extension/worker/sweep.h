/*
 * sweep.h
 *		What the coordinator does again and again: SQL functions, one bounded transaction at a time.
 */
#ifndef AMORO_META_SWEEP_H
#define AMORO_META_SWEEP_H

#include "postgres.h"

#include "shmem.h"

/*
 * For the coordinator: runs the sweep that is due for the longest time, once. Returns when the next one is due, which
 * may be now. An error in a sweep is recorded, not raised; an error before it began is raised as by coordinator_transaction.
 */
extern LeaseTime sweep_run_due(void);
/* Called from _PG_init. */
extern void sweep_install_callbacks(void);
/* Sets counters and last errors to nothing; when a sweep is due stays. The caller holds AmoroShared->lock exclusively. */
extern void sweep_reset_locked(DatabaseEntry *entry);

#endif							/* AMORO_META_SWEEP_H */
