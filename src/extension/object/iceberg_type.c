/*
 * iceberg_type.c
 *		The types of columns: those of the Apache Iceberg table specification, nested ones too.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "object/iceberg_type.h"
#include "object/iceberg_type_text.h"
#include "object/object_name.h"

static IcebergType *type_read(const JsonPlace *place, int depth);
static List *fields_read(const JsonPlace *place, int depth);

/*
 * iceberg_nested_type makes a struct, list or map of its fields.
 */
IcebergType *
iceberg_nested_type(IcebergKind kind, List *fields)
{
	IcebergType *type = palloc0_object(IcebergType);

	type->kind = kind;
	type->fields = fields;
	return type;
}

/*
 * iceberg_field makes a field without id and comment.
 */
IcebergField *
iceberg_field(char *name, bool required, IcebergType *type)
{
	IcebergField *field = palloc0_object(IcebergField);

	field->name = name;
	field->required = required;
	field->type = type;
	return field;
}

static int
compare_names(const ListCell *a, const ListCell *b)
{
	return strcmp(((IcebergField *) lfirst(a))->name, ((IcebergField *) lfirst(b))->name);
}

/*
 * iceberg_refuse_duplicates raises 22023 when two fields have the same name.
 */
void
iceberg_refuse_duplicates(const JsonPlace *place, const List *fields)
{
	List	   *sorted = list_copy(fields);

	list_sort(sorted, compare_names);
	for (int i = 1; i < list_length(sorted); i++)
	{
		const char *name = ((IcebergField *) list_nth(sorted, i))->name;

		if (strcmp(name, ((IcebergField *) list_nth(sorted, i - 1))->name) == 0)
			json_refuse(place, "two columns are named \"%s\"", name);
	}
	list_free(sorted);
}

/*
 * iceberg_check_depth raises 22023 below the deepest level that is allowed.
 */
void
iceberg_check_depth(const JsonPlace *place, int depth)
{
	check_stack_depth();
	if (depth > ICEBERG_MAX_DEPTH)
		json_refuse(place, "type is nested deeper than %d levels", ICEBERG_MAX_DEPTH);
}

static int32
read_id(const JsonPlace *object, const char *key)
{
	JsonPlace	id;

	return json_member(object, key, &id) ? (int32) json_integer(&id, 1, PG_INT32_MAX) : 0;
}

static bool
read_required(const JsonPlace *object, const char *key, bool absent)
{
	JsonPlace	required;

	return json_member(object, key, &required) ? json_boolean(&required) : absent;
}

/* The element of a list, the key or value of a map: members "element", "element-id", "element-required". */
static IcebergField *
read_part(const JsonPlace *object, const char *name, bool required, int depth)
{
	JsonPlace	type = json_required_member(object, name);
	IcebergField *field = iceberg_field(pstrdup(name), required, type_read(&type, depth + 1));

	field->id = read_id(object, psprintf("%s-id", name));
	field->required = read_required(object, psprintf("%s-required", name), required);
	return field;
}

static IcebergType *
read_nested(const JsonPlace *object, int depth)
{
	static const char *const struct_keys[] = {"type", "fields", NULL};
	static const char *const list_keys[] = {"type", "element-id", "element", "element-required", NULL};
	static const char *const map_keys[] = {"type", "key-id", "key", "value-id", "value", "value-required", NULL};
	JsonPlace	kind = json_required_member(object, "type");
	char	   *name = json_string(&kind);

	if (strcmp(name, "struct") == 0)
	{
		JsonPlace	fields;

		json_require_known_keys(object, struct_keys);
		fields = json_required_member(object, "fields");
		return iceberg_nested_type(ICEBERG_STRUCT, fields_read(&fields, depth + 1));
	}
	if (strcmp(name, "list") == 0)
	{
		json_require_known_keys(object, list_keys);
		return iceberg_nested_type(ICEBERG_LIST, list_make1(read_part(object, "element", false, depth)));
	}
	if (strcmp(name, "map") == 0)
	{
		json_require_known_keys(object, map_keys);
		return iceberg_nested_type(ICEBERG_MAP,
								   list_make2(read_part(object, "key", true, depth),
											  read_part(object, "value", false, depth)));
	}
	json_refuse(&kind, "unknown nested type \"%s\", expected \"struct\", \"list\" or \"map\"",
				json_excerpt(name));
}

static IcebergType *
type_read(const JsonPlace *place, int depth)
{
	iceberg_check_depth(place, depth);
	if (json_is_string(place))
		return iceberg_type_parse(place, json_string(place), depth);
	if (json_is_object(place))
		return read_nested(place, depth);
	json_refuse(place, "expected a type: a string or an object");
}

