/*
 * object_name.h
 *		What may be a name of a catalog, database, table, column or node.
 */
#ifndef AMORO_META_OBJECT_NAME_H
#define AMORO_META_OBJECT_NAME_H

#include "postgres.h"

#include "compat.h"
#include "fmgr.h"

/* In characters. */
#define OBJECT_NAME_MAX 255

/* NULL when the name is fine; else why not, as a sentence. */
extern const char *object_name_problem(const char *name);

extern bool object_name_has_control_character(const char *name);

/* Raises 22023 for an argument that is no name. */
extern pg_noreturn void object_name_refuse(const char *argument, const char *problem);

/* What a check that was called from SQL calls its subject: its first argument, which may be null. */
extern const char *argument_name(FunctionCallInfo fcinfo);

#endif							/* AMORO_META_OBJECT_NAME_H */
