/*
 * device_measurement.c
 *		One measurement of a device: its type, how it is encoded and compressed, what it is called and tagged with.
 *
 * Types, encodings and which goes with which are those of Apache IoTDB.
 */
#include "postgres.h"

#include "device/device_definition.h"
#include "device/device_path.h"
#include "lib/stringinfo.h"
#include "object/definition_parts.h"

struct MeasurementType
{
	const char *name;
	const char *encodings[9];	/* the default first; ends with NULL */
	const char *becomes[8];		/* types as which its values can be read; ends with NULL */
};

#define NUMBER_ENCODINGS(first, second) {first, second, "PLAIN", "RLE", "ZIGZAG", "CHIMP", "SPRINTZ", "RLBE", NULL}

static const MeasurementType types[] = {
	{"BOOLEAN", {"RLE", "PLAIN", NULL}, {"STRING", "TEXT", NULL}},
	{"INT32", NUMBER_ENCODINGS("TS_2DIFF", "GORILLA"),
	{"INT64", "FLOAT", "DOUBLE", "TIMESTAMP", "STRING", "TEXT", NULL}},
	{"INT64", NUMBER_ENCODINGS("TS_2DIFF", "GORILLA"), {"TIMESTAMP", "DOUBLE", "STRING", "TEXT", NULL}},
	{"FLOAT", {"GORILLA", "PLAIN", "RLE", "TS_2DIFF", "CHIMP", "SPRINTZ", "RLBE", NULL}, {"DOUBLE", "STRING", "TEXT", NULL}},
	{"DOUBLE", {"GORILLA", "PLAIN", "RLE", "TS_2DIFF", "CHIMP", "SPRINTZ", "RLBE", NULL}, {"STRING", "TEXT", NULL}},
	{"TEXT", {"PLAIN", "DICTIONARY", NULL}, {"STRING", "BLOB", NULL}},
	{"STRING", {"PLAIN", "DICTIONARY", NULL}, {"TEXT", "BLOB", NULL}},
	{"BLOB", {"PLAIN", NULL}, {"STRING", "TEXT", NULL}},
	{"TIMESTAMP", NUMBER_ENCODINGS("TS_2DIFF", "GORILLA"), {"INT64", "DOUBLE", "STRING", "TEXT", NULL}},
	{"DATE", NUMBER_ENCODINGS("TS_2DIFF", "GORILLA"), {"STRING", "TEXT", NULL}},
};

static const char *const compressions[] = {"LZ4", "UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD", "LZMA2", NULL};

static const char *
join_words(const char *const *words)
{
	StringInfoData list;

	initStringInfo(&list);
	for (int i = 0; words[i] != NULL; i++)
		appendStringInfo(&list, "%s%s", i == 0 ? "" : words[i + 1] == NULL ? " or " : ", ", words[i]);
	return list.data;
}

/* The word of a list that a string is, in whatever case; NULL: none. */
static const char *
find_word(const char *const *words, const char *word)
{
	for (; *words != NULL; words++)
	{
		if (pg_strcasecmp(*words, word) == 0)
			return *words;
	}
	return NULL;
}

static const MeasurementType *
read_type(const JsonPlace *place)
{
	char	   *name = json_string(place);

	for (int i = 0; i < lengthof(types); i++)
	{
		if (pg_strcasecmp(types[i].name, name) == 0)
			return &types[i];
	}
	json_refuse(place, "unknown type \"%s\", expected BOOLEAN, INT32, INT64, FLOAT, DOUBLE, TEXT, STRING, BLOB, TIMESTAMP or DATE",
				json_excerpt(name));
}

/* See device_definition.h. */
void
measurement_read_encoding(const JsonPlace *object, Measurement *measurement)
{
	JsonPlace	member;

	if (measurement->encoding == NULL)
		measurement->encoding = measurement->type->encodings[0];
	if (measurement->compression == NULL)
		measurement->compression = compressions[0];
	if (json_member(object, "encoding", &member))
	{
		measurement->encoding = find_word(measurement->type->encodings, json_string(&member));
		if (measurement->encoding == NULL)
			json_refuse(&member, "type %s has no encoding \"%s\", expected %s", measurement->type->name,
						json_excerpt(json_string(&member)), join_words(measurement->type->encodings));
	}
	if (json_member(object, "compression", &member))
	{
		measurement->compression = find_word(compressions, json_string(&member));
		if (measurement->compression == NULL)
			json_refuse(&member, "unknown compression \"%s\", expected %s", json_excerpt(json_string(&member)),
						join_words(compressions));
	}
}

/*
 * measurement_read reads a measurement, as a user wrote it or in its canonical form.
 */
Measurement *
measurement_read(const JsonPlace *place)
{
	Measurement *measurement = palloc0_object(Measurement);
	JsonPlace	name = json_required_member(place, "name");
	JsonPlace	type = json_required_member(place, "type");
	JsonPlace	member;

	measurement->name = device_node_name(&name);
	measurement->type = read_type(&type);
	measurement_read_encoding(place, measurement);
	if (json_member(place, "alias", &member))
		measurement->alias = device_node_name(&member);
	if (json_member(place, "tags", &member))
		measurement->tags = properties_read(&member);
	if (json_member(place, "attributes", &member))
		measurement->attributes = properties_read(&member);
	return measurement;
}

/* See device_definition.h. */
void
measurement_retype(const JsonPlace *place, Measurement *measurement)
{
	const MeasurementType *type = read_type(place);

	if (type != measurement->type && find_word(measurement->type->becomes, type->name) == NULL)
		json_refuse(place, "measurement \"%s\" of type %s cannot become %s, only %s", json_excerpt(measurement->name),
					measurement->type->name, type->name, join_words(measurement->type->becomes));
	measurement->type = type;
	if (find_word(type->encodings, measurement->encoding) == NULL)
		measurement->encoding = type->encodings[0];
}

static void
write_pairs(JsonbParseState **state, const char *key, const List *pairs)
{
	ListCell   *cell;

	if (pairs == NIL)
		return;
	json_write_key(state, key);
	pushJsonbValue(state, WJB_BEGIN_OBJECT, NULL);
	foreach(cell, pairs)
	{
		const Property *pair = lfirst(cell);

		json_write_string(state, pair->key, pair->value);
	}
	pushJsonbValue(state, WJB_END_OBJECT, NULL);
}

/* See device_definition.h. */
void
measurement_write(JsonbParseState **state, const Measurement *measurement)
{
	pushJsonbValue(state, WJB_BEGIN_OBJECT, NULL);
	json_write_string(state, "name", measurement->name);
	json_write_string(state, "type", measurement->type->name);
	json_write_string(state, "encoding", measurement->encoding);
	json_write_string(state, "compression", measurement->compression);
	if (measurement->alias != NULL)
		json_write_string(state, "alias", measurement->alias);
	write_pairs(state, "tags", measurement->tags);
	write_pairs(state, "attributes", measurement->attributes);
	pushJsonbValue(state, WJB_END_OBJECT, NULL);
}
