/*
 * task_claim.c
 *		A task of one process, handed out to a thread of an optimizer.
 *
 * README.md, tasks, says how it finds one without a look at those that are gone.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "blocker/blocker_head.h"
#include "compat.h"
#include "miscadmin.h"
#include "own_table.h"
#include "task/task_claim.h"
#include "task/task_cursor.h"
#include "task/task_state.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

/* In positions: how often the floor of a process is raised, and how often a claim looks there for what was passed by. */
#define RAISE_FLOOR_EVERY 32
#define FROM_FLOOR_EVERY 32
/* In a shorter line the first task that nobody has is handed out, however many look for it. */
#define LONG_LINE 2048

static bool
table_is_blocked(const Candidate *candidate)
{
	TableName	table = {
		TextDatumGetCString(candidate->catalog_name.value), TextDatumGetCString(candidate->database_name.value),
		TextDatumGetCString(candidate->table_name.value)
	};

	return blocker_table_is_blocked(&table, 1 << BLOCKER_OPTIMIZE);
}

/* Nothing was found: nobody needs to look there again, once that is certain. */
static void
retire(const Candidate *candidate)
{
	SqlArgument arguments[] = {sql_bigint(candidate->process_id)};

	if (!table_is_blocked(candidate))
		procedure_sql_along_index("SELECT amoro_meta.retire_process($1)", SPI_OK_SELECT, lengthof(arguments), arguments);
}

/* Nothing before it is planned, nor will be. */
static int64
floor_of(int64 process_id)
{
	OwnTable	table = own_table_open("task_floor", "task_floor_pkey", AccessShareLock);
	OwnKey		key = OWN_KEY_BIGINT("process_id", process_id);
	HeapTuple	row = own_table_find(&table, 1, &key, BackwardScanDirection);
	int64		position = row == NULL ? 0 : DatumGetInt64(own_column(&table, row, "position"));

	own_table_close(&table, AccessShareLock);
	return position;
}

static void
insert_claim(const Claimant *claimant, const Candidate *candidate, TaskSeat seat, int32 task_id, int32 attempt)
{
	OwnTable	claims = own_table_open("task_claim", "task_claim_pkey", RowExclusiveLock);
	OwnColumn	columns[] = {
		{"optimizer_id", Int64GetDatum(claimant->optimizer.id)},
		{"process_id", Int64GetDatum(candidate->process_id)},
		{"claimed_at", TimestampTzGetDatum(GetCurrentTimestamp())},
		{"ring_turn", Int64GetDatum(claimant->ring ? candidate->turn : claimant->last.ring_turn)},
		{"thread_id", Int32GetDatum(claimant->thread.thread_id)},
		{"number", Int32GetDatum(claimant->last.number + 1)},
		{"task_id", Int32GetDatum(task_id)},
		{"attempt", Int32GetDatum(attempt)},
		{"seat", Int32GetDatum(seat.seat)},
		{"seat_number", Int32GetDatum(seat.number)}
	};

	own_table_insert(&claims, lengthof(columns), columns);
	own_table_close(&claims, NoLock);
}

/* The row that poll_task returns. */
static HeapTuple
task_to_hand_out(const Claimant *claimant, const Candidate *candidate, int32 task_id, int32 attempt)
{
	OwnTable	inputs = own_table_open("task_input", "task_input_pkey", AccessShareLock);
	OwnKey		keys[] = {OWN_KEY_BIGINT("process_id", candidate->process_id), OWN_KEY_INTEGER("task_id", task_id)};
	HeapTuple	input = own_table_find(&inputs, lengthof(keys), keys, ForwardScanDirection);
	Datum		values[] = {
		Int64GetDatum(candidate->process_id), Int32GetDatum(task_id), Int32GetDatum(attempt),
		candidate->catalog_name.value, candidate->database_name.value, candidate->table_name.value, candidate->process_type.value,
		input != NULL ? own_column(&inputs, input, "input") : (Datum) 0
	};
	bool		nulls[lengthof(values)] = {[lengthof(values) - 1] = input == NULL};
	HeapTuple	row = heap_form_tuple(claimant->row_type, values, nulls);

	own_table_close(&inputs, AccessShareLock);
	return row;
}

/* Hands out a task that was found planned: the row to be returned, or NULL when another transaction has it. */
static HeapTuple
schedule(const Claimant *claimant, const Candidate *candidate, TaskSeat seat, OwnTable *tasks, HeapTuple row)
{
	int32		task_id = DatumGetInt32(own_column(tasks, row, "task_id"));
	int32		attempt = DatumGetInt32(own_column(tasks, row, "attempt")) + 1;
	OwnColumn	changes[] = {
		{"state", task_state("SCHEDULED")}, {"attempt", Int32GetDatum(attempt)},
		{"optimizer_id", Int64GetDatum(claimant->optimizer.id)}, {"thread_id", Int32GetDatum(claimant->thread.thread_id)},
		{"claimed_at", TimestampTzGetDatum(GetCurrentTimestamp())}
	};

	if (own_table_update(tasks, row, lengthof(changes), changes, false) == NULL)
		return NULL;
	insert_claim(claimant, candidate, seat, task_id, attempt);
	return task_to_hand_out(claimant, candidate, task_id, attempt);
}

