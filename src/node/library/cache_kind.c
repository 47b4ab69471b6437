/*
 * cache_kind.c
 *		The kinds of cache that there are.
 */
#include "cache_kind.h"

const CacheKind *const cache_kinds[AMORO_CACHE_KIND_COUNT] = {
	[AMORO_CACHE_TABLE] = &table_cache,
	[AMORO_CACHE_PARTITION] = &partition_cache,
	[AMORO_CACHE_DEVICE] = &device_cache,
	[AMORO_CACHE_AUTHORITY] = &authority_cache,
	[AMORO_CACHE_BUCKET] = &bucket_cache,
};

const char *
amoro_cache_kind_name(AmoroCacheKind kind)
{
	if ((unsigned) kind >= AMORO_CACHE_KIND_COUNT)
		return "unknown";
	return cache_kinds[kind]->name;
}
