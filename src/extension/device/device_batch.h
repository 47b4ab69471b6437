/*
 * device_batch.h
 *		All devices of a pattern, some at a time, by the steps of one procedure.
 */
#ifndef AMORO_META_DEVICE_BATCH_H
#define AMORO_META_DEVICE_BATCH_H

#include "procedure/procedure_machine.h"

/* Devices that one step looks at, whether they match or not: a step is short, whatever the pattern. */
#define DEVICE_BATCH 2000

/* All devices of a database. */
#define DEVICE_EVERY "root.**"

typedef struct DeviceBatch
{
	int64		database_id;
	const char *pattern;		/* canonical, perhaps without wildcards */
	const char *cursor;			/* member of the procedure's arguments that remembers how far it came */
	int64		template_id;		/* only devices on which it is active; 0: all */
	int			limit;
	char	   *from;			/* paths from here (inclusive) ... */
	char	   *to;				/* ... to here (exclusive) are left */

	/* of the last scan or deletion */
	int			matched;
	int64	   *ids;			/* by a scan: those that matched */
	char	  **paths;
} DeviceBatch;

extern DeviceBatch device_batch(const Procedure *procedure, int64 database_id, const char *pattern, const char *cursor);
/*
 * Each looks at the next devices and returns how many; less than the limit: these were the last. A scan finds those that
 * match, a deletion deletes them. How far it came goes into the arguments of the procedure, where the next step finds it.
 */
extern int	device_batch_scan(const Procedure *procedure, DeviceBatch *batch);
extern int	device_batch_delete(const Procedure *procedure, DeviceBatch *batch);
/* Works on one device of a batch; frees what it has selected. */
typedef void (*DeviceWork) (const Procedure *procedure, int64 device_id, void *argument);
/* Works on all that a scan found; the detail of an error says which device it is about. */
extern void device_batch_work(const Procedure *procedure, const DeviceBatch *batch, DeviceWork work, void *argument);
/* Adds to the number of devices that the procedure has changed, which it keeps in its arguments; returns the sum. */
extern int64 device_batch_count(const Procedure *procedure, int matched);

#endif							/* AMORO_META_DEVICE_BATCH_H */
