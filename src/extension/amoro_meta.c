/*
 * amoro_meta.c
 *		Entry point of the library: defines the settings and, when preloaded,
 *		asks for shared memory, installs the hooks and registers the launcher.
 */
#include "postgres.h"

#include "compat.h"
#include "fmgr.h"
#include "guc.h"
#include "miscadmin.h"
#include "shmem.h"

AMORO_META_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

void
_PG_init(void)
{
	guc_define();

	/* Without preload the parts that need no coordinator work all the same (DESIGN.md, section 3). */
	if (!process_shared_preload_libraries_in_progress)
		return;

	shmem_install_hooks();
}
