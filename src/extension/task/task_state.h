/*
 * task_state.h
 *		States of tasks.
 */
#ifndef AMORO_META_TASK_STATE_H
#define AMORO_META_TASK_STATE_H

#include "postgres.h"

#include "own_table.h"

/* The label of a state, as its Datum in column state. */
extern Datum task_state(const char *label);

/* Whether a task is handed out by that attempt, and not reported on. tasks: open, with index task_pkey. */
extern bool task_is_handed_out(OwnTable *tasks, int64 process_id, int32 task_id, int32 attempt);

#endif							/* AMORO_META_TASK_STATE_H */
