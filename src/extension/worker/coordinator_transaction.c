/*
 * coordinator_transaction.c
 *		Transactions of the coordinator: they hold the extension in place, act as its owner
 *		without the power to change who they are, and leave nothing behind when they fail.
 */
#include "postgres.h"

#include <signal.h>

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_extension.h"
#include "commands/extension.h"
#include "compat.h"
#include "executor/spi.h"
#include "lease/tick.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/lmgr.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "worker/coordinator_transaction.h"

/* The extension that the newest transaction has locked. */
static Oid	locked_extension = InvalidOid;

/* Whose transactions these are. */
static const char *process_name = "amoro_meta coordinator";
static bool keeps_ticks = true;

/* See coordinator_transaction.h. */
void
coordinator_transaction_of_explorer(void)
{
	process_name = "amoro_meta explorer";
	keeps_ticks = false;
}

/* See coordinator_transaction.h. */
Oid
coordinator_extension(void)
{
	return locked_extension;
}

/* Reads owner and version of the extension; false when it is not there. */
static bool
read_extension(Oid extension, Oid *owner, bool *same_version)
{
	Relation	catalog = table_open(ExtensionRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_extension_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(extension));
	scan = systable_beginscan(catalog, ExtensionOidIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		bool		isnull;
		Datum		version = heap_getattr(tuple, Anum_pg_extension_extversion, RelationGetDescr(catalog), &isnull);

		*owner = ((Form_pg_extension) GETSTRUCT(tuple))->extowner;
		*same_version = strcmp(TextDatumGetCString(version), AMORO_META_VERSION) == 0;
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return HeapTupleIsValid(tuple);
}

/*
 * Locks the extension for this transaction, so that DROP EXTENSION waits for it to end and it never sees a half
 * dropped table. The second look is needed: a drop may have committed between the first and the lock.
 */
static ExtensionPresence
lock_extension(Oid *owner)
{
	Oid			extension = get_extension_oid("amoro_meta", true);
	bool		same_version;

	if (!OidIsValid(extension))
		return EXTENSION_ABSENT;
	if (!ConditionalLockDatabaseObject(ExtensionRelationId, extension, 0, AccessShareLock))
		return EXTENSION_LOCKED;
	if (!read_extension(extension, owner, &same_version))
		return EXTENSION_ABSENT;
	locked_extension = extension;
	return same_version ? EXTENSION_PRESENT : EXTENSION_OTHER_VERSION;
}

/* See coordinator_transaction.h. */
ExtensionPresence
coordinator_probe_extension(void)
{
	MemoryContext caller = CurrentMemoryContext;
	ExtensionPresence presence;
	Oid			owner;

	CHECK_FOR_INTERRUPTS();
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	presence = lock_extension(&owner);
	CommitTransactionCommand();
	MemoryContextSwitchTo(caller);
	return presence;
}

static Oid
lock_extension_or_raise(void)
{
	Oid			owner = InvalidOid;
	ExtensionPresence presence = lock_extension(&owner);

	if (presence == EXTENSION_LOCKED)
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("extension \"amoro_meta\" is being dropped")));
	if (presence == EXTENSION_ABSENT)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("extension \"amoro_meta\" does not exist")));
	return owner;
}

static void
begin_transaction(void)
{
	Oid			user;
	int			security_context;
	Oid			owner;

	CHECK_FOR_INTERRUPTS();
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	owner = lock_extension_or_raise();
	SPI_connect();
	PushActiveSnapshot(GetTransactionSnapshot());
	/* An abort restores the user by itself, commit_transaction does it on the other path. */
	GetUserIdAndSecContext(&user, &security_context);
	SetUserIdAndSecContext(owner, security_context | SECURITY_LOCAL_USERID_CHANGE | SECURITY_RESTRICTED_OPERATION);
	pgstat_report_activity(STATE_RUNNING, process_name);
}

static void
commit_transaction(Oid user, int security_context)
{
	SetUserIdAndSecContext(user, security_context);
	SPI_finish();
	PopActiveSnapshot();
	/*
	 * A wait for the synchronous standby that is cancelled counts as a commit, and the caller would go on as if the
	 * standby had it. Only the end of this process may end that wait.
	 */
	pqsignal(SIGINT, SIG_IGN);
	CHECK_FOR_INTERRUPTS();
	CommitTransactionCommand();
	pqsignal(SIGINT, StatementCancelHandler);
}

/* See coordinator_transaction.h. */
ErrorData *
coordinator_transaction(CoordinatorWork work, void *argument)
{
	MemoryContext caller = CurrentMemoryContext;
	ErrorData  *volatile error = NULL;
	Oid			user;
	int			security_context;

	GetUserIdAndSecContext(&user, &security_context);
	begin_transaction();
	PG_TRY();
	{
		work(argument);
		commit_transaction(user, security_context);
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		pqsignal(SIGINT, StatementCancelHandler);
		MemoryContextSwitchTo(caller);
		error = CopyErrorData();
		AbortCurrentTransaction();
		FlushErrorState();
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(caller);
	/* Without the report autovacuum never learns what the coordinator wrote. */
	pgstat_report_stat(false);
	pgstat_report_activity(STATE_IDLE, NULL);
	/* However many transactions a cycle has, the nodes need their leases. */
	if (keeps_ticks)
		(void) tick_keep_up();
	return error;
}

/* See coordinator_transaction.h. To be called once, right after connecting. */
void
coordinator_pin_settings(void)
{
	static const char *const pinned[][2] = {
		{"search_path", "pg_catalog, pg_temp"},
		{"lock_timeout", "250ms"},
		{"statement_timeout", "0"},
		{"idle_in_transaction_session_timeout", "0"},
		{"idle_session_timeout", "0"},
		{"default_transaction_isolation", "read committed"},
		{"default_transaction_read_only", "off"},
		{"default_transaction_deferrable", "off"},
		{"jit", "off"},
		{"row_security", "off"},
		{"session_replication_role", "origin"},
		{"DateStyle", "ISO, MDY"},
		{"IntervalStyle", "postgres"},
	};

	for (int i = 0; i < lengthof(pinned); i++)
		SetConfigOption(pinned[i][0], pinned[i][1], PGC_SUSET, PGC_S_OVERRIDE);
	/* A step that was lost would be a promise broken; who asked for more than "on" keeps it. */
	if (synchronous_commit < SYNCHRONOUS_COMMIT_ON)
		SetConfigOption("synchronous_commit", "on", PGC_SUSET, PGC_S_OVERRIDE);
	compat_disable_transaction_timeout();
}
