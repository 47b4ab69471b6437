/*
 * lease_slot.h
 *		Finding, taking and freeing slots. The caller holds AmoroShared->lock, exclusively to change anything.
 */
#ifndef AMORO_META_LEASE_SLOT_H
#define AMORO_META_LEASE_SLOT_H

#include "postgres.h"

#include "shmem.h"

/* The slot of one incarnation, or NULL. */
extern NodeSlot *slot_find(Oid database, int64 node_id, const pg_uuid_t *incarnation);
/* All slots of a node: give NULL for the first, the last answer for the next; NULL at the end. */
extern NodeSlot *slot_of_node(Oid database, int64 node_id, const NodeSlot *previous);
/* All slots of a database, in the same manner. */
extern NodeSlot *slot_of_database(Oid database, const NodeSlot *previous);
/* A new slot, joining, owed nothing; NULL when none is free. */
extern NodeSlot *slot_take(Oid database, int64 node_id, const pg_uuid_t *incarnation, Oid role);
extern void slot_free(NodeSlot *slot);

#endif							/* AMORO_META_LEASE_SLOT_H */
