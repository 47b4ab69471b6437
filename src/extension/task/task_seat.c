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

#include "common/hashfn.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "own_table.h"
#include "task/task_seat.h"
#include "task/task_state.h"
#include "utils/fmgrprotos.h"

/* First key of an advisory lock, see README.md. */
#define SEAT_LOCK 1095565315

/* So many seats are looked at in passing. */
#define SAMPLE 4
/* More claims than that in one process are not begun at the same time. */
#define MAX_UNCOMMITTED 1024

/* What is looked at, open. */
typedef struct SeatScan
{
	int64		process_id;
	OwnTable	claim;			/* by process_id, seat, seat_number */
	OwnTable	task;			/* by process_id, task_id */
} SeatScan;

/* Looks at the newest claim of a seat: returns its number, 0 for none, and whether its task is still handed out. */
static int32
look_at_seat(SeatScan *scan, int32 seat, bool *taken)
{
	OwnKey		keys[] = {OWN_KEY_BIGINT("process_id", scan->process_id), OWN_KEY_INTEGER("seat", seat)};
	HeapTuple	row = own_table_find(&scan->claim, lengthof(keys), keys, BackwardScanDirection);

	*taken = false;
	if (row == NULL)
		return 0;
	*taken = task_is_handed_out(&scan->task, scan->process_id, DatumGetInt32(own_column(&scan->claim, row, "task_id")),
								DatumGetInt32(own_column(&scan->claim, row, "attempt")));
	return DatumGetInt32(own_column(&scan->claim, row, "seat_number"));
}

/* The highest seat that was ever taken, 0 for none. */
static int32
highest_seat(SeatScan *scan)
{
	OwnKey		key = OWN_KEY_BIGINT("process_id", scan->process_id);
	HeapTuple	row = own_table_find(&scan->claim, 1, &key, BackwardScanDirection);

	return row == NULL ? 0 : DatumGetInt32(own_column(&scan->claim, row, "seat"));
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
	known = highest_seat(scan);
	known = Min(known, limit);
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
	SeatScan	scan = {
		.process_id = process_id,
		.claim = own_table_open("task_claim", "task_claim_process_id_seat_seat_number_key", AccessShareLock),
		.task = own_table_open("task", "task_pkey", AccessShareLock)
	};
	bool		found = find_seat(&scan, limit, thorough, own, taken);

	own_table_close(&scan.task, AccessShareLock);
	own_table_close(&scan.claim, AccessShareLock);
	return found;
}
