/*
 * lease.c
 *		What a node asks of the server: heartbeat, activation, release (docs/protocol.md, section 3).
 *
 * A request is decided, and its effect recorded, while AmoroShared->lock is held
 * once: shared and with the slot's mutex by heartbeats, which change nothing but the
 * slot, else exclusively. The clock is read after the locks were got, so the moments
 * in a slot are in the order of its grants, and whoever holds the lock exclusively
 * sees every grant of a moment before.
 */
#include "postgres.h"

#include "lease/lease.h"
#include "lease/lease_slot.h"
#include "lease/tick.h"
#include "miscadmin.h"

/* Rule 11, and what the node says of itself then. */
static const char *const no_tick = "no synchronous standby confirms that this server is the primary";

/* Finds the entry of a database that has a term; the caller holds the lock. */
LeaseRefusal
lease_entry_locked(Oid database, DatabaseEntry **entry)
{
	*entry = database_entry_find(database);
	if (*entry == NULL || (*entry)->state == COORDINATOR_ABSENT)
		return LEASE_NO_COORDINATOR;
	if ((*entry)->state == COORDINATOR_NOT_ADOPTED)
		return LEASE_NOT_ADOPTED;
	return (*entry)->term == 0 ? LEASE_NO_COORDINATOR : LEASE_ACCEPTED;
}

/*
 * lease_find_party_locked finds the slot of the node that speaks, and checks that it may: the role that registered it, in its
 * current incarnation (rule 3). An older incarnation may do nothing but release.
 *
 * Who knows a newer term is told so first: a deposed server must not call a node unknown or superseded. And of an
 * incarnation from an older timeline that has no slot nobody knows whether it was superseded, or its registration lost
 * in the failover: it registers again, and is refused there if it was superseded. The same holds for one from before
 * the extension was created again, whose id names another node by now.
 */
LeaseRefusal
lease_find_party_locked(const LeaseRequest *request, DatabaseEntry **entry, NodeSlot **slot)
{
	LeaseRefusal refusal = lease_entry_locked(request->database, entry);
	NodeSlot   *any;

	if (refusal != LEASE_ACCEPTED)
		return refusal;
	if (request->term > (*entry)->term)
		return LEASE_STALE_TERM;
	any = slot_of_node(request->database, request->node_id, NULL);
	*slot = slot_find(request->database, request->node_id, &request->incarnation);
	if (any == NULL)
		return LEASE_UNKNOWN_NODE;
	if (*slot == NULL && request->term != 0 &&
		(request->term >> 32 < (*entry)->term >> 32 || request->term < (*entry)->first_term))
		return LEASE_UNKNOWN_NODE;
	if (any->role != request->role)
		return LEASE_OTHER_ROLE;
	return *slot != NULL ? LEASE_ACCEPTED : LEASE_STALE_INCARNATION;
}

/* As lease_find_party_locked, for a request that may extend a lease. */
static LeaseRefusal
find_holder(const LeaseRequest *request, DatabaseEntry **entry, NodeSlot **slot)
{
	LeaseRefusal refusal = lease_find_party_locked(request, entry, slot);

	if (refusal != LEASE_ACCEPTED)
		return refusal;
	/* whose registration went with the extension is told to register, not to stop: no newer process has its name */
	if ((*slot)->superseded)
		return (*slot)->forgotten ? LEASE_UNKNOWN_NODE : LEASE_STALE_INCARNATION;
	if ((*slot)->state == NODE_RELEASED)
		return LEASE_RELEASED;
	if ((*entry)->settings.lease_us <= 0)
		return LEASE_NO_SETTINGS;
	if (request->term == (*entry)->term && request->version > (*entry)->published_version && !request->ahead_is_final)
		return LEASE_AHEAD;
	return LEASE_ACCEPTED;
}

/* Whether a verdict has to count the slot: its node may hold a lease (rules 4, 5, 9). */
bool
lease_owed_locked(const NodeSlot *slot, LeaseTime now)
{
	return (slot->state == NODE_ACTIVE || slot->state == NODE_JOINING) &&
		slot->owed_until != 0 && now <= slot->owed_until;
}

/*
 * Rule 4: fences a slot whose lease is over, epoch and state in one act. A heartbeat in flight with the old epoch
 * cannot revive it, whoever looked first: this, the coordinator or the heartbeat itself.
 */
void
lease_settle_locked(NodeSlot *slot, LeaseTime now)
{
	if (slot->owed_until == 0 || now <= slot->owed_until)
		return;
#ifndef AMORO_WITHOUT_FENCING
	if (slot->state == NODE_ACTIVE)
	{
		slot->state = NODE_FENCED;
		slot->kept_out_since = slot->held ? now : 0;
		slot->held = false;
		slot->lease_epoch++;
		slot->fences++;
	}
#endif
	slot->owed_until = 0;
}

/*
 * Counts down the nodes that hold back the version that is awaited, when one of them gives way; returns whom to
 * wake when it was the last. That the count is only a hint keeps it simple: too low wakes the coordinator for
 * nothing, and lease_frontier sets it right each time.
 */
