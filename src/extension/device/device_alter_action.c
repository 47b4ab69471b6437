/*
 * device_alter_action.c
 *		What alter_device does in its steps. Before the first device is changed, all that match are looked at: the
 *		changes are possible on every one of them, or nothing is done.
 */
#include "postgres.h"

#include "device/device_action.h"
#include "device/device_batch.h"
#include "device/device_definition.h"
#include "procedure/procedure_sql.h"

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
	Jsonb	   *template;

	if (procedure_sql("SELECT v.definition, t.definition FROM amoro_meta.device v"
					  " LEFT JOIN amoro_meta.template t USING (template_id) WHERE v.device_id = $1",
					  SPI_OK_SELECT, 1, &id) == 0)
		return NULL;
	definition = result_jsonb(0, 1);
	template = result_jsonb(0, 2);
	SPI_freetuptable(SPI_tuptable);
	return device_definition_alter(definition, template, argument_jsonb(procedure, "changes"));
}

static void
check_device(const Procedure *procedure, int64 device_id, void *argument)
{
	(void) altered_definition(procedure, device_id);
}

/* A device without measurements is none, as in IoTDB. */
static void
alter_device(const Procedure *procedure, int64 device_id, void *argument)
{
	SqlArgument arguments[] = {
		sql_bigint(device_id), sql_jsonb(altered_definition(procedure, device_id)),
		sql_bigint(argument_bigint(procedure, "marker_version"))
	};

	if (arguments[1].is_null)
		return;
	procedure_sql("WITH emptied AS (DELETE FROM amoro_meta.device WHERE device_id = $1"
				  "  AND jsonb_array_length($2->'measurements') = 0 AND template_id IS NULL)"
				  " UPDATE amoro_meta.device SET definition = $2, version = $3"
				  " WHERE device_id = $1 AND (jsonb_array_length($2->'measurements') > 0 OR template_id IS NOT NULL)",
				  SPI_OK_UPDATE, lengthof(arguments), arguments);
}

ActionResult
device_alter_mark(Procedure *procedure)
{
	device_mark_pattern(procedure, "pre_alter");
	device_remember_marker_version(procedure);
	return ACTION_NEXT;
}

static int
alter_some(const Procedure *procedure, int64 *changed)
{
	DeviceBatch batch = batch_of(procedure, "alter_cursor");
	int			scanned = device_batch_scan(procedure, &batch);

	device_batch_work(procedure, &batch, alter_device, NULL);
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

	device_batch_work(procedure, &batch, check_device, NULL);
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
