/*
 * cache_kind.h
 *		What the caches have to know of a kind of object. To add one: a constant in amoro_node.h, a file like
 *		table_cache.c, a line in cache_kind.c.
 */
#ifndef AMORO_CACHE_KIND_H
#define AMORO_CACHE_KIND_H

#include <stdbool.h>

#include "amoro_node.h"

typedef struct CacheKind
{
	/* as amoro_cache_kind_name shows it, metadata_lookup() takes it and changes call it */
	const char *name;
	int			names;			/* how many of the names of a key it has */
	/* every node loads all of it before it serves (reload.h); else only one that was told to */
	bool		loaded_before_serving;
	/*
	 * Makes of a document what is decided by, and tells how much of it is shown; see authority_table.h. NULL: all of it is
	 * shown, and nothing is made of it.
	 */
	bool		(*make_table) (const char *document, size_t size, size_t *shown, void **table, size_t *table_size);
} CacheKind;

extern const CacheKind table_cache;
extern const CacheKind partition_cache;
extern const CacheKind device_cache;
extern const CacheKind authority_cache;
extern const CacheKind bucket_cache;
extern const CacheKind *const cache_kinds[AMORO_CACHE_KIND_COUNT];

#endif							/* AMORO_CACHE_KIND_H */
