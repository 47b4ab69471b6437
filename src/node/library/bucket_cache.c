/*
 * bucket_cache.c
 *		Which node owns a bucket of a service. A miss means nothing.
 */
#include "cache_kind.h"

const CacheKind bucket_cache = {
	.name = "bucket",
	.names = 2,
	.miss_is_absent = false,
	.load_before_serving = NULL,
};
