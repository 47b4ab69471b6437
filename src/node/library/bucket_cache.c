/*
 * bucket_cache.c
 *		Which node owns a bucket of a service. A miss means nothing.
 */
#include "cache_kind.h"

const CacheKind bucket_cache = {
	.name = "bucket",
	.names = 2,
	.loaded_before_serving = false,
};
