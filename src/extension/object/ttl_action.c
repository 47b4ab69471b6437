/*
 * ttl_action.c
 *		What set_ttl and unset_ttl do in their step: write the value, and tell the nodes.
 *
 * There is no marker, and nothing to be undone: what was in force before is replaced in the one step that appends the
 * change, so no earlier value is kept that a retry could mistake for the one to go back to.
 */
#include "postgres.h"

#include "device/device_path.h"
#include "error_codes.h"
#include "object/database_content.h"
#include "object/object_action.h"
#include "object/ttl_action.h"
#include "procedure/procedure_sql.h"

static MetadataChange
ttl_change(const Procedure *procedure, const char *object_kind, const char *name)
{
	return (MetadataChange) {
		.object_kind = object_kind,
		.operation = procedure->kind,
		.catalog_name = procedure->catalog_name,
		.database_name = procedure->database_name,
		.table_name = name,
		.object_id = procedure->object_id
	};
}

/* A change for each row of the last result: object kind, database name, name of the table or NULL, id. */
static void
add_inheritors(const Procedure *procedure, ChangeList *changes)
{
	for (uint64 row = 0; row < SPI_processed; row++)
	{
		MetadataChange change = ttl_change(procedure, result_text(row, 1), result_text(row, 3));

		change.database_name = result_text(row, 2);
		change.object_id = result_bigint(row, 4);
		change_list_add(changes, change);
	}
}

/* All that is in the database inherits it, and views elsewhere that show its tables: one change a database. */
static void
write_to_database(Procedure *procedure, SqlArgument ttl_ms, ChangeList *changes)
{
	SqlArgument arguments[] = {sql_bigint(procedure->object_id), ttl_ms};

	procedure_sql("UPDATE amoro_meta.database SET ttl_ms = $2 WHERE database_id = $1",
				  SPI_OK_UPDATE, lengthof(arguments), arguments);
	change_list_add(changes, ttl_change(procedure, "database", NULL));
	procedure_sql("SELECT DISTINCT 'database', e.database_name, NULL::text, e.database_id"
				  " FROM amoro_meta.table_metadata v JOIN amoro_meta.table_metadata t ON t.table_id = v.base_id"
				  " JOIN amoro_meta.database e ON e.database_id = v.database_id"
				  " WHERE t.database_id = $1 AND v.database_id <> $1",
				  SPI_OK_SELECT, 1, arguments);
	add_inheritors(procedure, changes);
}

/* Raises 42704 unless the table is where it was when this was submitted, and AM401 when a procedure works on it. */
static void
require_settled_table(const Procedure *procedure)
{
	SqlArgument arguments[] = {sql_bigint(argument_bigint(procedure, "table_id"))};

	procedure_sql("SELECT table_name, procedure_id FROM amoro_meta.table_metadata WHERE table_id = $1 FOR UPDATE",
				  SPI_OK_SELECT, lengthof(arguments), arguments);
	if (SPI_processed == 0 || strcmp(result_text(0, 1), procedure->object_name) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("table \"%s\".\"%s\".\"%s\" does not exist",
						procedure->catalog_name, procedure->database_name, procedure->object_name)));
	if (!result_is_null(0, 2))
		ereport(ERROR,
				(errcode(ERRCODE_AMORO_OBJECT_IN_TRANSITION),
				 errmsg("table \"%s\".\"%s\".\"%s\" is in transition",
						procedure->catalog_name, procedure->database_name, procedure->object_name),
				 errdetail("Procedure " INT64_FORMAT " works on it.", result_bigint(0, 2)),
				 errhint("SELECT procedure_status(" INT64_FORMAT ")", result_bigint(0, 2))));
}

