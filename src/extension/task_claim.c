/*
 * task_claim.c
 *		poll_task: hands a task to a thread of an optimizer.
 *
 * README.md, tasks, says how it finds one without a look at those that are gone.
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "clock.h"
#include "executor/executor.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "optimizer.h"
#include "task_activity.h"
#include "task_seat.h"
#include "task_table.h"
#include "utils/datum.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(amoro_meta_poll_task);

#define LONGEST_WAIT_US (5 * INT64CONST(1000000))
/* Covers what is not announced: a blocker that ended, a quota that is free again. */
#define LOOK_AGAIN_MS 1000
#define RAISE_FLOOR_EVERY 32
/* From so many tasks on backends begin apart, by about what is on a page. */
#define LONG_LINE 2048
#define SEGMENT 64
#define FROM_FLOOR_EVERY 8
/* Among so many the policy decides; so many are looked at further on in the ring. */
#define WINDOW 32
#define RING_STRETCH 64
/* How many processes one poll tries at most; with as many blocked ones in a row the next poll goes on elsewhere. */
#define MAX_CANDIDATES 160

/* The newest claim of a thread. */
typedef struct LastClaim
{
	int64		process_id;		/* 0: it never claimed anything */
	int64		ring_turn;
	int32		number;
	TaskSeat	seat;
} LastClaim;

typedef struct Candidate
{
	int64		process_id;
	int64		turn;
	double		quota;
	double		rank;
	int32		task_count;
	SqlArgument catalog_name;
	SqlArgument database_name;
	SqlArgument table_name;
	SqlArgument process_type;
} Candidate;

/* Where this backend has found its last task: a hint. */
static int64 last_claimed_process = 0;
static int64 last_claimed_position = 0;
static uint32 claims_since_floor = 0;

/* One attempt to find a task. */
typedef struct Poll
{
	OptimizerThread thread;
	Optimizer	optimizer;
	LastClaim	last;
	int64		group_threads;	/* -1: not yet counted */
	bool		ring;
	TupleDesc	row_type;
	int			tried_count;
	Candidate	tried[MAX_CANDIDATES];
	bool		over_quota[MAX_CANDIDATES];	/* of those that were tried */
} Poll;

static bool
table_is_blocked(const Candidate *candidate)
{
	SqlArgument arguments[] = {candidate->catalog_name, candidate->database_name, candidate->table_name};

	procedure_sql("SELECT amoro_meta.table_is_blocked($1, $2, $3, 'OPTIMIZE')", SPI_OK_SELECT, lengthof(arguments), arguments);
	return result_boolean(0, 1);
}

/* Threads of all optimizers of the group. */
static int64
count_group_threads(const char *group_name)
{
	TaskTable	table = task_table_open("optimizer", "optimizer_group_name", AccessShareLock);
	TaskKey		key = {"group_name", BTEqualStrategyNumber, F_TEXTEQ, CStringGetTextDatum(group_name)};
	Snapshot	snapshot = RegisterSnapshot(GetTransactionSnapshot());
	SysScanDesc scan = task_table_scan(&table, snapshot, 1, &key);
	HeapTuple	row;
	int64		threads = 0;

	while ((row = systable_getnext_ordered(scan, ForwardScanDirection)) != NULL)
		threads += DatumGetInt32(task_column(&table, row, "thread_count"));
	systable_endscan_ordered(scan);
	UnregisterSnapshot(snapshot);
	task_table_close(&table, AccessShareLock);
	return Max(threads, 1);
}

/* As amoro_meta.quota_limit(). */
static int32
quota_limit(Poll *poll, const Candidate *candidate)
{
	if (candidate->quota > 1)
		return (int32) Min(floor(candidate->quota), SEATS_UNLIMITED - 1);
	if (poll->group_threads < 0)
		poll->group_threads = count_group_threads(poll->optimizer.group_name);
	return (int32) ceil(candidate->quota * poll->group_threads);
}

/* Nothing was found: nobody needs to look there again, once that is certain. */
static void
retire(const Candidate *candidate)
{
	SqlArgument arguments[] = {sql_bigint(candidate->process_id)};

	if (!table_is_blocked(candidate))
		procedure_sql("SELECT amoro_meta.retire_process($1)", SPI_OK_SELECT, lengthof(arguments), arguments);
}

