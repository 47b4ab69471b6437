/*
 * table_cache.c
 *		Definitions of tables, and of views over them. They come in when somebody asks for them: a miss means nothing.
 */
#include "cache_kind.h"

const CacheKind table_cache = {
	.name = "table",
	.names = 3,
	.loaded_before_serving = false,
};
