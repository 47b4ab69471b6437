/*
 * view_definition.h
 *		Definitions of views: which columns of their table they show, under which names.
 *
 * Canonical: {"columns": [{"name", "column_id", "comment"}], "comment", "ttl": milliseconds, "properties": {text: text}}.
 * A column is known by its id in the table, which is never given to another one, so a view survives that it is renamed.
 */
#ifndef AMORO_META_VIEW_DEFINITION_H
#define AMORO_META_VIEW_DEFINITION_H

#include "postgres.h"

#include "utils/jsonb.h"

/* Validates what a user wrote against the definition of the table; returns the canonical form. Raises 22023. */
extern Jsonb *view_definition_check(Jsonb *input, Jsonb *base);
/*
 * Applies a list of changes, in order, all or none. cascade: columns are added to and dropped from the table as well, and
 * times to live set on it; a type is always that of the table's column. base is replaced by what becomes of it.
 * Raises 22023.
 */
extern Jsonb *view_definition_alter(Jsonb *view, Jsonb *changes, bool cascade, Jsonb **base);
/* The definition without the columns that the table no longer has; NULL: it has none of them. */
extern Jsonb *view_definition_follow(Jsonb *view, Jsonb *base);
/* Whether the view shows every column of the table. */
extern bool view_definition_covers(Jsonb *view, Jsonb *base);

#endif							/* AMORO_META_VIEW_DEFINITION_H */
