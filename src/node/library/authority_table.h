/*
 * authority_table.h
 *		What a user may do, as a table that is looked into without reading JSON: one block of memory without pointers,
 *		made once from the lines that come after the JSON of a user (docs/protocol.md, section 5).
 */
#ifndef AMORO_AUTHORITY_TABLE_H
#define AMORO_AUTHORITY_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "amoro_node.h"

/*
 * Splits a document into what is shown, of *shown bytes, and the lines, of which it makes a table (malloc). False: the
 * lines are not what they should be, or memory is short; nothing may be decided by them.
 */
extern bool authority_table_make(const char *document, size_t size, size_t *shown, void **table, size_t *table_size);
extern bool authority_table_allows(const void *table, AmoroPrivilege privilege, const AmoroScope *scope);

#endif							/* AMORO_AUTHORITY_TABLE_H */