static ProcNumber
laggard_gives_way(DatabaseEntry *entry)
{
	if (entry->awaited_version == 0 || (int32) pg_atomic_sub_fetch_u32(&entry->awaited_laggards, 1) > 0)
		return INVALID_PROC_NUMBER;
	return entry->coordinator.proc;
}

/* Whether the slot is one of those that lease_frontier counted as holding back the awaited version. */
static bool
is_laggard(const DatabaseEntry *entry, const NodeSlot *slot)
{
	return (slot->state == NODE_ACTIVE || slot->state == NODE_JOINING) && slot->owed_until != 0 &&
		slot->applied_version < entry->awaited_version;
}

/* Rule 1 and 2: the lease is owed from the moment of the grant, by the settings of the moment, and never less than before. */
static void
record_grant(const DatabaseEntry *entry, NodeSlot *slot, LeaseTime now)
{
	slot->last_grant = now;
#ifdef AMORO_WITHOUT_OWED_LEASES
	slot->owed_until = now;
#else
	slot->owed_until = Max(slot->owed_until, now + entry->settings.owed_us);
#endif
}

/* Rule 8: a node that has not applied a change within ack_timeout of its publication is held back. */
static bool
applies_too_slowly(const DatabaseEntry *entry, NodeSlot *slot, LeaseTime now)
{
	slot->behind_since = lease_behind_since_locked(entry, slot);
	return slot->behind_since != 0 && now - slot->behind_since > entry->settings.ack_timeout_us;
}

/* Sets an answer without a lease. */
static void
answer_without(LeaseGrant *grant, GrantAnswer answer, const char *reason)
{
	grant->answer = answer;
	grant->reason = reason;
}

/* Rule 3, what heartbeats and activations have in common; false when the answer is given. */
static bool
may_be_granted(const DatabaseEntry *entry, const NodeSlot *slot, const LeaseRequest *request, LeaseGrant *grant)
{
	if (slot->removing)
		answer_without(grant, GRANT_LEAVE, "the node is being removed");
	else if (request->term != entry->term)
		answer_without(grant, GRANT_RELOAD, "the server has begun a new term");
	else if (request->lease_epoch != slot->lease_epoch)
		answer_without(grant, GRANT_RELOAD, "the node was fenced");
	else if (request->version > entry->published_version)
		answer_without(grant, GRANT_RELOAD, "the node is ahead of the server");
	else
		return true;
	return false;
}

/* Decides a heartbeat (rules 3, 4 and 8). The ack counts even when no lease is given. */
static void
answer_heartbeat(const DatabaseEntry *entry, NodeSlot *slot, const LeaseRequest *request, LeaseTime now,
				 LeaseGrant *grant)
{
	bool		current = request->term == entry->term && request->lease_epoch == slot->lease_epoch &&
		request->version <= entry->published_version && slot->state == NODE_ACTIVE;

	if (current)
		slot->applied_version = Max(slot->applied_version, request->version);
	if (!may_be_granted(entry, slot, request, grant))
		return;
	if (slot->state != NODE_ACTIVE)
		answer_without(grant, GRANT_RELOAD, "the node has not been activated");
	else if ((slot->held = applies_too_slowly(entry, slot, now)))
		answer_without(grant, GRANT_HELD, "the node has not applied a change in time");
	else if (!tick_allows_grant_locked(entry, now))
		answer_without(grant, GRANT_HELD, no_tick);
	else
	{
		record_grant(entry, slot, now);
		grant->answer = GRANT_GRANTED;
	}
}

/*
 * Rule 8: a node that was fenced because it did not keep up may activate, which needs no change to be applied, only when
 * ack_timeout is over: the next steps of the changes that have waited for it come meanwhile and do not wait again.
 */
static bool
kept_out(const DatabaseEntry *entry, const NodeSlot *slot, LeaseTime now)
{
	return slot->kept_out_since != 0 && now - slot->kept_out_since <= entry->settings.ack_timeout_us;
}

/* Decides an activation (rule 6): it is the first grant, given only at the current version. */
static void
answer_activation(const DatabaseEntry *entry, NodeSlot *slot, const LeaseRequest *request, LeaseTime now,
				  LeaseGrant *grant)
{
	if (!may_be_granted(entry, slot, request, grant))
		return;
	if (slot->pending)
		answer_without(grant, GRANT_RELOAD, "the registration is not committed yet");
	else if (kept_out(entry, slot, now))
		answer_without(grant, GRANT_HELD, "the node had not applied a change in time, and is kept out for a while");
	else if (request->version < entry->published_version)
		answer_without(grant, GRANT_BEHIND, "the metadata has changed since it was loaded");
	else if (!tick_allows_grant_locked(entry, now))
		answer_without(grant, GRANT_HELD, no_tick);
	else
	{
		slot->state = NODE_ACTIVE;
		slot->held = false;
		slot->behind_since = 0;
		slot->kept_out_since = 0;
		slot->applied_version = request->version;
		record_grant(entry, slot, now);
		grant->answer = GRANT_GRANTED;
	}
}

