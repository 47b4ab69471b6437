/*
 * task_queue.c
 *		Which process of a group is the next to hand out a task.
 *
 * A queue is what waits in a group with one priority. README.md, tasks, says how those
 * that are gone are passed by.
 */
#include "postgres.h"

#include <math.h>

#include "own_table.h"
#include "task/task_activity.h"
#include "task/task_queue.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/snapmgr.h"

/* Among so many the policy decides; so many are looked at further on in the ring. */
#define WINDOW 32
#define RING_STRETCH 64
/* How many processes one poll tries at most; with as many blocked ones in a row the next poll goes on elsewhere. */
#define MAX_CANDIDATES 160

/* One search through the queues of a group. */
typedef struct Search
{
	const Claimant *claimant;
	int64		group_threads;	/* -1: not yet counted */
	int			tried_count;
	Candidate	tried[MAX_CANDIDATES];
	bool		over_quota[MAX_CANDIDATES];	/* of those that were tried */
} Search;

/* Threads of all optimizers of the group. */
static int64
count_group_threads(const char *group_name)
{
	OwnTable	table = own_table_open("optimizer", "optimizer_group_name", AccessShareLock);
	OwnKey		key = {"group_name", BTEqualStrategyNumber, F_TEXTEQ, CStringGetTextDatum(group_name)};
	Snapshot	snapshot = RegisterSnapshot(GetTransactionSnapshot());
	SysScanDesc scan = own_table_scan(&table, snapshot, 1, &key);
	HeapTuple	row;
	int64		threads = 0;

	while ((row = systable_getnext_ordered(scan, ForwardScanDirection)) != NULL)
		threads += DatumGetInt32(own_column(&table, row, "thread_count"));
	systable_endscan_ordered(scan);
	UnregisterSnapshot(snapshot);
	own_table_close(&table, AccessShareLock);
	return Max(threads, 1);
}

/* As amoro_meta.quota_limit(). */
static int32
quota_limit(Search *search, const Candidate *candidate)
{
	double		share;

	if (candidate->quota > 1)
		return (int32) Min(floor(candidate->quota), SEATS_UNLIMITED - 1);
	if (search->group_threads < 0)
		search->group_threads = count_group_threads(search->claimant->optimizer.group_name);
	share = ceil(candidate->quota * search->group_threads);
	return (int32) Min(share, SEATS_UNLIMITED - 1);
}

/* Tries one process; NULL when it has no task for this thread. */
static HeapTuple
try_process(Search *search, const Candidate *candidate, int32 limit, bool thorough, bool *over_quota)
{
	TaskSeat	own = search->claimant->last.process_id == candidate->process_id ? search->claimant->last.seat : (TaskSeat) {0};
	TaskSeat	seat;

	*over_quota = !task_seat_take(candidate->process_id, limit, thorough, own, &seat);
	return *over_quota ? NULL : task_claim(search->claimant, candidate, seat);
}

static bool
was_tried(const Search *search, int64 process_id)
{
	for (int i = 0; i < search->tried_count; i++)
	{
		if (search->tried[i].process_id == process_id)
			return true;
	}
	return false;
}

static SqlArgument
copied_text(OwnTable *table, HeapTuple row, const char *column)
{
	return (SqlArgument) {TEXTOID, datumCopy(own_column(table, row, column), false, -1), false};
}

/* Adds the processes of a queue that may have tasks waiting, by their turn, to those to try; returns how many it saw. */
static int
collect_candidates(Search *search, int64 queue_id, int64 first_turn, int64 last_turn, int count)
{
	OwnTable	table = own_table_open("process", "process_waiting", AccessShareLock);
	OwnKey		keys[] = {
		OWN_KEY_BIGINT("queue_id", queue_id),
		{"turn", BTGreaterEqualStrategyNumber, F_INT8GE, Int64GetDatum(first_turn)},
		{"turn", BTLessEqualStrategyNumber, F_INT8LE, Int64GetDatum(last_turn)}
	};
	Snapshot	snapshot = RegisterSnapshot(GetTransactionSnapshot());
	SysScanDesc scan = own_table_scan(&table, snapshot, lengthof(keys), keys);
	HeapTuple	row;
	int			seen = 0;

	while (seen < count && search->tried_count < MAX_CANDIDATES && (row = systable_getnext_ordered(scan, ForwardScanDirection)) != NULL)
	{
		int64		process_id = DatumGetInt64(own_column(&table, row, "process_id"));

		seen++;
		if (was_tried(search, process_id))
			continue;
		search->tried[search->tried_count++] = (Candidate) {
			.process_id = process_id, .turn = DatumGetInt64(own_column(&table, row, "turn")),
			.quota = DatumGetFloat8(own_column(&table, row, "quota")), .rank = DatumGetFloat8(own_column(&table, row, "rank")),
			.task_count = DatumGetInt32(own_column(&table, row, "task_count")),
			.catalog_name = copied_text(&table, row, "catalog_name"), .database_name = copied_text(&table, row, "database_name"),
			.table_name = copied_text(&table, row, "table_name"), .process_type = copied_text(&table, row, "process_type")
		};
	}
	systable_endscan_ordered(scan);
	UnregisterSnapshot(snapshot);
	own_table_close(&table, AccessShareLock);
	return seen;
}

