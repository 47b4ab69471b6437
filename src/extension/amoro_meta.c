/*
 * amoro_meta.c
 *		Entry point of the library: defines the settings and, when preloaded,
 *		asks for shared memory, installs the hooks and registers the launcher.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "change/change.h"
#include "compat.h"
#include "explorer/explorer.h"
#include "fmgr.h"
#include "guc.h"
#include "miscadmin.h"
#include "node/node.h"
#include "procedure/procedure.h"
#include "shmem.h"
#include "task/task_activity.h"
#include "utils/builtins.h"
#include "worker/launcher.h"
#include "worker/lifecycle.h"
#include "worker/sweep.h"

AMORO_META_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

void
_PG_init(void)
{
	guc_define();
	change_install_callbacks();
	node_install_callbacks();
	procedure_install_callbacks();
	sweep_install_callbacks();
	explorer_install_callbacks();
	task_install_callbacks();

	/* Without preload the parts that need no coordinator work all the same (README.md, Installation). */
	if (!process_shared_preload_libraries_in_progress)
		return;

	shmem_install_hooks();
	lifecycle_install_hooks();
	launcher_register();
}

PG_FUNCTION_INFO_V1(amoro_meta_timeline_id);
PG_FUNCTION_INFO_V1(amoro_meta_calling_role);
PG_FUNCTION_INFO_V1(amoro_meta_library_version);
PG_FUNCTION_INFO_V1(amoro_meta_preloaded);

/* The timeline that this server writes to; 25006 on a standby, which writes to none. */
Datum
amoro_meta_timeline_id(PG_FUNCTION_ARGS)
{
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("cannot change metadata on a standby"),
				 errhint("Connect to the primary server.")));
	PG_RETURN_INT32((int32) GetWALInsertionTimeLine());
}

/*
 * The role that the session acts as, SET ROLE included. Inside a definer function
 * GetUserId() would be the owner of the function.
 */
Datum
amoro_meta_calling_role(PG_FUNCTION_ARGS)
{
	PG_RETURN_OID(GetOuterUserId());
}

/* The version of the loaded library, which an upgrade of the package may have left behind or ahead of the SQL. */
Datum
amoro_meta_library_version(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(AMORO_META_VERSION));
}

/* Whether the library was loaded through shared_preload_libraries, so that there can be a coordinator. */
Datum
amoro_meta_preloaded(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(AmoroShared != NULL);
}
