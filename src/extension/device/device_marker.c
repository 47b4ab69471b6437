/*
 * device_marker.c
 *		Markers of devices, one on each device or one on a pattern, and the changes that tell the nodes.
 */
#include "postgres.h"

#include "device/device_action.h"
#include "device/device_path.h"
#include "device/template_action.h"
#include "error_codes.h"
#include "json/json_place.h"
#include "object/object_action.h"
#include "procedure/procedure_sql.h"

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

/*
 * A procedure that works on something that matches the pattern is in the way. From the few procedures to their devices:
 * the planner may take "has a marker" for what most of a million devices have.
 */
static void
require_unmarked_pattern(const Procedure *procedure, int64 database_id, const char *pattern)
{
	SqlArgument arguments[] = {sql_bigint(database_id), sql_text(pattern)};

	if (procedure_sql("SELECT m.pattern, m.procedure_id FROM amoro_meta.device_pattern m"
					  " WHERE m.database_id = $1 AND amoro_meta.device_paths_overlap(m.pattern, $2)"
					  " UNION ALL"
					  " SELECT v.device_path, v.procedure_id FROM amoro_meta.procedure p CROSS JOIN LATERAL"
					  "  (SELECT v.device_path, v.procedure_id FROM amoro_meta.device v"
					  "   WHERE v.procedure_id = p.procedure_id AND v.database_id = $1"
					  "   AND amoro_meta.device_paths_overlap(v.device_path, $2) LIMIT 1) v"
					  " WHERE p.outcome IS NULL LIMIT 1",
					  SPI_OK_SELECT, lengthof(arguments), arguments) > 0)
		device_raise_in_transition(procedure, result_text(0, 1), result_bigint(0, 2));
}

/* The change of a procedure on a pattern; all devices of the database may be among those that match. */
static void
append_pattern_change(Procedure *procedure, const char *operation, Jsonb *detail)
{
	char	   *pattern = argument_text(procedure, "pattern");
	MetadataChange change = device_path_is_pattern(pattern) ? device_change(procedure, operation, NULL, 0) :
		device_change(procedure, operation, pattern, procedure->object_id);

	change.detail = detail;
	procedure_append_one(procedure, change);
}

static Jsonb *
pattern_detail(const char *pattern, int64 changed)
{
	JsonbParseState *state = NULL;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	json_write_string(&state, "pattern", pattern);
	if (changed >= 0)
		json_write_integer(&state, "devices", changed);
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
}

static void
mark_device(const Procedure *procedure, int64 database_id, const char *device_path, const char *state)
{
	SqlArgument arguments[] = {
		sql_bigint(database_id), sql_text(device_path), sql_text(state), sql_bigint(procedure->procedure_id),
		sql_bigint(procedure->object_id)
	};

	if (procedure_sql("UPDATE amoro_meta.device SET state = $3, procedure_id = $4"
					  " WHERE database_id = $1 AND device_path = $2 AND device_id = $5",
					  SPI_OK_UPDATE, lengthof(arguments), arguments) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("device \"%s\".\"%s\".\"%s\" does not exist",
						procedure->catalog_name, procedure->database_name, device_path)));
}

/* See device_action.h. */
void
device_mark_pattern(Procedure *procedure, const char *state)
{
	int64		database_id = argument_bigint(procedure, "database_id");
	char	   *pattern = argument_text(procedure, "pattern");
	SqlArgument arguments[] = {
		sql_bigint(procedure->procedure_id), sql_bigint(database_id), sql_text(pattern), sql_text(state)
	};

	database_require_normal(database_id, procedure->database_name);
	require_unmarked_pattern(procedure, database_id, pattern);
	template_require_none_in_transition(procedure, database_id, pattern);
	if (device_path_is_pattern(pattern))
		procedure_sql("INSERT INTO amoro_meta.device_pattern (procedure_id, database_id, pattern, state)"
					  " VALUES ($1, $2, $3, $4)",
					  SPI_OK_INSERT, lengthof(arguments), arguments);
	else
		mark_device(procedure, database_id, pattern, state);
	append_pattern_change(procedure, state, pattern_detail(pattern, -1));
}

/* See device_action.h. */
void
device_remember_marker_version(const Procedure *procedure)
{
	SqlArgument arguments[] = {sql_bigint(procedure->procedure_id), sql_bigint(procedure->appended_version)};

	procedure_sql("UPDATE amoro_meta.procedure SET arguments = arguments || jsonb_build_object('marker_version', $2)"
				  " WHERE procedure_id = $1",
				  SPI_OK_UPDATE, lengthof(arguments), arguments);
}

/* See device_action.h. */
void
device_settle_pattern(Procedure *procedure, const char *operation, int64 changed)
{
	SqlArgument arguments[2] = {sql_bigint(procedure->procedure_id)};

	procedure_sql("DELETE FROM amoro_meta.device_pattern WHERE procedure_id = $1", SPI_OK_DELETE, 1, arguments);
	append_pattern_change(procedure, operation, pattern_detail(argument_text(procedure, "pattern"), changed));
	arguments[1] = sql_bigint(procedure->appended_version);
	procedure_sql("UPDATE amoro_meta.device SET state = 'normal', procedure_id = NULL, version = $2"
				  " WHERE procedure_id = $1",
				  SPI_OK_UPDATE, lengthof(arguments), arguments);
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
