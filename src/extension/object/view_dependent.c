/*
 * view_dependent.c
 *		What becomes of the views of a table when the table changes or goes.
 *
 * Whatever works on a view claims the name of its table first, so the views of a table stay what they are while a
 * procedure holds that claim. A step looks again all the same: the snapshot of a submission may have been an old one.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "object/table_row.h"
#include "object/view_definition.h"
#include "procedure/procedure_sql.h"

void
views_refuse_change(const TableRow *base, Jsonb *definition, int64 except_id)
{
	SqlArgument arguments[] = {
		sql_bigint(base->table_id), sql_jsonb(base->definition), sql_jsonb(definition), sql_bigint(except_id)
	};

	procedure_sql("SELECT amoro_meta.refuse_change_under_views($1, $2, $3, $4)",
				  SPI_OK_SELECT, lengthof(arguments), arguments);
}

void
views_refuse_drop(const TableRow *base, int64 except_id)
{
	SqlArgument arguments[] = {sql_bigint(base->table_id), sql_bigint(except_id)};

	procedure_sql("SELECT amoro_meta.refuse_drop_under_views($1, $2)", SPI_OK_SELECT, lengthof(arguments), arguments);
}

bool
views_notice(const TableRow *base, Jsonb *definition)
{
	SqlArgument arguments[] = {sql_jsonb(base->definition), sql_jsonb(definition)};

	procedure_sql("SELECT amoro_meta.views_notice($1, $2)", SPI_OK_SELECT, lengthof(arguments), arguments);
	return result_boolean(0, 1);
}

/*
 * views_mark marks the views of a table. See the header.
 */
void
views_mark(const Procedure *procedure, int64 base_id, int64 except_id, const char *state, ChangeList *changes)
{
	SqlArgument arguments[] = {sql_bigint(base_id), sql_bigint(except_id), sql_bigint(procedure->procedure_id)};
	int			count;
	int64	   *ids;

	count = (int) procedure_sql("SELECT v.table_id FROM amoro_meta.table_metadata v"
								" WHERE v.base_id = $1 AND v.table_id <> $2 ORDER BY v.table_id",
								SPI_OK_SELECT, 2, arguments);
	ids = palloc_array(int64, Max(count, 1));
	for (int i = 0; i < count; i++)
		ids[i] = result_bigint(i, 1);
	for (int i = 0; i < count; i++)
	{
		TableRow	view;
		SqlArgument name[] = {arguments[2], {0}, {0}, {0}};

		CHECK_FOR_INTERRUPTS();
		if (!table_row_read(ids[i], &view))
			continue;
		/* the claim is looked up by the hash as well, as its index has it: there are as many as views */
		name[1] = sql_text(view.catalog_name);
		name[2] = sql_text(view.database_name);
		name[3] = sql_text(view.table_name);
		if (strcmp(view.state, "normal") != 0 || strcmp(view.database_state, "normal") != 0 ||
			procedure_sql("SELECT FROM amoro_meta.procedure_claim WHERE procedure_id = $1 AND object_kind = 'table'"
						  " AND catalog_name = $2 AND database_name = $3 AND object_name = $4"
						  " AND hashtextextended(object_name, 0) = hashtextextended($4, 0)",
						  SPI_OK_SELECT, lengthof(name), name) == 0)
			table_row_raise_in_transition(&view);
		table_row_mark(procedure, view.table_id, state);
		change_list_add(changes, table_row_change(&view, state));
	}
}

/* The views of a table that carry a marker of the procedure, locked, in the order of their ids. */
static TableRow *
marked_views(const Procedure *procedure, int64 base_id, int64 except_id, int *count)
{
	SqlArgument arguments[] = {sql_bigint(base_id), sql_bigint(procedure->procedure_id), sql_bigint(except_id)};
	TableRow   *views;
	int64	   *ids;
	int			found;

	found = (int) procedure_sql("SELECT table_id FROM amoro_meta.table_metadata"
								" WHERE base_id = $1 AND procedure_id = $2 AND table_id <> $3 ORDER BY table_id FOR UPDATE",
								SPI_OK_SELECT, lengthof(arguments), arguments);
	ids = palloc_array(int64, Max(found, 1));
	views = palloc_array(TableRow, Max(found, 1));
	for (int i = 0; i < found; i++)
		ids[i] = result_bigint(i, 1);
	*count = 0;
	for (int i = 0; i < found; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (table_row_read(ids[i], &views[*count]))
			(*count)++;
	}
	return views;
}

/*
 * views_follow has views follow their table. See the header.
 */
void
views_follow(const Procedure *procedure, int64 base_id, int64 except_id, Jsonb *definition, ChangeList *changes)
{
	int			count;
	TableRow   *views = marked_views(procedure, base_id, except_id, &count);

	for (int i = 0; i < count; i++)
	{
		Jsonb	   *followed = view_definition_follow(views[i].definition, definition);

		if (followed == NULL)
		{
			table_row_delete(&views[i], false, changes);
			continue;
		}
		table_row_define(views[i].table_id, followed);
		change_list_add(changes, table_row_change(&views[i], "alter"));
	}
}

void
views_delete(const Procedure *procedure, int64 base_id, ChangeList *changes)
{
	int			count;
	TableRow   *views = marked_views(procedure, base_id, 0, &count);

	for (int i = 0; i < count; i++)
		table_row_delete(&views[i], false, changes);
}

/*
 * table_row_delete deletes a table or view. Whoever removes the files learns from the change whether to, and where they
 * are.
 */
void
table_row_delete(const TableRow *table, bool purge, ChangeList *changes)
{
	SqlArgument arguments[] = {sql_bigint(table->table_id), sql_boolean(purge)};
	SqlArgument name[] = {
		sql_text(table->catalog_name), sql_text(table->database_name), sql_text(table->table_name)
	};
	MetadataChange change = table_row_change(table, "drop");

	procedure_sql("SELECT amoro_meta.remove_table_runtimes(ARRAY[$1], 'the table was dropped')", SPI_OK_SELECT, 1, arguments);
	procedure_sql("DELETE FROM amoro_meta.table_metadata WHERE table_id = $1"
				  " RETURNING CASE relation_kind WHEN 'table' THEN"
				  " jsonb_build_object('purge', $2, 'location', definition->'location') END",
				  SPI_OK_DELETE_RETURNING, lengthof(arguments), arguments);
	change.detail = result_jsonb(0, 1);
	/* they are of the name, and must not be in the way of the next one that has it */
	procedure_sql("SELECT amoro_meta.drop_blockers($1, $2, $3)", SPI_OK_SELECT, lengthof(name), name);
	change_list_add(changes, change);
}
