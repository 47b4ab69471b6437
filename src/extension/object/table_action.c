/*
 * table_action.c
 *		What create_table, alter_table, rename_table, rename_view and drop_table do in their steps.
 *
 * Every step finds its table by id, locks it and looks again at all it relies on:
 * a name may have passed to another table since the submission (P07, P14).
 */
#include "postgres.h"

#include "object/database_content.h"
#include "object/definition.h"
#include "object/table_row.h"
#include "procedure/procedure_sql.h"

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

ActionResult
table_create_mark(Procedure *procedure)
{
	TableRow	table = {
		.table_id = procedure->object_id,
		.database_name = pstrdup(procedure->database_name),
		.table_name = pstrdup(procedure->object_name),
		.relation_kind = "table",
		.definition = argument_jsonb(procedure, "definition")
	};

	table_row_insert_marked(procedure, argument_bigint(procedure, "database_id"), &table);
	procedure_append_one(procedure, table_change(procedure, "pre_create"));
	return ACTION_NEXT;
}

ActionResult
table_create_commit(Procedure *procedure)
{
	TableRow	table;

	table_row_lock_marked(procedure, &table);
	table_row_put_runtime(procedure->object_id);
	procedure_append_one(procedure, table_change(procedure, "create"));
	table_row_settle(procedure);
	return ACTION_NEXT;
}

ActionResult
table_alter_mark(Procedure *procedure)
{
	ChangeList	changes = {0};
	TableRow	table;
	Jsonb	   *definition;

	table_row_lock_unmarked(procedure, &table);
	/* what the changes were checked against at the submission may have changed since */
	definition = definition_alter(table.definition, argument_jsonb(procedure, "changes"));
	if (!argument_boolean(procedure, "cascade"))
		views_refuse_change(&table, definition, 0);
	table_row_mark(procedure, table.table_id, "pre_alter");
	change_list_add(&changes, table_row_change(&table, "pre_alter"));
	if (views_notice(&table, definition))
		views_mark(procedure, table.table_id, 0, "pre_alter", &changes);
	procedure_append_list(procedure, &changes);
	return ACTION_NEXT;
}

ActionResult
table_alter_commit(Procedure *procedure)
{
	ChangeList	changes = {0};
	TableRow	table;
	Jsonb	   *definition;

	table_row_lock_marked(procedure, &table);
	definition = definition_alter(table.definition, argument_jsonb(procedure, "changes"));
	table_row_define(table.table_id, definition);
	table_row_put_runtime(table.table_id);
	change_list_add(&changes, table_row_change(&table, "alter"));
	views_follow(procedure, table.table_id, 0, definition, &changes);
	procedure_append_list(procedure, &changes);
	table_row_settle(procedure);
	return ACTION_NEXT;
}

/* The row of the new name of a table or view that is being renamed. */
static TableRow
reserved_row(const Procedure *procedure, const TableRow *table)
{
	TableRow	reserved = *table;

	reserved.table_id = argument_bigint(procedure, "reserved_id");
	reserved.database_name = argument_text(procedure, "new_database_name");
	reserved.table_name = argument_text(procedure, "new_table_name");
	reserved.definition = definition_empty();
	return reserved;
}

/*
 * The new name is reserved by a row of its own, so that no other table can take it and readers of it see a marker too.
 */
ActionResult
table_rename_mark(Procedure *procedure)
{
	ChangeList	changes = {0};
	TableRow	table;
	TableRow	reserved;

	table_row_lock_unmarked(procedure, &table);
	reserved = reserved_row(procedure, &table);
	table_row_insert_marked(procedure, argument_bigint(procedure, "new_database_id"), &reserved);
	table_row_mark(procedure, table.table_id, "pre_alter");
	change_list_add(&changes, table_row_change(&table, "pre_alter"));
	change_list_add(&changes, table_row_change(&reserved, "pre_create"));
	views_mark(procedure, table.table_id, 0, "pre_alter", &changes);
	procedure_append_list(procedure, &changes);
	return ACTION_NEXT;
}

ActionResult
table_rename_commit(Procedure *procedure)
{
	SqlArgument reserved = sql_bigint(argument_bigint(procedure, "reserved_id"));
	SqlArgument name[] = {
		sql_bigint(procedure->object_id), sql_bigint(argument_bigint(procedure, "new_database_id")),
		sql_text(argument_text(procedure, "new_table_name"))
	};
	ChangeList	changes = {0};
	TableRow	table;
	TableRow	renamed;

	table_row_lock_marked(procedure, &table);
	renamed = reserved_row(procedure, &table);
	renamed.table_id = table.table_id;
	procedure_sql("DELETE FROM amoro_meta.table_metadata WHERE table_id = $1", SPI_OK_DELETE, 1, &reserved);
	procedure_sql("UPDATE amoro_meta.table_metadata SET database_id = $2, table_name = $3 WHERE table_id = $1",
				  SPI_OK_UPDATE, lengthof(name), name);
	table_row_put_runtime(table.table_id);
	change_list_add(&changes, table_row_change(&table, "rename"));
	change_list_add(&changes, table_row_change(&renamed, "rename"));
	views_follow(procedure, table.table_id, 0, table.definition, &changes);
	procedure_append_list(procedure, &changes);
	table_row_settle(procedure);
	return ACTION_NEXT;
}

