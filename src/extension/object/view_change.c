/*
 * view_change.c
 *		Changes of a view, for alter_view: a list of objects, each with the key "op"; some of them reach its table.
 */
#include "postgres.h"

#include "object/change_operation.h"
#include "object/view_definition.h"
#include "object/view_parts.h"

/* The view and its table while the changes are applied. */
typedef struct Altered
{
	ViewDefinition *view;
	Definition *base;
	bool		cascade;
	bool		base_changed;
} Altered;

/* Adds the column to the table, where it must not be required: the rows that are there have no value for it. */
static IcebergField *
add_to_base(const JsonPlace *change, const JsonPlace *source, const char *name, Altered *altered)
{
	JsonPlace	type;
	IcebergField *field = palloc0_object(IcebergField);

	if (!altered->cascade)
		json_refuse(source, "the table has no column \"%s\", and is not to get it without cascade", json_excerpt(name));
	type = json_required_member(change, "type");
	field->name = column_new_name(source, name, altered->base->columns);
	field->type = iceberg_type_read(&type);
	altered->base->columns = lappend(altered->base->columns, field);
	column_assign_ids(change, altered->base);
	altered->base_changed = true;
	return field;
}

static void
add_column(const JsonPlace *change, void *target)
{
	Altered    *altered = target;
	JsonPlace	column = json_required_member(change, "column");
	JsonPlace	source = column;
	JsonPlace	type;
	char	   *name = json_string(&column);
	char	   *source_name = json_member(change, "source", &source) ? json_string(&source) : name;
	IcebergField *field = iceberg_field_find(altered->base->columns, source_name);

	if (field == NULL)
		field = add_to_base(change, &source, source_name, altered);
	else if (json_member(change, "type", &type))
	{
		IcebergType *said = iceberg_type_read(&type);

		if (!iceberg_type_can_become(said, field->type) || !iceberg_type_can_become(field->type, said))
			json_refuse(&type, "column \"%s\" of the table has the type %s", json_excerpt(source_name),
						iceberg_type_name(field->type));
	}
	view_column_add(&column, altered->view, name, json_optional_string(change, "comment"), field->id);
}

static ViewColumn *
existing_column(const JsonPlace *place, const Altered *altered)
{
	char	   *name = json_string(place);
	ViewColumn *column = view_column_find(altered->view->columns, name);

	if (column == NULL)
		json_refuse(place, "column \"%s\" does not exist", json_excerpt(name));
	return column;
}

static IcebergField *
source_of(const JsonPlace *place, const ViewColumn *column, const Altered *altered)
{
	IcebergField *field = column_by_id(altered->base->columns, column->column_id);

	if (field == NULL)
		json_refuse(place, "the table has no column of the id %d", column->column_id);
	return field;
}

static void
drop_column(const JsonPlace *change, void *target)
{
	Altered    *altered = target;
	JsonPlace	place = json_required_member(change, "column");
	ViewColumn *column = existing_column(&place, altered);
	ListCell   *cell;

	if (list_length(altered->view->columns) == 1)
		json_refuse(&place, "column \"%s\" is the only one", json_excerpt(column->name));
	altered->view->columns = list_delete_ptr(altered->view->columns, column);
	if (!altered->cascade)
		return;
	foreach(cell, altered->view->columns)
	{
		/* it is shown under another name, too */
		if (((ViewColumn *) lfirst(cell))->column_id == column->column_id)
			return;
	}
	column_drop(&place, altered->base, source_of(&place, column, altered));
	altered->base_changed = true;
}

/* Only what it is called in the view. */
static void
rename_column(const JsonPlace *change, void *target)
{
	Altered    *altered = target;
	JsonPlace	place = json_required_member(change, "column");
	JsonPlace	new_name = json_required_member(change, "new_name");
	ViewColumn *column = existing_column(&place, altered);
	ViewDefinition renamed = {0};
	char	   *name = json_string(&new_name);

	if (view_column_find(altered->view->columns, name) != NULL)
		json_refuse(&new_name, "column \"%s\" already exists", json_excerpt(name));
	view_column_add(&new_name, &renamed, name, NULL, column->column_id);
	column->name = name;
}

/* A view has no types of its own: it is the column of the table that gets the type. */
static void
retype_column(const JsonPlace *change, void *target)
{
	Altered    *altered = target;
	JsonPlace	place = json_required_member(change, "column");
	JsonPlace	type = json_required_member(change, "type");
	ViewColumn *column = existing_column(&place, altered);

	column_retype(&type, source_of(&place, column, altered), iceberg_type_read(&type));
	altered->base_changed = true;
}

static void
set_properties(const JsonPlace *change, void *target)
{
	Altered    *altered = target;
	JsonPlace	properties = json_required_member(change, "properties");

	altered->view->properties = properties_merge(altered->view->properties, properties_read(&properties));
}

static void
remove_properties(const JsonPlace *change, void *target)
{
	Altered    *altered = target;
	JsonPlace	keys = json_required_member(change, "keys");

	altered->view->properties = properties_remove(altered->view->properties, &keys);
}

static void
put_ttl(Altered *altered, int64 ttl)
{
	altered->view->ttl = ttl;
	if (!altered->cascade)
		return;
	altered->base->ttl = ttl;
	altered->base_changed = true;
}

static void
set_ttl(const JsonPlace *change, void *altered)
{
	JsonPlace	ttl = json_required_member(change, "ttl");

	put_ttl(altered, json_integer(&ttl, 1, PG_INT64_MAX));
}

static void
unset_ttl(const JsonPlace *change, void *altered)
{
	put_ttl(altered, 0);
}

static const ChangeOperation operations[] = {
	{"add_column", {"op", "column", "source", "type", "comment", NULL}, add_column},
	{"drop_column", {"op", "column", NULL}, drop_column},
	{"rename_column", {"op", "column", "new_name", NULL}, rename_column},
	{"retype_column", {"op", "column", "type", NULL}, retype_column},
	{"set_properties", {"op", "properties", NULL}, set_properties},
	{"remove_properties", {"op", "keys", NULL}, remove_properties},
	{"set_ttl", {"op", "ttl", NULL}, set_ttl},
	{"unset_ttl", {"op", NULL}, unset_ttl},
};

/*
 * view_definition_alter applies changes in order. See the header.
 */
Jsonb *
view_definition_alter(Jsonb *view_document, Jsonb *changes, bool cascade, Jsonb **base_document)
{
	JsonPlace	view_place = json_document(view_document);
	JsonPlace	base_place = json_document(*base_document);
	Altered		altered = {view_read(&view_place), definition_read(&base_place), cascade, false};

	change_operations_apply(changes, operations, lengthof(operations), &altered);
	if (altered.base_changed)
		*base_document = definition_write(altered.base);
	return view_write(altered.view);
}
