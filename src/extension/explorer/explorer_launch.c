/*
 * explorer_launch.c
 *		Keeps an explorer running beside each coordinator that is at work.
 */
#include "explorer/explorer_launch.h"

#include <signal.h>

#include "compat.h"
#include "miscadmin.h"
#include "worker/lifecycle.h"
#include "worker/worker_place.h"

#define SECOND_US INT64CONST(1000000)
#define FIRST_BACKOFF_US (SECOND_US / 2)
#define LONGEST_BACKOFF_US (60 * SECOND_US)
/* One that lived that long has not failed. */
#define HEALTHY_US (10 * SECOND_US)

static void
back_off(ExplorerWatch *watch)
{
	watch->due = lease_clock_now() + Min(FIRST_BACKOFF_US << Min(watch->failures, 10), LONGEST_BACKOFF_US);
	watch->failures++;
}

static void
report_no_slot(ExplorerWatch *watch, const char *name)
{
	back_off(watch);
	if (watch->reported)
		return;
	watch->reported = true;
	ereport(WARNING,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("amoro_meta could not start the explorer of database \"%s\": no free background worker slot", name),
			 errdetail("It is tried again, at longer and longer intervals; meanwhile no catalog of it is explored."),
			 errhint("Increase max_worker_processes and restart the server.")));
}

static void
start(ExplorerWatch *watch, Oid database, const char *name, MemoryContext context)
{
	BackgroundWorker worker = {0};
	MemoryContext old;
	bool		registered;

	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION | BGWORKER_INTERRUPTIBLE;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker.bgw_library_name, "amoro_meta", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "amoro_meta_explorer_main", sizeof(worker.bgw_function_name));
	snprintf(worker.bgw_name, sizeof(worker.bgw_name), "amoro_meta explorer of %s", name);
	strlcpy(worker.bgw_type, "amoro_meta explorer", sizeof(worker.bgw_type));
	worker.bgw_main_arg = ObjectIdGetDatum(database);
	worker.bgw_notify_pid = MyProcPid;
	old = MemoryContextSwitchTo(context);
	registered = RegisterDynamicBackgroundWorker(&worker, &watch->handle);
	MemoryContextSwitchTo(old);
	if (!registered)
	{
		watch->handle = NULL;
		report_no_slot(watch, name);
		return;
	}
	watch->reported = false;
	watch->started_at = lease_clock_now();
}

/* See explorer_launch.h. */
LeaseTime
explorer_attend(ExplorerWatch *watch, Oid database, const char *name, bool wanted, MemoryContext context)
{
	pid_t		pid;

	if (watch->handle != NULL && GetBackgroundWorkerPid(watch->handle, &pid) == BGWH_STOPPED)
	{
		pfree(watch->handle);
		watch->handle = NULL;
		if (lease_clock_now() - watch->started_at >= HEALTHY_US)
			watch->failures = 0;
		back_off(watch);
	}
	if (!wanted)
	{
		if (watch->handle != NULL)
			TerminateBackgroundWorker(watch->handle);
		else if ((pid = worker_place_pid(WORKER_EXPLORER, database)) != 0)
			(void) kill(pid, SIGTERM);
		watch->due = 0;
		watch->failures = 0;
		return 0;
	}
	/* one of an earlier launcher goes on, and tells us when it ends */
	if (watch->handle != NULL || worker_place_pid(WORKER_EXPLORER, database) != 0 || lifecycle_is_held(database))
		return 0;
	if (lease_clock_now() >= watch->due)
		start(watch, database, name, context);
	return watch->handle == NULL ? watch->due : 0;
}
