/*
 * lease_slot.c
 *		The slots of the nodes: chained in hash buckets by database and node, so that the
 *		incarnations of one node share a chain, and in a list of free ones.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "lease/lease_slot.h"

static int32 *
bucket_of(Oid database, int64 node_id)
{
	uint32		hash = hash_combine(hash_bytes_uint32(database),
									hash_bytes((const unsigned char *) &node_id, sizeof(node_id)));

	return &AmoroNodeBuckets[hash % AmoroShared->max_nodes];
}

static inline NodeSlot *
slot_at(int32 index)
{
	return index < 0 ? NULL : &AmoroNodeSlots[index];
}

static inline bool
slot_is_of(const NodeSlot *slot, Oid database, int64 node_id)
{
	return slot->node_id == node_id && slot->database == database;
}

/* See lease_slot.h. */
NodeSlot *
slot_of_node(Oid database, int64 node_id, const NodeSlot *previous)
{
	NodeSlot   *slot = slot_at(previous != NULL ? previous->next_in_bucket : *bucket_of(database, node_id));

	while (slot != NULL && !slot_is_of(slot, database, node_id))
		slot = slot_at(slot->next_in_bucket);
	return slot;
}

/* See lease_slot.h. */
NodeSlot *
slot_find(Oid database, int64 node_id, const pg_uuid_t *incarnation)
{
	NodeSlot   *slot = NULL;

	while ((slot = slot_of_node(database, node_id, slot)) != NULL)
	{
		if (memcmp(&slot->incarnation, incarnation, sizeof(pg_uuid_t)) == 0)
			return slot;
	}
	return NULL;
}

/* See lease_slot.h. */
NodeSlot *
slot_of_database(Oid database, const NodeSlot *previous)
{
	int32		index = previous != NULL ? (int32) (previous - AmoroNodeSlots) + 1 : 0;

	for (; index < AmoroShared->slots_end; index++)
	{
		NodeSlot   *slot = &AmoroNodeSlots[index];

		if (slot->state != NODE_SLOT_FREE && slot->database == database)
			return slot;
	}
	return NULL;
}

/* See lease_slot.h. */
NodeSlot *
slot_take(Oid database, int64 node_id, const pg_uuid_t *incarnation, Oid role)
{
	int32		index = AmoroShared->first_free_slot;
	NodeSlot   *slot = slot_at(index);
	int32	   *bucket = bucket_of(database, node_id);

	if (slot == NULL)
		return NULL;
	AmoroShared->first_free_slot = slot->next_in_bucket;
	AmoroShared->slots_end = Max(AmoroShared->slots_end, index + 1);

	memset(slot, 0, sizeof(*slot));
	slot->database = database;
	slot->state = NODE_JOINING;
	slot->node_id = node_id;
	slot->incarnation = *incarnation;
	slot->role = role;
	SpinLockInit(&slot->mutex);
	slot->waiter = INVALID_PROC_NUMBER;
	slot->lease_epoch = 1;
	slot->next_in_bucket = *bucket;
	*bucket = index;
	return slot;
}

/* slot_free gives a slot back. Who waits in it finds out by looking it up again. */
void
slot_free(NodeSlot *slot)
{
	int32		index = (int32) (slot - AmoroNodeSlots);
	int32	   *link = bucket_of(slot->database, slot->node_id);

	while (*link != index)
		link = &AmoroNodeSlots[*link].next_in_bucket;
	*link = slot->next_in_bucket;

	memset(slot, 0, sizeof(*slot));
	slot->waiter = INVALID_PROC_NUMBER;
	slot->next_in_bucket = AmoroShared->first_free_slot;
	AmoroShared->first_free_slot = index;
}
