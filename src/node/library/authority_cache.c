/*
 * authority_cache.c
 *		What a user may do.
 */
#include "authority_table.h"
#include "cache_kind.h"

const CacheKind authority_cache = {
	.name = "authority",
	.names = 1,
	.miss_is_absent = false,
	.load_before_serving = NULL,
	.make_table = authority_table_make,
};
