/*
 * partition_cache.c
 *		Which nodes have a slot of a database. Asked for one by one: a miss means nothing.
 */
#include "cache_kind.h"

const CacheKind partition_cache = {
	.name = "partition",
	.names = 3,
	.loaded_before_serving = false,
};