/* Hands out the first planned task from a position on that nobody else has, unless the table is blocked; NULL when there is none. */
static HeapTuple
hand_out(const Claimant *claimant, const Candidate *candidate, TaskSeat seat, int64 first, int64 *position)
{
	OwnTable	tasks = own_table_open("task", "task_position", RowExclusiveLock);
	OwnKey		keys[] = {
		OWN_KEY_BIGINT("process_id", candidate->process_id),
		{"position", BTGreaterEqualStrategyNumber, F_INT8GE, Int64GetDatum(first)}
	};
	Datum		planned = task_state("PLANNED");
	Snapshot	snapshot = RegisterSnapshot(GetTransactionSnapshot());
	SysScanDesc scan = own_table_scan(&tasks, snapshot, lengthof(keys), keys);
	bool		looked_at_blockers = false;
	HeapTuple	result = NULL;
	HeapTuple	row;

	while (result == NULL && (row = systable_getnext_ordered(scan, ForwardScanDirection)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		if (own_column(&tasks, row, "state") != planned)
			continue;
		/* whoever blocks the table from now on does so after this claim, which waits for nobody */
		if (!looked_at_blockers && table_is_blocked(candidate))
			break;
		looked_at_blockers = true;
		*position = DatumGetInt64(own_column(&tasks, row, "position"));
		result = schedule(claimant, candidate, seat, &tasks, row);
	}
	systable_endscan_ordered(scan);
	UnregisterSnapshot(snapshot);
	own_table_close(&tasks, NoLock);
	return result;
}

/* See the header. */
HeapTuple
task_claim(const Claimant *claimant, const Candidate *candidate, TaskSeat seat)
{
	SqlArgument arguments[] = {sql_bigint(candidate->process_id)};
	int64		lowest = floor_of(candidate->process_id);
	int64		start = candidate->task_count < LONG_LINE ? lowest : task_cursor_next(candidate->process_id, lowest);
	int64		position = 0;
	HeapTuple	row;

	/* claims that were rolled back have left something behind the cursor */
	if (start % FROM_FLOOR_EVERY == 0)
		start = lowest;
	row = hand_out(claimant, candidate, seat, start, &position);
	if (row == NULL && start > lowest)
	{
		task_cursor_reset(candidate->process_id, lowest);
		row = hand_out(claimant, candidate, seat, lowest, &position);
	}
	if (row == NULL)
		retire(candidate);
	else if (position % RAISE_FLOOR_EVERY == 0)
		procedure_sql_along_index("SELECT amoro_meta.raise_task_floor($1)", SPI_OK_SELECT, 1, arguments);
	return row;
}

/* Puts a task back that nobody works on any more, if it is still handed out by that attempt. */
static void
give_up(int64 process_id, int32 task_id, int32 attempt)
{
	OwnTable	tasks = own_table_open("task", "task_pkey", AccessShareLock);
	bool		held = task_is_handed_out(&tasks, process_id, task_id, attempt);
	SqlArgument arguments[] = {sql_bigint(process_id), sql_integer(task_id), sql_integer(attempt)};

	own_table_close(&tasks, AccessShareLock);
	if (held)
		procedure_sql_along_index("SELECT amoro_meta.return_task($1, $2, $3, false)", SPI_OK_SELECT, lengthof(arguments), arguments);
}

/* See the header. */
LastClaim
task_claim_end_last(const Claimant *claimant)
{
	OwnTable	claims = own_table_open("task_claim", "task_claim_pkey", AccessShareLock);
	OwnKey		keys[] = {
		OWN_KEY_BIGINT("optimizer_id", claimant->optimizer.id), OWN_KEY_INTEGER("thread_id", claimant->thread.thread_id)
	};
	HeapTuple	row = own_table_find(&claims, lengthof(keys), keys, BackwardScanDirection);
	LastClaim	last = {0};

	if (row != NULL)
	{
		last = (LastClaim) {
			.process_id = DatumGetInt64(own_column(&claims, row, "process_id")),
			.ring_turn = DatumGetInt64(own_column(&claims, row, "ring_turn")),
			.number = DatumGetInt32(own_column(&claims, row, "number")),
			.seat = {DatumGetInt32(own_column(&claims, row, "seat")), DatumGetInt32(own_column(&claims, row, "seat_number"))}
		};
		give_up(last.process_id, DatumGetInt32(own_column(&claims, row, "task_id")),
				DatumGetInt32(own_column(&claims, row, "attempt")));
	}
	own_table_close(&claims, AccessShareLock);
	return last;
}
