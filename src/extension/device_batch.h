/*
 * device_batch.h
 *		All devices of a pattern, some at a time, by the steps of one procedure.
 */
#ifndef AMORO_META_DEVICE_BATCH_H
#define AMORO_META_DEVICE_BATCH_H

#include "procedure_machine.h"

/* Devices that one step looks at, whether they match or not: a step is short, whatever the pattern. */
#define DEVICE_BATCH 2000

typedef struct DeviceBatch
{
	int64		database_id;
	const char *pattern;		/* canonical, perhaps without wildcards */
	const char *cursor;			/* member of the procedure's arguments that remembers how far it came */
	int			limit;
	char	   *from;			/* paths from here (inclusive) ... */
	char	   *to;				/* ... to here (exclusive) are left */
} DeviceBatch;

extern DeviceBatch device_batch(const Procedure *procedure, int64 database_id, const char *pattern, const char *cursor);
/*
 * Deletes those of the next devices that match; returns how many were looked at, less than the limit: these were the
 * last. How far it came goes into the arguments of the procedure, so that the next step does not walk over dead rows.
 */
extern int	device_batch_delete(const Procedure *procedure, DeviceBatch *batch);

#endif							/* AMORO_META_DEVICE_BATCH_H */
