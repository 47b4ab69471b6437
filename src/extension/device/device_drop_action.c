/*
 * device_drop_action.c
 *		What drop_devices does in its steps: one marker for all that match, then batch after batch.
 */
#include "postgres.h"

#include "device/device_action.h"
#include "device/device_batch.h"

static DeviceBatch
batch_of(const Procedure *procedure)
{
	return device_batch(procedure, argument_bigint(procedure, "database_id"), argument_text(procedure, "pattern"),
						"drop_cursor");
}

ActionResult
device_drop_mark(Procedure *procedure)
{
	device_mark_pattern(procedure, "pre_drop");
	return ACTION_NEXT;
}

/* No node serves any of them. There is no way back from here, so a device that is gone already counts as dropped. */
ActionResult
device_drop_begin(Procedure *procedure)
{
	DeviceBatch batch = batch_of(procedure);

	(void) device_batch_delete(procedure, &batch);
	(void) device_batch_count(procedure, batch.matched);
	return ACTION_NEXT;
}

ActionResult
device_drop_continue(Procedure *procedure)
{
	DeviceBatch batch = batch_of(procedure);
	int			scanned = device_batch_delete(procedure, &batch);
	int64		dropped = device_batch_count(procedure, batch.matched);

	if (scanned == batch.limit)
		return ACTION_AGAIN;
	device_settle_pattern(procedure, "drop", dropped);
	return ACTION_NEXT;
}
