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

#include <signal.h>

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/tableam.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "common/pg_prng.h"
#include "compat.h"
#include "coordinator.h"
#include "explorer_launch.h"
#include "guc.h"
#include "launcher.h"
#include "lease.h"
#include "lifecycle.h"
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
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/varlena.h"

#define RESTART_SECONDS 5
#define SECOND_US INT64CONST(1000000)
/* After a coordinator that had worked; and doubled from there after each one that had not. */
#define FIRST_BACKOFF_US (SECOND_US / 2)
#define LONGEST_BACKOFF_US (60 * SECOND_US)
#define HOLD_RETRY_US (SECOND_US / 5)
#define STARTUP_TIMEOUT_US (30 * SECOND_US)
#define SWEEP_US (300 * SECOND_US)
/* Probes must not take all worker slots of the server at once. */
#define MOST_AT_ONCE 2

typedef enum WatchState
{
	WATCH_WAITING,				/* to be started at due */
	WATCH_STARTING,				/* to have announced itself by due */
	WATCH_RUNNING,
	WATCH_ABSENT				/* no extension; to be probed again at due */
} WatchState;

typedef struct Watch
{
	Oid			database;
	char		name[NAMEDATALEN];
	WatchState	state;
	LeaseTime	due;
	int			failures;		/* in a row, of coordinators that never completed a cycle */
	bool		wanted;			/* exists, can be connected to, is in the list */
	bool		exists;
	bool		probe_again;	/* the extension came or went while we were probing */
	BackgroundWorkerHandle *handle; /* NULL when the process is not a child of this launcher's making */
	ExplorerWatch explorer;
} Watch;

static List *watches = NIL;
static MemoryContext launcher_context = NULL;
static bool no_slot_reported = false;

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

/* A coordinator runs in ordinary databases that one can connect to and that the setting does not leave out. */
static bool
is_wanted(Form_pg_database row)
{
	List	   *names = NIL;
	ListCell   *cell;
	bool		listed;

	if (row->datistemplate || !row->datallowconn || row->datconnlimit < -1)
		return false;
	(void) SplitIdentifierString(pstrdup(guc_databases), ',', &names);
	listed = names == NIL;
	foreach(cell, names)
		listed = listed || strcmp(lfirst(cell), NameStr(row->datname)) == 0;
	return listed;
}

static Watch *
find_watch(Oid database)
{
	ListCell   *cell;
	MemoryContext old;
	Watch	   *watch;

	foreach(cell, watches)
	{
		watch = lfirst(cell);
		if (watch->database == database)
			return watch;
	}
	old = MemoryContextSwitchTo(launcher_context);
	watch = palloc0(sizeof(Watch));
	watch->database = database;
	watches = lappend(watches, watch);
	MemoryContextSwitchTo(old);
	return watch;
}

/* Brings the list in line with pg_database. */
static void
read_databases(void)
{
	Relation	catalog;
	TableScanDesc scan;
	HeapTuple	tuple;
	ListCell   *cell;

	foreach(cell, watches)
		((Watch *) lfirst(cell))->exists = false;

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	catalog = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(catalog, 0, NULL);
	while (HeapTupleIsValid(tuple = heap_getnext(scan, ForwardScanDirection)))
	{
		Form_pg_database row = (Form_pg_database) GETSTRUCT(tuple);
		Watch	   *watch = find_watch(row->oid);
		bool		wanted = is_wanted(row);

		watch->exists = true;
		/* A template that becomes a database again, or a new name in the list: look at once. */
		if (wanted && !watch->wanted && watch->state == WATCH_ABSENT)
			watch->due = 0;
		watch->wanted = wanted;
		strlcpy(watch->name, NameStr(row->datname), NAMEDATALEN);
	}
	table_endscan(scan);
	table_close(catalog, AccessShareLock);
	CommitTransactionCommand();
	MemoryContextSwitchTo(launcher_context);
}

/* Takes over what others have put into the queue: databases in which the extension came or went. */
static void
read_probe_queue(void)
{
	Oid			queue[PROBE_QUEUE_SIZE];
	int			count;
	bool		rescan;
	ListCell   *cell;

	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	count = AmoroShared->probe_count;
	rescan = AmoroShared->rescan;
	memcpy(queue, AmoroShared->probe_queue, sizeof(queue));
	AmoroShared->probe_count = 0;
	AmoroShared->rescan = false;
	LWLockRelease(AmoroShared->lock);

	foreach(cell, watches)
	{
		Watch	   *watch = lfirst(cell);
		bool		probe = rescan;

		for (int i = 0; i < count; i++)
			probe = probe || queue[i] == watch->database;
		if (!probe)
			continue;
		if (watch->state == WATCH_ABSENT)
			watch->due = 0;
		else
			watch->probe_again = true;
	}
}

