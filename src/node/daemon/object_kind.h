/*
 * object_kind.h
 *		What can be looked up over HTTP, a path and a cache each.
 */
#ifndef AMORO_OBJECT_KIND_H
#define AMORO_OBJECT_KIND_H

#include <stdbool.h>
#include <stddef.h>

#include "amoro_node.h"

enum
{
	MAX_OBJECT_NAMES = 3
};

typedef struct ObjectKind
{
	const char *path;			/* its names follow, a segment each */
	AmoroCacheKind cache;
	const char *noun;			/* for messages */
	const char *absent_type;	/* type of the error when there is no such object */
	const char *transition_type;	/* … when it is being created or dropped */
	const char *labels[MAX_OBJECT_NAMES];	/* of its names, up to the first NULL */
	const char *plural;			/* of those that are listed, and of which many are looked up at once; NULL: it cannot be */
	bool		asks_privilege;	/* not for the object, a user, but for what it may do */
} ObjectKind;

/* The kind whose path this is a continuation of, or NULL. */
extern const ObjectKind *object_kind_of_path(const char *path, size_t length);
/* One after the other, from 0; NULL: there are no more. */
extern const ObjectKind *object_kind_at(int index);
/* Of messages about a database whose objects are listed. */
extern const ObjectKind *object_kind_database(void);
/* How many names it has. */
extern int	object_kind_names(const ObjectKind *kind);
/* "a"."b"."c", cut off at size bytes. */
extern void object_kind_describe(const AmoroKey *key, char *text, size_t size);

#endif							/* AMORO_OBJECT_KIND_H */