/* Tries those that were collected from the given one on, until one has a task. */
static HeapTuple
try_collected(Search *search, int first)
{
	HeapTuple	task = NULL;

	for (int i = first; i < search->tried_count && task == NULL; i++)
		task = try_process(search, &search->tried[i], quota_limit(search, &search->tried[i]), false, &search->over_quota[i]);
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
	OwnTable	table = own_table_open("queue_floor", "queue_floor_pkey", AccessShareLock);
	OwnKey		key = OWN_KEY_BIGINT("queue_id", queue_id);
	HeapTuple	row = own_table_find(&table, 1, &key, BackwardScanDirection);
	int64		turn = row == NULL ? 0 : DatumGetInt64(own_column(&table, row, "turn"));

	own_table_close(&table, AccessShareLock);
	return turn;
}

/*
 * Tries a queue: by the policy, which decides among those that wait longest, or on from where the thread was in the
 * ring, and round it.
 */
static HeapTuple
try_queue(Search *search, int64 queue_id)
{
	int64		lowest = lowest_turn(queue_id);
	int			first = search->tried_count;
	HeapTuple	task = NULL;

	if (!search->claimant->ring)
	{
		int			seen = collect_candidates(search, queue_id, lowest, PG_INT64_MAX, WINDOW);

		qsort(search->tried + first, search->tried_count - first, sizeof(Candidate), compare_ranks);
		task = try_collected(search, first);
		if (task != NULL || seen < WINDOW)
			return task;
		first = search->tried_count;
	}
	if (collect_candidates(search, queue_id, Max(lowest, search->claimant->last.ring_turn + 1), PG_INT64_MAX, RING_STRETCH) < RING_STRETCH)
		collect_candidates(search, queue_id, lowest, search->claimant->last.ring_turn, RING_STRETCH);
	return try_collected(search, first);
}

static bool
may_break_quota(const Search *search)
{
	SqlArgument arguments[] = {sql_text(search->claimant->optimizer.group_name)};

	return procedure_sql_along_index("SELECT FROM amoro_meta.optimizer_group g WHERE g.group_name = $1 AND"
									 " lower(coalesce(g.properties->>'break-quota-limit-enabled', 'true')) = 'true'",
									 SPI_OK_SELECT, lengthof(arguments), arguments) != 0;
}

/*
 * Nothing else is to be had: processes that were passed by because their quota looked used up. A group may allow that
 * it is exceeded then; otherwise each seat is looked at.
 */
static HeapTuple
try_over_quota(Search *search)
{
	HeapTuple	task = NULL;
	int			broken = -1;

	for (int i = 0; i < search->tried_count && task == NULL; i++)
	{
		bool		over_quota;

		if (!search->over_quota[i])
			continue;
		if (broken < 0)
			broken = may_break_quota(search);
		task = try_process(search, &search->tried[i], broken ? SEATS_UNLIMITED : quota_limit(search, &search->tried[i]), !broken, &over_quota);
	}
	if (task != NULL && broken)
		task_count(TASK_OVER_QUOTA);
	return task;
}

/* The queues of a group, from the highest priority on. */
static List *
queues_of(const char *group_name)
{
	OwnTable	table = own_table_open("task_queue", "task_queue_group_name_priority_key", AccessShareLock);
	OwnKey		key = {"group_name", BTEqualStrategyNumber, F_TEXTEQ, CStringGetTextDatum(group_name)};
	Snapshot	snapshot = RegisterSnapshot(GetTransactionSnapshot());
	SysScanDesc scan = own_table_scan(&table, snapshot, 1, &key);
	HeapTuple	row;
	List	   *queues = NIL;

	while ((row = systable_getnext_ordered(scan, BackwardScanDirection)) != NULL)
	{
		int64	   *queue_id = palloc(sizeof(int64));

		*queue_id = DatumGetInt64(own_column(&table, row, "queue_id"));
		queues = lappend(queues, queue_id);
	}
	systable_endscan_ordered(scan);
	UnregisterSnapshot(snapshot);
	own_table_close(&table, AccessShareLock);
	return queues;
}

/* See the header. */
HeapTuple
task_queue_claim(const Claimant *claimant)
{
	Search	   *search = palloc0(sizeof(Search));
	HeapTuple	task = NULL;
	ListCell   *cell;

	search->claimant = claimant;
	search->group_threads = -1;
	foreach(cell, queues_of(claimant->optimizer.group_name))
	{
		task = try_queue(search, *(int64 *) lfirst(cell));
		if (task != NULL)
			return task;
	}
	return try_over_quota(search);
}
