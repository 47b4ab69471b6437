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
#include "procedure_sql.h"
#include "task_seat.h"
#include "utils/fmgrprotos.h"

/* First key of an advisory lock, see README.md. */
#define SEAT_LOCK 1095565315

/* So many seats are looked at in passing. */
#define SAMPLE 4
/* More claims than that in one process are not begun at the same time. */
#define MAX_UNCOMMITTED 1024

/* What all seats are at, and one more, which is free. LIMIT keeps the planner at lookups. */
#define SEATS_SQL \
	"SELECT coalesce(c.seat_number, 0)::bigint," \
	" coalesce(t.attempt = c.attempt AND t.state IN ('SCHEDULED', 'ACKED'), false)" \
	" FROM generate_series($2::integer, $3::integer) s (seat)" \
	" LEFT JOIN LATERAL (SELECT c.seat_number, c.task_id, c.attempt FROM amoro_meta.task_claim c" \
	"  WHERE c.process_id = $1 AND c.seat = s.seat ORDER BY c.seat_number DESC LIMIT 1) c ON true" \
	" LEFT JOIN LATERAL (SELECT t.attempt, t.state FROM amoro_meta.task t" \
	"  WHERE t.process_id = $1 AND t.task_id = c.task_id LIMIT 1) t ON true" \
	" ORDER BY s.seat"

/* The highest seat that was ever taken. */
#define HIGHEST_SEAT_SQL \
	"SELECT c.seat::bigint FROM amoro_meta.task_claim c WHERE c.process_id = $1 ORDER BY c.seat DESC LIMIT 1"

/* How many claims a seat has seen. */
#define SEAT_NUMBER_SQL \
	"SELECT c.seat_number::bigint FROM amoro_meta.task_claim c WHERE c.process_id = $1 AND c.seat = $2" \
	" ORDER BY c.seat_number DESC LIMIT 1"

static bool
lock_seat(int64 process_id, int32 seat)
{
	uint32		hash = hash_combine(hash_uint32((uint32) process_id ^ (uint32) (process_id >> 32)), hash_uint32((uint32) seat));

	return DatumGetBool(DirectFunctionCall2(pg_try_advisory_xact_lock_int4, Int32GetDatum(SEAT_LOCK),
											Int32GetDatum((int32) hash)));
}

/* Whether the seat is free, now that it is locked: somebody may have taken it just before. */
static bool
take_if_free(int64 process_id, int32 seat, TaskSeat *taken)
{
	SqlArgument arguments[] = {sql_bigint(process_id), sql_integer(seat), sql_integer(seat)};

	if (!lock_seat(process_id, seat))
		return false;
	procedure_sql(SEATS_SQL, SPI_OK_SELECT, lengthof(arguments), arguments);
	if (result_boolean(0, 2))
		return false;
	*taken = (TaskSeat) {seat, (int32) result_bigint(0, 1) + 1};
	return true;
}

/* The seat in which the thread was before, if it still may have it, and nobody took it meanwhile. */
static bool
take_again(int64 process_id, int32 limit, TaskSeat own, TaskSeat *taken)
{
	SqlArgument arguments[] = {sql_bigint(process_id), sql_integer(own.seat)};

	if (own.seat == 0 || own.seat > limit || !lock_seat(process_id, own.seat) ||
		procedure_sql(SEAT_NUMBER_SQL, SPI_OK_SELECT, lengthof(arguments), arguments) == 0 || result_bigint(0, 1) != own.number)
		return false;
	*taken = (TaskSeat) {own.seat, own.number + 1};
	return true;
}

/* Takes one of the seats 1 to count that is free, beginning anywhere so that callers do not meet. */
static bool
take_one_of(int64 process_id, int32 first, int32 count, TaskSeat *taken)
{
	SqlArgument arguments[] = {sql_bigint(process_id), sql_integer(first), sql_integer(first + count - 1)};
	bool	   *seats = palloc(sizeof(bool) * (count + 1));

	procedure_sql(SEATS_SQL, SPI_OK_SELECT, lengthof(arguments), arguments);
	for (int32 i = 0; i < count; i++)
		seats[i] = result_boolean(i, 2);
	for (int32 i = 0; i < count; i++)
	{
		int32		seat = (i + MyProcPid) % count;

		if (!seats[seat] && take_if_free(process_id, first + seat, taken))
			return true;
	}
	return false;
}

/* See task_seat.h. */
bool
task_seat_take(int64 process_id, int32 limit, bool thorough, TaskSeat own, TaskSeat *taken)
{
	SqlArgument arguments[] = {sql_bigint(process_id)};
	int32		known;
	int32		sample;

	if (take_again(process_id, limit, own, taken))
		return true;
	known = procedure_sql(HIGHEST_SEAT_SQL, SPI_OK_SELECT, 1, arguments) == 0 ? 0 : (int32) result_bigint(0, 1);
	known = Min(known, limit);
	sample = thorough ? known : Min(known, SAMPLE);
	if (take_one_of(process_id, 1 + (int32) (pg_prng_uint32(&pg_global_prng_state) % (known - sample + 1)), sample, taken))
		return true;
	/* beyond the highest are those of claims that are not committed yet */
	for (int32 seat = known + 1; seat <= limit && seat <= known + MAX_UNCOMMITTED; seat++)
	{
		if (take_if_free(process_id, seat, taken))
			return true;
	}
	return false;
}