/* Copies the entry of a database; false when it has none. */
static bool
copy_entry(Oid database, DatabaseEntry *copy)
{
	DatabaseEntry *entry;

	LWLockAcquire(AmoroShared->lock, LW_SHARED);
	entry = database_entry_find(database);
	if (entry != NULL)
		memcpy(copy, entry, offsetof(DatabaseEntry, publish_times));
	LWLockRelease(AmoroShared->lock);
	return entry != NULL;
}

/* Claims the entry and sets its state; false when all entries are taken. */
static bool
set_entry_state(Oid database, CoordinatorState state, int64 backoff_us)
{
	DatabaseEntry *entry;

	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	entry = database_entry_claim(database);
	if (entry != NULL)
	{
		entry->state = state;
		entry->healthy = false;
		entry->backoff_until = backoff_us == 0 ? 0 :
			TimestampTzPlusMilliseconds(GetCurrentTimestamp(), backoff_us / 1000);
	}
	LWLockRelease(AmoroShared->lock);
	return entry != NULL;
}

static void
forget_state(Oid database)
{
	DatabaseEntry *entry;

	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	entry = database_entry_find(database);
	if (entry != NULL)
	{
		entry->state = COORDINATOR_NONE;
		entry->backoff_until = 0;
	}
	LWLockRelease(AmoroShared->lock);
}

/* Gives the entry back; one with a term in it is kept while its database exists: no later term may be smaller. */
static void
release_entry(Watch *watch)
{
	DatabaseEntry *entry;

	lease_forget_database(watch->database);
	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	entry = database_entry_find(watch->database);
	if (entry != NULL)
	{
		entry->term = 0;
		if (!watch->exists || entry->highest_term == 0)
			entry->database = InvalidOid;
	}
	LWLockRelease(AmoroShared->lock);
}

static void
back_off(Watch *watch)
{
	int64		delay = Min(FIRST_BACKOFF_US << Min(watch->failures, 10), LONGEST_BACKOFF_US);

	/* Scattered by a tenth, so that databases which failed together do not start together for ever. */
	delay += (int64) (delay / 10.0 * pg_prng_double(&pg_global_prng_state));
	watch->state = WATCH_WAITING;
	watch->due = lease_clock_now() + delay;
	(void) set_entry_state(watch->database, COORDINATOR_BACKOFF, delay);
}

/* A start that could not even be tried. One line in the log until one succeeds again. */
static void
report_no_slot(Watch *watch)
{
	watch->failures++;
	back_off(watch);
	if (no_slot_reported)
		return;
	no_slot_reported = true;
	ereport(WARNING,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("amoro_meta could not start the coordinator of database \"%s\": no free background worker slot",
					watch->name),
			 errdetail("It is tried again, at longer and longer intervals."),
			 errhint("Increase max_worker_processes and restart the server.")));
}

static void
start_coordinator(Watch *watch)
{
	BackgroundWorker worker = {0};
	DatabaseEntry entry;
	MemoryContext old;
	bool		registered;

	/* After a restart of this process its predecessor's coordinators are still there. */
	if (copy_entry(watch->database, &entry) && entry.coordinator.pid != 0)
	{
		watch->state = WATCH_RUNNING;
		return;
	}
	if (lifecycle_is_held(watch->database))
	{
		(void) set_entry_state(watch->database, COORDINATOR_HELD, 0);
		watch->due = lease_clock_now() + HOLD_RETRY_US;
		return;
	}
	watch->probe_again = false;
	if (!set_entry_state(watch->database, COORDINATOR_STARTING, 0))
	{
		report_no_slot(watch);
		return;
	}

	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION | BGWORKER_INTERRUPTIBLE;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	/* This process alone restarts it; two who do make two coordinators. */
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker.bgw_library_name, "amoro_meta", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "amoro_meta_coordinator_main", sizeof(worker.bgw_function_name));
	snprintf(worker.bgw_name, sizeof(worker.bgw_name), "amoro_meta coordinator of %s", watch->name);
	strlcpy(worker.bgw_type, "amoro_meta coordinator", sizeof(worker.bgw_type));
	worker.bgw_main_arg = ObjectIdGetDatum(watch->database);
	worker.bgw_notify_pid = MyProcPid;
	old = MemoryContextSwitchTo(launcher_context);
	registered = RegisterDynamicBackgroundWorker(&worker, &watch->handle);
	MemoryContextSwitchTo(old);
	if (!registered)
	{
		watch->handle = NULL;
		report_no_slot(watch);
		return;
	}
	no_slot_reported = false;
	watch->state = WATCH_STARTING;
	watch->due = lease_clock_now() + STARTUP_TIMEOUT_US;
}

/* A worker slot has become free: who could not be started for want of one need not wait for the end of its delay. */
static void
retry_for_slot(void)
{
	ListCell   *cell;

	if (!no_slot_reported)
		return;
	foreach(cell, watches)
	{
		if (((Watch *) lfirst(cell))->state == WATCH_WAITING)
			((Watch *) lfirst(cell))->due = 0;
	}
}

