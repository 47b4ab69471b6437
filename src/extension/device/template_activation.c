/*
 * template_activation.c
 *		What activate_template, on a list of devices, and deactivate_template, on all of a pattern, do in their steps.
 */
#include "postgres.h"

#include "device/device_action.h"
#include "device/device_batch.h"
#include "device/device_definition.h"
#include "device/template_action.h"
#include "object/object_action.h"
#include "procedure/procedure_sql.h"
#include "utils/array.h"

/* Above each of them, or on it, the template must be set. */
static void
require_set(const Procedure *procedure)
{
	SqlArgument arguments[] = {
		sql_bigint(procedure->object_id), sql_jsonb(argument_jsonb(procedure, "devices"))
	};

	if (procedure_sql("SELECT e->>'path' FROM jsonb_array_elements($2) e WHERE NOT EXISTS"
					  " (SELECT FROM amoro_meta.template_path s WHERE s.template_id = $1 AND (s.device_path = e->>'path'"
					  "  OR amoro_meta.device_paths_overlap(s.device_path || '.**', e->>'path'))) LIMIT 1",
					  SPI_OK_SELECT, lengthof(arguments), arguments) > 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("template \"%s\" is not set on \"%s\" or above it", procedure->object_name, result_text(0, 1)),
				 errhint("SELECT set_template(%s, %s, %s, %s)", quote_literal_cstr(procedure->catalog_name),
						 quote_literal_cstr(procedure->database_name), quote_literal_cstr(procedure->object_name),
						 quote_literal_cstr(result_text(0, 1)))));
}

/* A device that is there must be able to have the measurements of the template as well. */
static void
check_device(const Procedure *procedure, int64 device_id, void *template)
{
	SqlArgument id = sql_bigint(device_id);
	Jsonb	   *definition;

	procedure_sql("SELECT definition, template_id FROM amoro_meta.device WHERE device_id = $1", SPI_OK_SELECT, 1, &id);
	if (!result_is_null(0, 2))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("a template is active on the device")));
	definition = result_jsonb(0, 1);
	SPI_freetuptable(SPI_tuptable);
	device_definition_require_apart(definition, template);
}

static void
check_devices(const Procedure *procedure, int64 database_id, Jsonb *template)
{
	SqlArgument arguments[] = {
		sql_bigint(database_id), sql_jsonb(argument_jsonb(procedure, "devices"))
	};
	DeviceBatch batch = {.database_id = database_id};

	batch.matched = (int) procedure_sql("SELECT v.device_id, v.device_path FROM jsonb_array_elements($2) e JOIN amoro_meta.device v"
										" ON v.database_id = $1 AND v.device_path = e->>'path'",
										SPI_OK_SELECT, lengthof(arguments), arguments);
	batch.ids = palloc_array(int64, batch.matched);
	batch.paths = palloc_array(char *, batch.matched);
	for (int i = 0; i < batch.matched; i++)
	{
		batch.ids[i] = result_bigint(i, 1);
		batch.paths[i] = result_text(i, 2);
	}
	device_batch_work(procedure, &batch, check_device, template);
}

/* Collects a change for each device that carries the marker of the procedure. */
static void
append_changes(Procedure *procedure, bool commits)
{
	SqlArgument id = sql_bigint(procedure->procedure_id);
	ChangeList	changes = {0};

	procedure_sql("SELECT device_path, device_id, state, substr(state, 5) FROM amoro_meta.device"
				  " WHERE procedure_id = $1 ORDER BY device_id FOR UPDATE",
				  SPI_OK_SELECT, 1, &id);
	for (uint64 row = 0; row < SPI_processed; row++)
		change_list_add(&changes, device_change(procedure, result_text(row, commits ? 4 : 3), result_text(row, 1),
												result_bigint(row, 2)));
	procedure_append_list(procedure, &changes);
}

