/*
 * node_slots.c
 *		The slots of this database as rows, and why each node is where it is.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "change/change.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lease/lease.h"
#include "lease/lease_slot.h"
#include "lease/tick.h"
#include "miscadmin.h"
#include "node/node_grant.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"
#include "utils/uuid.h"

PG_FUNCTION_INFO_V1(amoro_meta_node_slots);
PG_FUNCTION_INFO_V1(amoro_meta_current_term);

#define COLUMN_COUNT 14

/* A copy of what concerns this database, taken under the lock once, so that the rows fit together. */
typedef struct SlotsCopy
{
	LeaseTime	now;
	int64		published_version;
	bool		unseen_owed;
	bool		ticks_missing;	/* rule 11: nobody gets a lease */
	LeaseTime	term_owed_until;
	int			count;
	NodeSlot   *slots;
	LeaseTime  *behind_since;
} SlotsCopy;

/* Copies, having published the version that the caller knows to be committed, for the reason given at lease_frontier. */
static void
copy_slots(SlotsCopy *copy, int64 committed_version)
{
	DatabaseEntry *entry;
	NodeSlot   *slot = NULL;
	int			capacity;
	bool		news = false;

	memset(copy, 0, sizeof(*copy));
	/* Room is made outside the lock; a slot taken meanwhile may need more. */
	do
	{
		if (copy->slots != NULL)
			LWLockRelease(AmoroShared->lock);
		capacity = AmoroShared->slots_end + 1;
		copy->slots = MemoryContextAllocHuge(CurrentMemoryContext, mul_size(capacity, sizeof(NodeSlot)));
		copy->behind_since = MemoryContextAllocHuge(CurrentMemoryContext, mul_size(capacity, sizeof(LeaseTime)));
		LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	} while (AmoroShared->slots_end > capacity);

	copy->now = lease_clock_now();
	entry = database_entry_find(MyDatabaseId);
	if (entry != NULL)
	{
		news = committed_version > entry->published_version;
		lease_publish_locked(entry, committed_version, copy->now, NULL, 0);
		copy->published_version = entry->published_version;
		copy->unseen_owed = entry->unseen_owed;
		copy->ticks_missing = !tick_allows_grant_locked(entry, copy->now);
		copy->term_owed_until = entry->term_owed_until;
		while ((slot = slot_of_database(MyDatabaseId, slot)) != NULL)
		{
			copy->behind_since[copy->count] = lease_behind_since_locked(entry, slot);
			copy->slots[copy->count++] = *slot;
		}
	}
	LWLockRelease(AmoroShared->lock);
	if (news)
		lease_wake_waiters(MyDatabaseId, 0);
}

/*
 * What a caller says to be committed is read again: a version that was invented, or is only about to be committed by this
 * transaction, must not be published. Most callers name one that is published already.
 */
static int64
committed_version(int64 claimed)
{
	static SPIPlanPtr plan = NULL;
	int64		newest = 0;
	bool		isnull;

	if (claimed <= lease_published_version(MyDatabaseId))
		return claimed;
	SPI_connect();
	if (plan == NULL)
	{
		plan = SPI_prepare("SELECT version, xmin FROM amoro_meta.metadata_version", 0, NULL);
		if (plan == NULL || SPI_keepplan(plan) != 0)
			elog(ERROR, "could not prepare to read the newest version: %s", SPI_result_code_string(SPI_result));
	}
	if (SPI_execute_snapshot(plan, NULL, NULL, GetLatestSnapshot(), InvalidSnapshot, true, false, 1) != SPI_OK_SELECT ||
		SPI_processed != 1)
		elog(ERROR, "amoro_meta.metadata_version does not have one row");
	newest = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
	if (claimed <= newest && TransactionIdIsCurrentTransactionId(DatumGetTransactionId(SPI_getbinval(SPI_tuptable->vals[0],
																									   SPI_tuptable->tupdesc, 2,
																									   &isnull))))
		claimed = 0;
	SPI_finish();
	if (claimed > newest)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("version " INT64_FORMAT " is not committed", claimed),
				 errdetail("The newest version is " INT64_FORMAT ".", newest)));
	return claimed;
}

/* The state for people: a lease that is over is not shown as one that may be held, even if nobody has fenced it yet. */
static const char *
state_name(const NodeSlot *slot, LeaseTime now, bool ticks_missing)
{
	if (slot->state == NODE_RELEASED)
		return "released";
	if (slot->state == NODE_FENCED || (slot->state == NODE_ACTIVE && !lease_owed_locked(slot, now)))
		return "fenced";
	if (slot->removing)
		return "leaving";
	if (slot->state == NODE_JOINING)
		return "joining";
	return slot->held || ticks_missing ? "held" : "active";
}

