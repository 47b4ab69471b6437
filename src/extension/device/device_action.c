/*
 * device_action.c
 *		What create_devices does in its steps; create_device is one of a single device.
 */
#include "postgres.h"

#include "device/device_action.h"
#include "object/object_action.h"
#include "procedure/procedure_sql.h"

/* Collects a change for each row of the last result: path, id. */
static void
collect_changes(const Procedure *procedure, const char *operation, ChangeList *changes)
{
	for (uint64 row = 0; row < SPI_processed; row++)
		change_list_add(changes, device_change(procedure, operation, result_text(row, 1), result_bigint(row, 2)));
}

static void
require_new_paths(const Procedure *procedure, int64 database_id)
{
	SqlArgument arguments[] = {
		sql_bigint(database_id), sql_jsonb(argument_jsonb(procedure, "devices"))
	};

	if (procedure_sql("SELECT v.device_path FROM jsonb_array_elements($2) e JOIN amoro_meta.device v"
					  " ON v.database_id = $1 AND v.device_path = e->>'path' LIMIT 1",
					  SPI_OK_SELECT, lengthof(arguments), arguments) > 0)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("device \"%s\".\"%s\".\"%s\" already exists",
						procedure->catalog_name, procedure->database_name, result_text(0, 1))));
}

ActionResult
device_create_mark(Procedure *procedure)
{
	int64		database_id = argument_bigint(procedure, "database_id");
	SqlArgument arguments[] = {
		sql_bigint(database_id), sql_jsonb(argument_jsonb(procedure, "devices")), sql_bigint(procedure->procedure_id)
	};
	ChangeList	changes = {0};

	database_require_normal(database_id, procedure->database_name);
	device_require_unmarked(procedure, database_id);
	require_new_paths(procedure, database_id);
	procedure_sql("INSERT INTO amoro_meta.device"
				  " (device_id, database_id, device_path, state, procedure_id, definition, version)"
				  " SELECT (e->>'id')::bigint, $1, e->>'path', 'pre_create', $3, e->'definition', 0"
				  " FROM jsonb_array_elements($2) e RETURNING device_path, device_id",
				  SPI_OK_INSERT_RETURNING, lengthof(arguments), arguments);
	collect_changes(procedure, "pre_create", &changes);
	procedure_append_list(procedure, &changes);
	return ACTION_NEXT;
}

ActionResult
device_create_commit(Procedure *procedure)
{
	SqlArgument arguments[2] = {sql_bigint(procedure->procedure_id)};
	ChangeList	changes = {0};

	procedure_sql("SELECT device_path, device_id FROM amoro_meta.device WHERE procedure_id = $1"
				  " ORDER BY device_id FOR UPDATE",
				  SPI_OK_SELECT, 1, arguments);
	if (SPI_processed == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("the devices of procedure " INT64_FORMAT " are gone", procedure->procedure_id)));
	collect_changes(procedure, "create", &changes);
	procedure_append_list(procedure, &changes);
	arguments[1] = sql_bigint(procedure->appended_version);
	procedure_sql("UPDATE amoro_meta.device SET state = 'normal', procedure_id = NULL, version = $2"
				  " WHERE procedure_id = $1",
				  SPI_OK_UPDATE, lengthof(arguments), arguments);
	return ACTION_NEXT;
}
