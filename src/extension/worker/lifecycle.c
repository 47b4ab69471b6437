/*
 * lifecycle.c
 *		Commands of users that make a coordinator come or go.
 *
 * A database with somebody in it can be neither dropped nor renamed, moved or
 * copied, so the coordinator steps aside for such a command; and for the first rows of a dump that is restored. Only for one that its
 * caller may run: DROP DATABASE is seen after the server's own checks (the object
 * access hook), for the others the checks are repeated here. As long as the
 * transaction lasts it holds a lock that keeps the coordinator from coming back.
 */
#include "postgres.h"

#include <signal.h>

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_database.h"
#include "catalog/pg_extension.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "compat.h"
#include "explorer/explorer.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "shmem.h"
#include "storage/latch.h"
#include "storage/procarray.h"
#include "tcop/utility.h"
#include "utils/syscache.h"
#include "worker/coordinator.h"
#include "worker/lifecycle.h"
#include "worker/restore.h"

/* As long as the server itself waits for others to leave a database. */
#define LEAVE_TIMEOUT_US (5 * 1000 * 1000)

static object_access_hook_type previous_object_access_hook = NULL;
static ProcessUtility_hook_type previous_process_utility_hook = NULL;

/* What the current transaction did, for its end. */
static bool database_changed = false;
static bool extension_changed = false;
static bool wake_wanted = false;

/* The processes that run for a database; both may be 0. */
typedef struct Processes
{
	pid_t		coordinator;
	pid_t		explorer;
} Processes;

static Processes
find_processes(Oid database)
{
	DatabaseEntry *entry;
	Processes	found = {0};

	LWLockAcquire(AmoroShared->lock, LW_SHARED);
	entry = database_entry_find(database);
	if (entry != NULL)
	{
		found.coordinator = entry->coordinator.pid;
		found.explorer = entry->explorer.pid;
	}
	LWLockRelease(AmoroShared->lock);
	return found;
}

static void
send_away(pid_t pid)
{
	if (pid != 0 && kill(pid, SIGTERM) != 0 && errno != ESRCH)
		elog(WARNING, "could not signal process %d: %m", (int) pid);
}

static bool
is_there(pid_t pid)
{
	return pid != 0 && BackendPidGetProc(pid) != NULL;
}

/*
 * Takes the hold first and reads the pid second; a starting coordinator does it the other way round, so one of the
 * two sees the other.
 */
static void
hold_database(Oid database)
{
	LeaseTime	deadline = lease_clock_now() + LEAVE_TIMEOUT_US;
	LOCKTAG		tag;
	Processes	found;

	SET_LOCKTAG_AMORO(tag, database, LOCK_CLASS_HOLD);
	(void) LockAcquire(&tag, ShareLock, /* sessionLock= */ false, /* dontWait= */ false);
	found = find_processes(database);
	send_away(found.coordinator);
	send_away(found.explorer);
	/* It is waited for here because DROP DATABASE WITH (FORCE) may not signal a process of the bootstrap superuser. */
	while ((is_there(found.coordinator) || is_there(found.explorer)) && lease_clock_now() < deadline)
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 5L, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

/* See lifecycle.h. The lock is given back at once: it is only asked whether it could be had. */
bool
lifecycle_is_held(Oid database)
{
	LOCKTAG		tag;

	SET_LOCKTAG_AMORO(tag, database, LOCK_CLASS_HOLD);
	if (LockAcquire(&tag, RowExclusiveLock, /* sessionLock= */ true, /* dontWait= */ true) == LOCKACQUIRE_NOT_AVAIL)
		return true;
	(void) LockRelease(&tag, RowExclusiveLock, /* sessionLock= */ true);
	return false;
}

static void
notice_object_access(ObjectAccessType access, Oid class_id, Oid object_id, int sub_id, void *arg)
{
	if (previous_object_access_hook)
		previous_object_access_hook(access, class_id, object_id, sub_id, arg);

	if (class_id == DatabaseRelationId)
	{
		if (access == OAT_DROP && object_id != MyDatabaseId)
			hold_database(object_id);
		if (access == OAT_DROP || access == OAT_POST_CREATE || access == OAT_POST_ALTER)
			database_changed = true;
	}
	else if (class_id == ExtensionRelationId &&
			 (access == OAT_DROP || access == OAT_POST_CREATE || access == OAT_POST_ALTER))
		extension_changed = true;
}

static bool
may_create_database(void)
{
	HeapTuple	tuple;
	bool		allowed;

	if (superuser())
		return true;
	tuple = SearchSysCache1(AUTHOID, ObjectIdGetDatum(GetUserId()));
	allowed = HeapTupleIsValid(tuple) && ((Form_pg_authid) GETSTRUCT(tuple))->rolcreatedb;
	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	return allowed;
}

static bool
is_template(Oid database)
{
	HeapTuple	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(database));
	bool		result;

	if (!HeapTupleIsValid(tuple))
		return false;
	result = ((Form_pg_database) GETSTRUCT(tuple))->datistemplate;
	ReleaseSysCache(tuple);
	return result;
}

