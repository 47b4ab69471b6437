/*
 * tick.h
 *		Proof that this server is still the primary of its synchronous standbys (docs/protocol.md, rule 11).
 */
#ifndef AMORO_META_TICK_H
#define AMORO_META_TICK_H

#include "postgres.h"

#include "shmem.h"

/*
 * For the coordinator, at any time outside a critical section: takes note of what the standbys have confirmed, and
 * writes a tick when one is due. Returns when it wants to be called again; 0 when no ticks are required. Never waits.
 */
extern LeaseTime tick_keep_up(void);
/* For the coordinator: ticks that were written up to now confirm nothing of what it has written since. */
extern void tick_start_over(void);
/* Whether a lease may be granted now. The caller holds AmoroShared->lock. */
extern bool tick_allows_grant_locked(const DatabaseEntry *entry, LeaseTime now);

#endif							/* AMORO_META_TICK_H */
