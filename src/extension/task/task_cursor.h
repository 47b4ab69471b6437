/*
 * task_cursor.h
 *		Where in the line of a process the next claim begins, so that those who claim at the same time do not meet. A hint,
 *		in shared memory: whoever begins too far on finds nothing, and begins again at the floor.
 */
#ifndef AMORO_META_TASK_CURSOR_H
#define AMORO_META_TASK_CURSOR_H

#include "postgres.h"

/* A position that nobody else is given for now, not below lowest; lowest without preload. */
extern int64 task_cursor_next(int64 process_id, int64 lowest);

/* The next claim begins there. */
extern void task_cursor_reset(int64 process_id, int64 position);

#endif							/* AMORO_META_TASK_CURSOR_H */
