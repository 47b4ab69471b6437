/*
 * task_seat.c
 *		Seats of a process: one for each of its tasks that is handed out.
 *
 * A claim takes a seat; only the newest claim of a seat can still be held. So the tasks
 * that are handed out are counted by looking at each seat once, from the end of its
 * claims, however many of them there were: counting them in an index of those that are
 * would mean to walk over all that were, for as long as a snapshot keeps them.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "common/hashfn.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "task_seat.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* First key of an advisory lock, see README.md. */
#define SEAT_LOCK 1095565315

/* So many seats are looked at in passing. */
#define SAMPLE 4
/* More claims than that in one process are not begun at the same time. */
#define MAX_UNCOMMITTED 1024

/* The relations that are looked at, open, and the snapshot. Not by SQL: a statement costs more than a few lookups. */
typedef struct SeatScan
{
	int64		process_id;
	Relation	claim;
	Relation	claim_index;	/* process_id, seat, seat_number */
	Relation	task;
	Relation	task_index;		/* process_id, task_id */
	Snapshot	snapshot;
} SeatScan;

static Relation
open_relation(const char *name, bool is_index)
{
	Oid			relation = get_relname_relid(name, get_namespace_oid("amoro_meta", false));

	if (!OidIsValid(relation))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation amoro_meta.%s does not exist", name)));
	return is_index ? index_open(relation, AccessShareLock) : table_open(relation, AccessShareLock);
}

static SeatScan
begin_scan(int64 process_id)
{
	return (SeatScan) {
		.process_id = process_id,
		.claim = open_relation("task_claim", false),
		.claim_index = open_relation("task_claim_process_id_seat_seat_number_key", true),
		.task = open_relation("task", false),
		.task_index = open_relation("task_pkey", true),
		.snapshot = RegisterSnapshot(GetTransactionSnapshot())
	};
}

static void
end_scan(SeatScan *scan)
{
	UnregisterSnapshot(scan->snapshot);
	index_close(scan->task_index, AccessShareLock);
	table_close(scan->task, AccessShareLock);
	index_close(scan->claim_index, AccessShareLock);
	table_close(scan->claim, AccessShareLock);
}

static int32
integer_of(Relation relation, HeapTuple row, const char *column)
{
	bool		is_null;
	Datum		value = heap_getattr(row, get_attnum(RelationGetRelid(relation), column), RelationGetDescr(relation), &is_null);

	return is_null ? 0 : DatumGetInt32(value);
}

static void
equal_key(ScanKey key, Relation relation, const char *column, RegProcedure equal, Datum value)
{
	ScanKeyInit(key, get_attnum(RelationGetRelid(relation), column), BTEqualStrategyNumber, equal, value);
}

/* Whether a task is still handed out by that attempt. */
static bool
is_handed_out(SeatScan *scan, int32 task_id, int32 attempt)
{
	ScanKeyData keys[2];
	SysScanDesc lookup;
	HeapTuple	row;
	bool		held = false;

	equal_key(&keys[0], scan->task, "process_id", F_INT8EQ, Int64GetDatum(scan->process_id));
	equal_key(&keys[1], scan->task, "task_id", F_INT4EQ, Int32GetDatum(task_id));
	lookup = systable_beginscan_ordered(scan->task, scan->task_index, scan->snapshot, 2, keys);
	row = systable_getnext_ordered(lookup, ForwardScanDirection);
	if (row != NULL && integer_of(scan->task, row, "attempt") == attempt)
	{
		bool		is_null;
		Datum		state = heap_getattr(row, get_attnum(RelationGetRelid(scan->task), "state"),
										 RelationGetDescr(scan->task), &is_null);
		char	   *name = DatumGetCString(DirectFunctionCall1(enum_out, state));

		held = strcmp(name, "SCHEDULED") == 0 || strcmp(name, "ACKED") == 0;
	}
	systable_endscan_ordered(lookup);
	return held;
}

