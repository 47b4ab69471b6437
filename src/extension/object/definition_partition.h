/*
 * definition_partition.h
 *		How a table is partitioned: columns and their transforms.
 */
#ifndef AMORO_META_DEFINITION_PARTITION_H
#define AMORO_META_DEFINITION_PARTITION_H

#include "object/definition_parts.h"

/* A column that exists: its id, or the way to it as column_path reads it. Raises 22023. */
extern IcebergField *column_reference(const JsonPlace *place, Definition *definition);
extern List *partitioning_read(const JsonPlace *place, Definition *definition);
extern void partitioning_write(JsonbParseState **state, const List *partitioning);

#endif							/* AMORO_META_DEFINITION_PARTITION_H */
