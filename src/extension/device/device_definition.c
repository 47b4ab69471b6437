/*
 * device_definition.c
 *		Schemas of devices and templates: measurements, validated at the door, stored in one canonical form.
 *
 * {"aligned", "measurements": [{"name", "type", "encoding", "compression", "alias", "tags": {text: text}, "attributes"}]}
 */
#include "postgres.h"

#include "device/device_definition.h"
#include "device/device_path.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(amoro_meta_device_definition);
PG_FUNCTION_INFO_V1(amoro_meta_device_list);

#define MAX_MEASUREMENTS 10000
#define MAX_DEFINITION_SIZE (4 * 1024 * 1024)
/* Devices of one procedure: each is a claim, a row and a change. */
#define MAX_DEVICES 1000

/*
 * device_definition_read reads a whole definition, as a user wrote it or in its canonical form. Keys of the document
 * itself are the caller's to look at.
 */
DeviceDefinition *
device_definition_read(const JsonPlace *document)
{
	static const char *const keys[] = {"name", "type", "encoding", "compression", "alias", "tags", "attributes", NULL};
	DeviceDefinition *definition = palloc0_object(DeviceDefinition);
	JsonPlace	list = json_required_member(document, "measurements");
	int			size = json_array_size(&list);
	JsonPlace	member;

	if (json_member(document, "aligned", &member))
		definition->aligned = json_boolean(&member);
	if (size > MAX_MEASUREMENTS)
		json_refuse(&list, "more than %d measurements", MAX_MEASUREMENTS);
	for (int i = 0; i < size; i++)
	{
		JsonPlace	place = json_array_item(&list, i);

		CHECK_FOR_INTERRUPTS();
		json_require_known_keys(&place, keys);
		definition->measurements = lappend(definition->measurements, measurement_read(&place));
	}
	return definition;
}

/* See device_definition.h. */
Jsonb *
device_definition_write(const DeviceDefinition *definition)
{
	JsonbParseState *state = NULL;
	Jsonb	   *document;
	ListCell   *cell;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	json_write_boolean(&state, "aligned", definition->aligned);
	json_write_key(&state, "measurements");
	pushJsonbValue(&state, WJB_BEGIN_ARRAY, NULL);
	foreach(cell, definition->measurements)
		measurement_write(&state, lfirst(cell));
	pushJsonbValue(&state, WJB_END_ARRAY, NULL);
	document = JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
	if (list_length(definition->measurements) > MAX_MEASUREMENTS || VARSIZE(document) > MAX_DEFINITION_SIZE)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("schema of a device is too large"),
				 errdetail("It has %d measurements and %u bytes, at most %d and %d are allowed.",
						   list_length(definition->measurements), VARSIZE(document), MAX_MEASUREMENTS, MAX_DEFINITION_SIZE)));
	return document;
}

/* See device_definition.h. */
Measurement *
device_definition_find(const DeviceDefinition *definition, const char *name)
{
	ListCell   *cell;

	foreach(cell, definition->measurements)
	{
		Measurement *measurement = lfirst(cell);

		if (strcmp(measurement->name, name) == 0 || (measurement->alias && strcmp(measurement->alias, name) == 0))
			return measurement;
	}
	return NULL;
}

static int
collect_names(const DeviceDefinition *definition, const char **names)
{
	int			count = 0;
	ListCell   *cell;

	foreach(cell, definition->measurements)
	{
		const Measurement *measurement = lfirst(cell);

		names[count++] = measurement->name;
		/* an alias that is the name itself says nothing */
		if (measurement->alias != NULL && strcmp(measurement->alias, measurement->name) != 0)
			names[count++] = measurement->alias;
	}
	return count;
}

static int
compare_names(const void *left, const void *right)
{
	return strcmp(*(const char *const *) left, *(const char *const *) right);
}

/* See device_definition.h. */
void
device_definition_require_distinct(const JsonPlace *place, const DeviceDefinition *definition, const DeviceDefinition *other)
{
	int			room = list_length(definition->measurements) + (other ? list_length(other->measurements) : 0);
	const char **names = palloc_array(const char *, 2 * room + 1);
	int			count = collect_names(definition, names);

	if (other != NULL)
		count += collect_names(other, names + count);
	qsort(names, count, sizeof(char *), compare_names);
	for (int i = 1; i < count; i++)
	{
		if (strcmp(names[i - 1], names[i]) == 0)
			json_refuse(place, "two measurements or aliases have the name \"%s\"", json_excerpt(names[i]));
	}
}

/* See device_definition.h. */
void
device_definition_require_apart(Jsonb *definition, Jsonb *template)
{
	JsonPlace	place = json_document(definition);
	JsonPlace	template_place = json_document(template);
	DeviceDefinition *own = device_definition_read(&place);
	DeviceDefinition *other = device_definition_read(&template_place);

	if (own->aligned != other->aligned)
		json_refuse(&place, "the device is %s and the template is %s", own->aligned ? "aligned" : "not aligned",
					other->aligned ? "aligned" : "not aligned");
	device_definition_require_distinct(&place, own, other);
}

static Jsonb *
check_definition(const JsonPlace *document)
{
	DeviceDefinition *definition = device_definition_read(document);

	if (definition->measurements == NIL)
		json_refuse(document, "there is no measurement");
	device_definition_require_distinct(document, definition, NULL);
	return device_definition_write(definition);
}

/* See device_definition.h. */
Jsonb *
device_definition_check(Jsonb *input)
{
	static const char *const keys[] = {"aligned", "measurements", NULL};
	JsonPlace	document = json_document(input);

	json_require_known_keys(&document, keys);
	return check_definition(&document);
}

/*
 * amoro_meta_device_definition(definition) returns the canonical form; raises 22023.
 */
Datum
amoro_meta_device_definition(PG_FUNCTION_ARGS)
{
	PG_RETURN_JSONB_P(device_definition_check(PG_GETARG_JSONB_P(0)));
}

/* Pushes a member whose value is a whole document. */
static void
write_document(JsonbParseState **state, const char *key, Jsonb *document)
{
	JsonbValue	value;

	json_write_key(state, key);
	JsonbToJsonbValue(document, &value);
	pushJsonbValue(state, WJB_VALUE, &value);
}

/*
 * amoro_meta_device_list(devices) reads a list of devices, each a definition with its "path", and returns a list of
 * {"path", "definition"}, both canonical. Raises 22023 with the place.
 */
Datum
amoro_meta_device_list(PG_FUNCTION_ARGS)
{
	static const char *const keys[] = {"path", "aligned", "measurements", NULL};
	JsonPlace	list = json_document(PG_GETARG_JSONB_P(0));
	int			size = json_array_size(&list);
	JsonbParseState *state = NULL;

	if (size == 0 || size > MAX_DEVICES)
		json_refuse(&list, "expected 1 to %d devices", MAX_DEVICES);
	pushJsonbValue(&state, WJB_BEGIN_ARRAY, NULL);
	for (int i = 0; i < size; i++)
	{
		JsonPlace	place = json_array_item(&list, i);
		JsonPlace	path;

		CHECK_FOR_INTERRUPTS();
		json_require_known_keys(&place, keys);
		path = json_required_member(&place, "path");
		pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
		json_write_string(&state, "path", device_path_canonical(psprintf("path of device %d", i + 1), json_string(&path), false));
		write_document(&state, "definition", check_definition(&place));
		pushJsonbValue(&state, WJB_END_OBJECT, NULL);
	}
	PG_RETURN_JSONB_P(JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_ARRAY, NULL)));
}
