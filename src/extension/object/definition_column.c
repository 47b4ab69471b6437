/*
 * definition_column.c
 *		Columns of a definition: the way to them, and their ids, which are never used again.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "object/definition_parts.h"

static char *
path_part(const JsonPlace *place, int index, int *size)
{
	JsonPlace	part;

	if (json_is_string(place))
	{
		*size = 1;
		return json_string(place);
	}
	*size = json_array_size(place);
	if (*size == 0)
		json_refuse(place, "expected the name of a column");
	part = json_array_item(place, index);
	return json_string(&part);
}

/*
 * column_path follows the way to a column. See the header.
 */
ColumnPath
column_path(const JsonPlace *place, Definition *definition)
{
	ColumnPath	path = {NULL, &definition->columns, NULL, NULL};
	int			size = 1;

	for (int i = 0; i < size; i++)
	{
		if (i > 0)
		{
			if (path.field == NULL)
				json_refuse(place, "column \"%s\" does not exist", json_excerpt(path.name));
			path.parent = path.field->type;
			path.siblings = &path.parent->fields;
		}
		path.name = path_part(place, i, &size);
		path.field = iceberg_field_find(*path.siblings, path.name);
	}
	return path;
}

ColumnPath
column_path_existing(const JsonPlace *place, Definition *definition)
{
	ColumnPath	path = column_path(place, definition);

	if (path.field == NULL)
		json_refuse(place, "column \"%s\" does not exist", json_excerpt(path.name));
	return path;
}

IcebergField *
column_by_id(List *columns, int32 id)
{
	ListCell   *cell;

	foreach(cell, columns)
	{
		IcebergField *field = lfirst(cell);
		IcebergField *nested;

		if (field->id == id)
			return field;
		nested = column_by_id(field->type->fields, id);
		if (nested != NULL)
			return nested;
	}
	return NULL;
}

bool
column_is_repeated(List *columns, int32 id)
{
	ListCell   *cell;

	foreach(cell, columns)
	{
		const IcebergType *type = ((IcebergField *) lfirst(cell))->type;

		if (type->kind == ICEBERG_STRUCT)
		{
			if (column_is_repeated(type->fields, id))
				return true;
		}
		else if (column_by_id(type->fields, id) != NULL)
			return true;
	}
	return false;
}

bool
column_is_used(const Definition *definition, const IcebergField *field)
{
	ListCell   *cell;
	List	   *fields = list_make1(unconstify(IcebergField *, field));

	foreach(cell, definition->partitioning)
	{
		if (column_by_id(fields, ((Partition *) lfirst(cell))->column_id) != NULL)
			return true;
	}
	foreach(cell, definition->primary_key)
	{
		if (column_by_id(fields, lfirst_int(cell)) != NULL)
			return true;
	}
	return false;
}

static List *
collect_ids(List *ids, const List *fields)
{
	ListCell   *cell;

	foreach(cell, fields)
	{
		IcebergField *field = lfirst(cell);

		if (field->id != 0)
			ids = lappend_int(ids, field->id);
		ids = collect_ids(ids, field->type->fields);
	}
	return ids;
}

static void
assign_ids(const JsonPlace *place, List *fields, int32 *last_id)
{
	ListCell   *cell;

	foreach(cell, fields)
	{
		IcebergField *field = lfirst(cell);

		if (field->id == 0)
		{
			if (*last_id == PG_INT32_MAX)
				json_refuse(place, "there are no column ids left");
			field->id = ++*last_id;
		}
		assign_ids(place, field->type->fields, last_id);
	}
}

void
column_assign_ids(const JsonPlace *place, Definition *definition)
{
	List	   *ids = collect_ids(NIL, definition->columns);

	if (iceberg_fields_count(definition->columns) > ICEBERG_MAX_FIELDS)
		json_refuse(place, "more than %d columns", ICEBERG_MAX_FIELDS);
	list_sort(ids, list_int_cmp);
	for (int i = 1; i < list_length(ids); i++)
	{
		if (list_nth_int(ids, i) == list_nth_int(ids, i - 1))
			json_refuse(place, "two columns have the id %d", list_nth_int(ids, i));
	}
	if (ids != NIL)
		definition->last_column_id = Max(definition->last_column_id, llast_int(ids));
	assign_ids(place, definition->columns, &definition->last_column_id);
}