/* Why the node is in that state, or NULL when there is nothing to say. */
static const char *
state_reason(const NodeSlot *slot, LeaseTime behind_since, LeaseTime now, bool ticks_missing)
{
	bool		owed = lease_owed_locked(slot, now);

	if (slot->state == NODE_RELEASED)
		return NULL;
	if (slot->forgotten)
		return "no longer registered, its lease is not over";
	if (slot->superseded)
		return owed ? "superseded by a newer incarnation, its lease is not over" : "superseded by a newer incarnation";
	if (slot->removing)
		return "is being removed";
	if (slot->pending)
		return "its registration is not committed";
	if (ticks_missing)
		return "gets no lease: no synchronous standby confirms that this server is the primary";
	if (slot->state == NODE_JOINING)
		return owed ? "may hold a lease of an older term" : "has to load the metadata and activate";
	if (!owed && slot->kept_out_since != 0)
		return "was fenced because it had not applied a change in time, may not activate for amoro_meta.ack_timeout";
	if (!owed)
		return "its lease ended, it has to reload";
	if (slot->held)
		return "has not applied a change in time, gets no lease";
	return behind_since != 0 ? "has not applied the newest change yet" : NULL;
}

/* A duration as an interval of microseconds; null when there is none. */
static Datum
duration(bool given, int64 us, bool *isnull)
{
	Interval   *interval;

	*isnull = !given;
	if (!given)
		return (Datum) 0;
	interval = palloc0(sizeof(Interval));
	interval->time = us;
	return IntervalPGetDatum(interval);
}

static Datum
optional_text(const char *value, bool *isnull)
{
	*isnull = value == NULL || value[0] == '\0';
	return *isnull ? (Datum) 0 : CStringGetTextDatum(value);
}

static void
put_slot(ReturnSetInfo *result, const SlotsCopy *copy, int index)
{
	NodeSlot   *slot = &copy->slots[index];
	LeaseTime	behind_since = slot->state == NODE_ACTIVE ? copy->behind_since[index] : 0;
	Datum		values[COLUMN_COUNT];
	bool		nulls[COLUMN_COUNT] = {false};

	values[0] = Int64GetDatum(slot->node_id);
	values[1] = UUIDPGetDatum(&slot->incarnation);
	values[2] = BoolGetDatum(!slot->superseded && !slot->pending);
	values[3] = CStringGetTextDatum(state_name(slot, copy->now, copy->ticks_missing));
	values[4] = duration(lease_owed_locked(slot, copy->now), slot->owed_until - copy->now, &nulls[4]);
	values[5] = Int64GetDatum(slot->applied_version);
	values[6] = Int64GetDatum(copy->published_version);
	values[7] = duration(behind_since != 0, copy->now - behind_since, &nulls[7]);
	values[8] = duration(slot->last_heard != 0, copy->now - slot->last_heard, &nulls[8]);
	values[9] = Int64GetDatum(slot->lease_epoch);
	values[10] = Int64GetDatum(slot->heartbeats);
	values[11] = Int64GetDatum(slot->fences);
	values[12] = optional_text(state_reason(slot, behind_since, copy->now, copy->ticks_missing), &nulls[12]);
	values[13] = optional_text(slot->detail, &nulls[13]);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/* Nodes that have no slot, of whom is known only until when they may serve. */
static void
put_unseen(ReturnSetInfo *result, const SlotsCopy *copy)
{
	Datum		values[COLUMN_COUNT];
	bool		nulls[COLUMN_COUNT];

	memset(nulls, true, sizeof(nulls));
	nulls[0] = nulls[2] = nulls[3] = nulls[5] = nulls[6] = nulls[12] = false;
	values[0] = Int64GetDatum(0);
	values[2] = BoolGetDatum(false);
	values[3] = CStringGetTextDatum("unknown");
	values[4] = duration(true, copy->term_owed_until - copy->now, &nulls[4]);
	values[5] = Int64GetDatum(0);
	values[6] = Int64GetDatum(copy->published_version);
	values[12] = CStringGetTextDatum("nodes that this server has no place or no record for may hold leases of an older term");
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/*
 * amoro_meta_node_slots(committed_version bigint) returns setof record: a row for each incarnation that shared memory
 * knows, none without a coordinator. lease_owed_for is null exactly when a verdict need not count it. The argument
 * is a version that the caller has seen committed, 0 for none. Error: 22023 when it is not committed.
 */
Datum
amoro_meta_node_slots(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	SlotsCopy	copy;

	InitMaterializedSRF(fcinfo, 0);
	if (AmoroShared == NULL)
		return (Datum) 0;
	copy_slots(&copy, committed_version(PG_GETARG_INT64(0)));
	for (int i = 0; i < copy.count; i++)
		put_slot(result, &copy, i);
	if (copy.unseen_owed && copy.now <= copy.term_owed_until)
		put_unseen(result, &copy);
	return (Datum) 0;
}

/*
 * amoro_meta_current_term() returns bigint: the term in shared memory, 0 when no coordinator has begun one. Error:
 * 25006 on a standby, whose metadata may be of the past.
 */
Datum
amoro_meta_current_term(PG_FUNCTION_ARGS)
{
	metadata_require_primary();
	PG_RETURN_INT64(lease_current_term());
}
