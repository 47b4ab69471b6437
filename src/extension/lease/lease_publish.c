/*
 * lease_publish.c
 *		The newest committed version in shared memory, when each of the last ones came,
 *		and the heartbeats that wait for news (docs/protocol.md, section 5).
 */
#include "postgres.h"

#include "lease/lease.h"
#include "lease/lease_slot.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"

/* How many waiters are collected under the lock at a time. */
#define WAKE_BATCH 512

/*
 * lease_publish_locked makes a committed version known, if it is news, and notes the moment for rule 8. Versions
 * that were skipped (a change of timeline) came at the same moment. news is what changed with this version; NULL
 * when the caller does not know.
 */
void
lease_publish_locked(DatabaseEntry *entry, int64 version, LeaseTime now, const char *news, int news_length)
{
	int64		previous = entry->published_version;
	int64		oldest = Max(previous + 1, version - PUBLISH_RING_SIZE + 1);

	if (version <= previous)
		return;
	/* downwards: there is no number beyond the greatest to stop at */
	for (int64 v = version; v >= oldest; v--)
		entry->publish_times[v % PUBLISH_RING_SIZE] = now;
	entry->ring_oldest_version = Max(entry->ring_oldest_version, version - PUBLISH_RING_SIZE + 1);
	entry->published_version = version;
	lease_news_append_locked(entry, previous, news, news_length);
}

/*
 * lease_behind_since_locked returns since when a node lacks a change: when the first version it has not applied
 * was published. If that moment is no longer known, the one noted before holds, or the oldest known; 0 when the
 * node is not behind.
 */
LeaseTime
lease_behind_since_locked(const DatabaseEntry *entry, const NodeSlot *slot)
{
	int64		missing = slot->applied_version + 1;

	if (missing > entry->published_version)
		return 0;
	if (missing >= entry->ring_oldest_version)
		return entry->publish_times[missing % PUBLISH_RING_SIZE];
	if (slot->behind_since != 0)
		return slot->behind_since;
	return entry->publish_times[entry->ring_oldest_version % PUBLISH_RING_SIZE];
}

/*
 * Takes up to WAKE_BATCH waiters from the slots from *next on, one lock a batch; the latches are set outside of it. The
 * lock is held shared, so those that were woken already can go on. Who comes to wait meanwhile has seen the news.
 */
static int
collect_waiters(Oid database, int64 node_id, int32 *next, ProcNumber *waiters)
{
	int			count = 0;

	LWLockAcquire(AmoroShared->lock, LW_SHARED);
	for (; *next < AmoroShared->slots_end && count < WAKE_BATCH; (*next)++)
	{
		NodeSlot   *slot = &AmoroNodeSlots[*next];

		if (slot->waiter == INVALID_PROC_NUMBER || slot->database != database ||
			(node_id != 0 && slot->node_id != node_id))
			continue;
		SpinLockAcquire(&slot->mutex);
		waiters[count++] = slot->waiter;
		slot->waiter = INVALID_PROC_NUMBER;
		SpinLockRelease(&slot->mutex);
	}
	LWLockRelease(AmoroShared->lock);
	return count;
}

/*
 * lease_wake_waiters wakes the heartbeats that wait for news: of one node, or of all when node_id is 0. Each is
 * taken off its slot first, so a burst of changes wakes it once. It allocates nothing: it runs after commit.
 */
void
lease_wake_waiters(Oid database, int64 node_id)
{
	ProcNumber	waiters[WAKE_BATCH];
	int32		next = 0;

	while (next < AmoroShared->slots_end)
	{
		int			count = collect_waiters(database, node_id, &next, waiters);

		for (int i = 0; i < count; i++)
			database_entry_set_latch(waiters[i]);
	}
}

/*
 * lease_publish makes a version known that was just committed, and wakes who waits for news. Must not fail: the
 * commit has happened. news is what changed with it, as text; NULL when that is too much.
 */