ActionResult
table_drop_mark(Procedure *procedure)
{
	ChangeList	changes = {0};
	TableRow	table;

	table_row_lock_unmarked(procedure, &table);
	if (!argument_boolean(procedure, "cascade"))
		views_refuse_drop(&table, 0);
	table_row_mark(procedure, table.table_id, "pre_drop");
	change_list_add(&changes, table_row_change(&table, "pre_drop"));
	views_mark(procedure, table.table_id, 0, "pre_drop", &changes);
	procedure_append_list(procedure, &changes);
	return ACTION_NEXT;
}

ActionResult
table_drop_commit(Procedure *procedure)
{
	ChangeList	changes = {0};
	TableRow	table;

	table_row_lock_marked(procedure, &table);
	views_delete(procedure, table.table_id, &changes);
	table_row_delete(&table, argument_boolean(procedure, "purge"), &changes);
	procedure_append_list(procedure, &changes);
	return ACTION_NEXT;
}

/* Some table or view of a database, for a message; NULL: there is none. */
static char *
find_one(int64 database_id, const char *relation_kind)
{
	SqlArgument arguments[] = {sql_bigint(database_id), sql_text(relation_kind)};

	if (procedure_sql("SELECT table_name FROM amoro_meta.table_metadata WHERE database_id = $1 AND relation_kind = $2 LIMIT 1",
					  SPI_OK_SELECT, lengthof(arguments), arguments) == 0)
		return NULL;
	return result_text(0, 1);
}

/* See database_content.h. */
char *
table_find_one(int64 database_id)
{
	return find_one(database_id, "table");
}

char *
view_find_one(int64 database_id)
{
	return find_one(database_id, "view");
}

/* Deletes the next tables and views of a database and logs each, with what whoever removes the files needs. */
int
table_drop_some(const Procedure *procedure, int limit, ChangeList *changes)
{
	SqlArgument arguments[] = {sql_bigint(procedure->object_id), sql_integer(limit)};
	int			count;

	/* the runtimes first, which have locks to wait for; by name, as an index has them: there are tables of other databases */
	procedure_sql("SELECT amoro_meta.remove_table_runtimes(ARRAY(SELECT n.table_id FROM"
				  " (SELECT table_id FROM amoro_meta.table_metadata WHERE database_id = $1"
				  "  ORDER BY table_name LIMIT $2) n ORDER BY n.table_id), 'the table was dropped')",
				  SPI_OK_SELECT, lengthof(arguments), arguments);
	count = (int) procedure_sql("DELETE FROM amoro_meta.table_metadata WHERE table_id IN"
								" (SELECT table_id FROM amoro_meta.table_metadata WHERE database_id = $1"
								"  ORDER BY table_name LIMIT $2)"
								" RETURNING table_id, table_name,"
								" CASE relation_kind WHEN 'table' THEN"
								" jsonb_build_object('purge', false, 'location', definition->'location') END, relation_kind",
								SPI_OK_DELETE_RETURNING, lengthof(arguments), arguments);
	for (int i = 0; i < count; i++)
	{
		MetadataChange change = table_change(procedure, "drop");

		change.object_kind = result_text(i, 4);
		change.object_id = result_bigint(i, 1);
		change.table_name = result_text(i, 2);
		change.detail = result_jsonb(i, 3);
		change_list_add(changes, change);
	}
	return count;
}

/* Collects what is of one kind and carries a marker of the procedure. */
static void
rolled_back(const char *relation_kind, int64 procedure_id, ChangeList *changes)
{
	SqlArgument arguments[] = {sql_bigint(procedure_id), sql_text(relation_kind)};

	procedure_sql("SELECT c.catalog_name, d.database_name, t.table_name, t.table_id"
				  " FROM amoro_meta.table_metadata t"
				  " JOIN amoro_meta.database d USING (database_id)"
				  " JOIN amoro_meta.catalog c USING (catalog_id)"
				  " WHERE t.procedure_id = $1 AND t.relation_kind = $2 ORDER BY t.table_id FOR UPDATE OF t",
				  SPI_OK_SELECT, lengthof(arguments), arguments);
	object_rolled_back(relation_kind, changes);
}

/* See object_action.h. */
void
table_unmark(int64 procedure_id, ChangeList *changes)
{
	SqlArgument id = sql_bigint(procedure_id);

	rolled_back("table", procedure_id, changes);
	rolled_back("view", procedure_id, changes);
	procedure_sql("DELETE FROM amoro_meta.table_metadata WHERE procedure_id = $1 AND state = 'pre_create'",
				  SPI_OK_DELETE, 1, &id);
	procedure_sql("UPDATE amoro_meta.table_metadata SET state = 'normal', procedure_id = NULL WHERE procedure_id = $1",
				  SPI_OK_UPDATE, 1, &id);
}