static IcebergField *
read_field(const JsonPlace *object, int depth)
{
	static const char *const keys[] = {"id", "name", "type", "required", "comment", "doc", NULL};
	JsonPlace	member;
	IcebergField *field;
	const char *problem;
	char	   *name;

	json_require_known_keys(object, keys);
	member = json_required_member(object, "name");
	name = json_string(&member);
	problem = object_name_problem(name);
	if (problem != NULL)
		json_refuse(&member, "invalid name of a column: %s", problem);
	member = json_required_member(object, "type");
	field = iceberg_field(name, read_required(object, "required", false), type_read(&member, depth));
	field->id = read_id(object, "id");
	field->comment = json_optional_string(object, "comment");
	/* Iceberg's own word for it */
	if (field->comment == NULL)
		field->comment = json_optional_string(object, "doc");
	return field;
}

static List *
fields_read(const JsonPlace *place, int depth)
{
	int			size = json_array_size(place);
	List	   *fields = NIL;

	if (size == 0)
		json_refuse(place, "expected at least one column");
	if (size > ICEBERG_MAX_FIELDS)
		json_refuse(place, "more than %d columns", ICEBERG_MAX_FIELDS);
	for (int i = 0; i < size; i++)
	{
		JsonPlace	field = json_array_item(place, i);

		CHECK_FOR_INTERRUPTS();
		fields = lappend(fields, read_field(&field, depth));
	}
	iceberg_refuse_duplicates(place, fields);
	return fields;
}

IcebergType *
iceberg_type_read(const JsonPlace *place)
{
	return type_read(place, 1);
}

List *
iceberg_fields_read(const JsonPlace *place)
{
	return fields_read(place, 1);
}

int
iceberg_fields_count(const List *fields)
{
	int			count = list_length(fields);
	ListCell   *cell;

	foreach(cell, fields)
		count += iceberg_fields_count(((IcebergField *) lfirst(cell))->type->fields);
	return count;
}

IcebergField *
iceberg_field_find(const List *fields, const char *name)
{
	ListCell   *cell;

	foreach(cell, fields)
	{
		IcebergField *field = lfirst(cell);

		if (strcmp(field->name, name) == 0)
			return field;
	}
	return NULL;
}

const char *
iceberg_type_name(const IcebergType *type)
{
	switch (type->kind)
	{
		case ICEBERG_PRIMITIVE:
			return type->spelling;
		case ICEBERG_STRUCT:
			return "struct";
		case ICEBERG_LIST:
			return "list";
		case ICEBERG_MAP:
			return "map";
	}
	return NULL;				/* keep the compiler quiet */
}

/*
 * iceberg_type_can_become follows the rules of schema evolution in the Iceberg specification.
 */
bool
iceberg_type_can_become(const IcebergType *from, const IcebergType *to)
{
	if (from->kind != ICEBERG_PRIMITIVE || to->kind != ICEBERG_PRIMITIVE)
		return false;
	if (from->precision > 0 && to->precision > 0)
		return from->scale == to->scale && from->precision <= to->precision;
	return strcmp(from->spelling, to->spelling) == 0 ||
		(strcmp(from->spelling, "int") == 0 && strcmp(to->spelling, "long") == 0) ||
		(strcmp(from->spelling, "float") == 0 && strcmp(to->spelling, "double") == 0);
}

static void
write_part(JsonbParseState **state, const IcebergField *field)
{
	json_write_integer(state, psprintf("%s-id", field->name), field->id);
	iceberg_type_write(state, field->name, field->type);
	/* the key of a map is always there */
	if (strcmp(field->name, "key") != 0)
		json_write_boolean(state, psprintf("%s-required", field->name), field->required);
}

void
iceberg_type_write(JsonbParseState **state, const char *key, const IcebergType *type)
{
	ListCell   *cell;

	if (type->kind == ICEBERG_PRIMITIVE)
	{
		json_write_string(state, key, type->spelling);
		return;
	}
	json_write_key(state, key);
	pushJsonbValue(state, WJB_BEGIN_OBJECT, NULL);
	json_write_string(state, "type", iceberg_type_name(type));
	if (type->kind == ICEBERG_STRUCT)
		iceberg_fields_write(state, "fields", type->fields);
	else
	{
		foreach(cell, type->fields)
			write_part(state, lfirst(cell));
	}
	pushJsonbValue(state, WJB_END_OBJECT, NULL);
}

void
iceberg_fields_write(JsonbParseState **state, const char *key, const List *fields)
{
	ListCell   *cell;

	json_write_key(state, key);
	pushJsonbValue(state, WJB_BEGIN_ARRAY, NULL);
	foreach(cell, fields)
	{
		const IcebergField *field = lfirst(cell);

		pushJsonbValue(state, WJB_BEGIN_OBJECT, NULL);
		json_write_integer(state, "id", field->id);
		json_write_string(state, "name", field->name);
		iceberg_type_write(state, "type", field->type);
		json_write_boolean(state, "required", field->required);
		if (field->comment != NULL)
			json_write_string(state, "comment", field->comment);
		pushJsonbValue(state, WJB_END_OBJECT, NULL);
	}
	pushJsonbValue(state, WJB_END_ARRAY, NULL);
}
