/*
 * leadership.c
 *		What the lease of a node says about a service that the node leads (src/schema/leadership.sql).
 *
 * A tenure belongs to one lease: it is of one incarnation of a node, in one term and
 * lease epoch. It is held while that lease is owed; it is surely over when the lease
 * was released or has ended.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lease/lease.h"
#include "lease/lease_slot.h"
#include "miscadmin.h"
#include "node/node_grant.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

PG_FUNCTION_INFO_V1(amoro_meta_candidate_lease);
PG_FUNCTION_INFO_V1(amoro_meta_tenure_lease);
PG_FUNCTION_INFO_V1(amoro_meta_commit_durably);

static Datum
interval_datum(int64 us)
{
	Interval   *interval = palloc0(sizeof(Interval));

	interval->time = us;
	return IntervalPGetDatum(interval);
}

static TupleDesc
result_shape(FunctionCallInfo fcinfo)
{
	TupleDesc	shape;

	if (get_call_result_type(fcinfo, NULL, &shape) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "the function does not return a row");
	return BlessTupleDesc(shape);
}

/* Why a node may not begin to lead; NULL: it may. The slot's lease was settled. */
static const char *
unfit_because(const NodeSlot *slot, LeaseTime now)
{
	if (slot->superseded)
		return "a newer process has registered under the name of the node";
	if (slot->pending)
		return "the registration of the node is not committed";
	if (slot->removing)
		return "the node is being removed";
	if (slot->held)
		return "the node has not applied a change in time and gets no lease";
	if (slot->state != NODE_ACTIVE || !lease_owed_locked(slot, now))
		return "the node holds no lease";
	return NULL;
}

/*
 * amoro_meta_candidate_lease(node_id bigint, incarnation uuid) returns the term and lease epoch of the node, and why it
 * may not begin to lead (null: it may). Errors: AM002, AM003, AM005, 42501, 22004, 25006 as those of a heartbeat.
 */
Datum
amoro_meta_candidate_lease(PG_FUNCTION_ARGS)
{
	LeaseRequest request = {.database = MyDatabaseId};
	LeaseRefusal refusal;
	DatabaseEntry *entry;
	NodeSlot   *slot;
	Datum		values[3] = {0};
	bool		nulls[3] = {false};
	const char *reason = NULL;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("node_id and incarnation must not be null")));
	node_require_primary();
	lease_require_coordinator();
	request.role = GetOuterUserId();
	request.node_id = PG_GETARG_INT64(0);
	request.incarnation = *PG_GETARG_UUID_P(1);
	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	refusal = lease_find_party_locked(&request, &entry, &slot);
	if (refusal == LEASE_ACCEPTED)
	{
		LeaseTime	now = lease_clock_now();

		lease_settle_locked(slot, now);
		reason = unfit_because(slot, now);
		values[0] = Int64GetDatum(entry->term);
		values[1] = Int64GetDatum(slot->lease_epoch);
	}
	LWLockRelease(AmoroShared->lock);
	if (refusal != LEASE_ACCEPTED)
		lease_raise(refusal, &request);
	nulls[2] = reason == NULL;
	values[2] = nulls[2] ? (Datum) 0 : CStringGetTextDatum(reason);
	return HeapTupleGetDatum(heap_form_tuple(result_shape(fcinfo), values, nulls));
}

/*
 * For how long a tenure may go on; 0: it is surely over. In its own term that is as long as the lease is owed in which it was
 * begun. In a later one the node may be stopping what it led, although it is active again by now, but no longer than the
 * longest lease of before.
 */
static int64
tenure_owed_us(const DatabaseEntry *entry, NodeSlot *slot, int64 term, int64 epoch, LeaseTime now, bool *held)
{
	lease_settle_locked(slot, now);
#ifdef AMORO_WITHOUT_TENURES
	return 0;
#endif
	if (slot->state == NODE_RELEASED)
		return 0;
	if (entry->term != term)
		return now <= entry->term_owed_until ? entry->term_owed_until - now + 1 : 0;
	if (slot->lease_epoch != epoch || !lease_owed_locked(slot, now))
		return 0;
	*held = slot->state == NODE_ACTIVE;
	return slot->owed_until - now + 1;
}

static Datum
unknown_tenure(FunctionCallInfo fcinfo)
{
	return HeapTupleGetDatum(heap_form_tuple(result_shape(fcinfo), (Datum[2]) {0}, (bool[2]) {true, true}));
}

/*
 * amoro_meta_tenure_lease(node_id bigint, incarnation uuid, term bigint, lease_epoch bigint) returns (held boolean,
 * owed_for interval): whether the tenure is held now, and for how long it may still be (null: it is surely over). With
 * nulls for a service of which no tenure is known: after a failover, or where nodes found no place, there may be one all
 * the same, and until the leases that this server does not know of are over nothing is sure. held is null on a standby
 * and without a coordinator: nothing is known.
 */
Datum
amoro_meta_tenure_lease(PG_FUNCTION_ARGS)
{
	DatabaseEntry *entry;
	NodeSlot   *slot = NULL;
	int64		owed_us = 0;
	bool		held = false;
	bool		known;
	Datum		values[2];
	bool		nulls[2] = {false};

	if (RecoveryInProgress() || AmoroShared == NULL)
		return unknown_tenure(fcinfo);
	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	known = lease_entry_locked(MyDatabaseId, &entry) == LEASE_ACCEPTED;
	if (known)
	{
		LeaseTime	now = lease_clock_now();

		if (!PG_ARGISNULL(0))
			slot = slot_find(MyDatabaseId, PG_GETARG_INT64(0), PG_GETARG_UUID_P(1));
		if (slot != NULL)
			owed_us = tenure_owed_us(entry, slot, PG_GETARG_INT64(2), PG_GETARG_INT64(3), now, &held);
		/* what was granted on the tail of the log that a failover lost */
		if (entry->unseen_owed && now <= entry->term_owed_until && !held)
			owed_us = Max(owed_us, entry->term_owed_until - now + 1);
	}
	LWLockRelease(AmoroShared->lock);
	if (!known)
		return unknown_tenure(fcinfo);
	values[0] = BoolGetDatum(held);
	nulls[1] = owed_us == 0;
	values[1] = nulls[1] ? (Datum) 0 : interval_datum(owed_us);
	return HeapTupleGetDatum(heap_form_tuple(result_shape(fcinfo), values, nulls));
}

/* amoro_meta_commit_durably() makes the commit of this transaction wait for the disk, whatever synchronous_commit says. */
Datum
amoro_meta_commit_durably(PG_FUNCTION_ARGS)
{
	ForceSyncCommit();
	PG_RETURN_VOID();
}
