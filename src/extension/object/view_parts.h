/*
 * view_parts.h
 *		A definition of a view in memory, between reading it and writing it.
 */
#ifndef AMORO_META_VIEW_PARTS_H
#define AMORO_META_VIEW_PARTS_H

#include "postgres.h"

#include "object/definition_parts.h"

typedef struct ViewColumn
{
	char	   *name;
	char	   *comment;		/* NULL: none */
	int32		column_id;		/* of a column of the table itself */
} ViewColumn;

typedef struct ViewDefinition
{
	List	   *columns;		/* ViewColumn */
	char	   *comment;		/* NULL: none */
	int64		ttl;			/* milliseconds; 0: none */
	List	   *properties;		/* Property */
} ViewDefinition;

/* Reads the canonical form. */
extern ViewDefinition *view_read(const JsonPlace *document);
extern Jsonb *view_write(const ViewDefinition *view);
/* NULL when there is none of that name */
extern ViewColumn *view_column_find(const List *columns, const char *name);
/* Appends a column; raises 22023 for what is no name, or one that there is already. */
extern void view_column_add(const JsonPlace *place, ViewDefinition *view, const char *name, char *comment, int32 column_id);

#endif							/* AMORO_META_VIEW_PARTS_H */