/* The process has ended; its entry says why. */
static void
coordinator_ended(Watch *watch)
{
	DatabaseEntry entry;
	bool		known = copy_entry(watch->database, &entry);

	if (watch->handle != NULL)
		pfree(watch->handle);
	watch->handle = NULL;

	if (known && entry.coordinator.pid != 0)
		watch->state = WATCH_RUNNING;	/* another one was there before it */
	else if (known && entry.state == COORDINATOR_ABSENT)
	{
		release_entry(watch);
		watch->state = WATCH_ABSENT;
		watch->failures = 0;
		watch->due = watch->probe_again ? 0 : lease_clock_now() + SWEEP_US;
		retry_for_slot();
	}
	else if ((known && entry.state == COORDINATOR_HELD) || lifecycle_is_held(watch->database))
	{
		watch->state = WATCH_WAITING;
		watch->due = lease_clock_now();
	}
	else
	{
		watch->failures = known && entry.healthy ? 0 : watch->failures + 1;
		back_off(watch);
	}
}

static void
stop_coordinator(Watch *watch)
{
	DatabaseEntry entry;

	if (watch->handle != NULL)
		TerminateBackgroundWorker(watch->handle);
	else if (copy_entry(watch->database, &entry) && entry.coordinator.pid != 0)
		(void) kill(entry.coordinator.pid, SIGTERM);
}

/* Follows a process that should be there. */
static void
follow_coordinator(Watch *watch)
{
	DatabaseEntry entry;
	bool		announced = copy_entry(watch->database, &entry) && entry.coordinator.pid != 0;
	pid_t		pid;

	if (watch->handle != NULL ? GetBackgroundWorkerPid(watch->handle, &pid) == BGWH_STOPPED : !announced)
	{
		coordinator_ended(watch);
		return;
	}
	if (!watch->wanted)
		stop_coordinator(watch);
	else if (announced)
		watch->state = WATCH_RUNNING;
	else if (lease_clock_now() >= watch->due)
	{
		/* A fork that failed, or a library that does not load: there may never be any other sign of it. */
		stop_coordinator(watch);
		watch->due = lease_clock_now() + STARTUP_TIMEOUT_US;
	}
}

static int
count_starting(void)
{
	ListCell   *cell;
	int			count = 0;

	foreach(cell, watches)
		count += ((Watch *) lfirst(cell))->state == WATCH_STARTING;
	return count;
}

/* Does what is due for one database. */
static void
attend(Watch *watch)
{
	if (watch->state == WATCH_STARTING || watch->state == WATCH_RUNNING)
		follow_coordinator(watch);
	if (watch->state != WATCH_WAITING && watch->state != WATCH_ABSENT)
		return;
	if (!watch->wanted)
	{
		/* Its leases stay as they are: a coordinator that does not run fences nobody. */
		if (watch->state == WATCH_WAITING)
			forget_state(watch->database);
		watch->state = WATCH_ABSENT;
	}
	else if (lease_clock_now() >= watch->due && count_starting() < MOST_AT_ONCE)
		start_coordinator(watch);
}

/* The explorer is there while the coordinator works. */
static LeaseTime
attend_explorer(Watch *watch)
{
	DatabaseEntry entry;
	bool		works = watch->wanted && watch->state == WATCH_RUNNING && copy_entry(watch->database, &entry) &&
		entry.state == COORDINATOR_RUNNING;

	/* a coordinator without a slot comes first */
	if (works && no_slot_reported && watch->explorer.handle == NULL)
		return 0;
	return explorer_attend(&watch->explorer, watch->database, watch->name, works, launcher_context);
}

/* One round over all databases; returns how many milliseconds nothing is due. */
static long
attend_all(void)
{
	LeaseTime	now;
	LeaseTime	next = lease_clock_now() + SWEEP_US;
	ListCell   *cell;

	read_databases();
	read_probe_queue();
	foreach(cell, watches)
	{
		Watch	   *watch = lfirst(cell);
		LeaseTime	explorer_at;

		attend(watch);
		explorer_at = attend_explorer(watch);
		if (explorer_at != 0)
			next = Min(next, explorer_at);
		if (!watch->exists && watch->handle == NULL && watch->explorer.handle == NULL)
		{
			release_entry(watch);
			pfree(watch);
			watches = foreach_delete_current(watches, cell);
			continue;
		}
		if (watch->wanted && watch->state != WATCH_RUNNING)
			next = Min(next, watch->due);
	}
	now = lease_clock_now();
	/* What is due but has to wait for its turn is woken by the end of a start. */
	return next <= now ? (count_starting() > 0 ? 1000 : 10) : (long) ((next - now) / 1000 + 1);
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
			ListCell   *cell;

			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
			foreach(cell, watches)
			{
				if (((Watch *) lfirst(cell))->state == WATCH_ABSENT)
					((Watch *) lfirst(cell))->due = 0;
			}
		}
		timeout = attend_all();
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, timeout, wait_event);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}
