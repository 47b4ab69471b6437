/*
 * definition.c
 *		Definitions of tables: validated at the door, stored in one canonical form.
 *
 * {"format", "columns": [{"id", "name", "type", "required", "comment"}], "last_column_id",
 *  "location", "comment", "partitioning": [{"column_id", "transform"}], "primary_key": [column ids],
 *  "ttl": milliseconds, "properties": {text: text}}; a user may write columns by name.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "object/definition.h"
#include "object/definition_partition.h"
#include "object/definition_parts.h"
#include "object/object_name.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(amoro_meta_table_definition);
PG_FUNCTION_INFO_V1(amoro_meta_altered_definition);
PG_FUNCTION_INFO_V1(amoro_meta_check_properties);

#define MAX_DEFINITION_SIZE (16 * 1024 * 1024)
#define MAX_LOCATION_LENGTH 4096
#define MAX_PROPERTIES 1000

/* The table formats of Apache Amoro. */
static const char *const formats[] = {"iceberg", "mixed_iceberg", "mixed_hive", "paimon", "hudi", "lance", NULL};

static char *
read_format(const JsonPlace *document)
{
	JsonPlace	member = json_required_member(document, "format");
	char	   *format = json_string(&member);

	for (int i = 0; formats[i] != NULL; i++)
	{
		if (strcmp(format, formats[i]) == 0)
			return format;
	}
	json_refuse(&member, "unknown table format \"%s\", expected iceberg, mixed_iceberg, mixed_hive, paimon, hudi or lance",
				json_excerpt(format));
}

/* scheme:rest, as RFC 3986 has it, or the absolute path of a file */
static bool
is_location(const char *location)
{
	static const char *const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	size_t		scheme = strspn(location, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.");

	for (const char *c = location; *c; c++)
	{
		if ((unsigned char) *c <= ' ' || *c == 0x7f)
			return false;
	}
	if (strlen(location) > MAX_LOCATION_LENGTH)
		return false;
	if (location[0] == '/')
		return true;
	return scheme > 0 && strchr(letters, location[0]) != NULL && location[scheme] == ':' && location[scheme + 1] != '\0';
}

static char *
read_location(const JsonPlace *document)
{
	JsonPlace	member;
	char	   *location;

	if (!json_member(document, "location", &member))
		return NULL;
	location = json_string(&member);
	if (!is_location(location))
		json_refuse(&member, "expected a location: a URI such as s3://bucket/path without blanks, of at most %d bytes",
					MAX_LOCATION_LENGTH);
	return location;
}

/*
 * properties_read reads an object of strings.
 */
List *
properties_read(const JsonPlace *place)
{
	JsonbIterator *iterator;
	JsonbIteratorToken token;
	JsonbValue	value;
	List	   *properties = NIL;

	json_require_object(place);
	if (JsonContainerSize(place->value.val.binary.data) > MAX_PROPERTIES)
		json_refuse(place, "more than %d properties", MAX_PROPERTIES);
	iterator = JsonbIteratorInit(place->value.val.binary.data);
	while ((token = JsonbIteratorNext(&iterator, &value, true)) != WJB_DONE)
	{
		Property   *property;
		JsonPlace	member;

		CHECK_FOR_INTERRUPTS();
		if (token != WJB_KEY)
			continue;
		property = palloc_object(Property);
		property->key = pnstrdup(value.val.string.val, value.val.string.len);
		member = (JsonPlace) {place, property->key, 0, {0}};
		if (*property->key == '\0')
			json_refuse(place, "the key of a property is empty");
		(void) JsonbIteratorNext(&iterator, &member.value, true);
		property->value = json_string(&member);
		properties = lappend(properties, property);
	}
	return properties;
}

static List *
remove_property(List *properties, const char *key)
{
	ListCell   *cell;

	foreach(cell, properties)
	{
		if (strcmp(((Property *) lfirst(cell))->key, key) == 0)
			return list_delete_cell(properties, cell);
	}
	return properties;
}

List *
properties_merge(List *properties, const List *others)
{
	ListCell   *cell;

	foreach(cell, others)
		properties = lappend(remove_property(properties, ((Property *) lfirst(cell))->key), lfirst(cell));
	return properties;
}

/* See definition_parts.h. */
List *
properties_remove(List *properties, const JsonPlace *keys)
{
	int			size = json_array_size(keys);

	for (int i = 0; i < size; i++)
	{
		JsonPlace	key = json_array_item(keys, i);

		CHECK_FOR_INTERRUPTS();
		properties = remove_property(properties, json_string(&key));
	}
	return properties;
}

static List *
read_primary_key(const JsonPlace *place, Definition *definition)
{
	int			size = json_array_size(place);
	List	   *ids = NIL;

	for (int i = 0; i < size; i++)
	{
		JsonPlace	column = json_array_item(place, i);
		IcebergField *field = column_reference(&column, definition);

		if (field->type->kind != ICEBERG_PRIMITIVE)
			json_refuse(&column, "a column of type %s cannot be part of a primary key", iceberg_type_name(field->type));
		if (list_member_int(ids, field->id))
			json_refuse(&column, "column \"%s\" is in the primary key twice", json_excerpt(field->name));
		ids = lappend_int(ids, field->id);
	}
	return ids;
}

/*
 * definition_read reads a whole definition, as a user wrote it or in its canonical form.
 */
Definition *
definition_read(const JsonPlace *document)
{
	static const char *const keys[] = {
		"format", "columns", "properties", "location", "partitioning", "primary_key", "comment", "ttl",
		"last_column_id", NULL
	};
	Definition *definition = palloc0_object(Definition);
	JsonPlace	columns;
	JsonPlace	member;

	json_require_known_keys(document, keys);
	definition->format = read_format(document);
	definition->location = read_location(document);
	definition->comment = json_optional_string(document, "comment");
	if (json_member(document, "ttl", &member))
		definition->ttl = json_integer(&member, 1, PG_INT64_MAX);
	if (json_member(document, "last_column_id", &member))
		definition->last_column_id = (int32) json_integer(&member, 0, PG_INT32_MAX);
	columns = json_required_member(document, "columns");
	definition->columns = iceberg_fields_read(&columns);
	column_assign_ids(&columns, definition);
	if (json_member(document, "partitioning", &member))
		definition->partitioning = partitioning_read(&member, definition);
	if (json_member(document, "primary_key", &member))
		definition->primary_key = read_primary_key(&member, definition);
	if (json_member(document, "properties", &member))
		definition->properties = properties_read(&member);
	return definition;
}

/*
 * properties_write writes them as a member of an object in the making.
 */
void
properties_write(JsonbParseState **state, const List *properties)
{
	ListCell   *cell;

	if (list_length(properties) > MAX_PROPERTIES)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("more than %d properties", MAX_PROPERTIES)));
	json_write_key(state, "properties");
	pushJsonbValue(state, WJB_BEGIN_OBJECT, NULL);
	foreach(cell, properties)
	{
		const Property *property = lfirst(cell);

		json_write_string(state, property->key, property->value);
	}
	pushJsonbValue(state, WJB_END_OBJECT, NULL);
}

