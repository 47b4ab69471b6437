/*
 * table_row.c
 *		The rows of tables and views, as the steps of procedures read, mark and settle them.
 */
#include "postgres.h"

#include "error_codes.h"
#include "object/table_row.h"
#include "procedure/procedure_sql.h"

bool
table_row_read(int64 table_id, TableRow *table)
{
	SqlArgument id = sql_bigint(table_id);

	procedure_sql("SELECT c.catalog_name, d.database_name, t.table_name, t.state,"
				  " coalesce(t.procedure_id, d.procedure_id), d.state, t.definition, t.relation_kind, t.base_id"
				  " FROM amoro_meta.table_metadata t"
				  " JOIN amoro_meta.database d USING (database_id)"
				  " JOIN amoro_meta.catalog c USING (catalog_id)"
				  " WHERE t.table_id = $1 FOR UPDATE OF t",
				  SPI_OK_SELECT, 1, &id);
	if (SPI_processed == 0)
		return false;
	*table = (TableRow) {
		.table_id = table_id,
		.catalog_name = result_text(0, 1),
		.database_name = result_text(0, 2),
		.table_name = result_text(0, 3),
		.state = result_text(0, 4),
		.procedure_id = result_bigint(0, 5),
		.database_state = result_text(0, 6),
		.definition = result_jsonb(0, 7),
		.relation_kind = result_text(0, 8),
		.base_id = result_bigint(0, 9)
	};
	return true;
}

static void
raise_gone(const Procedure *procedure)
{
	const char *noun = strstr(procedure->kind, "_view") != NULL ? "view" : "table";

	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("%s \"%s\".\"%s\".\"%s\" does not exist", noun,
					procedure->catalog_name, procedure->database_name, procedure->object_name),
			 errdetail("The %s with the id " INT64_FORMAT " was dropped or renamed after the submission.", noun, procedure->object_id)));
}

void
table_row_raise_in_transition(const TableRow *table)
{
	ereport(ERROR,
			(errcode(ERRCODE_AMORO_OBJECT_IN_TRANSITION),
			 errmsg("%s \"%s\".\"%s\".\"%s\" is in transition", table->relation_kind,
					table->catalog_name, table->database_name, table->table_name),
			 errdetail("Procedure " INT64_FORMAT " works on it or on its database.", table->procedure_id),
			 errhint("SELECT procedure_status(" INT64_FORMAT ")", table->procedure_id)));
}

/*
 * table_row_lock_base locks the table of a view, which no procedure works on. See the header.
 */
void
table_row_lock_base(const Procedure *procedure, int64 base_id, TableRow *base)
{
	if (!table_row_read(base_id, base))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("the table that view \"%s\".\"%s\".\"%s\" shows does not exist",
						procedure->catalog_name, procedure->database_name, procedure->object_name),
				 errdetail("The table with the id " INT64_FORMAT " was dropped after the submission.", base_id)));
	if (strcmp(base->state, "normal") != 0 || strcmp(base->database_state, "normal") != 0)
		table_row_raise_in_transition(base);
}

/*
 * table_row_lock_unmarked locks the object before it is marked: it is the one that the caller named, and no procedure
 * works on it.
 */
void
table_row_lock_unmarked(const Procedure *procedure, TableRow *table)
{
	if (!table_row_read(procedure->object_id, table) ||
		strcmp(table->catalog_name, procedure->catalog_name) != 0 ||
		strcmp(table->database_name, procedure->database_name) != 0 ||
		strcmp(table->table_name, procedure->object_name) != 0)
		raise_gone(procedure);
	if (strcmp(table->state, "normal") != 0 || strcmp(table->database_state, "normal") != 0)
		table_row_raise_in_transition(table);
}

/*
 * table_row_lock_marked locks the object that carries the marker of this procedure.
 */
void
table_row_lock_marked(const Procedure *procedure, TableRow *table)
{
	if (!table_row_read(procedure->object_id, table))
		raise_gone(procedure);
	if (table->procedure_id != procedure->procedure_id)
		table_row_raise_in_transition(table);
}

/*
 * table_row_change is the change of a row under the names that it has in memory.
 */
MetadataChange
table_row_change(const TableRow *table, const char *operation)
{
	return (MetadataChange) {
		.object_kind = table->relation_kind,
		.operation = operation,
		.catalog_name = table->catalog_name,
		.database_name = table->database_name,
		.table_name = table->table_name,
		.object_id = table->table_id
	};
}

void
table_row_mark(const Procedure *procedure, int64 table_id, const char *state)
{
	SqlArgument arguments[] = {sql_bigint(table_id), sql_text(state), sql_bigint(procedure->procedure_id)};

	procedure_sql("UPDATE amoro_meta.table_metadata SET state = $2, procedure_id = $3 WHERE table_id = $1",
				  SPI_OK_UPDATE, lengthof(arguments), arguments);
}

void
table_row_define(int64 table_id, Jsonb *definition)
{
	SqlArgument arguments[] = {sql_bigint(table_id), sql_jsonb(definition)};

	procedure_sql("UPDATE amoro_meta.table_metadata SET definition = $2 WHERE table_id = $1",
				  SPI_OK_UPDATE, lengthof(arguments), arguments);
}

/*
 * table_row_put_runtime makes the runtime what the properties of the table ask for. See the header.
 */
void
table_row_put_runtime(int64 table_id)
{
	SqlArgument id = sql_bigint(table_id);

	procedure_sql("SELECT amoro_meta.put_table_runtime($1)", SPI_OK_SELECT, 1, &id);
}

/*
 * table_row_insert_marked takes a name for what is in the making. See the header.
 */
void
table_row_insert_marked(const Procedure *procedure, int64 database_id, const TableRow *table)
{
	SqlArgument name[] = {sql_bigint(database_id), sql_text(table->table_name)};
	SqlArgument row[] = {
		sql_bigint(table->table_id), sql_bigint(database_id), sql_text(table->table_name),
		sql_bigint(procedure->procedure_id), sql_jsonb(table->definition), sql_text(table->relation_kind),
		sql_optional_id(table->base_id)
	};

	database_require_normal(database_id, table->database_name);
	if (procedure_sql("SELECT relation_kind FROM amoro_meta.table_metadata WHERE database_id = $1 AND table_name = $2",
					  SPI_OK_SELECT, lengthof(name), name) > 0)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("%s \"%s\".\"%s\".\"%s\" already exists", result_text(0, 1),
						procedure->catalog_name, table->database_name, table->table_name)));
	procedure_sql("INSERT INTO amoro_meta.table_metadata"
				  " (table_id, database_id, table_name, state, procedure_id, definition, version, relation_kind, base_id)"
				  " VALUES ($1, $2, $3, 'pre_create', $4, $5, 0, $6, $7)",
				  SPI_OK_INSERT, lengthof(row), row);
}

/*
 * table_row_settle ends the markers: all that carried one is as its row says, and so are the runtimes, from the version
 * of the change on that was just appended.
 */
void
table_row_settle(const Procedure *procedure)
{
	SqlArgument arguments[] = {sql_bigint(procedure->procedure_id), sql_bigint(procedure->appended_version)};

	procedure_sql("WITH settled AS"
				  " (UPDATE amoro_meta.table_metadata SET state = 'normal', procedure_id = NULL, version = $2"
				  "  WHERE procedure_id = $1 RETURNING table_id)"
				  " UPDATE amoro_meta.table_runtime r SET table_version = $2 FROM settled s WHERE r.table_id = s.table_id",
				  SPI_OK_UPDATE, lengthof(arguments), arguments);
}
