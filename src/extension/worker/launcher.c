/*
 * launcher.c
 *		Keeps one coordinator running in every database that has the extension.
 *
 * It cannot look into a database, so it starts a coordinator in each: one that finds
 * no extension ends at once, and the database is left alone until something happens
 * in it, or a slow sweep comes round. What it knows of a database, worker handles
 * above all, is in its own memory (a pointer in shared memory would outlive the
 * process it belongs to); the coordinators tell it how they fare in the entries.
 */
#include "postgres.h"

#include "compat.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "shmem.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "worker/coordinator_launch.h"
#include "worker/launcher.h"

#define RESTART_SECONDS 5

/* launcher_register asks for the launcher. It starts when recovery ends, so never on a standby, and not in pg_upgrade. */
void
launcher_register(void)
{
	BackgroundWorker worker = {0};

	if (IsBinaryUpgrade)
		return;
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = RESTART_SECONDS;
	strlcpy(worker.bgw_library_name, "amoro_meta", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "amoro_meta_launcher_main", sizeof(worker.bgw_function_name));
	strlcpy(worker.bgw_name, "amoro_meta launcher", sizeof(worker.bgw_name));
	strlcpy(worker.bgw_type, "amoro_meta launcher", sizeof(worker.bgw_type));
	RegisterBackgroundWorker(&worker);
}

/* The explorer is there while the coordinator works. */
static LeaseTime
attend_explorer(Watch *watch)
{
	bool		works = coordinator_is_at_work(watch);

	/* a coordinator without a slot comes first */
	if (works && coordinator_lacks_slot() && watch->explorer.handle == NULL)
		return 0;
	return explorer_attend(&watch->explorer, watch->database, watch->name, works, launcher_context);
}

/* One round over all databases; returns how many milliseconds nothing is due. */
static long
attend_all(void)
{
	LeaseTime	now;
	LeaseTime	next = lease_clock_now() + DATABASE_SWEEP_US;
	ListCell   *cell;

	database_watch_read();
	database_watch_probe();
	foreach(cell, database_watches)
	{
		Watch	   *watch = lfirst(cell);
		LeaseTime	explorer_at;

		coordinator_attend(watch);
		explorer_at = attend_explorer(watch);
		if (explorer_at != 0)
			next = Min(next, explorer_at);
		if (!watch->exists && watch->handle == NULL && watch->explorer.handle == NULL)
		{
			coordinator_release_entry(watch);
			pfree(watch);
			database_watches = foreach_delete_current(database_watches, cell);
			continue;
		}
		if (watch->wanted && watch->state != WATCH_RUNNING)
			next = Min(next, watch->due);
	}
	now = lease_clock_now();
	/* What is due but has to wait for its turn is woken by the end of a start. */
	return next <= now ? (coordinator_count_starting() > 0 ? 1000 : 10) : (long) ((next - now) / 1000 + 1);
}

static void
leave(int code, Datum unused)
{
	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	if (AmoroShared->launcher_pid == MyProcPid)
	{
		AmoroShared->launcher_pid = 0;
		AmoroShared->launcher_proc = INVALID_PROC_NUMBER;
	}
	LWLockRelease(AmoroShared->lock);
}

static void
announce(void)
{
	before_shmem_exit(leave, 0);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	/* There is nothing here to cancel. */
	pqsignal(SIGINT, SIG_IGN);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);

	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	AmoroShared->launcher_pid = MyProcPid;
	AmoroShared->launcher_proc = MyProcNumber;
	LWLockRelease(AmoroShared->lock);
	launcher_context = AllocSetContextCreate(TopMemoryContext, "amoro_meta launcher", ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(launcher_context);
	pgstat_report_appname("amoro_meta launcher");
}

/* Entry point of the process. An ERROR ends it, the postmaster starts it again, and it finds its coordinators running. */
void
amoro_meta_launcher_main(Datum unused)
{
	uint32		wait_event;

	announce();
	wait_event = WaitEventExtensionNew("AmoroMetaLauncherMain");
	for (;;)
	{
		long		timeout;

		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
			database_watch_retry_absent();
		}
		timeout = attend_all();
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, timeout, wait_event);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}
