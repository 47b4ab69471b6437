/*
 * definition_parts.h
 *		A definition in memory, between reading it and writing it.
 */
#ifndef AMORO_META_DEFINITION_PARTS_H
#define AMORO_META_DEFINITION_PARTS_H

#include "postgres.h"

#include "json/json_place.h"
#include "object/iceberg_type.h"

typedef struct Partition
{
	int32		column_id;
	char	   *transform;		/* "identity", "bucket[16]" */
} Partition;

typedef struct Property
{
	char	   *key;
	char	   *value;
} Property;

typedef struct Definition
{
	char	   *format;
	char	   *location;		/* NULL: none */
	char	   *comment;		/* NULL: none */
	int64		ttl;			/* milliseconds; 0: none */
	List	   *columns;		/* IcebergField */
	int32		last_column_id;
	List	   *partitioning;	/* Partition */
	List	   *primary_key;	/* column ids */
	List	   *properties;		/* Property, in the order in which they came */
} Definition;

extern Definition *definition_read(const JsonPlace *document);
extern Jsonb *definition_write(const Definition *definition);
/* Reads an object of strings; raises 22023. */
extern List *properties_read(const JsonPlace *place);
/* Sets or adds each. */
extern List *properties_merge(List *properties, const List *others);
/* Without those whose keys are in an array of strings; raises 22023. */
extern List *properties_remove(List *properties, const JsonPlace *keys);
/* Writes them as the member "properties" of an object in the making. */
extern void properties_write(JsonbParseState **state, const List *properties);

/* definition_change.c; each raises 22023 when it is not possible: a column of the table itself, and a type that its values can have. */
extern void column_drop(const JsonPlace *place, Definition *definition, IcebergField *field);
extern void column_retype(const JsonPlace *place, IcebergField *field, IcebergType *type);
/* The name of a new column among its siblings; raises 22023. */
extern char *column_new_name(const JsonPlace *place, const char *name, const List *siblings);

/* definition_column.c: the way to a column, followed as far as it goes */
typedef struct ColumnPath
{
	IcebergType *parent;		/* NULL: the table */
	List	  **siblings;		/* the fields of the parent */
	char	   *name;			/* the last part of the way */
	IcebergField *field;		/* NULL: the parent has no field of that name */
} ColumnPath;

/*
 * Follows a name, or an array of names for a nested column ("element", "key" and "value" below lists and maps). Raises
 * 22023 when a column on the way, but for the last, does not exist.
 */
extern ColumnPath column_path(const JsonPlace *place, Definition *definition);
/* As column_path; raises 22023 when the column itself does not exist, too. */
extern ColumnPath column_path_existing(const JsonPlace *place, Definition *definition);
/* At any depth; NULL when there is none */
extern IcebergField *column_by_id(List *columns, int32 id);
/* Whether the column is one of many values in a row: an element, a key or a value, or below one. */
extern bool column_is_repeated(List *columns, int32 id);
/* Gives every field that has none an id that was never used in this table; raises 22023 when one is used twice. */
extern void column_assign_ids(const JsonPlace *place, Definition *definition);
/* Whether partitioning or primary key use the column or one below it. */
extern bool column_is_used(const Definition *definition, const IcebergField *field);

#endif							/* AMORO_META_DEFINITION_PARTS_H */
