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
/* How many processes one poll tries at most; with as many blocked ones in a row the next poll goes on elsewhere. */
#define MAX_CANDIDATES 160
/* Of what a claim returns: those of optimizing_task, and the position. */
#define CLAIM_COLUMNS 9

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
	int64		task_count;
	SqlArgument catalog_name;
	SqlArgument database_name;
	SqlArgument table_name;
	SqlArgument process_type;
} Candidate;

/* At that position, or so far beyond the floor: the greater of the two. */
typedef struct StartPosition
{
	int64		position;
	int64		beyond_floor;
} StartPosition;

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

/* Turns as index conditions: the floor is looked up once, as an init plan. */
#define CANDIDATE_COLUMNS \
	"SELECT p.process_id, p.turn, p.quota, p.catalog_name, p.database_name, p.table_name, p.process_type, p.task_count::bigint"
#define FLOOR_SQL "coalesce((SELECT f.turn FROM amoro_meta.queue_floor f WHERE f.queue_id = $1 ORDER BY f.turn DESC LIMIT 1), 0)"

/* The policy decides among those that wait longest. */
static const char window_sql[] =
	CANDIDATE_COLUMNS " FROM (SELECT p.* FROM amoro_meta.process p"
	" WHERE p.queue_id = $1 AND p.waiting AND p.turn >= " FLOOR_SQL " ORDER BY p.turn LIMIT 32) p ORDER BY p.rank, p.turn";

static const char ring_after_sql[] =
	CANDIDATE_COLUMNS " FROM amoro_meta.process p"
	" WHERE p.queue_id = $1 AND p.waiting AND p.turn >= greatest($2 + 1, " FLOOR_SQL ") ORDER BY p.turn LIMIT 64";

static const char ring_before_sql[] =
	CANDIDATE_COLUMNS " FROM amoro_meta.process p"
	" WHERE p.queue_id = $1 AND p.waiting AND p.turn >= " FLOOR_SQL " AND p.turn <= $2 ORDER BY p.turn LIMIT 64";

/* One statement: finds a task, looks at the blockers once it is locked, hands it out and takes the seat. */
static const char claim_sql[] =
	"WITH claimed AS (UPDATE amoro_meta.task t SET state = 'SCHEDULED', attempt = t.attempt + 1, optimizer_id = $2, thread_id = $3,"
	"  claimed_at = clock_timestamp()"
	" FROM (SELECT t.task_id FROM amoro_meta.task t WHERE t.process_id = $1 AND t.state = 'PLANNED' AND t.position >="
	"   greatest($8, $13 + coalesce((SELECT f.position FROM amoro_meta.task_floor f WHERE f.process_id = $1"
	"    ORDER BY f.position DESC LIMIT 1), 0))"
	"  ORDER BY t.position LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) first"
	" WHERE t.process_id = $1 AND t.task_id = first.task_id AND NOT amoro_meta.table_is_blocked($9, $10, $11, 'OPTIMIZE')"
	" RETURNING t.task_id, t.attempt, t.position)"
	" INSERT INTO amoro_meta.task_claim AS c"
	"  (optimizer_id, process_id, claimed_at, ring_turn, thread_id, number, task_id, attempt, seat, seat_number)"
	" SELECT $2, $1, clock_timestamp(), $4, $3, $5, d.task_id, d.attempt, $6, $7 FROM claimed d"
	" RETURNING $1, c.task_id, c.attempt, $9, $10, $11, $12,"
	" (SELECT i.input FROM amoro_meta.task_input i WHERE i.process_id = c.process_id AND i.task_id = c.task_id),"
	" (SELECT d.position FROM claimed d)";

static bool
table_is_blocked(const Candidate *candidate)
{
	SqlArgument arguments[] = {candidate->catalog_name, candidate->database_name, candidate->table_name};

	procedure_sql("SELECT amoro_meta.table_is_blocked($1, $2, $3, 'OPTIMIZE')", SPI_OK_SELECT, lengthof(arguments), arguments);
	return result_boolean(0, 1);
}

