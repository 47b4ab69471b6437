/*
 * iceberg_type.h
 *		The types of columns: those of the Apache Iceberg table specification, nested ones too.
 */
#ifndef AMORO_META_ICEBERG_TYPE_H
#define AMORO_META_ICEBERG_TYPE_H

#include "postgres.h"

#include "json/json_place.h"
#include "nodes/pg_list.h"

/* How deep types may be nested, and how many columns a table may have, nested ones counted. */
#define ICEBERG_MAX_DEPTH 32
#define ICEBERG_MAX_FIELDS 10000

typedef enum IcebergKind
{
	ICEBERG_PRIMITIVE,
	ICEBERG_STRUCT,
	ICEBERG_LIST,
	ICEBERG_MAP
} IcebergKind;

typedef struct IcebergType
{
	IcebergKind kind;
	char	   *spelling;		/* of a primitive, canonical: "decimal(10,2)" */
	int			precision;		/* of a decimal; 0: not one */
	int			scale;
	List	   *fields;			/* IcebergField: of a struct; "element" of a list; "key" and "value" of a map */
} IcebergType;

typedef struct IcebergField
{
	int32		id;				/* 0: not given yet */
	char	   *name;
	bool		required;
	char	   *comment;		/* NULL: none */
	IcebergType *type;
} IcebergField;

/* Reads a type: a string ("int", "list<string>", "struct<a: int>") or an object as Iceberg's JSON has it. Raises 22023. */
extern IcebergType *iceberg_type_read(const JsonPlace *place);
/* Reads the fields of a struct, or the columns of a table: an array of objects. Raises 22023. */
extern List *iceberg_fields_read(const JsonPlace *place);
/* Writes the value of a key; the nested ones as objects, with the ids of their fields. */
extern void iceberg_type_write(JsonbParseState **state, const char *key, const IcebergType *type);
extern void iceberg_fields_write(JsonbParseState **state, const char *key, const List *fields);
/* How many fields there are in all, nested ones counted. */
extern int	iceberg_fields_count(const List *fields);
/* NULL when there is no field of that name */
extern IcebergField *iceberg_field_find(const List *fields, const char *name);
/* Whether every value of one type is a value of the other, as Iceberg lets a column's type change; or they are equal. */
extern bool iceberg_type_can_become(const IcebergType *from, const IcebergType *to);
/* For messages: "decimal(10,2)", "struct", "list", "map". */
extern const char *iceberg_type_name(const IcebergType *type);

#endif							/* AMORO_META_ICEBERG_TYPE_H */
