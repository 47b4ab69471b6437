/*
 * object_name.h
 *		What may be a name of a catalog, database, table, column or node.
 */
#ifndef AMORO_META_OBJECT_NAME_H
#define AMORO_META_OBJECT_NAME_H

#include "postgres.h"

#include "fmgr.h"

/* In characters. */
#define OBJECT_NAME_MAX 255

/* NULL when the name is fine; else why not, as a sentence. */
extern const char *object_name_problem(const char *name);

/* What a check that was called from SQL calls its subject: its first argument, which may be null. */
extern const char *argument_name(FunctionCallInfo fcinfo);

#endif							/* AMORO_META_OBJECT_NAME_H */
