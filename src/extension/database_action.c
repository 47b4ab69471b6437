/*
 * database_action.c
 *		What create_database and drop_database do in their steps.
 */
#include "postgres.h"

#include "error_codes.h"
#include "object_action.h"
#include "procedure_sql.h"

/* Tables that one step of a cascading drop deletes: a step is short, whatever the size of the database. */
#define DROP_BATCH 1000

static MetadataChange
database_change(const Procedure *procedure, const char *operation)
{
	return (MetadataChange) {
		.object_kind = "database",
		.operation = operation,
		.catalog_name = procedure->catalog_name,
		.database_name = procedure->database_name,
		.object_id = procedure->object_id
	};
}

static void
append_database_change(Procedure *procedure, const char *operation)
{
	MetadataChange change = database_change(procedure, operation);

	procedure_append(procedure, &change, 1);
}

static void
raise_database_in_transition(const char *database_name, int64 other_procedure_id)
{
	ereport(ERROR,
			(errcode(ERRCODE_AMORO_OBJECT_IN_TRANSITION),
			 errmsg("database \"%s\" is in transition", database_name),
			 errdetail("Procedure " INT64_FORMAT " works on it or on a table in it.", other_procedure_id),
			 errhint("SELECT procedure_status(" INT64_FORMAT ")", other_procedure_id)));
}

/*
 * database_require_normal raises 42704 unless the database is there, and AM401 when
 * a procedure works on it; it stays so to the end of the transaction.
 */
void
database_require_normal(int64 database_id, const char *database_name)
{
	SqlArgument id = sql_bigint(database_id);

	procedure_sql("SELECT state, procedure_id FROM amoro_meta.database WHERE database_id = $1 FOR KEY SHARE",
				  SPI_OK_SELECT, 1, &id);
	if (SPI_processed == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("database \"%s\" does not exist", database_name),
				 errdetail("The database with the id " INT64_FORMAT " was dropped after the submission.", database_id)));
	if (strcmp(result_text(0, 1), "normal") != 0)
		raise_database_in_transition(database_name, result_bigint(0, 2));
}

ActionResult
database_create_mark(Procedure *procedure)
{
	SqlArgument name[] = {
		sql_bigint(argument_bigint(procedure, "catalog_id")), sql_text(procedure->database_name)
	};
	SqlArgument row[] = {
		sql_bigint(procedure->object_id), name[0], name[1], sql_bigint(procedure->procedure_id),
		sql_jsonb(argument_jsonb(procedure, "properties"))
	};

	if (procedure_sql("SELECT FROM amoro_meta.catalog WHERE catalog_id = $1 FOR KEY SHARE",
					  SPI_OK_SELECT, 1, name) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("catalog \"%s\" does not exist", procedure->catalog_name)));
	if (procedure_sql("SELECT FROM amoro_meta.database WHERE catalog_id = $1 AND database_name = $2",
					  SPI_OK_SELECT, lengthof(name), name) > 0)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("database \"%s\".\"%s\" already exists",
						procedure->catalog_name, procedure->database_name)));
	procedure_sql("INSERT INTO amoro_meta.database"
				  " (database_id, catalog_id, database_name, state, procedure_id, properties, version)"
				  " VALUES ($1, $2, $3, 'pre_create', $4, $5, 0)",
				  SPI_OK_INSERT, lengthof(row), row);
	append_database_change(procedure, "pre_create");
	return ACTION_NEXT;
}

/* Locks the database that carries the marker of this procedure. */
static void
lock_marked_database(const Procedure *procedure)
{
	SqlArgument id = sql_bigint(procedure->object_id);

	procedure_sql("SELECT procedure_id FROM amoro_meta.database WHERE database_id = $1 FOR NO KEY UPDATE",
				  SPI_OK_SELECT, 1, &id);
	if (SPI_processed == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("database \"%s\" does not exist", procedure->database_name)));
	if (result_bigint(0, 1) != procedure->procedure_id)
		raise_database_in_transition(procedure->database_name, result_bigint(0, 1));
}

ActionResult
database_create_commit(Procedure *procedure)
{
	lock_marked_database(procedure);
	append_database_change(procedure, "create");

	SqlArgument arguments[] = {
		sql_bigint(procedure->object_id), sql_bigint(procedure->appended_version)
	};

	procedure_sql("UPDATE amoro_meta.database SET state = 'normal', procedure_id = NULL, version = $2"
				  " WHERE database_id = $1",
				  SPI_OK_UPDATE, lengthof(arguments), arguments);
	return ACTION_NEXT;
}