/* Devices that are there are marked; the others come into being, without measurements of their own. */
ActionResult
template_activate_mark(Procedure *procedure)
{
	int64		database_id = argument_bigint(procedure, "database_id");
	Jsonb	   *template = template_lock_normal(procedure, procedure->object_id);
	SqlArgument arguments[] = {
		sql_bigint(database_id), sql_jsonb(argument_jsonb(procedure, "devices")), sql_bigint(procedure->procedure_id),
		sql_bigint(procedure->object_id), sql_jsonb(template)
	};

	database_require_normal(database_id, procedure->database_name);
	require_set(procedure);
	device_require_unmarked(procedure, database_id);
	check_devices(procedure, database_id, template);
	procedure_sql("UPDATE amoro_meta.device v SET state = 'pre_alter', procedure_id = $3 FROM jsonb_array_elements($2) e"
				  " WHERE v.database_id = $1 AND v.device_path = e->>'path'",
				  SPI_OK_UPDATE, 3, arguments);
	procedure_sql("INSERT INTO amoro_meta.device"
				  " (device_id, database_id, device_path, state, procedure_id, definition, template_id, version)"
				  " SELECT (e->>'id')::bigint, $1, e->>'path', 'pre_create', $3,"
				  "  jsonb_build_object('aligned', $5->'aligned', 'measurements', '[]'::jsonb), $4, 0"
				  " FROM jsonb_array_elements($2) e WHERE NOT EXISTS"
				  " (SELECT FROM amoro_meta.device v WHERE v.database_id = $1 AND v.device_path = e->>'path')",
				  SPI_OK_INSERT, lengthof(arguments), arguments);
	append_changes(procedure, false);
	return ACTION_NEXT;
}

ActionResult
template_activate_commit(Procedure *procedure)
{
	SqlArgument arguments[3] = {sql_bigint(procedure->procedure_id), sql_bigint(procedure->object_id)};

	(void) template_lock_normal(procedure, procedure->object_id);
	append_changes(procedure, true);
	if (procedure->appended_version == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("the devices of procedure " INT64_FORMAT " are gone", procedure->procedure_id)));
	arguments[2] = sql_bigint(procedure->appended_version);
	procedure_sql("UPDATE amoro_meta.device SET template_id = $2, state = 'normal', procedure_id = NULL, version = $3"
				  " WHERE procedure_id = $1",
				  SPI_OK_UPDATE, lengthof(arguments), arguments);
	return ACTION_NEXT;
}

ActionResult
template_deactivate_mark(Procedure *procedure)
{
	(void) template_lock_normal(procedure, argument_bigint(procedure, "template_id"));
	device_mark_pattern(procedure, "pre_alter");
	device_remember_marker_version(procedure);
	return ACTION_NEXT;
}

/* Takes the template from the next devices; one that has no measurement of its own is gone, as in IoTDB. */
static int
deactivate_some(const Procedure *procedure, int64 *changed)
{
	DeviceBatch batch = device_batch(procedure, argument_bigint(procedure, "database_id"), argument_text(procedure, "pattern"),
									 "deactivate_cursor");
	Datum	   *ids;
	int			scanned;

	batch.template_id = argument_bigint(procedure, "template_id");
	scanned = device_batch_scan(procedure, &batch);
	ids = palloc_array(Datum, batch.matched);
	for (int i = 0; i < batch.matched; i++)
		ids[i] = Int64GetDatum(batch.ids[i]);

	SqlArgument arguments[] = {
		{INT8ARRAYOID, PointerGetDatum(construct_array(ids, batch.matched, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE)), false},
		sql_bigint(argument_bigint(procedure, "marker_version"))
	};

	procedure_sql("DELETE FROM amoro_meta.device WHERE device_id = ANY ($1)"
				  " AND jsonb_array_length(definition->'measurements') = 0",
				  SPI_OK_DELETE, 1, arguments);
	procedure_sql("UPDATE amoro_meta.device SET template_id = NULL, version = $2 WHERE device_id = ANY ($1)",
				  SPI_OK_UPDATE, lengthof(arguments), arguments);
	*changed = device_batch_count(procedure, batch.matched);
	return scanned;
}

ActionResult
template_deactivate_begin(Procedure *procedure)
{
	int64		changed;

	(void) deactivate_some(procedure, &changed);
	return ACTION_NEXT;
}

ActionResult
template_deactivate_continue(Procedure *procedure)
{
	int64		changed;

	if (deactivate_some(procedure, &changed) == DEVICE_BATCH)
		return ACTION_AGAIN;
	device_settle_pattern(procedure, "alter", changed);
	return ACTION_NEXT;
}
