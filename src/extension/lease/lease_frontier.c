/*
 * lease_frontier.c
 *		What the coordinator asks before it relies on the nodes: up to which version has
 *		every node that may serve applied the changes, and is a node gone
 *		(docs/protocol.md, section 3, rules 4, 5 and 9).
 */
#include "postgres.h"

#include "lease/lease.h"
#include "lease/lease_slot.h"

/* The earlier of two moments, where 0 is none. */
static LeaseTime
earlier(LeaseTime a, LeaseTime b)
{
	if (a == 0 || b == 0)
		return a + b;
	return Min(a, b);
}

/* Counts one slot into the frontier. A lease that holds it back is over at the microsecond after its end. */
static void
count_slot(DatabaseEntry *entry, NodeSlot *slot, LeaseTime now, LeaseFrontier *frontier)
{
	lease_settle_locked(slot, now);
#ifdef AMORO_WITHOUT_VERDICT
	return;
#endif
	if (!lease_owed_locked(slot, now))
		return;
	frontier->version = Min(frontier->version, slot->applied_version);
	if (slot->applied_version < entry->published_version)
		frontier->next_moment = earlier(frontier->next_moment, slot->owed_until + 1);
	if (slot->applied_version < entry->awaited_version)
		pg_atomic_fetch_add_u32(&entry->awaited_laggards, 1);
}

/* Nodes that no slot stands for hold everything back until the last lease they may have is over. */
static void
count_unseen(DatabaseEntry *entry, LeaseTime now, LeaseFrontier *frontier)
{
	if (entry->unseen_owed && now > entry->term_owed_until)
		entry->unseen_owed = false;
	if (!entry->unseen_owed)
		return;
	frontier->version = 0;
	frontier->next_moment = earlier(frontier->next_moment, entry->term_owed_until + 1);
	pg_atomic_fetch_add_u32(&entry->awaited_laggards, 1);
}

/*
 * lease_frontier returns the newest version that every node has applied that may still serve. Fences, on the way,
 * every slot whose lease is over, before the caller commits anything that relies on it (rule 4).
 *
 * awaited_version, the smallest version that a procedure waits for (0: none), is committed; it is published here
 * if its committer has not come to it yet. Otherwise a node that activates at the version before, the newest that
 * the server would know of, could be overlooked.
 */
LeaseFrontier
lease_frontier(Oid database, int64 awaited_version)
{
	LeaseFrontier frontier = {0, 0};
	DatabaseEntry *entry;
	NodeSlot   *slot = NULL;
	bool		news = false;

	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	if (lease_entry_locked(database, &entry) == LEASE_ACCEPTED)
	{
		LeaseTime	now = lease_clock_now();

		news = awaited_version > entry->published_version;
		lease_publish_locked(entry, awaited_version, now, NULL, 0);
		entry->awaited_version = awaited_version;
		pg_atomic_write_u32(&entry->awaited_laggards, 0);
		frontier.version = entry->published_version;
		while ((slot = slot_of_database(database, slot)) != NULL)
			count_slot(entry, slot, now, &frontier);
		count_unseen(entry, now, &frontier);
	}
	LWLockRelease(AmoroShared->lock);
	if (news)
		lease_wake_waiters(database, 0);
	return frontier;
}

/* lease_reap frees the slots of older incarnations that are owed nothing any more; returns how many. */
int
lease_reap(Oid database)
{
	NodeSlot   *slot = NULL;
	int			freed = 0;

	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	while ((slot = slot_of_database(database, slot)) != NULL)
	{
		LeaseTime	now = lease_clock_now();

		lease_settle_locked(slot, now);
		if (!slot->superseded || lease_owed_locked(slot, now))
			continue;
		slot_free(slot);
		freed++;
	}
	LWLockRelease(AmoroShared->lock);
	return freed;
}

/*
 * lease_node_gone marks every slot of a node as leaving, so that it gets no lease any more; true when none of them
 * is owed one. Else *next_moment is when the first of them is over.
 */
bool
lease_node_gone(Oid database, int64 node_id, LeaseTime *next_moment)
{
	NodeSlot   *slot = NULL;
	bool		gone = true;

	*next_moment = 0;
	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	while ((slot = slot_of_node(database, node_id, slot)) != NULL)
	{
		LeaseTime	now = lease_clock_now();

		slot->removing = true;
		lease_settle_locked(slot, now);
		if (!lease_owed_locked(slot, now))
			continue;
		gone = false;
		*next_moment = earlier(*next_moment, slot->owed_until + 1);
	}
	LWLockRelease(AmoroShared->lock);
	/* a node in a long poll is to hear of it at once */
	lease_wake_waiters(database, node_id);
	return gone;
}

/* lease_node_stays takes the mark of lease_node_gone back. */
void
lease_node_stays(Oid database, int64 node_id)
{
	NodeSlot   *slot = NULL;

	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	while ((slot = slot_of_node(database, node_id, slot)) != NULL)
		slot->removing = false;
	LWLockRelease(AmoroShared->lock);
}

/*
 * lease_forget_node frees the slots of a node whose row is gone. One that is owed a lease all the same counts on,
 * and is reaped when it is over.
 */
void
lease_forget_node(Oid database, int64 node_id)
{
	NodeSlot   *slot;
	NodeSlot   *next;

	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	for (slot = slot_of_node(database, node_id, NULL); slot != NULL; slot = next)
	{
		LeaseTime	now = lease_clock_now();

		next = slot_of_node(database, node_id, slot);
		lease_settle_locked(slot, now);
		if (lease_owed_locked(slot, now))
			slot->superseded = slot->forgotten = true;
		else
			slot_free(slot);
	}
	LWLockRelease(AmoroShared->lock);
	lease_wake_waiters(database, node_id);
}
