/*
 * lease_registration.c
 *		A slot from the call of register_node to the end of its transaction, and the
 *		errors that refuse a node (docs/protocol.md, section 3, rules 3 and 9).
 *
 * The slot exists from the call on, but gets no lease before the registration is
 * committed: a lease that only a rolled back, or lost, row speaks of could not be
 * counted after a restart.
 */
#include "postgres.h"

#include "error_codes.h"
#include "lease/lease.h"
#include "lease/lease_slot.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "utils/acl.h"
#include "utils/fmgrprotos.h"
#include "utils/uuid.h"

/* For how long a call waits for a coordinator that is just being started. */
#define START_PATIENCE_US (2 * 1000 * 1000)

/*
 * A new slot; when none is free, that of an older process of the same node which serves nothing any more. Should the
 * registration be rolled back, that process, if it still lives, finds itself unknown and registers again.
 */
static NodeSlot *
take_place(const LeaseRequest *request)
{
	NodeSlot   *slot = slot_take(request->database, request->node_id, &request->incarnation, request->role);
	NodeSlot   *older = NULL;

	while (slot == NULL && (older = slot_of_node(request->database, request->node_id, older)) != NULL)
	{
		LeaseTime	now = lease_clock_now();

		lease_settle_locked(older, now);
		if (older->pending || lease_owed_locked(older, now))
			continue;
		slot_free(older);
		slot = slot_take(request->database, request->node_id, &request->incarnation, request->role);
	}
	return slot;
}

/*
 * lease_register makes, or finds, the slot of an incarnation. The caller holds the lock on the node's row, so the
 * registrations of one node come in order; *registration is the number of this one.
 */
LeaseRefusal
lease_register(const LeaseRequest *request, LeaseGrant *grant, int64 *registration)
{
	DatabaseEntry *entry;
	NodeSlot   *slot = NULL;
	LeaseRefusal refusal;

	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	refusal = lease_entry_locked(request->database, &entry);
	if (refusal == LEASE_ACCEPTED && entry->settings.lease_us <= 0)
		refusal = LEASE_NO_SETTINGS;
	if (refusal == LEASE_ACCEPTED)
	{
		slot = slot_find(request->database, request->node_id, &request->incarnation);
		if (slot == NULL)
		{
			slot = take_place(request);
			if (slot != NULL)
				slot->pending = true;
			else
				refusal = LEASE_NO_SLOT;
		}
		else if (slot->superseded && !slot->forgotten)
			refusal = LEASE_STALE_INCARNATION;
	}
	if (refusal == LEASE_ACCEPTED)
	{
		if (slot->state == NODE_RELEASED)
			slot->state = NODE_JOINING;
		slot->last_heard = lease_clock_now();
		*registration = slot->registration = ++AmoroShared->registrations;
		grant->answer = GRANT_RELOAD;
		grant->reason = "registered";
		lease_describe_locked(entry, slot, grant);
	}
	LWLockRelease(AmoroShared->lock);
	return refusal;
}

/*
 * lease_registration_committed makes an incarnation the current one of its node: older ones get no lease any more,
 * and count until theirs is over. Runs after commit, so it must not fail; a slot that cannot be had any more is
 * found missing by the node's next call.
 */
void
lease_registration_committed(const LeaseRequest *request, int64 registration)
{
	NodeSlot   *slot;
	NodeSlot   *other = NULL;
	bool		newest = true;

	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	slot = slot_find(request->database, request->node_id, &request->incarnation);
	if (slot == NULL)
		slot = slot_take(request->database, request->node_id, &request->incarnation, request->role);
	while ((other = slot_of_node(request->database, request->node_id, other)) != NULL)
	{
		if (other == slot)
			continue;
		/* a later registration may have committed before this one came to say so */
		if (other->registration > registration)
			newest = newest && other->pending;
		else
			other->superseded = true;
	}
	if (slot != NULL)
	{
		slot->pending = false;
		slot->superseded = !newest;
		slot->forgotten = false;
		slot->role = request->role;
	}
	LWLockRelease(AmoroShared->lock);
	lease_wake_waiters(request->database, request->node_id);
}

/* lease_registration_rolled_back frees the slot again; it was never granted anything. */
void
lease_registration_rolled_back(const LeaseRequest *request)
{
	NodeSlot   *slot;

	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	slot = slot_find(request->database, request->node_id, &request->incarnation);
	if (slot != NULL && slot->pending)
		slot_free(slot);
	LWLockRelease(AmoroShared->lock);
}

/* lease_incarnation_known tells whether an incarnation has a slot that may still be owed a lease. */
bool
lease_incarnation_known(const LeaseRequest *request)
{
	NodeSlot   *slot;
	bool		known;

	LWLockAcquire(AmoroShared->lock, LW_SHARED);
	slot = slot_find(request->database, request->node_id, &request->incarnation);
	known = slot != NULL && slot->state != NODE_RELEASED;
	LWLockRelease(AmoroShared->lock);
	return known;
}

