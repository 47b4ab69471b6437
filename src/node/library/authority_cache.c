/*
 * authority_cache.c
 *		What a user may do. Loaded before the node serves: who is not there may do nothing.
 */
#include "authority_table.h"
#include "cache_kind.h"

const CacheKind authority_cache = {
	.name = "authority",
	.names = 1,
	.loaded_before_serving = true,
	.make_table = authority_table_make,
};
