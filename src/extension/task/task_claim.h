/*
 * task_claim.h
 *		A task of one process, handed out to a thread of an optimizer.
 */
#ifndef AMORO_META_TASK_CLAIM_H
#define AMORO_META_TASK_CLAIM_H

#include "postgres.h"

#include "access/tupdesc.h"
#include "task/optimizer.h"
#include "task/task_seat.h"

/* The newest claim of a thread. */
typedef struct LastClaim
{
	int64		process_id;		/* 0: it never claimed anything */
	int64		ring_turn;
	int32		number;
	TaskSeat	seat;
} LastClaim;

/* Who wants a task. */
typedef struct Claimant
{
	OptimizerThread thread;
	Optimizer	optimizer;
	LastClaim	last;
	bool		ring;			/* goes round the processes this time, whatever the policy says */
	TupleDesc	row_type;		/* that poll_task returns */
} Claimant;

/* A process that may have a task for it. */
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

/* Reads the newest claim of the thread. A task that it still holds is given up: nobody works on it any more. */
extern LastClaim task_claim_end_last(const Claimant *claimant);

/* Claims a task of a process whose seat is taken: the row to be returned, or NULL when there is none. */
extern HeapTuple task_claim(const Claimant *claimant, const Candidate *candidate, TaskSeat seat);

#endif							/* AMORO_META_TASK_CLAIM_H */
