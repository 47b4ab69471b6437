/*
 * definition_change.c
 *		Changes of a definition, for alter_table: a list of objects, each with the key "op".
 *
 * Columns evolve as the Iceberg specification lets them: by id, so that old files stay
 * readable. An id that was used once is never given to another column.
 */
#include "postgres.h"

#include "object/change_operation.h"
#include "object/definition.h"
#include "object/definition_parts.h"
#include "object/object_name.h"

/* See definition_parts.h. */
char *
column_new_name(const JsonPlace *place, const char *name, const List *siblings)
{
	const char *problem = object_name_problem(name);

	if (problem != NULL)
		json_refuse(place, "invalid name of a column: %s", problem);
	if (iceberg_field_find(siblings, name) != NULL)
		json_refuse(place, "column \"%s\" already exists", json_excerpt(name));
	return pstrdup(name);
}

static void
add_column(const JsonPlace *change, void *definition)
{
	JsonPlace	column = json_required_member(change, "column");
	JsonPlace	type = json_required_member(change, "type");
	JsonPlace	member;
	ColumnPath	path = column_path(&column, definition);
	IcebergField *field = palloc0_object(IcebergField);

	if (path.parent != NULL && path.parent->kind != ICEBERG_STRUCT)
		json_refuse(&column, "type %s has no columns of its own", iceberg_type_name(path.parent));
	field->name = column_new_name(&column, path.name, *path.siblings);
	field->type = iceberg_type_read(&type);
	field->comment = json_optional_string(change, "comment");
	/* the rows that are there have no value for it */
	if (json_member(change, "required", &member) && json_boolean(&member))
		json_refuse(&member, "a column that is added cannot be required");
	*path.siblings = lappend(*path.siblings, field);
}

static void
remove_field(const JsonPlace *place, Definition *definition, List **siblings, IcebergField *field)
{
	if (list_length(*siblings) == 1)
		json_refuse(place, "column \"%s\" is the only one", json_excerpt(field->name));
	if (column_is_used(definition, field))
		json_refuse(place, "column \"%s\" is part of the partitioning or of the primary key", json_excerpt(field->name));
	*siblings = list_delete_ptr(*siblings, field);
}

/* See definition_parts.h. */
void
column_drop(const JsonPlace *place, Definition *definition, IcebergField *field)
{
	remove_field(place, definition, &definition->columns, field);
}

static void
drop_column(const JsonPlace *change, void *definition)
{
	JsonPlace	column = json_required_member(change, "column");
	ColumnPath	path = column_path_existing(&column, definition);

	if (path.parent != NULL && path.parent->kind != ICEBERG_STRUCT)
		json_refuse(&column, "the \"%s\" of a %s cannot be dropped", path.name, iceberg_type_name(path.parent));
	remove_field(&column, definition, path.siblings, path.field);
}

static void
rename_column(const JsonPlace *change, void *definition)
{
	JsonPlace	column = json_required_member(change, "column");
	JsonPlace	new_name = json_required_member(change, "new_name");
	ColumnPath	path = column_path_existing(&column, definition);

	if (path.parent != NULL && path.parent->kind != ICEBERG_STRUCT)
		json_refuse(&column, "the \"%s\" of a %s cannot be renamed", path.name, iceberg_type_name(path.parent));
	path.field->name = column_new_name(&new_name, json_string(&new_name), *path.siblings);
}

/* See definition_parts.h. */
void
column_retype(const JsonPlace *place, IcebergField *field, IcebergType *type)
{
	if (!iceberg_type_can_become(field->type, type))
		json_refuse(place, "column \"%s\" of type %s cannot become %s: only int to long, float to double and a wider "
					"decimal of the same scale are possible", json_excerpt(field->name),
					iceberg_type_name(field->type), iceberg_type_name(type));
	field->type = type;
}

static void
retype_column(const JsonPlace *change, void *definition)
{
	JsonPlace	column = json_required_member(change, "column");
	JsonPlace	type = json_required_member(change, "type");
	ColumnPath	path = column_path_existing(&column, definition);
	IcebergType *new_type = iceberg_type_read(&type);

	/* the key of a map is compared: files with either type must agree on what is equal */
	if (path.parent != NULL && path.parent->kind == ICEBERG_MAP && strcmp(path.name, "key") == 0)
		json_refuse(&column, "the type of a map's key cannot change");
	column_retype(&type, path.field, new_type);
}

static void
set_properties(const JsonPlace *change, void *target)
{
	Definition *definition = target;
	JsonPlace	properties = json_required_member(change, "properties");

	definition->properties = properties_merge(definition->properties, properties_read(&properties));
}

static void
remove_properties(const JsonPlace *change, void *target)
{
	Definition *definition = target;
	JsonPlace	keys = json_required_member(change, "keys");

	definition->properties = properties_remove(definition->properties, &keys);
}

static void
set_ttl(const JsonPlace *change, void *target)
{
	Definition *definition = target;
	JsonPlace	ttl = json_required_member(change, "ttl");

	definition->ttl = json_integer(&ttl, 1, PG_INT64_MAX);
}

static void
unset_ttl(const JsonPlace *change, void *target)
{
	Definition *definition = target;

	definition->ttl = 0;
}

static const ChangeOperation operations[] = {
	{"add_column", {"op", "column", "type", "comment", "required", NULL}, add_column},
	{"drop_column", {"op", "column", NULL}, drop_column},
	{"rename_column", {"op", "column", "new_name", NULL}, rename_column},
	{"retype_column", {"op", "column", "type", NULL}, retype_column},
	{"set_properties", {"op", "properties", NULL}, set_properties},
	{"remove_properties", {"op", "keys", NULL}, remove_properties},
	{"set_ttl", {"op", "ttl", NULL}, set_ttl},
	{"unset_ttl", {"op", NULL}, unset_ttl},
};

/*
 * definition_alter applies changes in order. See the header.
 */
Jsonb *
definition_alter(Jsonb *definition_document, Jsonb *changes)
{
	JsonPlace	document = json_document(definition_document);
	JsonPlace	list = json_document(changes);
	Definition *definition = definition_read(&document);

	change_operations_apply(changes, operations, lengthof(operations), definition);
	column_assign_ids(&list, definition);
	return definition_write(definition);
}
