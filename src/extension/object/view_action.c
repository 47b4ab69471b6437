/*
 * view_action.c
 *		What create_view, alter_view and drop_view do in their steps. A view is renamed as a table is.
 */
#include "postgres.h"

#include "error_codes.h"
#include "object/table_row.h"
#include "object/view_definition.h"
#include "procedure/procedure_sql.h"

ActionResult
view_create_mark(Procedure *procedure)
{
	TableRow	view = {
		.table_id = procedure->object_id,
		.catalog_name = pstrdup(procedure->catalog_name),
		.database_name = pstrdup(procedure->database_name),
		.table_name = pstrdup(procedure->object_name),
		.relation_kind = "view",
		.base_id = argument_bigint(procedure, "base_id")
	};
	TableRow	base;

	table_row_lock_base(procedure, view.base_id, &base);
	view.definition = view_definition_check(argument_jsonb(procedure, "definition"), base.definition);
	table_row_insert_marked(procedure, argument_bigint(procedure, "database_id"), &view);
	procedure_append_one(procedure, table_row_change(&view, "pre_create"));
	return ACTION_NEXT;
}

ActionResult
view_create_commit(Procedure *procedure)
{
	TableRow	view;
	TableRow	base;

	table_row_lock_marked(procedure, &view);
	table_row_lock_base(procedure, view.base_id, &base);
	procedure_append_one(procedure, table_row_change(&view, "create"));
	table_row_settle(procedure);
	return ACTION_NEXT;
}

/* Whether the changes reach the table of the view; definition is what becomes of that. */
static bool
base_changes(const TableRow *base, Jsonb *definition)
{
	return compareJsonbContainers(&base->definition->root, &definition->root) != 0;
}

ActionResult
view_alter_mark(Procedure *procedure)
{
	bool		cascade = argument_boolean(procedure, "cascade");
	ChangeList	changes = {0};
	TableRow	view;
	TableRow	base;
	Jsonb	   *definition;

	table_row_lock_unmarked(procedure, &view);
	table_row_lock_base(procedure, view.base_id, &base);
	definition = base.definition;
	(void) view_definition_alter(view.definition, argument_jsonb(procedure, "changes"), cascade, &definition);
	table_row_mark(procedure, view.table_id, "pre_alter");
	change_list_add(&changes, table_row_change(&view, "pre_alter"));
	if (base_changes(&base, definition))
	{
		if (!cascade)
			views_refuse_change(&base, definition, view.table_id);
		table_row_mark(procedure, base.table_id, "pre_alter");
		change_list_add(&changes, table_row_change(&base, "pre_alter"));
		if (views_notice(&base, definition))
			views_mark(procedure, base.table_id, view.table_id, "pre_alter", &changes);
	}
	procedure_append_list(procedure, &changes);
	return ACTION_NEXT;
}

ActionResult
view_alter_commit(Procedure *procedure)
{
	ChangeList	changes = {0};
	TableRow	view;
	TableRow	base;
	Jsonb	   *definition;

	table_row_lock_marked(procedure, &view);
	if (!table_row_read(view.base_id, &base))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("the table of view \"%s\" does not exist", view.table_name)));
	definition = base.definition;
	table_row_define(view.table_id, view_definition_alter(view.definition, argument_jsonb(procedure, "changes"),
														  argument_boolean(procedure, "cascade"), &definition));
	change_list_add(&changes, table_row_change(&view, "alter"));
	if (base_changes(&base, definition))
	{
		/* it was marked with the view, or no node was told to forget it */
		if (base.procedure_id != procedure->procedure_id)
			table_row_raise_in_transition(&base);
		table_row_define(base.table_id, definition);
		table_row_put_runtime(base.table_id);
		change_list_add(&changes, table_row_change(&base, "alter"));
		views_follow(procedure, base.table_id, view.table_id, definition, &changes);
	}
	procedure_append_list(procedure, &changes);
	table_row_settle(procedure);
	return ACTION_NEXT;
}

/* With cascade a view that shows all of its table takes it along. */
ActionResult
view_drop_mark(Procedure *procedure)
{
	ChangeList	changes = {0};
	TableRow	view;

	table_row_lock_unmarked(procedure, &view);
	table_row_mark(procedure, view.table_id, "pre_drop");
	change_list_add(&changes, table_row_change(&view, "pre_drop"));
	if (argument_boolean(procedure, "cascade"))
	{
		TableRow	base;

		table_row_lock_base(procedure, view.base_id, &base);
		if (view_definition_covers(view.definition, base.definition))
		{
			views_refuse_drop(&base, view.table_id);
			table_row_mark(procedure, base.table_id, "pre_drop");
			change_list_add(&changes, table_row_change(&base, "pre_drop"));
		}
	}
	procedure_append_list(procedure, &changes);
	return ACTION_NEXT;
}

ActionResult
view_drop_commit(Procedure *procedure)
{
	ChangeList	changes = {0};
	TableRow	view;
	TableRow	base;

	table_row_lock_marked(procedure, &view);
	table_row_delete(&view, false, &changes);
	if (table_row_read(view.base_id, &base) && base.procedure_id == procedure->procedure_id)
		table_row_delete(&base, false, &changes);
	procedure_append_list(procedure, &changes);
	return ACTION_NEXT;
}