/* Fills in what every answer carries. */
void
lease_describe_locked(const DatabaseEntry *entry, const NodeSlot *slot, LeaseGrant *grant)
{
	grant->term = entry->term;
	grant->lease_epoch = slot->lease_epoch;
	grant->metadata_version = entry->published_version;
	grant->heartbeat = slot->heartbeats;
	grant->settings = entry->settings;
}

typedef void (*AnswerFunction) (const DatabaseEntry *, NodeSlot *, const LeaseRequest *, LeaseTime, LeaseGrant *);

/* Heartbeat and activation: settle, decide, describe; returns whom to wake when a version it awaits moved on. */
static ProcNumber
answer_request(DatabaseEntry *entry, NodeSlot *slot, const LeaseRequest *request, AnswerFunction answer, LeaseGrant *grant)
{
	LeaseTime	now = lease_clock_now();
	bool		lagged = is_laggard(entry, slot);

	slot->last_heard = now;
	slot->heartbeats++;
	strlcpy(slot->detail, request->detail != NULL ? request->detail : "", SLOT_TEXT_SIZE);
	lease_settle_locked(slot, now);
	answer(entry, slot, request, now, grant);
	lease_describe_locked(entry, slot, grant);
	return lagged && !is_laggard(entry, slot) ? laggard_gives_way(entry) : INVALID_PROC_NUMBER;
}

/*
 * lease_heartbeat extends the lease of an active node and takes its applied version as its ack. Sets *grant
 * unless the request is refused. grant->waiting says that there is no news and lease_wait_for_news is to be called.
 */
LeaseRefusal
lease_heartbeat(const LeaseRequest *request, LeaseGrant *grant)
{
	DatabaseEntry *entry;
	NodeSlot   *slot;
	LeaseRefusal refusal;
	ProcNumber	coordinator = INVALID_PROC_NUMBER;
	ProcNumber	replaced = INVALID_PROC_NUMBER;

	memset(grant, 0, sizeof(*grant));
	LWLockAcquire(AmoroShared->lock, LW_SHARED);
	refusal = find_holder(request, &entry, &slot);
	if (refusal == LEASE_ACCEPTED)
	{
		SpinLockAcquire(&slot->mutex);
		coordinator = answer_request(entry, slot, request, answer_heartbeat, grant);
		grant->waiting = request->wait_us > 0 && grant->answer == GRANT_GRANTED &&
			entry->published_version <= request->version;
		if (grant->waiting)
		{
			replaced = slot->waiter;
			slot->waiter = MyProcNumber;
		}
		SpinLockRelease(&slot->mutex);
		lease_news_copy_locked(entry, request, grant);
	}
	LWLockRelease(AmoroShared->lock);
	database_entry_set_latch(coordinator);
	/* An older request of the same node that still waits here is woken, to find that it is not the newest. */
	if (replaced != MyProcNumber)
		database_entry_set_latch(replaced);
	return refusal;
}

/* lease_activate gives a node that has loaded the metadata its first lease of this epoch. */
LeaseRefusal
lease_activate(const LeaseRequest *request, LeaseGrant *grant)
{
	DatabaseEntry *entry;
	NodeSlot   *slot;
	LeaseRefusal refusal;
	ProcNumber	coordinator = INVALID_PROC_NUMBER;

	memset(grant, 0, sizeof(*grant));
	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	refusal = find_holder(request, &entry, &slot);
	if (refusal == LEASE_ACCEPTED)
		coordinator = answer_request(entry, slot, request, answer_activation, grant);
	LWLockRelease(AmoroShared->lock);
	database_entry_set_latch(coordinator);
	return refusal;
}

/*
 * lease_release ends a lease at once (rule 9); an older incarnation may release too. *released is false when
 * there was nothing left to release.
 */
LeaseRefusal
lease_release(const LeaseRequest *request, bool *released)
{
	DatabaseEntry *entry;
	NodeSlot   *slot;
	LeaseRefusal refusal;
	ProcNumber	coordinator = INVALID_PROC_NUMBER;
	ProcNumber	waiter = INVALID_PROC_NUMBER;

	*released = false;
	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	refusal = lease_find_party_locked(request, &entry, &slot);
	if (refusal == LEASE_ACCEPTED && slot->state != NODE_RELEASED)
	{
		bool		lagged = is_laggard(entry, slot);

		/* who waits for the node to leave waits for no version, and is woken too */
		coordinator = slot->removing ? entry->coordinator.proc : INVALID_PROC_NUMBER;
		slot->state = NODE_RELEASED;
		slot->held = false;
		slot->lease_epoch++;
		slot->owed_until = 0;
		slot->behind_since = 0;
		/* a heartbeat that waits here for news has none to wait for any more */
		waiter = slot->waiter;
		slot->waiter = INVALID_PROC_NUMBER;
		*released = true;
		if (lagged && coordinator == INVALID_PROC_NUMBER)
			coordinator = laggard_gives_way(entry);
	}
	LWLockRelease(AmoroShared->lock);
	database_entry_set_latch(coordinator);
	database_entry_set_latch(waiter);
	return refusal;
}