/*
 * Where to begin in the line of a process. In a long one every backend goes on from where it was, so that they neither
 * meet on the same pages nor walk over what was handed out before; what they leave behind is found from the floor.
 */
static int64
start_position(const Candidate *candidate, int64 lowest)
{
	if (candidate->task_count < LONG_LINE || ++claims_since_floor % FROM_FLOOR_EVERY == 0)
		return lowest;
	if (last_claimed_process == candidate->process_id)
		return Max(lowest, last_claimed_position + 1);
	return lowest + (MyProcNumber % (LONG_LINE / 2 / SEGMENT)) * SEGMENT;
}

/* Nothing before it is planned, nor will be. */
static int64
floor_of(int64 process_id)
{
	TaskTable	table = task_table_open("task_floor", "task_floor_pkey", AccessShareLock);
	TaskKey		key = TASK_KEY_BIGINT("process_id", process_id);
	HeapTuple	row = task_table_find(&table, 1, &key, BackwardScanDirection);
	int64		position = row == NULL ? 0 : DatumGetInt64(task_column(&table, row, "position"));

	task_table_close(&table, AccessShareLock);
	return position;
}

/* Locks the first planned task from a position on that nobody has locked; NULL when there is none. */
static HeapTuple
lock_first_planned(TaskTable *tasks, int64 process_id, int64 position)
{
	TaskKey		keys[] = {
		TASK_KEY_BIGINT("process_id", process_id),
		{"position", BTGreaterEqualStrategyNumber, F_INT8GE, Int64GetDatum(position)}
	};
	Datum		planned = task_state("PLANNED");
	Snapshot	snapshot = RegisterSnapshot(GetTransactionSnapshot());
	SysScanDesc scan = task_table_scan(tasks, snapshot, lengthof(keys), keys);
	HeapTuple	row;

	while ((row = systable_getnext_ordered(scan, ForwardScanDirection)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		if (task_column(tasks, row, "state") == planned && task_table_lock(tasks, row, false))
			break;
	}
	if (row != NULL)
		row = heap_copytuple(row);
	systable_endscan_ordered(scan);
	UnregisterSnapshot(snapshot);
	return row;
}

static void
insert_claim(const Poll *poll, const Candidate *candidate, TaskSeat seat, int32 task_id, int32 attempt)
{
	TaskTable	claims = task_table_open("task_claim", "task_claim_pkey", RowExclusiveLock);
	TaskChange	columns[] = {
		{"optimizer_id", Int64GetDatum(poll->optimizer.id)},
		{"process_id", Int64GetDatum(candidate->process_id)},
		{"claimed_at", TimestampTzGetDatum(GetCurrentTimestamp())},
		{"ring_turn", Int64GetDatum(poll->ring ? candidate->turn : poll->last.ring_turn)},
		{"thread_id", Int32GetDatum(poll->thread.thread_id)},
		{"number", Int32GetDatum(poll->last.number + 1)},
		{"task_id", Int32GetDatum(task_id)},
		{"attempt", Int32GetDatum(attempt)},
		{"seat", Int32GetDatum(seat.seat)},
		{"seat_number", Int32GetDatum(seat.number)}
	};

	task_table_insert(&claims, lengthof(columns), columns);
	task_table_close(&claims, NoLock);
}

/* The row that poll_task returns. */
static HeapTuple
task_to_hand_out(const Poll *poll, const Candidate *candidate, int32 task_id, int32 attempt)
{
	TaskTable	inputs = task_table_open("task_input", "task_input_pkey", AccessShareLock);
	TaskKey		keys[] = {TASK_KEY_BIGINT("process_id", candidate->process_id), TASK_KEY_INTEGER("task_id", task_id)};
	HeapTuple	input = task_table_find(&inputs, lengthof(keys), keys, ForwardScanDirection);
	Datum		values[] = {
		Int64GetDatum(candidate->process_id), Int32GetDatum(task_id), Int32GetDatum(attempt),
		candidate->catalog_name.value, candidate->database_name.value, candidate->table_name.value, candidate->process_type.value,
		input != NULL ? task_column(&inputs, input, "input") : (Datum) 0
	};
	bool		nulls[lengthof(values)] = {[lengthof(values) - 1] = input == NULL};
	HeapTuple	row = heap_form_tuple(poll->row_type, values, nulls);

	task_table_close(&inputs, AccessShareLock);
	return row;
}

/* Finds a task, looks at the blockers once it is locked, hands it out and takes the seat; NULL when there is none. */
static HeapTuple
hand_out(const Poll *poll, const Candidate *candidate, TaskSeat seat, int64 position)
{
	TaskTable	tasks = task_table_open("task", "task_position", RowExclusiveLock);
	HeapTuple	row = lock_first_planned(&tasks, candidate->process_id, position);
	HeapTuple	result = NULL;

	/* whoever blocks the table from now on does so after this claim */
	if (row != NULL && !table_is_blocked(candidate))
	{
		int32		task_id = DatumGetInt32(task_column(&tasks, row, "task_id"));
		int32		attempt = DatumGetInt32(task_column(&tasks, row, "attempt")) + 1;
		TaskChange	changes[] = {
			{"state", task_state("SCHEDULED")}, {"attempt", Int32GetDatum(attempt)},
			{"optimizer_id", Int64GetDatum(poll->optimizer.id)}, {"thread_id", Int32GetDatum(poll->thread.thread_id)},
			{"claimed_at", TimestampTzGetDatum(GetCurrentTimestamp())}
		};

		task_table_update(&tasks, row, lengthof(changes), changes);
		insert_claim(poll, candidate, seat, task_id, attempt);
		last_claimed_process = candidate->process_id;
		last_claimed_position = DatumGetInt64(task_column(&tasks, row, "position"));
		result = task_to_hand_out(poll, candidate, task_id, attempt);
	}
	task_table_close(&tasks, NoLock);
	return result;
}

/* Claims a task of a process whose seat is taken; NULL when there is none. */
static HeapTuple
claim(Poll *poll, const Candidate *candidate, TaskSeat seat)
{
	SqlArgument arguments[] = {sql_bigint(candidate->process_id)};
	int64		lowest = floor_of(candidate->process_id);
	int64		start = start_position(candidate, lowest);
	HeapTuple	row = hand_out(poll, candidate, seat, start);

	if (row == NULL && start > lowest)
		row = hand_out(poll, candidate, seat, lowest);
	if (row == NULL)
		retire(candidate);
	else if (last_claimed_position % RAISE_FLOOR_EVERY == 0)
		procedure_sql("SELECT amoro_meta.raise_task_floor($1)", SPI_OK_SELECT, 1, arguments);
	return row;
}

/* Tries one process; NULL when it has no task for this thread. */
static HeapTuple
try_process(Poll *poll, const Candidate *candidate, int32 limit, bool thorough, bool *over_quota)
{
	TaskSeat	own = poll->last.process_id == candidate->process_id ? poll->last.seat : (TaskSeat) {0};
	TaskSeat	seat;

	*over_quota = !task_seat_take(candidate->process_id, limit, thorough, own, &seat);
	return *over_quota ? NULL : claim(poll, candidate, seat);
}

static bool
was_tried(const Poll *poll, int64 process_id)
{
	for (int i = 0; i < poll->tried_count; i++)
	{
		if (poll->tried[i].process_id == process_id)
			return true;
	}
	return false;
}

static SqlArgument
copied_text(TaskTable *table, HeapTuple row, const char *column)
{
	return (SqlArgument) {TEXTOID, datumCopy(task_column(table, row, column), false, -1), false};
}

/* Adds the processes of a queue that may have tasks waiting, by their turn, to those to try; returns how many it saw. */
static int
collect_candidates(Poll *poll, int64 queue_id, int64 first_turn, int64 last_turn, int count)
{
	TaskTable	table = task_table_open("process", "process_waiting", AccessShareLock);
	TaskKey		keys[] = {
		TASK_KEY_BIGINT("queue_id", queue_id),
		{"turn", BTGreaterEqualStrategyNumber, F_INT8GE, Int64GetDatum(first_turn)},
		{"turn", BTLessEqualStrategyNumber, F_INT8LE, Int64GetDatum(last_turn)}
	};
	Snapshot	snapshot = RegisterSnapshot(GetTransactionSnapshot());
	SysScanDesc scan = task_table_scan(&table, snapshot, lengthof(keys), keys);
	HeapTuple	row;
	int			seen = 0;

	while (seen < count && poll->tried_count < MAX_CANDIDATES && (row = systable_getnext_ordered(scan, ForwardScanDirection)) != NULL)
	{
		int64		process_id = DatumGetInt64(task_column(&table, row, "process_id"));

		seen++;
		if (was_tried(poll, process_id))
			continue;
		poll->tried[poll->tried_count++] = (Candidate) {
			.process_id = process_id, .turn = DatumGetInt64(task_column(&table, row, "turn")),
			.quota = DatumGetFloat8(task_column(&table, row, "quota")), .rank = DatumGetFloat8(task_column(&table, row, "rank")),
			.task_count = DatumGetInt32(task_column(&table, row, "task_count")),
			.catalog_name = copied_text(&table, row, "catalog_name"), .database_name = copied_text(&table, row, "database_name"),
			.table_name = copied_text(&table, row, "table_name"), .process_type = copied_text(&table, row, "process_type")
		};
	}
	systable_endscan_ordered(scan);
	UnregisterSnapshot(snapshot);
	task_table_close(&table, AccessShareLock);
	return seen;
}

/* Tries those that were collected from the given one on, until one has a task. */
static HeapTuple
try_collected(Poll *poll, int first)
{
	HeapTuple	task = NULL;

	for (int i = first; i < poll->tried_count && task == NULL; i++)
		task = try_process(poll, &poll->tried[i], quota_limit(poll, &poll->tried[i]), false, &poll->over_quota[i]);
	return task;
}

static int
compare_ranks(const void *left, const void *right)
{
	const Candidate *a = left;
	const Candidate *b = right;

	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	return a->turn < b->turn ? -1 : a->turn > b->turn;
}

/* Turn before which no process of a queue waits. */
static int64
lowest_turn(int64 queue_id)
{
	TaskTable	table = task_table_open("queue_floor", "queue_floor_pkey", AccessShareLock);
	TaskKey		key = TASK_KEY_BIGINT("queue_id", queue_id);
	HeapTuple	row = task_table_find(&table, 1, &key, BackwardScanDirection);
	int64		turn = row == NULL ? 0 : DatumGetInt64(task_column(&table, row, "turn"));

	task_table_close(&table, AccessShareLock);
	return turn;
}

/*
 * Tries a queue: by the policy, which decides among those that wait longest, or on from where the thread was in the
 * ring, and round it.
 */
static HeapTuple
try_queue(Poll *poll, int64 queue_id)
{
	int64		lowest = lowest_turn(queue_id);
	int			first = poll->tried_count;
	HeapTuple	task = NULL;

	if (!poll->ring)
	{
		int			seen = collect_candidates(poll, queue_id, lowest, PG_INT64_MAX, WINDOW);

		qsort(poll->tried + first, poll->tried_count - first, sizeof(Candidate), compare_ranks);
		task = try_collected(poll, first);
		if (task != NULL || seen < WINDOW)
			return task;
		first = poll->tried_count;
	}
	if (collect_candidates(poll, queue_id, Max(lowest, poll->last.ring_turn + 1), PG_INT64_MAX, RING_STRETCH) < RING_STRETCH)
		collect_candidates(poll, queue_id, lowest, poll->last.ring_turn, RING_STRETCH);
	return try_collected(poll, first);
}

static bool
may_break_quota(const Poll *poll)
{
	SqlArgument arguments[] = {sql_text(poll->optimizer.group_name)};

	return procedure_sql("SELECT FROM amoro_meta.optimizer_group g WHERE g.group_name = $1 AND"
						 " lower(coalesce(g.properties->>'break-quota-limit-enabled', 'true')) = 'true'",
						 SPI_OK_SELECT, lengthof(arguments), arguments) != 0;
}

/*
 * Nothing else is to be had: processes that were passed by because their quota looked used up. A group may allow that
 * it is exceeded then; otherwise each seat is looked at.
 */
static HeapTuple
try_over_quota(Poll *poll)
{
	HeapTuple	task = NULL;
	int			broken = -1;

	for (int i = 0; i < poll->tried_count && task == NULL; i++)
	{
		bool		over_quota;

		if (!poll->over_quota[i])
			continue;
		if (broken < 0)
			broken = may_break_quota(poll);
		task = try_process(poll, &poll->tried[i], broken ? SEATS_UNLIMITED : quota_limit(poll, &poll->tried[i]), !broken, &over_quota);
	}
	if (task != NULL && broken)
		task_count(TASK_OVER_QUOTA);
	return task;
}

/* Whether a claim still holds its task. */
static bool
is_held(int64 process_id, int32 task_id, int32 attempt)
{
	TaskTable	tasks = task_table_open("task", "task_pkey", AccessShareLock);
	TaskKey		keys[] = {TASK_KEY_BIGINT("process_id", process_id), TASK_KEY_INTEGER("task_id", task_id)};
	HeapTuple	row = task_table_find(&tasks, lengthof(keys), keys, ForwardScanDirection);
	bool		held = false;

	if (row != NULL && DatumGetInt32(task_column(&tasks, row, "attempt")) == attempt)
	{
		Datum		state = task_column(&tasks, row, "state");

		held = state == task_state("SCHEDULED") || state == task_state("ACKED");
	}
	task_table_close(&tasks, AccessShareLock);
	return held;
}

/* Reads the newest claim of the thread. A task that it still holds is given up: nobody works on it any more. */
static LastClaim
end_last_claim(const Poll *poll)
{
	TaskTable	claims = task_table_open("task_claim", "task_claim_pkey", AccessShareLock);
	TaskKey		keys[] = {
		TASK_KEY_BIGINT("optimizer_id", poll->optimizer.id), TASK_KEY_INTEGER("thread_id", poll->thread.thread_id)
	};
	HeapTuple	row = task_table_find(&claims, lengthof(keys), keys, BackwardScanDirection);
	LastClaim	last = {0};

	if (row != NULL)
	{
		int32		task_id = DatumGetInt32(task_column(&claims, row, "task_id"));
		int32		attempt = DatumGetInt32(task_column(&claims, row, "attempt"));

		last.process_id = DatumGetInt64(task_column(&claims, row, "process_id"));
		last.ring_turn = DatumGetInt64(task_column(&claims, row, "ring_turn"));
		last.number = DatumGetInt32(task_column(&claims, row, "number"));
		last.seat.seat = DatumGetInt32(task_column(&claims, row, "seat"));
		last.seat.number = DatumGetInt32(task_column(&claims, row, "seat_number"));
		if (is_held(last.process_id, task_id, attempt))
		{
			SqlArgument held[] = {sql_bigint(last.process_id), sql_integer(task_id), sql_integer(attempt)};

			procedure_sql("SELECT amoro_meta.return_task($1, $2, $3, false)", SPI_OK_SELECT, lengthof(held), held);
		}
	}
	task_table_close(&claims, AccessShareLock);
	return last;
}

/* Whether there is any work in the group, or a task that this thread still holds: a look that takes no lock. */
static bool
anything_to_do(const OptimizerThread *thread, const Optimizer *optimizer)
{
	SqlArgument arguments[] = {
		sql_text(optimizer->group_name), sql_bigint(optimizer->id), sql_integer(thread->thread_id)
	};

	procedure_sql("SELECT EXISTS (SELECT FROM amoro_meta.task_queue q, LATERAL (SELECT FROM amoro_meta.process p"
				  "  WHERE p.queue_id = q.queue_id AND p.waiting AND p.turn >= coalesce((SELECT f.turn FROM amoro_meta.queue_floor f"
				  "   WHERE f.queue_id = q.queue_id ORDER BY f.turn DESC LIMIT 1), 0) ORDER BY p.turn LIMIT 1) p WHERE q.group_name = $1)"
				  " OR (SELECT (SELECT t.attempt = c.attempt AND t.state IN ('SCHEDULED', 'ACKED')"
				  "   FROM amoro_meta.task t WHERE t.process_id = c.process_id AND t.task_id = c.task_id)"
				  "  FROM amoro_meta.task_claim c WHERE c.optimizer_id = $2 AND c.thread_id = $3 ORDER BY c.number DESC LIMIT 1)",
				  SPI_OK_SELECT, lengthof(arguments), arguments);
	return result_boolean(0, 1);
}

/* The queues of a group, from the highest priority on. */
static List *
queues_of(const char *group_name)
{
	TaskTable	table = task_table_open("task_queue", "task_queue_group_name_priority_key", AccessShareLock);
	TaskKey		key = {"group_name", BTEqualStrategyNumber, F_TEXTEQ, CStringGetTextDatum(group_name)};
	Snapshot	snapshot = RegisterSnapshot(GetTransactionSnapshot());
	SysScanDesc scan = task_table_scan(&table, snapshot, 1, &key);
	HeapTuple	row;
	List	   *queues = NIL;

	while ((row = systable_getnext_ordered(scan, BackwardScanDirection)) != NULL)
	{
		int64	   *queue_id = palloc(sizeof(int64));

		*queue_id = DatumGetInt64(task_column(&table, row, "queue_id"));
		queues = lappend(queues, queue_id);
	}
	systable_endscan_ordered(scan);
	UnregisterSnapshot(snapshot);
	task_table_close(&table, AccessShareLock);
	return queues;
}

/* One attempt to find a task; NULL when there is none for this thread. */
static HeapTuple
try_to_claim(Poll *poll)
{
	HeapTuple	task = NULL;
	ListCell   *cell;

	optimizer_lock_thread(&poll->thread);
	/* again, now that it stays */
	poll->optimizer = optimizer_find(&poll->thread);
	poll->last = end_last_claim(poll);
	if (poll->optimizer.draining)
		return NULL;
	poll->ring = poll->last.number % 2 == 1;
	foreach(cell, queues_of(poll->optimizer.group_name))
	{
		task = try_queue(poll, *(int64 *) lfirst(cell));
		if (task != NULL)
			return task;
	}
	return try_over_quota(poll);
}

/* Looks once; the row of the task is of the result type of the function and outlives SPI. */
static HeapTupleHeader
look_for_task(const OptimizerThread *thread, bool first_look_locks, TupleDesc row_type, char **group_name, uint64 *seen)
{
	MemoryContext caller = CurrentMemoryContext;
	Poll	   *poll;
	HeapTuple	task = NULL;
	HeapTupleHeader result = NULL;

	SPI_connect();
	poll = palloc0(sizeof(Poll));
	poll->thread = *thread;
	poll->group_threads = -1;
	poll->row_type = row_type;
	if (!first_look_locks)
	{
		poll->optimizer = optimizer_find(thread);
		*group_name = MemoryContextStrdup(caller, poll->optimizer.group_name);
		*seen = task_announcements(*group_name);
	}
	if (first_look_locks || anything_to_do(thread, &poll->optimizer))
		task = try_to_claim(poll);
	if (task != NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(caller);

		result = (HeapTupleHeader) DatumGetPointer(heap_copy_tuple_as_datum(task, row_type));
		MemoryContextSwitchTo(old);
	}
	SPI_finish();
	return result;
}

static int64
wait_argument(FunctionCallInfo fcinfo)
{
	Interval   *wait;
	int64		wait_us;

	if (PG_ARGISNULL(2))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("wait must not be null")));
	wait = PG_GETARG_INTERVAL_P(2);
	wait_us = wait->time;
	if (wait->month != 0 || wait->day != 0 || wait_us < 0 || wait_us > LONGEST_WAIT_US)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("wait is not between 0 and 5 seconds")));
	return wait_us;
}

/*
 * amoro_meta_poll_task(token, thread_id, wait): see the COMMENT in src/schema/task.sql.
 */
Datum
amoro_meta_poll_task(PG_FUNCTION_ARGS)
{
	OptimizerThread thread = optimizer_thread(fcinfo);
	int64		wait_us = wait_argument(fcinfo);
	LeaseTime	end = lease_clock_now() + wait_us;
	TupleDesc	row_type;

	if (get_call_result_type(fcinfo, NULL, &row_type) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "poll_task does not return a row");
	BlessTupleDesc(row_type);
	task_count(TASK_POLL);
	for (;;)
	{
		char	   *group_name = NULL;
		uint64		seen = 0;
		HeapTupleHeader task = look_for_task(&thread, wait_us == 0, row_type, &group_name, &seen);
		int64		left = end - lease_clock_now();

		if (task != NULL)
		{
			task_count(TASK_CLAIM);
			PG_RETURN_HEAPTUPLEHEADER(task);
		}
		if (left <= 0 || wait_us == 0)
			break;
		task_wait(group_name, seen, Min(left / 1000 + 1, LOOK_AGAIN_MS));
	}
	task_count(TASK_EMPTY_POLL);
	PG_RETURN_NULL();
}
