/*
 * change.c
 *		The metadata log: appends to it, publishes what was appended right after commit,
 *		and prunes it (docs/protocol.md, section 5).
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "change/change.h"
#include "executor/spi.h"
#include "guc.h"
#include "lease/lease.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "shmem.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

/* How many changes one call of change_prune deletes, about. */
#define PRUNE_BATCH 1000

/* Newest version that this transaction allocated; 0: none. */
static int64 allocated_version = 0;
/* What changed with it, as text, in the memory of the transaction; NULL when that is more than is carried. */
static char *allocated_news = NULL;
static int	allocated_news_length = 0;

static void
change_transaction_ends(XactEvent event, void *argument)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
			if (allocated_version != 0 && AmoroShared != NULL)
				lease_publish(MyDatabaseId, allocated_version, allocated_news, allocated_news_length);
			allocated_version = 0;
			allocated_news = NULL;
			break;
		case XACT_EVENT_ABORT:
			allocated_version = 0;
			allocated_news = NULL;
			break;
		case XACT_EVENT_PRE_PREPARE:
			/* It would hold the counter for as long as it likes, and commit where nobody publishes. */
			if (allocated_version != 0)
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("cannot prepare a transaction that has changed metadata"),
						 errhint("Use COMMIT instead of PREPARE TRANSACTION.")));
			break;
		default:
			break;
	}
}

/* See change.h. */
void
change_install_callbacks(void)
{
	RegisterXactCallback(change_transaction_ends, NULL);
}

/* See change.h. */
void
metadata_require_primary(void)
{
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("a standby does not answer for the metadata"),
				 errhint("Connect to the primary server.")));
}

/* Prepares a statement once a session and keeps its plan. */
static SPIPlanPtr
kept_plan(SPIPlanPtr *plan, const char *statement, int count, Oid *types)
{
	if (*plan == NULL)
	{
		SPIPlanPtr	prepared = SPI_prepare(statement, count, types);

		if (prepared == NULL || SPI_keepplan(prepared) != 0)
			elog(ERROR, "could not prepare a statement on the metadata log: %s", SPI_result_code_string(SPI_result));
		*plan = prepared;
	}
	return *plan;
}

/* The timeline that this server writes to. */
static int64
own_timeline(void)
{
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("cannot change metadata on a standby"),
				 errhint("Connect to the primary server.")));
	return (int64) GetWALInsertionTimeLine();
}

static int64
allocate_version(void)
{
	static SPIPlanPtr plan = NULL;
	Oid			types[] = {INT8OID};
	Datum		values[] = {Int64GetDatum(own_timeline())};
	bool		isnull;

	/* Versions never repeat after a failover or the adoption of a copy: those of a timeline are beyond all of older ones. */

	kept_plan(&plan,
			  "UPDATE amoro_meta.metadata_version "
			  "SET version = GREATEST(version + 1,"
			  " (($1 - 1 + COALESCE((SELECT timeline_offset FROM amoro_meta.identity), 0)) << 40) + 1) RETURNING version",
			  1, types);
	if (SPI_execute_plan(plan, values, NULL, false, 0) != SPI_OK_UPDATE_RETURNING || SPI_processed != 1)
		elog(ERROR, "amoro_meta.metadata_version does not have one row");
	return DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
}

/* A text argument, where NULL is null. */
static Datum
text_argument(const char *value, char *null)
{
	*null = value == NULL ? 'n' : ' ';
	return value == NULL ? (Datum) 0 : CStringGetTextDatum(value);
}

static void
insert_change(int64 version, int32 ordinal, const MetadataChange *change)
{
	static SPIPlanPtr plan = NULL;
	Oid			types[] = {INT8OID, INT4OID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, INT8OID, INT8OID, JSONBOID};
	Datum		values[10];
	char		nulls[10];

	memset(nulls, ' ', sizeof(nulls));
	values[0] = Int64GetDatum(version);
	values[1] = Int32GetDatum(ordinal);
	values[2] = text_argument(change->object_kind, &nulls[2]);
	values[3] = text_argument(change->operation, &nulls[3]);
	values[4] = text_argument(change->catalog_name, &nulls[4]);
	values[5] = text_argument(change->database_name, &nulls[5]);
	values[6] = text_argument(change->table_name, &nulls[6]);
	values[7] = Int64GetDatum(change->object_id);
	values[8] = Int64GetDatum(change->procedure_id);
	nulls[8] = change->procedure_id == 0 ? 'n' : ' ';
	values[9] = PointerGetDatum(change->detail);
	nulls[9] = change->detail == NULL ? 'n' : ' ';
	kept_plan(&plan,
			  "INSERT INTO amoro_meta.change (version, ordinal, object_kind, operation, catalog_name, database_name,"
			  " table_name, object_id, procedure_id, detail, changed_at)"
			  " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, COALESCE($10, '{}'), clock_timestamp())",
			  lengthof(types), types);
	if (SPI_execute_plan(plan, values, nulls, false, 0) != SPI_OK_INSERT)
		elog(ERROR, "could not append to the metadata log");
}

