/*
 * iceberg_type_text.h
 *		Types that are spelled as text: "decimal(10,2)", "map<string, list<int>>", "struct<a: int>".
 */
#ifndef AMORO_META_ICEBERG_TYPE_TEXT_H
#define AMORO_META_ICEBERG_TYPE_TEXT_H

#include "object/iceberg_type.h"

/* Raises 22023 at the place that the text came from. */
extern IcebergType *iceberg_type_parse(const JsonPlace *place, const char *text, int depth);

/* iceberg_type.c */
extern IcebergType *iceberg_nested_type(IcebergKind kind, List *fields);
extern IcebergField *iceberg_field(char *name, bool required, IcebergType *type);
extern void iceberg_refuse_duplicates(const JsonPlace *place, const List *fields);
extern void iceberg_check_depth(const JsonPlace *place, int depth);

#endif							/* AMORO_META_ICEBERG_TYPE_TEXT_H */
