/*
 * table_action.c
 *		What create_table, alter_table, rename_table and drop_table do in their steps.
 *
 * Every step finds its table by id, locks it and looks again at all it relies on:
 * a name may have passed to another table since the submission (P07, P14).
 */
#include "postgres.h"

#include "database_content.h"
#include "definition.h"
#include "error_codes.h"
#include "object_action.h"
#include "procedure_sql.h"

typedef struct TableRow
{
	char	   *catalog_name;
	char	   *database_name;
	char	   *table_name;
	char	   *state;
	int64		procedure_id;	/* that works on it, or else on its database; 0: none */
	char	   *database_state;
	Jsonb	   *definition;
} TableRow;

static bool
read_table(int64 table_id, TableRow *table)
{
	SqlArgument id = sql_bigint(table_id);

	procedure_sql("SELECT c.catalog_name, d.database_name, t.table_name, t.state,"
				  " coalesce(t.procedure_id, d.procedure_id), d.state, t.definition"
				  " FROM amoro_meta.table_metadata t"
				  " JOIN amoro_meta.database d USING (database_id)"
				  " JOIN amoro_meta.catalog c USING (catalog_id)"
				  " WHERE t.table_id = $1 FOR UPDATE OF t",
				  SPI_OK_SELECT, 1, &id);
	if (SPI_processed == 0)
		return false;
	table->catalog_name = result_text(0, 1);
	table->database_name = result_text(0, 2);
	table->table_name = result_text(0, 3);
	table->state = result_text(0, 4);
	table->procedure_id = result_bigint(0, 5);
	table->database_state = result_text(0, 6);
	table->definition = result_jsonb(0, 7);
	return true;
}

static void
raise_table_gone(const Procedure *procedure)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("table \"%s\".\"%s\".\"%s\" does not exist",
					procedure->catalog_name, procedure->database_name, procedure->object_name),
			 errdetail("The table with the id " INT64_FORMAT " was dropped or renamed after the submission.",
					   procedure->object_id)));
}

static void
raise_table_in_transition(const Procedure *procedure, int64 other_procedure_id)
{
	ereport(ERROR,
			(errcode(ERRCODE_AMORO_OBJECT_IN_TRANSITION),
			 errmsg("table \"%s\".\"%s\".\"%s\" is in transition",
					procedure->catalog_name, procedure->database_name, procedure->object_name),
			 errdetail("Procedure " INT64_FORMAT " works on it or on its database.", other_procedure_id),
			 errhint("SELECT procedure_status(" INT64_FORMAT ")", other_procedure_id)));
}

/* Locks the table before it is marked: it is the one that the caller named, and no procedure works on it. */
static void
lock_unmarked_table(const Procedure *procedure, TableRow *table)
{
	if (!read_table(procedure->object_id, table) ||
		strcmp(table->catalog_name, procedure->catalog_name) != 0 ||
		strcmp(table->database_name, procedure->database_name) != 0 ||
		strcmp(table->table_name, procedure->object_name) != 0)
		raise_table_gone(procedure);
	if (strcmp(table->state, "normal") != 0 || strcmp(table->database_state, "normal") != 0)
		raise_table_in_transition(procedure, table->procedure_id);
}

/* Locks the table that carries the marker of this procedure. */
static void
lock_marked_table(const Procedure *procedure, TableRow *table)
{
	if (!read_table(procedure->object_id, table))
		raise_table_gone(procedure);
	if (table->procedure_id != procedure->procedure_id)
		raise_table_in_transition(procedure, table->procedure_id);
}

static MetadataChange
table_change(const Procedure *procedure, const char *operation)
{
	return (MetadataChange) {
		.object_kind = "table",
		.operation = operation,
		.catalog_name = procedure->catalog_name,
		.database_name = procedure->database_name,
		.table_name = procedure->object_name,
		.object_id = procedure->object_id
	};
}

static void
append_table_change(Procedure *procedure, const char *operation, Jsonb *detail)
{
	MetadataChange change = table_change(procedure, operation);

	change.detail = detail;
	procedure_append(procedure, &change, 1);
}

static void
set_table_marker(const Procedure *procedure, const char *state)
{
	SqlArgument arguments[] = {
		sql_bigint(procedure->object_id), sql_text(state), sql_bigint(procedure->procedure_id)
	};

	procedure_sql("UPDATE amoro_meta.table_metadata SET state = $2, procedure_id = $3 WHERE table_id = $1",
				  SPI_OK_UPDATE, lengthof(arguments), arguments);
}

/*
 * Makes the runtime what the properties of the table ask for. Before the change is appended: it locks the rows of the
 * group and of the runtime.
 */
