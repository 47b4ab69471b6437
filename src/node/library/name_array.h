/*
 * name_array.h
 *		Names of many objects as arrays that the server reads.
 */
#ifndef AMORO_NAME_ARRAY_H
#define AMORO_NAME_ARRAY_H

#include "amoro_node.h"

/* The first, second or third name (0 to 2) of a key; NULL when it has none. */
extern const char *name_of_key(const AmoroKey *key, int index);
/* The names of that index of all keys, which have one, as a literal of type text[]; for free(). NULL when memory is short. */
extern char *name_array(const AmoroKey *keys, int count, int index);

#endif							/* AMORO_NAME_ARRAY_H */
