/*
 * object_name.h
 *		The name of a catalog, database or table as one segment of a URL.
 */
#ifndef AMORO_OBJECT_NAME_H
#define AMORO_OBJECT_NAME_H

#include <stddef.h>

/*
 * The rules of the database for a name: 1 to 255 characters of UTF-8, no control characters; anything else is legal.
 * Returns NULL, or what is wrong, as the rest of a sentence ("is empty").
 */
extern const char *object_name_check(const char *name, size_t length);

/*
 * Decodes a segment into name, which has room for length + 1 bytes and is ended by a NUL; a slash may be in a name, as
 * %2F. Returns as object_name_check does.
 */
extern const char *object_name_decode(const char *segment, size_t length, char *name);

#endif							/* AMORO_OBJECT_NAME_H */
