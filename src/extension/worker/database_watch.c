/*
 * database_watch.c
 *		The databases that the launcher watches. See the header.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "guc.h"
#include "shmem.h"
#include "utils/snapmgr.h"
#include "utils/varlena.h"
#include "worker/database_watch.h"

List	   *database_watches = NIL;
MemoryContext launcher_context = NULL;

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

	foreach(cell, database_watches)
	{
		watch = lfirst(cell);
		if (watch->database == database)
			return watch;
	}
	old = MemoryContextSwitchTo(launcher_context);
	watch = palloc0(sizeof(Watch));
	watch->database = database;
	database_watches = lappend(database_watches, watch);
	MemoryContextSwitchTo(old);
	return watch;
}

/* See the header. */
void
database_watch_read(void)
{
	Relation	catalog;
	TableScanDesc scan;
	HeapTuple	tuple;
	ListCell   *cell;

	foreach(cell, database_watches)
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

/* See the header. */
void
database_watch_probe(void)
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

	foreach(cell, database_watches)
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

/* See the header. */
void
database_watch_retry_absent(void)
{
	ListCell   *cell;

	foreach(cell, database_watches)
	{
		if (((Watch *) lfirst(cell))->state == WATCH_ABSENT)
			((Watch *) lfirst(cell))->due = 0;
	}
}