static void
write_primary_key(JsonbParseState **state, const List *ids)
{
	ListCell   *cell;

	if (ids == NIL)
		return;
	json_write_key(state, "primary_key");
	pushJsonbValue(state, WJB_BEGIN_ARRAY, NULL);
	foreach(cell, ids)
	{
		JsonbValue	id = {.type = jbvNumeric};

		id.val.numeric = int64_to_numeric(lfirst_int(cell));
		pushJsonbValue(state, WJB_ELEM, &id);
	}
	pushJsonbValue(state, WJB_END_ARRAY, NULL);
}

/*
 * definition_write writes the canonical form.
 */
Jsonb *
definition_write(const Definition *definition)
{
	JsonbParseState *state = NULL;
	Jsonb	   *document;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	json_write_string(&state, "format", definition->format);
	iceberg_fields_write(&state, "columns", definition->columns);
	json_write_integer(&state, "last_column_id", definition->last_column_id);
	if (definition->location != NULL)
		json_write_string(&state, "location", definition->location);
	if (definition->comment != NULL)
		json_write_string(&state, "comment", definition->comment);
	if (definition->ttl != 0)
		json_write_integer(&state, "ttl", definition->ttl);
	partitioning_write(&state, definition->partitioning);
	write_primary_key(&state, definition->primary_key);
	properties_write(&state, definition->properties);
	document = JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
	if (VARSIZE(document) > MAX_DEFINITION_SIZE)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("definition of a table is too large"),
				 errdetail("It has %u bytes, at most %d are allowed.", VARSIZE(document), MAX_DEFINITION_SIZE)));
	return document;
}

/*
 * definition_check validates a definition. See the header.
 */
Jsonb *
definition_check(Jsonb *input)
{
	JsonPlace	document = json_document(input);

	return definition_write(definition_read(&document));
}

Jsonb *
definition_empty(void)
{
	JsonbParseState *state = NULL;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
}

/*
 * amoro_meta_table_definition(definition) returns the canonical form; raises 22023.
 */
Datum
amoro_meta_table_definition(PG_FUNCTION_ARGS)
{
	PG_RETURN_JSONB_P(definition_check(PG_GETARG_JSONB_P(0)));
}

/*
 * amoro_meta_altered_definition(definition, changes) returns the definition after the changes; raises 22023.
 */
Datum
amoro_meta_altered_definition(PG_FUNCTION_ARGS)
{
	PG_RETURN_JSONB_P(definition_alter(PG_GETARG_JSONB_P(0), PG_GETARG_JSONB_P(1)));
}

/*
 * amoro_meta_check_properties(argument, properties) raises 22004 for null, and 22023 unless they are an object of
 * strings; argument says which they are.
 */
Datum
amoro_meta_check_properties(PG_FUNCTION_ARGS)
{
	JsonPlace	document;

	if (PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be null", argument_name(fcinfo))));
	document = json_document(PG_GETARG_JSONB_P(1));
	(void) properties_read(&document);
	PG_RETURN_VOID();
}
