/*
 * device_change.c
 *		Changes of the schema of a device, for alter_device: a list of objects, each with the key "op".
 */
#include "postgres.h"

#include "device/device_definition.h"
#include "device/device_path.h"
#include "fmgr.h"
#include "object/change_operation.h"
#include "object/definition_parts.h"

PG_FUNCTION_INFO_V1(amoro_meta_altered_device);
PG_FUNCTION_INFO_V1(amoro_meta_check_device_changes);

static bool
read_flag(const JsonPlace *change, const char *key)
{
	JsonPlace	member;

	return json_member(change, key, &member) && json_boolean(&member);
}

/* The measurement that the member "measurement" names, by its name or alias; NULL when "if_exists" allows that. */
static Measurement *
find_measurement(const JsonPlace *change, const DeviceDefinition *definition)
{
	JsonPlace	place = json_required_member(change, "measurement");
	char	   *name = device_node_name(&place);
	Measurement *measurement = device_definition_find(definition, name);

	if (measurement == NULL && !read_flag(change, "if_exists"))
		json_refuse(&place, "measurement \"%s\" does not exist", json_excerpt(name));
	return measurement;
}

static char *
read_new_name(const JsonPlace *change, const char *key, const DeviceDefinition *definition, const Measurement *owner)
{
	JsonPlace	place = json_required_member(change, key);
	char	   *name = device_node_name(&place);
	const Measurement *other = device_definition_find(definition, name);

	if (other != NULL && other != owner)
		json_refuse(&place, "measurement \"%s\" already exists", json_excerpt(name));
	return name;
}

static void
add_measurement(const JsonPlace *change, void *target)
{
	DeviceDefinition *definition = target;
	Measurement *measurement = measurement_read(change);

	if (device_definition_find(definition, measurement->name) != NULL && read_flag(change, "if_not_exists"))
		return;
	(void) read_new_name(change, "name", definition, NULL);
	if (measurement->alias != NULL)
		(void) read_new_name(change, "alias", definition, NULL);
	definition->measurements = lappend(definition->measurements, measurement);
}

static void
drop_measurement(const JsonPlace *change, void *target)
{
	DeviceDefinition *definition = target;

	definition->measurements = list_delete_ptr(definition->measurements, find_measurement(change, definition));
}

static void
rename_measurement(const JsonPlace *change, void *definition)
{
	Measurement *measurement = find_measurement(change, definition);

	if (measurement != NULL)
		measurement->name = read_new_name(change, "new_name", definition, measurement);
}

static void
retype_measurement(const JsonPlace *change, void *definition)
{
	Measurement *measurement = find_measurement(change, definition);
	JsonPlace	type = json_required_member(change, "type");

	if (measurement != NULL)
		measurement_retype(&type, measurement);
}

static void
set_encoding(const JsonPlace *change, void *definition)
{
	Measurement *measurement = find_measurement(change, definition);

	if (measurement != NULL)
		measurement_read_encoding(change, measurement);
}

static void
set_alias(const JsonPlace *change, void *definition)
{
	Measurement *measurement = find_measurement(change, definition);

	if (measurement != NULL)
		measurement->alias = read_new_name(change, "alias", definition, measurement);
}

static void
remove_alias(const JsonPlace *change, void *definition)
{
	Measurement *measurement = find_measurement(change, definition);

	if (measurement != NULL)
		measurement->alias = NULL;
}

static List *
set_pairs(const JsonPlace *change, const char *key, List *pairs)
{
	JsonPlace	member = json_required_member(change, key);

	return properties_merge(pairs, properties_read(&member));
}

static List *
remove_pairs(const JsonPlace *change, List *pairs)
{
	JsonPlace	keys = json_required_member(change, "keys");

	return properties_remove(pairs, &keys);
}

static void
set_tags(const JsonPlace *change, void *definition)
{
	Measurement *measurement = find_measurement(change, definition);

	if (measurement != NULL)
		measurement->tags = set_pairs(change, "tags", measurement->tags);
}

static void
remove_tags(const JsonPlace *change, void *definition)
{
	Measurement *measurement = find_measurement(change, definition);

	if (measurement != NULL)
		measurement->tags = remove_pairs(change, measurement->tags);
}

static void
set_attributes(const JsonPlace *change, void *definition)
{
	Measurement *measurement = find_measurement(change, definition);

	if (measurement != NULL)
		measurement->attributes = set_pairs(change, "attributes", measurement->attributes);
}

static void
remove_attributes(const JsonPlace *change, void *definition)
{
	Measurement *measurement = find_measurement(change, definition);

	if (measurement != NULL)
		measurement->attributes = remove_pairs(change, measurement->attributes);
}

static const ChangeOperation operations[] = {
	{"add_measurement", {"op", "name", "type", "encoding", "compression", "alias", "tags", "attributes", "if_not_exists", NULL},
	add_measurement},
	{"drop_measurement", {"op", "measurement", "if_exists", NULL}, drop_measurement},
	{"rename_measurement", {"op", "measurement", "if_exists", "new_name", NULL}, rename_measurement},
	{"retype_measurement", {"op", "measurement", "if_exists", "type", NULL}, retype_measurement},
	{"set_encoding", {"op", "measurement", "if_exists", "encoding", "compression", NULL}, set_encoding},
	{"set_alias", {"op", "measurement", "if_exists", "alias", NULL}, set_alias},
	{"remove_alias", {"op", "measurement", "if_exists", NULL}, remove_alias},
	{"set_tags", {"op", "measurement", "if_exists", "tags", NULL}, set_tags},
	{"remove_tags", {"op", "measurement", "if_exists", "keys", NULL}, remove_tags},
	{"set_attributes", {"op", "measurement", "if_exists", "attributes", NULL}, set_attributes},
	{"remove_attributes", {"op", "measurement", "if_exists", "keys", NULL}, remove_attributes},
};

/* See device_definition.h. */
void
device_changes_check(Jsonb *changes)
{
	change_operations_apply(changes, operations, lengthof(operations), NULL);
}

/* See device_definition.h. */
Jsonb *
device_definition_alter(Jsonb *definition_document, Jsonb *template, Jsonb *changes)
{
	JsonPlace	document = json_document(definition_document);
	JsonPlace	list = json_document(changes);
	DeviceDefinition *definition = device_definition_read(&document);
	DeviceDefinition *other = NULL;

	change_operations_apply(changes, operations, lengthof(operations), definition);
	if (template != NULL)
	{
		JsonPlace	place = json_document(template);

		other = device_definition_read(&place);
	}
	device_definition_require_distinct(&list, definition, other);
	return device_definition_write(definition);
}

/*
 * amoro_meta_altered_device(definition, template, changes) returns the definition after the changes; template may be
 * null. Raises 22023.
 */
Datum
amoro_meta_altered_device(PG_FUNCTION_ARGS)
{
	if (PG_ARGISNULL(0) || PG_ARGISNULL(2))
		PG_RETURN_NULL();
	PG_RETURN_JSONB_P(device_definition_alter(PG_GETARG_JSONB_P(0), PG_ARGISNULL(1) ? NULL : PG_GETARG_JSONB_P(1),
											  PG_GETARG_JSONB_P(2)));
}

/*
 * amoro_meta_check_device_changes(changes) raises 22023 unless they are well-formed.
 */
Datum
amoro_meta_check_device_changes(PG_FUNCTION_ARGS)
{
	device_changes_check(PG_GETARG_JSONB_P(0));
	PG_RETURN_VOID();
}
