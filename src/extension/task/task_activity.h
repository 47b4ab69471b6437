/*
 * task_activity.h
 *		Waiting for tasks, and counting what happens to them: shared memory, hints only.
 */
#ifndef AMORO_META_TASK_ACTIVITY_H
#define AMORO_META_TASK_ACTIVITY_H

#include "postgres.h"

#include "shmem.h"

extern void task_install_callbacks(void);

/* Number of announcements to optimizers of the group so far; 0 without preload. */
extern uint64 task_announcements(const char *group_name);

/* Waits until there are more than seen, at most wait_ms. Without preload it just waits. */
extern void task_wait(const char *group_name, uint64 seen, long wait_ms);

extern void task_count(TaskEvent event);

/* Sets what is counted of this database to nothing. */
extern void task_count_reset(void);

#endif							/* AMORO_META_TASK_ACTIVITY_H */
