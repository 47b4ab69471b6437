/*
 * explorer_wake.c
 *		How sessions wake the explorer of their database.
 */
#include "explorer/explorer.h"

#include "access/xact.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "shmem.h"
#include "storage/lwlock.h"
#include "worker/worker_place.h"

static bool wake_wanted = false;

/* See explorer.h. */
void
explorer_wake(Oid database)
{
	worker_place_wake(WORKER_EXPLORER, database, NULL);
}

/* See explorer.h. */
bool
explorer_was_woken(void)
{
	static uint64 seen = 0;
	DatabaseEntry *entry;
	uint64		wakes;
	bool		woken;

	LWLockAcquire(AmoroShared->lock, LW_SHARED);
	entry = database_entry_find(MyDatabaseId);
	wakes = entry == NULL ? 0 : entry->explorer.wakes;
	LWLockRelease(AmoroShared->lock);
	woken = wakes != seen;
	seen = wakes;
	return woken;
}

/* Wakes at commit whom the transaction concerns. It must not fail there: shared memory alone. */
static void
finish_transaction(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_PRE_COMMIT || event == XACT_EVENT_PRE_PREPARE)
		return;
	if (event == XACT_EVENT_COMMIT && wake_wanted)
		explorer_wake(MyDatabaseId);
	wake_wanted = false;
}

/* See explorer.h. */
void
explorer_install_callbacks(void)
{
	RegisterXactCallback(finish_transaction, NULL);
}

PG_FUNCTION_INFO_V1(amoro_meta_wake_explorer);
PG_FUNCTION_INFO_V1(amoro_meta_explorer_pid);

/* Has the explorer look what is due when the transaction commits. */
Datum
amoro_meta_wake_explorer(PG_FUNCTION_ARGS)
{
	wake_wanted = AmoroShared != NULL;
	PG_RETURN_VOID();
}

/* The process id of the explorer of this database, or null. */
Datum
amoro_meta_explorer_pid(PG_FUNCTION_ARGS)
{
	pid_t		pid = worker_place_pid(WORKER_EXPLORER, MyDatabaseId);

	if (pid == 0)
		PG_RETURN_NULL();
	PG_RETURN_INT32(pid);
}
