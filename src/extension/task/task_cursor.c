/*
 * task_cursor.c
 *		Where in the line of a process the next claim begins. See the header.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "shmem.h"
#include "task/task_cursor.h"

/* The place of a process, which is made its own; NULL without preload. */
static TaskCursor *
cursor_of(int64 process_id)
{
	uint64		owner = hash_combine64(process_id, MyDatabaseId);
	TaskCursor *cursor;

	if (AmoroShared == NULL)
		return NULL;
	cursor = &AmoroShared->task_cursors[owner % TASK_CURSORS];
	if (pg_atomic_read_u64(&cursor->process_id) != owner)
	{
		pg_atomic_write_u64(&cursor->position, 0);
		pg_atomic_write_u64(&cursor->process_id, owner);
	}
	return cursor;
}

/* See the header. */
int64
task_cursor_next(int64 process_id, int64 lowest)
{
	TaskCursor *cursor = cursor_of(process_id);
	int64		position;

	if (cursor == NULL)
		return lowest;
	position = pg_atomic_fetch_add_u64(&cursor->position, 1);
	if (position >= lowest)
		return position;
	task_cursor_reset(process_id, lowest + 1);
	return lowest;
}

/* See the header. */
void
task_cursor_reset(int64 process_id, int64 position)
{
	TaskCursor *cursor = cursor_of(process_id);

	if (cursor != NULL)
		pg_atomic_write_u64(&cursor->position, position);
}
