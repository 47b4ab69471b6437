/*
 * task_seat.h
 *		Seats of a process: one for each of its tasks that is handed out, so that they can be counted.
 */
#ifndef AMORO_META_TASK_SEAT_H
#define AMORO_META_TASK_SEAT_H

#include "postgres.h"

typedef struct TaskSeat
{
	int32		seat;			/* from 1; 0: none */
	int32		number;			/* of the claim in this seat */
} TaskSeat;

/* The limit that is no limit. */
#define SEATS_UNLIMITED PG_INT32_MAX

/*
 * Takes a free seat for a claim of the caller, who is alone with it to the end of the transaction. own: the seat of the
 * last claim of this thread if it was in this process, which is over. False when limit tasks are handed out; without
 * thorough, when it looks like that.
 */
extern bool task_seat_take(int64 process_id, int32 limit, bool thorough, TaskSeat own, TaskSeat *taken);

#endif							/* AMORO_META_TASK_SEAT_H */