static int32
quota_limit(Poll *poll, const Candidate *candidate)
{
	SqlArgument arguments[] = {sql_text(poll->optimizer.group_name)};

	if (candidate->quota > 1)
		return (int32) Min(floor(candidate->quota), SEATS_UNLIMITED - 1);
	if (poll->group_threads < 0)
	{
		procedure_sql("SELECT sum(o.thread_count) FROM amoro_meta.optimizer o WHERE o.group_name = $1",
					  SPI_OK_SELECT, lengthof(arguments), arguments);
		poll->group_threads = Max(result_bigint(0, 1), 1);
	}
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
static StartPosition
start_position(const Candidate *candidate)
{
	if (candidate->task_count < LONG_LINE || ++claims_since_floor % FROM_FLOOR_EVERY == 0)
		return (StartPosition) {0, 0};
	if (last_claimed_process == candidate->process_id)
		return (StartPosition) {last_claimed_position + 1, 0};
	return (StartPosition) {0, (int64) (MyProcNumber % (LONG_LINE / 2 / SEGMENT)) * SEGMENT};
}

/* The columns of optimizing_task, which are the first ones of what a claim returns. */
static HeapTuple
task_row(HeapTuple row, TupleDesc descriptor, TupleDesc row_type)
{
	Datum		values[CLAIM_COLUMNS];
	bool		nulls[CLAIM_COLUMNS];

	heap_deform_tuple(row, descriptor, values, nulls);
	return heap_form_tuple(row_type, values, nulls);
}

static bool
run_claim(const Poll *poll, const Candidate *candidate, TaskSeat seat, StartPosition start)
{
	SqlArgument arguments[] = {
		sql_bigint(candidate->process_id), sql_bigint(poll->optimizer.id), sql_integer(poll->thread.thread_id),
		sql_bigint(poll->ring ? candidate->turn : poll->last.ring_turn), sql_integer(poll->last.number + 1),
		sql_integer(seat.seat), sql_integer(seat.number), sql_bigint(start.position),
		candidate->catalog_name, candidate->database_name, candidate->table_name, candidate->process_type,
		sql_bigint(start.beyond_floor)
	};

	return procedure_sql(claim_sql, SPI_OK_INSERT_RETURNING, lengthof(arguments), arguments) != 0;
}

/* Claims a task of a process whose seat is taken; NULL when there is none. */
static HeapTuple
claim(Poll *poll, const Candidate *candidate, TaskSeat seat)
{
	SqlArgument arguments[] = {sql_bigint(candidate->process_id)};
	StartPosition start = start_position(candidate);
	HeapTuple	row;

	if (!run_claim(poll, candidate, seat, start) &&
		((start.position == 0 && start.beyond_floor == 0) || !run_claim(poll, candidate, seat, (StartPosition) {0, 0})))
	{
		retire(candidate);
		return NULL;
	}
	row = task_row(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, poll->row_type);
	last_claimed_process = candidate->process_id;
	last_claimed_position = result_bigint(0, 9);
	if (last_claimed_position % RAISE_FLOOR_EVERY == 0)
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
result_name(uint64 row, int column)
{
	return sql_text(result_text(row, column));
}

/* Tries the processes that a query finds, until one has a task. */
static HeapTuple
try_candidates(Poll *poll, const char *sql, int64 queue_id)
{
	SqlArgument arguments[] = {sql_bigint(queue_id), sql_bigint(poll->last.ring_turn)};
	uint64		count = procedure_sql(sql, SPI_OK_SELECT, sql == window_sql ? 1 : 2, arguments);
	int			first = poll->tried_count;
	HeapTuple	task = NULL;

	for (uint64 i = 0; i < count && poll->tried_count < MAX_CANDIDATES; i++)
	{
		bool		is_null;

		if (was_tried(poll, result_bigint(i, 1)))
			continue;
		poll->tried[poll->tried_count++] = (Candidate) {
			.process_id = result_bigint(i, 1), .turn = result_bigint(i, 2),
			.quota = DatumGetFloat8(SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 3, &is_null)),
			.catalog_name = result_name(i, 4), .database_name = result_name(i, 5), .table_name = result_name(i, 6),
			.process_type = result_name(i, 7), .task_count = result_bigint(i, 8)
		};
	}
	for (int i = first; i < poll->tried_count && task == NULL; i++)
		task = try_process(poll, &poll->tried[i], quota_limit(poll, &poll->tried[i]), false, &poll->over_quota[i]);
	return task;
}

/* Tries a queue, by the policy or on from where the thread was in the ring. */
static HeapTuple
try_queue(Poll *poll, int64 queue_id)
{
	HeapTuple	task = NULL;

	if (!poll->ring)
		task = try_candidates(poll, window_sql, queue_id);
	if (task == NULL)
		task = try_candidates(poll, ring_after_sql, queue_id);
	if (task == NULL)
		task = try_candidates(poll, ring_before_sql, queue_id);
	return task;
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

/* Reads the newest claim of the thread. A task that it still holds is given up: nobody works on it any more. */
static LastClaim
end_last_claim(const Poll *poll)
{
	SqlArgument arguments[] = {sql_bigint(poll->optimizer.id), sql_integer(poll->thread.thread_id)};
	LastClaim	last = {0};

	if (procedure_sql("SELECT c.process_id, c.ring_turn, c.number::bigint, c.seat::bigint, c.seat_number::bigint, c.task_id::bigint,"
					  " c.attempt::bigint, (SELECT t.attempt = c.attempt AND t.state IN ('SCHEDULED', 'ACKED')"
					  "  FROM amoro_meta.task t WHERE t.process_id = c.process_id AND t.task_id = c.task_id)"
					  " FROM amoro_meta.task_claim c WHERE c.optimizer_id = $1 AND c.thread_id = $2 ORDER BY c.number DESC LIMIT 1",
					  SPI_OK_SELECT, lengthof(arguments), arguments) == 0)
		return last;
	last.process_id = result_bigint(0, 1);
	last.ring_turn = result_bigint(0, 2);
	last.number = (int32) result_bigint(0, 3);
	last.seat = (TaskSeat) {(int32) result_bigint(0, 4), (int32) result_bigint(0, 5)};
	if (result_boolean(0, 8))
	{
		SqlArgument held[] = {
			sql_bigint(last.process_id), sql_integer((int32) result_bigint(0, 6)), sql_integer((int32) result_bigint(0, 7))
		};

		procedure_sql("SELECT amoro_meta.return_task($1, $2, $3, false)", SPI_OK_SELECT, lengthof(held), held);
	}
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

/* One attempt to find a task; NULL when there is none for this thread. */
static HeapTuple
try_to_claim(Poll *poll)
{
	SqlArgument arguments[1];
	HeapTuple	task = NULL;
	uint64		count;
	int64	   *queues;

	optimizer_lock_thread(&poll->thread);
	/* again, now that it stays */
	poll->optimizer = optimizer_find(&poll->thread);
	poll->last = end_last_claim(poll);
	if (poll->optimizer.draining)
		return NULL;
	poll->ring = poll->last.number % 2 == 1;
	arguments[0] = sql_text(poll->optimizer.group_name);
	count = procedure_sql("SELECT q.queue_id FROM amoro_meta.task_queue q WHERE q.group_name = $1 ORDER BY q.priority DESC",
						  SPI_OK_SELECT, lengthof(arguments), arguments);
	queues = palloc(sizeof(int64) * (count + 1));
	for (uint64 i = 0; i < count; i++)
		queues[i] = result_bigint(i, 1);
	for (uint64 i = 0; i < count && task == NULL; i++)
		task = try_queue(poll, queues[i]);
	return task != NULL ? task : try_over_quota(poll);
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
