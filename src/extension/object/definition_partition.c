/*
 * definition_partition.c
 *		How a table is partitioned: columns and their transforms, those of the Iceberg specification.
 */
#include "postgres.h"

#include "object/definition_partition.h"

IcebergField *
column_reference(const JsonPlace *place, Definition *definition)
{
	IcebergField *field;

	if (place->value.type != jbvNumeric)
		return column_path_existing(place, definition).field;
	field = column_by_id(definition->columns, (int32) json_integer(place, 1, PG_INT32_MAX));
	if (field == NULL)
		json_refuse(place, "no column has this id");
	return field;
}

static bool
is_one_of(const char *word, const char *const *words)
{
	for (; *words != NULL; words++)
	{
		if (strcmp(word, *words) == 0)
			return true;
	}
	return false;
}

/* bucket[16], truncate[8]: the number is at least 1 */
static bool
has_parameter(const char *transform, const char *name)
{
	size_t		length = strlen(name);
	size_t		digits;

	if (strncmp(transform, name, length) != 0 || transform[length] != '[')
		return false;
	transform += length + 1;
	digits = strspn(transform, "0123456789");
	return digits >= 1 && digits <= 9 && transform[0] != '0' && strcmp(transform + digits, "]") == 0;
}

/* Whether a transform exists, and takes values of the type. */
static bool
transform_takes(const char *transform, const IcebergType *type, bool *exists)
{
	static const char *const dates[] = {
		"date", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns", NULL
	};
	static const char *const no_buckets[] = {
		"boolean", "float", "double", "variant", "unknown", "geometry", "geography", NULL
	};
	static const char *const truncatable[] = {"int", "long", "string", "binary", NULL};
	const char *name = type->kind == ICEBERG_PRIMITIVE ? type->spelling : "";

	*exists = true;
	if (strcmp(transform, "identity") == 0 || strcmp(transform, "void") == 0)
		return *name != '\0';
	if (strcmp(transform, "year") == 0 || strcmp(transform, "month") == 0 || strcmp(transform, "day") == 0)
		return is_one_of(name, dates);
	if (strcmp(transform, "hour") == 0)
		return is_one_of(name, dates + 1);
	if (has_parameter(transform, "bucket"))
		return *name != '\0' && !is_one_of(name, no_buckets);
	if (has_parameter(transform, "truncate"))
		return type->precision > 0 || is_one_of(name, truncatable);
	*exists = false;
	return false;
}

static Partition *
read_partition(const JsonPlace *object, Definition *definition)
{
	static const char *const keys[] = {"column", "column_id", "transform", NULL};
	Partition  *partition = palloc_object(Partition);
	JsonPlace	column;
	JsonPlace	transform;
	IcebergField *field;
	bool		exists;

	json_require_known_keys(object, keys);
	if (json_member(object, "column", &column) == json_member(object, "column_id", &transform))
		json_refuse(object, "expected one of the keys \"column\" and \"column_id\"");
	field = column_reference(json_member(object, "column", &column) ? &column : &transform, definition);
	/* a row goes to one partition, so it must have one value */
	if (column_is_repeated(definition->columns, field->id))
		json_refuse(json_member(object, "column", &column) ? &column : &transform,
					"a table cannot be partitioned by what is in a list or a map");
	transform = json_required_member(object, "transform");
	partition->column_id = field->id;
	partition->transform = json_string(&transform);
	if (transform_takes(partition->transform, field->type, &exists))
		return partition;
	if (exists)
		json_refuse(&transform, "transform \"%s\" does not take a column of type %s",
					partition->transform, iceberg_type_name(field->type));
	json_refuse(&transform, "unknown transform \"%s\", expected identity, year, month, day, hour, void, "
				"bucket[N] or truncate[W]", json_excerpt(partition->transform));
}

List *
partitioning_read(const JsonPlace *place, Definition *definition)
{
	int			size = json_array_size(place);
	List	   *partitioning = NIL;

	for (int i = 0; i < size; i++)
	{
		JsonPlace	element = json_array_item(place, i);
		Partition  *partition = read_partition(&element, definition);
		ListCell   *cell;

		foreach(cell, partitioning)
		{
			Partition  *other = lfirst(cell);

			if (other->column_id == partition->column_id && strcmp(other->transform, partition->transform) == 0)
				json_refuse(&element, "the table is partitioned by this twice");
		}
		partitioning = lappend(partitioning, partition);
	}
	return partitioning;
}

void
partitioning_write(JsonbParseState **state, const List *partitioning)
{
	ListCell   *cell;

	if (partitioning == NIL)
		return;
	json_write_key(state, "partitioning");
	pushJsonbValue(state, WJB_BEGIN_ARRAY, NULL);
	foreach(cell, partitioning)
	{
		const Partition *partition = lfirst(cell);

		pushJsonbValue(state, WJB_BEGIN_OBJECT, NULL);
		json_write_integer(state, "column_id", partition->column_id);
		json_write_string(state, "transform", partition->transform);
		pushJsonbValue(state, WJB_END_OBJECT, NULL);
	}
	pushJsonbValue(state, WJB_END_ARRAY, NULL);
}
