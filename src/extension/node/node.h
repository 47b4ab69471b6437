/*
 * node.h
 *		The registry of the nodes, as the coordinator needs it.
 */
#ifndef AMORO_META_NODE_H
#define AMORO_META_NODE_H

#include "postgres.h"

#include "lease/lease.h"

/* Registers the transaction callbacks of register_node; once, from _PG_init. */
extern void node_install_callbacks(void);
/*
 * For a coordinator that begins a term, in its transaction (SPI connected): whom lease_begin_term has to expect, in
 * the given memory context. previous_term is what the row of amoro_meta.coordinator said before, 0 when there was
 * none. After a change of timeline nodes may be about whose registration was lost in the failover; that too is
 * made durable until their leases are over.
 */
extern RegisteredNode *node_registry_read(int64 previous_term, int64 term, MemoryContext context, int *count);
/*
 * Records which older incarnations hold no lease any more, and forgets those of long ago, in one bounded batch; true
 * when more are left. Called by the coordinator in a transaction (SPI connected), after lease_reap.
 */
extern bool node_registry_prune(void);

#endif							/* AMORO_META_NODE_H */
