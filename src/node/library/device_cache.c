/*
 * device_cache.c
 *		Schemas of devices, of which there may be millions:
 *		they come in when somebody asks for them. A miss means nothing.
 */
#include "cache_kind.h"

const CacheKind device_cache = {
	.name = "device",
	.names = 3,
	.loaded_before_serving = false,
};