static void
write_to_table(Procedure *procedure, SqlArgument ttl_ms, ChangeList *changes)
{
	SqlArgument arguments[] = {sql_bigint(argument_bigint(procedure, "table_id")), ttl_ms};

	require_settled_table(procedure);
	procedure_sql("UPDATE amoro_meta.table_metadata SET definition = CASE WHEN $2 IS NULL THEN definition - 'ttl'"
				  " ELSE jsonb_set(definition, '{ttl}', to_jsonb($2)) END WHERE table_id = $1"
				  " RETURNING relation_kind",
				  SPI_OK_UPDATE_RETURNING, lengthof(arguments), arguments);
	change_list_add(changes, ttl_change(procedure, result_text(0, 1), procedure->object_name));
	procedure_sql("SELECT 'view', d.database_name, v.table_name, v.table_id"
				  " FROM amoro_meta.table_metadata v JOIN amoro_meta.database d USING (database_id)"
				  " WHERE v.base_id = $1 ORDER BY v.table_id",
				  SPI_OK_SELECT, 1, arguments);
	add_inheritors(procedure, changes);
}

/* The version that a table shows is that of the change, as after alter_table. */
static void
settle_table_version(const Procedure *procedure)
{
	SqlArgument arguments[] = {
		sql_bigint(argument_bigint(procedure, "table_id")), sql_bigint(procedure->appended_version)
	};

	procedure_sql("UPDATE amoro_meta.table_metadata SET version = $2 WHERE table_id = $1",
				  SPI_OK_UPDATE, lengthof(arguments), arguments);
	procedure_sql("UPDATE amoro_meta.table_runtime SET table_version = $2 WHERE table_id = $1",
				  SPI_OK_UPDATE, lengthof(arguments), arguments);
}

/* One change, whatever the pattern matches. */
static void
write_to_devices(Procedure *procedure, SqlArgument ttl_ms, ChangeList *changes)
{
	const char *pattern = argument_text(procedure, "path_pattern");
	SqlArgument arguments[] = {sql_bigint(argument_bigint(procedure, "database_id")), sql_text(pattern), ttl_ms};

	if (ttl_ms.is_null)
		procedure_sql("DELETE FROM amoro_meta.device_ttl WHERE database_id = $1 AND path_pattern = $2",
					  SPI_OK_DELETE, 2, arguments);
	else
		procedure_sql("INSERT INTO amoro_meta.device_ttl (database_id, path_pattern, ttl_ms)"
					  " VALUES ($1, $2, $3) ON CONFLICT (database_id, path_pattern) DO UPDATE SET ttl_ms = $3",
					  SPI_OK_INSERT, lengthof(arguments), arguments);
	change_list_add(changes, ttl_change(procedure, "device", device_path_is_pattern(pattern) ? NULL : pattern));
	changes->changes[changes->count - 1].detail = procedure->arguments;
}

ActionResult
ttl_commit(Procedure *procedure)
{
	SqlArgument ttl_ms = sql_optional_id(argument_has(procedure, "ttl_ms") ? argument_bigint(procedure, "ttl_ms") : 0);
	ChangeList	changes = {0};

	database_require_normal(argument_bigint(procedure, "database_id"), procedure->database_name);
	if (argument_has(procedure, "path_pattern"))
		write_to_devices(procedure, ttl_ms, &changes);
	else if (argument_has(procedure, "table_id"))
		write_to_table(procedure, ttl_ms, &changes);
	else
		write_to_database(procedure, ttl_ms, &changes);
	procedure_append_list(procedure, &changes);
	if (argument_has(procedure, "table_id"))
		settle_table_version(procedure);
	return ACTION_NEXT;
}

/* See database_content.h. */
int
ttl_drop_some(const Procedure *procedure, int limit, ChangeList *changes)
{
	SqlArgument arguments[] = {sql_bigint(procedure->object_id), sql_integer(limit)};

	return (int) procedure_sql("DELETE FROM amoro_meta.device_ttl r USING"
							   " (SELECT path_pattern FROM amoro_meta.device_ttl WHERE database_id = $1"
							   "  ORDER BY path_pattern LIMIT $2) p"
							   " WHERE r.database_id = $1 AND r.path_pattern = p.path_pattern",
							   SPI_OK_DELETE, lengthof(arguments), arguments);
}
