/*
 * json_place.c
 *		Reading jsonb that a user wrote: every error says where in the document it is.
 */
#include "postgres.h"

#include "json/json_place.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/numeric.h"

JsonPlace
json_document(Jsonb *document)
{
	JsonPlace	place = {NULL, NULL, 0, {.type = jbvBinary}};

	place.value.val.binary.data = &document->root;
	place.value.val.binary.len = VARSIZE(document) - VARHDRSZ;
	return place;
}

char *
json_excerpt(const char *text)
{
	int			length = strlen(text);
	int			clipped = pg_mbcliplen(text, length, NAMEDATALEN);
	char	   *excerpt = clipped < length ? psprintf("%.*s...", clipped, text) : pstrdup(text);

	/* a message stays on its line, and does nothing to a terminal */
	for (char *c = excerpt; *c; c++)
	{
		if ((unsigned char) *c < ' ' || *c == 0x7f)
			*c = '?';
	}
	return excerpt;
}

static bool
is_plain_key(const char *key)
{
	if (*key == '\0' || strlen(key) > NAMEDATALEN)
		return false;
	return strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == strlen(key);
}

static void
append_path(StringInfo path, const JsonPlace *place)
{
	if (place->parent == NULL)
	{
		appendStringInfoChar(path, '$');
		return;
	}
	append_path(path, place->parent);
	if (place->key == NULL)
		appendStringInfo(path, "[%d]", place->index);
	else if (is_plain_key(place->key))
		appendStringInfo(path, ".%s", place->key);
	else
	{
		appendStringInfoChar(path, '[');
		escape_json(path, json_excerpt(place->key));
		appendStringInfoChar(path, ']');
	}
}

/*
 * json_refuse raises 22023 and says where. See the header.
 */
void
json_refuse(const JsonPlace *place, const char *format,...)
{
	StringInfoData message;
	StringInfoData path;

	initStringInfo(&message);
	for (;;)
	{
		va_list		arguments;
		int			needed;

		va_start(arguments, format);
		needed = appendStringInfoVA(&message, format, arguments);
		va_end(arguments);
		if (needed == 0)
			break;
		enlargeStringInfo(&message, needed);
	}
	initStringInfo(&path);
	append_path(&path, place);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg_internal("%s", message.data),
			 errdetail("At %s.", path.data)));
}

bool
json_is_string(const JsonPlace *place)
{
	return place->value.type == jbvString;
}

bool
json_is_object(const JsonPlace *place)
{
	return place->value.type == jbvBinary && JsonContainerIsObject(place->value.val.binary.data);
}

void
json_require_object(const JsonPlace *place)
{
	if (!json_is_object(place))
		json_refuse(place, "expected an object");
}

int
json_array_size(const JsonPlace *place)
{
	if (place->value.type != jbvBinary || !JsonContainerIsArray(place->value.val.binary.data) ||
		JsonContainerIsScalar(place->value.val.binary.data))
		json_refuse(place, "expected an array");
	return (int) JsonContainerSize(place->value.val.binary.data);
}

char *
json_string(const JsonPlace *place)
{
	if (!json_is_string(place))
		json_refuse(place, "expected a string");
	return pnstrdup(place->value.val.string.val, place->value.val.string.len);
}

bool
json_boolean(const JsonPlace *place)
{
	if (place->value.type != jbvBool)
		json_refuse(place, "expected true or false");
	return place->value.val.boolean;
}

int64
json_integer(const JsonPlace *place, int64 smallest, int64 largest)
{
	Numeric		number;
	Datum		value;

	if (place->value.type != jbvNumeric)
		json_refuse(place, "expected a number");
	number = place->value.val.numeric;
	value = DirectFunctionCall2(numeric_trunc, NumericGetDatum(number), Int32GetDatum(0));
	if (!DatumGetBool(DirectFunctionCall2(numeric_eq, value, NumericGetDatum(number))) ||
		DatumGetBool(DirectFunctionCall2(numeric_lt, value, NumericGetDatum(int64_to_numeric(smallest)))) ||
		DatumGetBool(DirectFunctionCall2(numeric_gt, value, NumericGetDatum(int64_to_numeric(largest)))))
		json_refuse(place, "expected a whole number from " INT64_FORMAT " to " INT64_FORMAT, smallest, largest);
	return DatumGetInt64(DirectFunctionCall1(numeric_int8, value));
}