/* A procedure on a table in the database, submitted in a snapshot that did not see ours, is in the way (P05). */
static void
require_no_procedure_below(const Procedure *procedure)
{
	SqlArgument arguments[] = {
		sql_text(procedure->catalog_name), sql_text(procedure->database_name),
		sql_bigint(procedure->procedure_id)
	};

	if (procedure_sql("SELECT min(procedure_id) FROM amoro_meta.procedure_claim"
					  " WHERE object_kind = 'table' AND catalog_name = $1 AND database_name = $2"
					  " AND procedure_id <> $3",
					  SPI_OK_SELECT, lengthof(arguments), arguments) > 0 && !result_is_null(0, 1))
		raise_database_in_transition(procedure->database_name, result_bigint(0, 1));
}

static void
require_empty_database(const Procedure *procedure)
{
	SqlArgument id = sql_bigint(procedure->object_id);

	if (procedure_sql("SELECT table_name FROM amoro_meta.table_metadata WHERE database_id = $1 LIMIT 1",
					  SPI_OK_SELECT, 1, &id) > 0)
		ereport(ERROR,
				(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
				 errmsg("database \"%s\".\"%s\" is not empty", procedure->catalog_name, procedure->database_name),
				 errdetail("It has the table \"%s\".", result_text(0, 1)),
				 errhint("SELECT drop_database(%s, %s, cascade => true)",
						 quote_literal_cstr(procedure->catalog_name),
						 quote_literal_cstr(procedure->database_name))));
}

/* One marker for all: readers of any table in the database see it. */
ActionResult
database_drop_mark(Procedure *procedure)
{
	SqlArgument arguments[] = {
		sql_bigint(procedure->object_id), sql_bigint(procedure->procedure_id)
	};

	database_require_normal(procedure->object_id, procedure->database_name);
	require_no_procedure_below(procedure);
	if (!argument_boolean(procedure, "cascade"))
		require_empty_database(procedure);
	procedure_sql("UPDATE amoro_meta.database SET state = 'pre_drop', procedure_id = $2 WHERE database_id = $1",
				  SPI_OK_UPDATE, lengthof(arguments), arguments);
	append_database_change(procedure, "pre_drop");
	return ACTION_NEXT;
}

/* Deletes the next tables of the database and logs each; returns how many. */
static int
drop_some_tables(Procedure *procedure)
{
	SqlArgument arguments[] = {sql_bigint(procedure->object_id), sql_integer(DROP_BATCH)};
	MetadataChange *changes;
	int			count;

	/* the runtimes first, which have locks to wait for */
	procedure_sql("SELECT amoro_meta.remove_table_runtimes(ARRAY"
				  " (SELECT table_id FROM amoro_meta.table_metadata WHERE database_id = $1"
				  "  ORDER BY table_id LIMIT $2), 'the table was dropped')",
				  SPI_OK_SELECT, lengthof(arguments), arguments);
	count = (int) procedure_sql("DELETE FROM amoro_meta.table_metadata WHERE table_id IN"
								" (SELECT table_id FROM amoro_meta.table_metadata WHERE database_id = $1"
								"  ORDER BY table_id LIMIT $2)"
								" RETURNING table_id, table_name,"
								" jsonb_build_object('purge', false, 'location', definition->'location')",
								SPI_OK_DELETE_RETURNING, lengthof(arguments), arguments);
	if (count == 0)
		return 0;
	changes = palloc_array(MetadataChange, count);
	for (int i = 0; i < count; i++)
	{
		changes[i] = database_change(procedure, "drop");
		changes[i].object_kind = "table";
		changes[i].object_id = result_bigint(i, 1);
		changes[i].table_name = result_text(i, 2);
		changes[i].detail = result_jsonb(i, 3);
	}
	procedure_append(procedure, changes, count);
	return count;
}

ActionResult
database_drop_begin(Procedure *procedure)
{
	lock_marked_database(procedure);
	if (!argument_boolean(procedure, "cascade"))
		require_empty_database(procedure);
	(void) drop_some_tables(procedure);
	return ACTION_NEXT;
}

/* There is no way back from here, so a database that is gone already counts as dropped. */
ActionResult
database_drop_continue(Procedure *procedure)
{
	SqlArgument id = sql_bigint(procedure->object_id);
	SqlArgument name[] = {sql_text(procedure->catalog_name), sql_text(procedure->database_name)};

	if (drop_some_tables(procedure) > 0)
		return ACTION_AGAIN;
	procedure_sql("SELECT amoro_meta.drop_blockers($1, $2)", SPI_OK_SELECT, lengthof(name), name);
	procedure_sql("DELETE FROM amoro_meta.database WHERE database_id = $1", SPI_OK_DELETE, 1, &id);
	append_database_change(procedure, "drop");
	return ACTION_NEXT;
}
