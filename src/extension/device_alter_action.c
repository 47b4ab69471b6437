/*
 * device_alter_action.c
 *		What alter_device does in its steps. Before the first device is changed, all that match are looked at: the
 *		changes are possible on every one of them, or nothing is done.
 */
#include "postgres.h"

#include "device_action.h"
#include "device_batch.h"
#include "device_definition.h"
#include "miscadmin.h"
#include "procedure_sql.h"
#include "utils/memutils.h"

/* Works on one device of a batch. */
typedef void (*DeviceWork) (const Procedure *procedure, int64 device_id);

static DeviceBatch
batch_of(const Procedure *procedure, const char *cursor)
{
	return device_batch(procedure, argument_bigint(procedure, "database_id"), argument_text(procedure, "pattern"), cursor);
}

/* The definition of a device after the changes; NULL when the device is gone. */
static Jsonb *
altered_definition(const Procedure *procedure, int64 device_id)
{
	SqlArgument id = sql_bigint(device_id);
	Jsonb	   *definition;

	if (procedure_sql("SELECT definition FROM amoro_meta.device WHERE device_id = $1", SPI_OK_SELECT, 1, &id) == 0)
		return NULL;
	definition = result_jsonb(0, 1);
	SPI_freetuptable(SPI_tuptable);
	return device_definition_alter(definition, NULL, argument_jsonb(procedure, "changes"));
}

static void
check_device(const Procedure *procedure, int64 device_id)
{
	(void) altered_definition(procedure, device_id);
}

/* A device without measurements is none, as in IoTDB. */
static void
alter_device(const Procedure *procedure, int64 device_id)
{
	SqlArgument arguments[] = {
		sql_bigint(device_id), sql_jsonb(altered_definition(procedure, device_id)),
		sql_bigint(argument_bigint(procedure, "marker_version"))
	};

	if (arguments[1].is_null)
		return;
	procedure_sql("WITH emptied AS (DELETE FROM amoro_meta.device WHERE device_id = $1"
				  "  AND jsonb_array_length($2->'measurements') = 0)"
				  " UPDATE amoro_meta.device SET definition = $2, version = $3"
				  " WHERE device_id = $1 AND jsonb_array_length($2->'measurements') > 0",
				  SPI_OK_UPDATE, lengthof(arguments), arguments);
}

/* An error that says which device it is about. */
static void
raise_of_device(const char *device_path, MemoryContext context)
{
	ErrorData  *error;

	MemoryContextSwitchTo(context);
	error = CopyErrorData();
	FlushErrorState();
	error->detail = psprintf("%s%sThe device is \"%s\".", error->detail ? error->detail : "", error->detail ? " " : "",
							 device_path);
	ReThrowError(error);
}

/* Works on those that a scan found, each in memory of its own: definitions are small, but may be large. */
static void
work_on_batch(const Procedure *procedure, const DeviceBatch *batch, DeviceWork work)
{
	MemoryContext outer = CurrentMemoryContext;
	MemoryContext inner = AllocSetContextCreate(outer, "device of a batch", ALLOCSET_DEFAULT_SIZES);

	for (int i = 0; i < batch->matched; i++)
	{
		CHECK_FOR_INTERRUPTS();
		MemoryContextSwitchTo(inner);
		PG_TRY();
		{
			work(procedure, batch->ids[i]);
		}
		PG_CATCH();
		{
			raise_of_device(batch->paths[i], outer);
		}
		PG_END_TRY();
		MemoryContextSwitchTo(outer);
		MemoryContextReset(inner);
	}
	MemoryContextDelete(inner);
}

/* The version of devices of a pattern is that of the marker: the last change comes after many of them are written. */
static void
remember_marker_version(const Procedure *procedure)
{
	SqlArgument arguments[] = {sql_bigint(procedure->procedure_id), sql_bigint(procedure->appended_version)};

	procedure_sql("UPDATE amoro_meta.procedure SET arguments = arguments || jsonb_build_object('marker_version', $2)"
				  " WHERE procedure_id = $1",
				  SPI_OK_UPDATE, lengthof(arguments), arguments);
}

ActionResult
device_alter_mark(Procedure *procedure)
{
	device_mark_pattern(procedure, "pre_alter");
	remember_marker_version(procedure);
	return ACTION_NEXT;
}

static int
alter_some(const Procedure *procedure, int64 *changed)
{
	DeviceBatch batch = batch_of(procedure, "alter_cursor");
	int			scanned = device_batch_scan(procedure, &batch);

	work_on_batch(procedure, &batch, alter_device);
	*changed = device_batch_count(procedure, batch.matched);
	return scanned;
}

/* No node serves any of them: look at all, then change the first. */
ActionResult
device_alter_begin(Procedure *procedure)
{
	DeviceBatch batch = batch_of(procedure, "check_cursor");
	int			scanned = device_batch_scan(procedure, &batch);
	int64		changed;

	work_on_batch(procedure, &batch, check_device);
	if (scanned == batch.limit)
		return ACTION_AGAIN;
	(void) alter_some(procedure, &changed);
	return ACTION_NEXT;
}

ActionResult
device_alter_continue(Procedure *procedure)
{
	int64		changed;

	if (alter_some(procedure, &changed) == DEVICE_BATCH)
		return ACTION_AGAIN;
	device_settle_pattern(procedure, "alter", changed);
	return ACTION_NEXT;
}