void
lease_publish(Oid database, int64 version, const char *news, int news_length)
{
	DatabaseEntry *entry;

	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	entry = database_entry_find(database);
	if (entry != NULL)
		lease_publish_locked(entry, version, lease_clock_now(), news, news_length);
	LWLockRelease(AmoroShared->lock);
	lease_wake_waiters(database, 0);
}

/* lease_published_version returns the newest version known in shared memory, 0 when none is. */
int64
lease_published_version(Oid database)
{
	DatabaseEntry *entry;
	int64		version;

	LWLockAcquire(AmoroShared->lock, LW_SHARED);
	entry = database_entry_find(database);
	version = entry != NULL ? entry->published_version : 0;
	LWLockRelease(AmoroShared->lock);
	return version;
}

/*
 * lease_wait_for_version waits until a version is published; false when it is not within wait_us. A change can be
 * read a moment before its committer comes to publish it, so a node may speak of it too early.
 */
bool
lease_wait_for_version(Oid database, int64 version, int64 wait_us)
{
	LeaseTime	end = lease_clock_now() + wait_us;

	while (lease_published_version(database) < version)
	{
		if (lease_clock_now() >= end)
			return false;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 1, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	return true;
}

/*
 * Looks whether there is anything to tell a waiting node: a version it has not applied, or that it is not what it
 * was, or that it has asked again meanwhile. When not, leaves the latch of this backend in the slot.
 */
static void
look_for_news(const LeaseRequest *request, LeaseGrant *grant)
{
	DatabaseEntry *entry;
	NodeSlot   *slot;

	LWLockAcquire(AmoroShared->lock, LW_SHARED);
	slot = slot_find(request->database, request->node_id, &request->incarnation);
	grant->waiting = false;
	if (slot != NULL && lease_entry_locked(request->database, &entry) == LEASE_ACCEPTED)
	{
		bool		same;

		SpinLockAcquire(&slot->mutex);
		same = entry->term == request->term && slot->lease_epoch == request->lease_epoch &&
			slot->heartbeats == grant->heartbeat && !slot->superseded && !slot->removing;
		grant->waiting = same && entry->published_version <= request->version;
		if (grant->waiting)
			slot->waiter = MyProcNumber;
		else if (slot->waiter == MyProcNumber)
			slot->waiter = INVALID_PROC_NUMBER;
		SpinLockRelease(&slot->mutex);
		grant->metadata_version = entry->published_version;
		if (same)
			lease_news_copy_locked(entry, request, grant);
	}
	LWLockRelease(AmoroShared->lock);
}

/* Takes the latch of this backend out of the slot again. */
static void
stop_waiting(const LeaseRequest *request)
{
	NodeSlot   *slot;

	LWLockAcquire(AmoroShared->lock, LW_SHARED);
	slot = slot_find(request->database, request->node_id, &request->incarnation);
	if (slot != NULL)
	{
		SpinLockAcquire(&slot->mutex);
		if (slot->waiter == MyProcNumber)
			slot->waiter = INVALID_PROC_NUMBER;
		SpinLockRelease(&slot->mutex);
	}
	LWLockRelease(AmoroShared->lock);
}

/*
 * lease_wait_for_news, after a heartbeat with nothing new, waits until there is a version newer than
 * request->version, or something else happened to the node, or request->wait_us have passed. Puts the newest version
 * into *grant, and the changes if they are wanted and at hand.
 */
void
lease_wait_for_news(const LeaseRequest *request, LeaseGrant *grant)
{
	LeaseTime	end = lease_clock_now() + request->wait_us;

	PG_TRY();
	{
		while (grant->waiting)
		{
			int64		left = end - lease_clock_now();

			if (left <= 0)
				break;
			(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, (long) (left / 1000 + 1),
							 PG_WAIT_EXTENSION);
			ResetLatch(MyLatch);
			CHECK_FOR_INTERRUPTS();
			look_for_news(request, grant);
		}
	}
	PG_FINALLY();
	{
		if (grant->waiting)
			stop_waiting(request);
	}
	PG_END_TRY();
}
