/*
 * device_marker.c
 *		Markers of devices, one on each device or one on a pattern, and the changes that tell the nodes.
 */
#include "postgres.h"

#include "device_action.h"
#include "device_path.h"
#include "error_codes.h"
#include "object_action.h"
#include "procedure_sql.h"

/* See device_action.h. */
MetadataChange
device_change(const Procedure *procedure, const char *operation, const char *device_path, int64 device_id)
{
	return (MetadataChange) {
		.object_kind = "device",
		.operation = operation,
		.catalog_name = procedure->catalog_name,
		.database_name = procedure->database_name,
		.table_name = device_path,
		.object_id = device_id
	};
}

void
device_raise_in_transition(const Procedure *procedure, const char *device_path, int64 other_procedure_id)
{
	ereport(ERROR,
			(errcode(ERRCODE_AMORO_OBJECT_IN_TRANSITION),
			 errmsg("device \"%s\".\"%s\".\"%s\" is in transition",
					procedure->catalog_name, procedure->database_name, device_path),
			 errdetail("Procedure " INT64_FORMAT " works on it, or on a pattern that it matches.", other_procedure_id),
			 errhint("SELECT procedure_status(" INT64_FORMAT ")", other_procedure_id)));
}

/* See device_action.h. */
void
device_require_unmarked(const Procedure *procedure, int64 database_id)
{
	SqlArgument arguments[] = {
		sql_bigint(database_id), sql_jsonb(argument_jsonb(procedure, "devices"))
	};

	if (procedure_sql("SELECT e->>'path', m.procedure_id"
					  " FROM amoro_meta.device_pattern m, jsonb_array_elements($2) e"
					  " WHERE m.database_id = $1 AND amoro_meta.device_paths_overlap(m.pattern, e->>'path') LIMIT 1",
					  SPI_OK_SELECT, lengthof(arguments), arguments) > 0)
		device_raise_in_transition(procedure, result_text(0, 1), result_bigint(0, 2));
}

/* See device_action.h. */
void
device_unmark(int64 procedure_id, ChangeList *changes)
{
	SqlArgument id = sql_bigint(procedure_id);

	procedure_sql("SELECT c.catalog_name, d.database_name, v.device_path, v.device_id"
				  " FROM amoro_meta.device v"
				  " JOIN amoro_meta.database d USING (database_id)"
				  " JOIN amoro_meta.catalog c USING (catalog_id)"
				  " WHERE v.procedure_id = $1 ORDER BY v.device_id FOR UPDATE OF v",
				  SPI_OK_SELECT, 1, &id);
	object_rolled_back("device", changes);
	procedure_sql("SELECT c.catalog_name, d.database_name, NULL::text, 0::bigint"
				  " FROM amoro_meta.device_pattern m"
				  " JOIN amoro_meta.database d USING (database_id)"
				  " JOIN amoro_meta.catalog c USING (catalog_id)"
				  " WHERE m.procedure_id = $1",
				  SPI_OK_SELECT, 1, &id);
	object_rolled_back("device", changes);
	procedure_sql("DELETE FROM amoro_meta.device WHERE procedure_id = $1 AND state = 'pre_create'",
				  SPI_OK_DELETE, 1, &id);
	procedure_sql("UPDATE amoro_meta.device SET state = 'normal', procedure_id = NULL WHERE procedure_id = $1",
				  SPI_OK_UPDATE, 1, &id);
	procedure_sql("DELETE FROM amoro_meta.device_pattern WHERE procedure_id = $1", SPI_OK_DELETE, 1, &id);
}