static void
put_runtime(const Procedure *procedure)
{
	SqlArgument id = sql_bigint(procedure->object_id);

	procedure_sql("SELECT amoro_meta.put_table_runtime($1)", SPI_OK_SELECT, 1, &id);
}

/* Takes a name for a table in the making; raises 42710 when another table has it, in whatever state. */
static void
insert_marked_table(const Procedure *procedure, int64 table_id, int64 database_id, const char *database_name,
					const char *table_name, Jsonb *definition)
{
	SqlArgument name[] = {sql_bigint(database_id), sql_text(table_name)};
	SqlArgument row[] = {
		sql_bigint(table_id), sql_bigint(database_id), sql_text(table_name),
		sql_bigint(procedure->procedure_id), sql_jsonb(definition)
	};

	database_require_normal(database_id, database_name);
	if (procedure_sql("SELECT FROM amoro_meta.table_metadata WHERE database_id = $1 AND table_name = $2",
					  SPI_OK_SELECT, lengthof(name), name) > 0)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("table \"%s\".\"%s\".\"%s\" already exists",
						procedure->catalog_name, database_name, table_name)));
	procedure_sql("INSERT INTO amoro_meta.table_metadata"
				  " (table_id, database_id, table_name, state, procedure_id, definition, version)"
				  " VALUES ($1, $2, $3, 'pre_create', $4, $5, 0)",
				  SPI_OK_INSERT, lengthof(row), row);
}

ActionResult
table_create_mark(Procedure *procedure)
{
	insert_marked_table(procedure, procedure->object_id, argument_bigint(procedure, "database_id"),
						procedure->database_name, procedure->object_name,
						argument_jsonb(procedure, "definition"));
	append_table_change(procedure, "pre_create", NULL);
	return ACTION_NEXT;
}

/* Ends the marker: the table, and its runtime with it, is as its row says, from the version of this change on. */
static void
settle_table(const Procedure *procedure)
{
	SqlArgument arguments[] = {sql_bigint(procedure->object_id), sql_bigint(procedure->appended_version)};

	procedure_sql("UPDATE amoro_meta.table_metadata SET state = 'normal', procedure_id = NULL, version = $2 WHERE table_id = $1",
				  SPI_OK_UPDATE, lengthof(arguments), arguments);
	procedure_sql("UPDATE amoro_meta.table_runtime SET table_version = $2 WHERE table_id = $1",
				  SPI_OK_UPDATE, lengthof(arguments), arguments);
}

ActionResult
table_create_commit(Procedure *procedure)
{
	TableRow	table;

	lock_marked_table(procedure, &table);
	put_runtime(procedure);
	append_table_change(procedure, "create", NULL);
	settle_table(procedure);
	return ACTION_NEXT;
}

ActionResult
table_alter_mark(Procedure *procedure)
{
	TableRow	table;

	lock_unmarked_table(procedure, &table);
	/* what the changes were checked against at the submission may have changed since */
	(void) definition_alter(table.definition, argument_jsonb(procedure, "changes"));
	set_table_marker(procedure, "pre_alter");
	append_table_change(procedure, "pre_alter", NULL);
	return ACTION_NEXT;
}

ActionResult
table_alter_commit(Procedure *procedure)
{
	TableRow	table;
	SqlArgument arguments[2] = {sql_bigint(procedure->object_id)};

	lock_marked_table(procedure, &table);
	arguments[1] = sql_jsonb(definition_alter(table.definition, argument_jsonb(procedure, "changes")));
	procedure_sql("UPDATE amoro_meta.table_metadata SET definition = $2 WHERE table_id = $1",
				  SPI_OK_UPDATE, lengthof(arguments), arguments);
	put_runtime(procedure);
	append_table_change(procedure, "alter", NULL);
	settle_table(procedure);
	return ACTION_NEXT;
}

/* The change under the new name of a table that is being renamed. */
static MetadataChange
new_name_change(const Procedure *procedure, const char *operation, int64 object_id)
{
	MetadataChange change = table_change(procedure, operation);

	change.database_name = argument_text(procedure, "new_database_name");
	change.table_name = argument_text(procedure, "new_table_name");
	change.object_id = object_id;
	return change;
}

/*
 * The new name is reserved by a row of its own, so that no other table can take it and readers of it see a marker too.
 */
ActionResult
table_rename_mark(Procedure *procedure)
{
	int64		reserved_id = argument_bigint(procedure, "reserved_id");
	MetadataChange changes[2] = {
		table_change(procedure, "pre_alter"), new_name_change(procedure, "pre_create", reserved_id)
	};
	TableRow	table;

	lock_unmarked_table(procedure, &table);
	insert_marked_table(procedure, reserved_id, argument_bigint(procedure, "new_database_id"),
						changes[1].database_name, changes[1].table_name, definition_empty());
	set_table_marker(procedure, "pre_alter");
	procedure_append(procedure, changes, 2);
	return ACTION_NEXT;
}

