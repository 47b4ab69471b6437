/*
 * database_action.c
 *		What create_database and drop_database do in their steps.
 */
#include "postgres.h"

#include "error_codes.h"
#include "object/database_content.h"
#include "object/object_action.h"
#include "procedure/procedure_sql.h"

/* Rows that one step of a cascading drop deletes: a step is short, whatever the size of the database. */
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
	procedure_append_one(procedure, database_change(procedure, "pre_create"));
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
	procedure_append_one(procedure, database_change(procedure, "create"));

	SqlArgument arguments[] = {
		sql_bigint(procedure->object_id), sql_bigint(procedure->appended_version)
	};

	procedure_sql("UPDATE amoro_meta.database SET state = 'normal', procedure_id = NULL, version = $2"
				  " WHERE database_id = $1",
				  SPI_OK_UPDATE, lengthof(arguments), arguments);
	return ACTION_NEXT;
}

/* A procedure on something in the database, submitted in a snapshot that did not see ours, is in the way (P05). */
static void
require_no_procedure_below(const Procedure *procedure)
{
	SqlArgument arguments[] = {
		sql_text(procedure->catalog_name), sql_text(procedure->database_name)
	};

	procedure_sql("SELECT amoro_meta.procedure_below($1, $2)", SPI_OK_SELECT, lengthof(arguments), arguments);
	if (!result_is_null(0, 1))
		raise_database_in_transition(procedure->database_name, result_bigint(0, 1));
}

/* Views elsewhere must not lose their tables without being asked about. */
static void
require_no_view_elsewhere(const Procedure *procedure)
{
	SqlArgument id = sql_bigint(procedure->object_id);

	procedure_sql("SELECT amoro_meta.refuse_views_elsewhere($1)", SPI_OK_SELECT, 1, &id);
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
	require_no_view_elsewhere(procedure);
	if (!argument_boolean(procedure, "cascade"))
		database_require_empty(procedure->object_id, procedure->catalog_name, procedure->database_name);
	procedure_sql("UPDATE amoro_meta.database SET state = 'pre_drop', procedure_id = $2 WHERE database_id = $1",
				  SPI_OK_UPDATE, lengthof(arguments), arguments);
	procedure_append_one(procedure, database_change(procedure, "pre_drop"));
	return ACTION_NEXT;
}

/* Deletes what comes next of all that hangs on the database; returns how many rows. */
static int
drop_some_content(Procedure *procedure)
{
	ChangeList	changes = {0};
	int			count = database_drop_some(procedure, DROP_BATCH, &changes);

	procedure_append_list(procedure, &changes);
	return count;
}

ActionResult
database_drop_begin(Procedure *procedure)
{
	lock_marked_database(procedure);
	require_no_view_elsewhere(procedure);
	if (!argument_boolean(procedure, "cascade"))
		database_require_empty(procedure->object_id, procedure->catalog_name, procedure->database_name);
	(void) drop_some_content(procedure);
	return ACTION_NEXT;
}

/* There is no way back from here, so a database that is gone already counts as dropped. */
ActionResult
database_drop_continue(Procedure *procedure)
{
	SqlArgument id = sql_bigint(procedure->object_id);
	SqlArgument name[] = {sql_text(procedure->catalog_name), sql_text(procedure->database_name)};

	if (drop_some_content(procedure) > 0)
		return ACTION_AGAIN;
	procedure_sql("SELECT amoro_meta.drop_blockers($1, $2)", SPI_OK_SELECT, lengthof(name), name);
	procedure_sql("DELETE FROM amoro_meta.database WHERE database_id = $1", SPI_OK_DELETE, 1, &id);
	procedure_append_one(procedure, database_change(procedure, "drop"));
	return ACTION_NEXT;
}

/* See object_action.h. */
void
database_unmark(int64 procedure_id, ChangeList *changes)
{
	SqlArgument id = sql_bigint(procedure_id);

	procedure_sql("SELECT c.catalog_name, d.database_name, NULL::text, d.database_id"
				  " FROM amoro_meta.database d JOIN amoro_meta.catalog c USING (catalog_id)"
				  " WHERE d.procedure_id = $1 ORDER BY d.database_id FOR UPDATE OF d",
				  SPI_OK_SELECT, 1, &id);
	object_rolled_back("database", changes);
	procedure_sql("DELETE FROM amoro_meta.database WHERE procedure_id = $1 AND state = 'pre_create'",
				  SPI_OK_DELETE, 1, &id);
	procedure_sql("UPDATE amoro_meta.database SET state = 'normal', procedure_id = NULL WHERE procedure_id = $1",
				  SPI_OK_UPDATE, 1, &id);
}
