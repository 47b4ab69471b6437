/*
 * json_place.h
 *		Reading jsonb that a user wrote: every error says where in the document it is.
 */
#ifndef AMORO_META_JSON_PLACE_H
#define AMORO_META_JSON_PLACE_H

#include "postgres.h"

#include "compat.h"

#include "utils/jsonb.h"

/* A value inside a document and the way to it. Places live on the stack of their reader. */
typedef struct JsonPlace
{
	const struct JsonPlace *parent; /* NULL: the document itself */
	const char *key;			/* in an object; NULL: in an array */
	int			index;			/* in an array */
	JsonbValue	value;
} JsonPlace;

extern JsonPlace json_document(Jsonb *document);
/* Raises 22023 with the message and, in the detail, the path of the place: $.columns[3].type */
pg_noreturn extern void json_refuse(const JsonPlace *place, const char *format,...) pg_attribute_printf(2, 3);

/* The beginning of a text that a user wrote, for a message. */
extern char *json_excerpt(const char *text);

/* Each raises 22023 unless the place holds what the name says. */
extern void json_require_object(const JsonPlace *place);
extern int	json_array_size(const JsonPlace *place);
extern char *json_string(const JsonPlace *place);
extern bool json_boolean(const JsonPlace *place);
extern int64 json_integer(const JsonPlace *place, int64 smallest, int64 largest);
/* Raises 22023 when the object has another member than these; ends with NULL. */
extern void json_require_known_keys(const JsonPlace *object, const char *const *keys);

extern bool json_is_string(const JsonPlace *place);
extern bool json_is_object(const JsonPlace *place);
/* false when the object has no such member; raises 22023 when it is no object */
extern bool json_member(const JsonPlace *object, const char *key, JsonPlace *member);
/* Raises 22023 when the object has no such member. */
extern JsonPlace json_required_member(const JsonPlace *object, const char *key);
extern JsonPlace json_array_item(const JsonPlace *array, int index);
/* NULL when there is no such member */
extern char *json_optional_string(const JsonPlace *object, const char *key);

/* Writing: members of an object in the making */
extern void json_write_key(JsonbParseState **state, const char *key);
extern void json_write_string(JsonbParseState **state, const char *key, const char *value);
extern void json_write_integer(JsonbParseState **state, const char *key, int64 value);
extern void json_write_boolean(JsonbParseState **state, const char *key, bool value);

#endif							/* AMORO_META_JSON_PLACE_H */