ActionResult
table_rename_commit(Procedure *procedure)
{
	SqlArgument reserved = sql_bigint(argument_bigint(procedure, "reserved_id"));
	MetadataChange changes[2] = {
		table_change(procedure, "rename"), new_name_change(procedure, "rename", procedure->object_id)
	};
	SqlArgument name[] = {
		sql_bigint(procedure->object_id), sql_bigint(argument_bigint(procedure, "new_database_id")),
		sql_text(changes[1].table_name)
	};
	TableRow	table;

	lock_marked_table(procedure, &table);
	procedure_sql("DELETE FROM amoro_meta.table_metadata WHERE table_id = $1", SPI_OK_DELETE, 1, &reserved);
	procedure_sql("UPDATE amoro_meta.table_metadata SET database_id = $2, table_name = $3 WHERE table_id = $1",
				  SPI_OK_UPDATE, lengthof(name), name);
	put_runtime(procedure);
	procedure_append(procedure, changes, 2);
	settle_table(procedure);
	return ACTION_NEXT;
}

ActionResult
table_drop_mark(Procedure *procedure)
{
	TableRow	table;

	lock_unmarked_table(procedure, &table);
	set_table_marker(procedure, "pre_drop");
	append_table_change(procedure, "pre_drop", NULL);
	return ACTION_NEXT;
}

/* Whoever removes the files learns from the change whether to, and where they are. */
ActionResult
table_drop_commit(Procedure *procedure)
{
	SqlArgument arguments[] = {
		sql_bigint(procedure->object_id), sql_boolean(argument_boolean(procedure, "purge"))
	};
	SqlArgument name[] = {
		sql_text(procedure->catalog_name), sql_text(procedure->database_name), sql_text(procedure->object_name)
	};
	TableRow	table;
	Jsonb	   *detail;

	lock_marked_table(procedure, &table);
	procedure_sql("SELECT amoro_meta.remove_table_runtimes(ARRAY[$1], 'the table was dropped')", SPI_OK_SELECT, 1, arguments);
	procedure_sql("DELETE FROM amoro_meta.table_metadata WHERE table_id = $1"
				  " RETURNING jsonb_build_object('purge', $2, 'location', definition->'location')",
				  SPI_OK_DELETE_RETURNING, lengthof(arguments), arguments);
	detail = result_jsonb(0, 1);
	/* they are of the name, and must not be in the way of the next table that has it */
	procedure_sql("SELECT amoro_meta.drop_blockers($1, $2, $3)", SPI_OK_SELECT, lengthof(name), name);
	append_table_change(procedure, "drop", detail);
	return ACTION_NEXT;
}

/* See database_content.h. */
char *
table_find_one(int64 database_id)
{
	SqlArgument id = sql_bigint(database_id);

	if (procedure_sql("SELECT table_name FROM amoro_meta.table_metadata WHERE database_id = $1 LIMIT 1",
					  SPI_OK_SELECT, 1, &id) == 0)
		return NULL;
	return result_text(0, 1);
}

/* Deletes the next tables of a database and logs each, with what whoever removes the files needs. */
int
table_drop_some(const Procedure *procedure, int limit, ChangeList *changes)
{
	SqlArgument arguments[] = {sql_bigint(procedure->object_id), sql_integer(limit)};
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
	for (int i = 0; i < count; i++)
	{
		MetadataChange change = table_change(procedure, "drop");

		change.object_id = result_bigint(i, 1);
		change.table_name = result_text(i, 2);
		change.detail = result_jsonb(i, 3);
		change_list_add(changes, change);
	}
	return count;
}

/* See object_action.h. */
void
table_unmark(int64 procedure_id, ChangeList *changes)
{
	SqlArgument id = sql_bigint(procedure_id);

	procedure_sql("SELECT c.catalog_name, d.database_name, t.table_name, t.table_id"
				  " FROM amoro_meta.table_metadata t"
				  " JOIN amoro_meta.database d USING (database_id)"
				  " JOIN amoro_meta.catalog c USING (catalog_id)"
				  " WHERE t.procedure_id = $1 ORDER BY t.table_id FOR UPDATE OF t",
				  SPI_OK_SELECT, 1, &id);
	object_rolled_back("table", changes);
	procedure_sql("DELETE FROM amoro_meta.table_metadata WHERE procedure_id = $1 AND state = 'pre_create'",
				  SPI_OK_DELETE, 1, &id);
	procedure_sql("UPDATE amoro_meta.table_metadata SET state = 'normal', procedure_id = NULL WHERE procedure_id = $1",
				  SPI_OK_UPDATE, 1, &id);
}