/* Looks at the newest claim of a seat: returns its number, 0 for none, and whether its task is still handed out. */
static int32
look_at_seat(SeatScan *scan, int32 seat, bool *taken)
{
	ScanKeyData keys[2];
	SysScanDesc lookup;
	HeapTuple	row;
	int32		number = 0;

	*taken = false;
	equal_key(&keys[0], scan->claim, "process_id", F_INT8EQ, Int64GetDatum(scan->process_id));
	equal_key(&keys[1], scan->claim, "seat", F_INT4EQ, Int32GetDatum(seat));
	lookup = systable_beginscan_ordered(scan->claim, scan->claim_index, scan->snapshot, 2, keys);
	row = systable_getnext_ordered(lookup, BackwardScanDirection);
	if (row != NULL)
	{
		number = integer_of(scan->claim, row, "seat_number");
		*taken = is_handed_out(scan, integer_of(scan->claim, row, "task_id"), integer_of(scan->claim, row, "attempt"));
	}
	systable_endscan_ordered(lookup);
	return number;
}

/* The highest seat that was ever taken, 0 for none. */
static int32
highest_seat(SeatScan *scan)
{
	ScanKeyData key;
	SysScanDesc lookup;
	HeapTuple	row;
	int32		seat = 0;

	equal_key(&key, scan->claim, "process_id", F_INT8EQ, Int64GetDatum(scan->process_id));
	lookup = systable_beginscan_ordered(scan->claim, scan->claim_index, scan->snapshot, 1, &key);
	row = systable_getnext_ordered(lookup, BackwardScanDirection);
	if (row != NULL)
		seat = integer_of(scan->claim, row, "seat");
	systable_endscan_ordered(lookup);
	return seat;
}

static bool
lock_seat(int64 process_id, int32 seat)
{
	uint32		hash = hash_combine(hash_uint32((uint32) process_id ^ (uint32) (process_id >> 32)), hash_uint32((uint32) seat));

	return DatumGetBool(DirectFunctionCall2(pg_try_advisory_xact_lock_int4, Int32GetDatum(SEAT_LOCK),
											Int32GetDatum((int32) hash)));
}

/* Takes a seat that looked free: it is locked first, and looked at again as it is committed by then. */
static bool
take(SeatScan *scan, int32 seat, TaskSeat *taken)
{
	bool		held;
	int32		number;

	if (!lock_seat(scan->process_id, seat))
		return false;
	UnregisterSnapshot(scan->snapshot);
	scan->snapshot = RegisterSnapshot(GetTransactionSnapshot());
	number = look_at_seat(scan, seat, &held);
	if (held)
		return false;
	*taken = (TaskSeat) {seat, number + 1};
	return true;
}

/* Takes the first free one of count seats. */
static bool
take_one_of(SeatScan *scan, int32 first, int32 count, TaskSeat *taken)
{
	for (int32 i = 0; i < count; i++)
	{
		bool		held;

		CHECK_FOR_INTERRUPTS();
		(void) look_at_seat(scan, first + i, &held);
		if (!held && take(scan, first + i, taken))
			return true;
	}
	return false;
}

static bool
find_seat(SeatScan *scan, int32 limit, bool thorough, TaskSeat own, TaskSeat *taken)
{
	int32		known;
	int32		sample;
	int32		beyond;

	/* the one in which the thread was before, if nobody took it meanwhile */
	if (own.seat != 0 && own.seat <= limit && take(scan, own.seat, taken))
		return true;
	known = Min(highest_seat(scan), limit);
	sample = thorough ? known : Min(known, SAMPLE);
	/* every caller begins elsewhere, so that they do not meet */
	if (take_one_of(scan, 1 + (int32) (pg_prng_uint32(&pg_global_prng_state) % (known - sample + 1)), sample, taken))
		return true;
	/* beyond the highest are those of claims that are not committed yet */
	beyond = Min(limit - known, MAX_UNCOMMITTED);
	return take_one_of(scan, known + 1, beyond, taken);
}

/* See task_seat.h. */
bool
task_seat_take(int64 process_id, int32 limit, bool thorough, TaskSeat own, TaskSeat *taken)
{
	SeatScan	scan = begin_scan(process_id);
	bool		found = find_seat(&scan, limit, thorough, own, taken);

	end_scan(&scan);
	return found;
}
