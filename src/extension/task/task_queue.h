/*
 * task_queue.h
 *		Which process of a group is the next to hand out a task.
 */
#ifndef AMORO_META_TASK_QUEUE_H
#define AMORO_META_TASK_QUEUE_H

#include "postgres.h"

#include "task/task_claim.h"

/* Claims a task for the claimant from any process of its group; NULL when there is none for it. */
extern HeapTuple task_queue_claim(const Claimant *claimant);

#endif							/* AMORO_META_TASK_QUEUE_H */