/* lease_unseen_owed tells whether nodes that have no slot may hold leases of an older term. */
bool
lease_unseen_owed(Oid database)
{
	DatabaseEntry *entry;
	bool		owed;

	LWLockAcquire(AmoroShared->lock, LW_SHARED);
	owed = lease_entry_locked(database, &entry) != LEASE_ACCEPTED ||
		(entry->unseen_owed && lease_clock_now() <= entry->term_owed_until);
	LWLockRelease(AmoroShared->lock);
	return owed;
}

/* Whether the first coordinator of this database, or of this server start, is on its way. */
static bool
coordinator_is_coming(LeaseRefusal *refusal)
{
	DatabaseEntry *entry;
	bool		coming;

	LWLockAcquire(AmoroShared->lock, LW_SHARED);
	*refusal = lease_entry_locked(MyDatabaseId, &entry);
	coming = *refusal == LEASE_NO_COORDINATOR &&
		(entry == NULL || entry->state == COORDINATOR_NONE || entry->state == COORDINATOR_STARTING ||
		 entry->state == COORDINATOR_ABSENT);	/* the caller proves that to be out of date */
	LWLockRelease(AmoroShared->lock);
	return coming;
}

/*
 * lease_require_coordinator raises AM005 unless this database has a term that was begun in this server start. It
 * waits a moment for one that is coming: a script goes on right after CREATE EXTENSION.
 */
void
lease_require_coordinator(void)
{
	LeaseRequest request = {.database = MyDatabaseId};
	LeaseRefusal refusal = LEASE_NO_COORDINATOR;
	LeaseTime	end = lease_clock_now() + START_PATIENCE_US;

	while (AmoroShared != NULL && coordinator_is_coming(&refusal) && lease_clock_now() < end)
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 10, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	if (refusal != LEASE_ACCEPTED)
		lease_raise(refusal, &request);
}

/* Raises what concerns the server rather than the node. */
static void
raise_server_refusal(LeaseRefusal refusal)
{
	LeaseSettings settings;
	const char *message;
	const char *detail;

	if (refusal == LEASE_NOT_ADOPTED)
		ereport(ERROR,
				(errcode(ERRCODE_AMORO_COORDINATOR_NOT_RUNNING),
				 errmsg("the metadata of this database belongs to another database"),
				 errdetail("It was copied or restored, and is not coordinated here until it is adopted."),
				 errhint("SELECT adopt_database();")));
	if (refusal == LEASE_NO_COORDINATOR)
		ereport(ERROR,
				(errcode(ERRCODE_AMORO_COORDINATOR_NOT_RUNNING),
				 errmsg("no coordinator has started in this database"),
				 AmoroShared == NULL ?
				 errhint("Add amoro_meta to shared_preload_libraries and restart the server.") :
				 errhint("SELECT * FROM amoro_stat_coordinator;")));
	if (refusal == LEASE_NO_SLOT)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("no room for another node"),
				 errdetail("All %d places for nodes are taken.", AmoroShared->max_nodes),
				 errhint("Raise amoro_meta.max_nodes and restart the server.")));
	if (refusal == LEASE_NO_SETTINGS)
	{
		bool		fit = lease_settings_check(&settings, &message, &detail);

		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("no leases can be granted: %s", fit ? "the settings have just been corrected" : message),
				 fit ? 0 : errdetail_internal("%s", detail),
				 errhint("Correct the settings in the configuration file, then SELECT pg_reload_conf();")));
	}
}

/* lease_raise raises the error that belongs to a refusal. */
void
lease_raise(LeaseRefusal refusal, const LeaseRequest *request)
{
	char	   *incarnation = DatumGetCString(DirectFunctionCall1(uuid_out, UUIDPGetDatum(&request->incarnation)));

	raise_server_refusal(refusal);
	if (refusal == LEASE_UNKNOWN_NODE || refusal == LEASE_RELEASED)
		ereport(ERROR,
				(errcode(ERRCODE_AMORO_UNKNOWN_NODE),
				 refusal == LEASE_UNKNOWN_NODE ?
				 errmsg("node " INT64_FORMAT " is unknown", request->node_id) :
				 errmsg("node " INT64_FORMAT " has released its lease", request->node_id),
				 errhint("SELECT register_node(node_name, incarnation);")));
	if (refusal == LEASE_OTHER_ROLE)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("node " INT64_FORMAT " belongs to another role", request->node_id),
				 errdetail("Only the role that registered a node may speak for it.")));
	if (refusal == LEASE_STALE_INCARNATION)
		ereport(ERROR,
				(errcode(ERRCODE_AMORO_STALE_INCARNATION),
				 errmsg("incarnation %s of node " INT64_FORMAT " is not the current one", incarnation, request->node_id),
				 errdetail("A newer process has registered under the name of this node."),
				 errhint("Stop this process, or register it under a name of its own.")));
	if (refusal == LEASE_STALE_TERM)
		ereport(ERROR,
				(errcode(ERRCODE_AMORO_STALE_TERM),
				 errmsg("this server has not reached term " INT64_FORMAT, request->term),
				 errdetail("The node has been in touch with a newer primary."),
				 errhint("Connect to the current primary server.")));
	elog(ERROR, "unexpected refusal %d", (int) refusal);
}