/* One column of a line: backslash, tab and line ends as COPY writes them, \\N for NULL. */
static void
append_column(StringInfo line, const char *value)
{
	if (line->len > 0 && line->data[line->len - 1] != '\n')
		appendStringInfoChar(line, '\t');
	if (value == NULL)
	{
		appendStringInfoString(line, "\\N");
		return;
	}
	for (const char *c = value; *c != '\0'; c++)
	{
		if (*c == '\\')
			appendStringInfoString(line, "\\\\");
		else if (*c == '\t')
			appendStringInfoString(line, "\\t");
		else if (*c == '\n')
			appendStringInfoString(line, "\\n");
		else if (*c == '\r')
			appendStringInfoString(line, "\\r");
		else
			appendStringInfoChar(line, *c);
	}
}

/*
 * The changes of a version as the answer of a heartbeat carries them: a line for each, beginning with the end of the
 * line before, of the columns of metadata_changes in the text format of COPY. Kept for the callback after commit.
 */
static void
note_news(int64 version, const MetadataChange *changes, int count)
{
	MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
	StringInfoData lines;
	bool		fits = true;

	initStringInfo(&lines);
	for (int i = 0; i < count && fits; i++)
	{
		const MetadataChange *change = &changes[i];
		Jsonb	   *detail = change->detail;

		fits = lines.len <= NEWS_LARGEST && (detail == NULL || VARSIZE(detail) <= NEWS_LARGEST);
		if (!fits)
			break;
		appendStringInfoChar(&lines, '\n');
		append_column(&lines, psprintf(INT64_FORMAT, version));
		append_column(&lines, psprintf("%d", i));
		append_column(&lines, change->object_kind);
		append_column(&lines, change->operation);
		append_column(&lines, change->catalog_name);
		append_column(&lines, change->database_name);
		append_column(&lines, change->table_name);
		append_column(&lines, psprintf(INT64_FORMAT, change->object_id));
		append_column(&lines, detail == NULL ? "{}" : JsonbToCString(NULL, &detail->root, VARSIZE(detail)));
	}
	MemoryContextSwitchTo(caller);
	allocated_news = fits && lines.len <= NEWS_LARGEST ? lines.data : NULL;
	allocated_news_length = lines.len;
}

/*
 * change_append allocates the next version and inserts the changes under it; returns the version. SPI is
 * connected. To be the last write of the transaction, see change.h. Errors: 0A000 in a subtransaction (what it
 * rolls back would be published), 25006 on a standby, 40001 in REPEATABLE READ when another change came first.
 */
int64
change_append(const MetadataChange *changes, int count)
{
	int64		version;

	if (GetCurrentTransactionNestLevel() > 1)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot change metadata in a subtransaction"),
				 errhint("Call it outside of SAVEPOINT and of blocks with EXCEPTION.")));
	Assert(count > 0);
	version = allocate_version();
	for (int i = 0; i < count; i++)
		insert_change(version, i, &changes[i]);
	/* A version that a node has applied must outlive a crash, else its number would come again. */
	ForceSyncCommit();
	note_news(version, changes, count);
	allocated_version = version;
	return version;
}

/*
 * Locks the counter row, unless nothing beyond the history would be there to prune, or somebody else has it: pruning can
 * wait. A lock alone would have the commit wait for a synchronous standby.
 */
static bool
lock_version_row(int64 *version, int64 *pruned)
{
	Oid			types[] = {INT4OID};
	Datum		history = Int32GetDatum(guc_change_history);
	bool		isnull;

	if (SPI_execute_with_args("SELECT version, pruned_version FROM amoro_meta.metadata_version"
							  " WHERE version - $1 > pruned_version FOR NO KEY UPDATE SKIP LOCKED",
							  1, types, &history, NULL, false, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not read amoro_meta.metadata_version");
	if (SPI_processed == 0)
		return false;
	*version = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
	*pruned = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 2, &isnull));
	return true;
}

/* Deletes whole versions beyond pruned and up to target, about PRUNE_BATCH changes; returns the newest version that is gone. */
static int64
delete_changes(int64 pruned, int64 target)
{
	Oid			types[] = {INT8OID, INT8OID, INT4OID};
	Datum		values[] = {Int64GetDatum(pruned), Int64GetDatum(target), Int32GetDatum(PRUNE_BATCH)};
	bool		isnull;
	Datum		upper;

	if (SPI_execute_with_args(
							  "SELECT max(c.version) FROM (SELECT version FROM amoro_meta.change"
							  " WHERE version > $1 AND version <= $2"
							  " ORDER BY version LIMIT $3) c HAVING count(*) = $3",
							  3, types, values, NULL, false, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not read amoro_meta.change");
	if (SPI_processed == 1)
	{
		upper = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull);
		values[1] = upper;
	}
	if (SPI_execute_with_args(
							  "WITH gone AS (DELETE FROM amoro_meta.change WHERE version <= $1)"
							  " UPDATE amoro_meta.metadata_version SET pruned_version = $1",
							  1, types, &values[1], NULL, false, 0) != SPI_OK_UPDATE)
		elog(ERROR, "could not prune amoro_meta.change");
	return DatumGetInt64(values[1]);
}

/*
 * change_prune deletes changes beyond amoro_meta.change_history in one bounded batch, and records the newest version
 * that is gone; true when more are left. Called by the coordinator in a transaction.
 */
bool
change_prune(void)
{
	int64		version;
	int64		pruned;

	if (!lock_version_row(&version, &pruned))
		return false;
	return delete_changes(pruned, version - guc_change_history) < version - guc_change_history;
}