static bool
is_known(const JsonbValue *key, const char *const *keys)
{
	for (; *keys != NULL; keys++)
	{
		if (strlen(*keys) == key->val.string.len && memcmp(*keys, key->val.string.val, key->val.string.len) == 0)
			return true;
	}
	return false;
}

static char *
join(const char *const *keys)
{
	StringInfoData list;

	initStringInfo(&list);
	for (int i = 0; keys[i] != NULL; i++)
		appendStringInfo(&list, "%s\"%s\"", i > 0 ? ", " : "", keys[i]);
	return list.data;
}

/*
 * json_require_known_keys raises 22023 for the first member that is not among the keys.
 */
void
json_require_known_keys(const JsonPlace *object, const char *const *keys)
{
	JsonbIterator *iterator;
	JsonbIteratorToken token;
	JsonbValue	value;

	json_require_object(object);
	iterator = JsonbIteratorInit(object->value.val.binary.data);
	while ((token = JsonbIteratorNext(&iterator, &value, true)) != WJB_DONE)
	{
		if (token == WJB_KEY && !is_known(&value, keys))
			json_refuse(object, "unknown key \"%s\", expected one of %s",
						json_excerpt(pnstrdup(value.val.string.val, value.val.string.len)), join(keys));
	}
}

bool
json_member(const JsonPlace *object, const char *key, JsonPlace *member)
{
	JsonbValue *value;

	json_require_object(object);
	value = getKeyJsonValueFromContainer(object->value.val.binary.data, key, strlen(key), NULL);
	if (value == NULL)
		return false;
	*member = (JsonPlace) {object, key, 0, *value};
	return true;
}

JsonPlace
json_required_member(const JsonPlace *object, const char *key)
{
	JsonPlace	member;

	if (!json_member(object, key, &member))
		json_refuse(object, "missing key \"%s\"", key);
	return member;
}

JsonPlace
json_array_item(const JsonPlace *array, int index)
{
	JsonbValue *value = getIthJsonbValueFromContainer(array->value.val.binary.data, index);

	return (JsonPlace) {array, NULL, index, *value};
}

char *
json_optional_string(const JsonPlace *object, const char *key)
{
	JsonPlace	member;

	return json_member(object, key, &member) ? json_string(&member) : NULL;
}

static JsonbValue
string_value(const char *string)
{
	JsonbValue	value = {.type = jbvString};

	value.val.string.val = unconstify(char *, string);
	value.val.string.len = strlen(string);
	return value;
}

void
json_write_key(JsonbParseState **state, const char *key)
{
	JsonbValue	value = string_value(key);

	pushJsonbValue(state, WJB_KEY, &value);
}

void
json_write_string(JsonbParseState **state, const char *key, const char *string)
{
	JsonbValue	value = string_value(string);

	json_write_key(state, key);
	pushJsonbValue(state, WJB_VALUE, &value);
}

void
json_write_integer(JsonbParseState **state, const char *key, int64 number)
{
	JsonbValue	value = {.type = jbvNumeric};

	value.val.numeric = int64_to_numeric(number);
	json_write_key(state, key);
	pushJsonbValue(state, WJB_VALUE, &value);
}

void
json_write_boolean(JsonbParseState **state, const char *key, bool boolean)
{
	JsonbValue	value = {.type = jbvBool};

	value.val.boolean = boolean;
	json_write_key(state, key);
	pushJsonbValue(state, WJB_VALUE, &value);
}