static const char *
option_value(List *options, const char *name)
{
	ListCell   *cell;

	foreach(cell, options)
	{
		DefElem    *option = lfirst_node(DefElem, cell);

		if (strcmp(option->defname, name) == 0 && option->arg != NULL)
			return defGetString(option);
	}
	return NULL;
}

/* The database that this command needs empty, if its caller may run it; else InvalidOid. */
static Oid
database_to_empty(Node *statement)
{
	const char *name = NULL;
	Oid			database;
	bool		copies = IsA(statement, CreatedbStmt);

	if (copies)
		name = option_value(((CreatedbStmt *) statement)->options, "template");
	else if (IsA(statement, RenameStmt) && ((RenameStmt *) statement)->renameType == OBJECT_DATABASE)
		name = ((RenameStmt *) statement)->subname;
	else if (IsA(statement, AlterDatabaseStmt) &&
			 option_value(((AlterDatabaseStmt *) statement)->options, "tablespace") != NULL)
		name = ((AlterDatabaseStmt *) statement)->dbname;
	if (name == NULL)
		return InvalidOid;

	database = get_database_oid(name, true);
	if (!OidIsValid(database) || (find_processes(database).coordinator == 0 && find_processes(database).explorer == 0))
		return InvalidOid;
	if (copies)
		return may_create_database() && (is_template(database) || compat_owns_database(database)) ?
			database : InvalidOid;
	if (database == MyDatabaseId || !compat_owns_database(database))
		return InvalidOid;
	return IsA(statement, RenameStmt) && !may_create_database() ? InvalidOid : database;
}

static void
hold_for_utility(PlannedStmt *planned, const char *query, bool read_only_tree, ProcessUtilityContext context,
				 ParamListInfo parameters, QueryEnvironment *environment, DestReceiver *destination,
				 QueryCompletion *completion)
{
	Node	   *statement = planned->utilityStmt;

	/* Inside a transaction block the server refuses CREATE DATABASE and the move; a rename is the exception. */
	if ((IsA(statement, CreatedbStmt) || IsA(statement, AlterDatabaseStmt) || IsA(statement, RenameStmt)) &&
		(IsA(statement, RenameStmt) || !IsInTransactionBlock(context == PROCESS_UTILITY_TOPLEVEL)))
	{
		Oid			database = database_to_empty(statement);

		if (OidIsValid(database))
			hold_database(database);
	}
	else if (IsA(statement, CopyStmt))
	{
		Oid			owner = restore_begins((CopyStmt *) statement);

		/* the coordinator comes back when the rows are committed, and with them that they are not its own */
		if (OidIsValid(owner))
		{
			hold_database(MyDatabaseId);
			restore_disown(owner);
		}
	}
	if (previous_process_utility_hook)
		previous_process_utility_hook(planned, query, read_only_tree, context, parameters, environment,
									  destination, completion);
	else
		standard_ProcessUtility(planned, query, read_only_tree, context, parameters, environment, destination,
								completion);
}

/* Wakes whom the transaction concerns once it has committed. It must not fail there: shared memory alone. */
static void
finish_transaction(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_PRE_COMMIT || event == XACT_EVENT_PRE_PREPARE)
		return;
	if (event == XACT_EVENT_COMMIT)
	{
		if (extension_changed || wake_wanted)
			coordinator_recheck(MyDatabaseId);
		if (extension_changed)
			explorer_wake(MyDatabaseId);
		if (extension_changed)
			launcher_wake(MyDatabaseId);
		else if (database_changed)
			launcher_wake(InvalidOid);
	}
	database_changed = false;
	extension_changed = false;
	wake_wanted = false;
}

/* lifecycle_install_hooks installs the hooks and the transaction callback; once, from _PG_init. */
void
lifecycle_install_hooks(void)
{
	previous_object_access_hook = object_access_hook;
	object_access_hook = notice_object_access;
	previous_process_utility_hook = ProcessUtility_hook;
	ProcessUtility_hook = hold_for_utility;
	RegisterXactCallback(finish_transaction, NULL);
}

PG_FUNCTION_INFO_V1(amoro_meta_recheck_identity);

/* Has the coordinator of this database look at its identity again when the transaction commits; false when the library is not preloaded. */
Datum
amoro_meta_recheck_identity(PG_FUNCTION_ARGS)
{
	wake_wanted = AmoroShared != NULL;
	PG_RETURN_BOOL(wake_wanted);
}
