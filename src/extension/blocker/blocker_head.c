/*
 * blocker_head.c
 *		Heads of table blockers. See the header.
 */
#include "postgres.h"

#include "access/xact.h"
#include "blocker/blocker_head.h"
#include "guc.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "own_table.h"
#include "procedure/procedure_sql.h"
#include "storage/proc.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"

const char *const blocker_operation_names[BLOCKER_OPERATIONS] = {"OPTIMIZE", "BATCH_WRITE"};

static const char *const holder_columns[BLOCKER_OPERATIONS] = {"optimize_blocker_id", "batch_write_blocker_id"};
static const char *const expiry_columns[BLOCKER_OPERATIONS] = {"optimize_expires_at", "batch_write_expires_at"};

/* The setting ends with the call, because all functions on blockers SET something. */
void
blocker_limit_waits(void)
{
	char		limit[16];

	if (LockTimeout > 0 && LockTimeout <= guc_blocker_lock_timeout)
		return;
	snprintf(limit, sizeof(limit), "%d", guc_blocker_lock_timeout);
	(void) set_config_option("lock_timeout", limit, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

/* The SHA-256 of a name in UTF-8: what the index has in place of the last of the three. */
static Datum
name_digest(const char *name)
{
	char	   *encoded = pg_server_to_any(name, strlen(name), PG_UTF8);

	return DirectFunctionCall1(sha256_bytea, CStringGetTextDatum(encoded));
}

static OwnTable
open_heads(bool by_id, LOCKMODE mode)
{
	return own_table_open("blocker_head", by_id ? "blocker_head_head_id_key" : "blocker_head_pkey", mode);
}

static HeapTuple
find_head(OwnTable *heads, int count, const OwnKey *keys, bool to_change)
{
	return to_change ? own_table_find_unnoticed(heads, count, keys) : own_table_find_latest(heads, count, keys);
}

static void
head_from_row(OwnTable *heads, HeapTuple row, BlockerHead *head)
{
	head->row = row;
	head->head_id = DatumGetInt64(own_column(heads, row, "head_id"));
	head->version = DatumGetInt64(own_column(heads, row, "version"));
	head->newest_blocker_id = DatumGetInt64(own_column(heads, row, "newest_blocker_id"));
	for (int i = 0; i < BLOCKER_OPERATIONS; i++)
	{
		bool		is_null;

		head->holders[i] = DatumGetInt64(own_column(heads, row, holder_columns[i]));
		head->expires_at[i] = DatumGetTimestampTz(own_column_or_null(heads, row, expiry_columns[i], &is_null));
		if (is_null)
			head->expires_at[i] = DT_NOBEGIN;
	}
}

/* See the header. */
bool
blocker_head_read(const TableName *table, bool to_change, BlockerHead *head)
{
	OwnTable	heads = open_heads(false, AccessShareLock);
	OwnKey		keys[] = {
		OWN_KEY_TEXT("catalog_name", table->catalog_name), OWN_KEY_TEXT("database_name", table->database_name),
		OWN_KEY_BYTES("table_digest", name_digest(table->table_name))
	};
	HeapTuple	row = find_head(&heads, lengthof(keys), keys, to_change);

	if (row != NULL)
	{
		head->table = *table;
		head_from_row(&heads, row, head);
	}
	own_table_close(&heads, AccessShareLock);
	return row != NULL;
}

/* See the header. */
bool
blocker_head_read_by_id(int64 head_id, bool to_change, BlockerHead *head)
{
	OwnTable	heads = open_heads(true, AccessShareLock);
	OwnKey		key = OWN_KEY_BIGINT("head_id", head_id);
	HeapTuple	row = find_head(&heads, 1, &key, to_change);

	if (row != NULL)
	{
		head_from_row(&heads, row, head);
		head->table.catalog_name = TextDatumGetCString(own_column(&heads, row, "catalog_name"));
		head->table.database_name = TextDatumGetCString(own_column(&heads, row, "database_name"));
		head->table.table_name = TextDatumGetCString(own_column(&heads, row, "table_name"));
	}
	own_table_close(&heads, AccessShareLock);
	return row != NULL;
}

/* See the header. */
int64
blocker_head_create(const TableName *table)
{
	SqlArgument names[] = {
		sql_text(table->catalog_name), sql_text(table->database_name), sql_text(table->table_name)
	};
	int64		head_id = 0;

	blocker_limit_waits();
	SPI_connect();
	if (procedure_sql("INSERT INTO amoro_meta.blocker_head"
					  " (head_id, catalog_name, database_name, table_name, table_digest, version, newest_blocker_id, changed_at)"
					  " VALUES (amoro_meta.next_id(), $1, $2, $3, sha256(convert_to($3, 'UTF8')), 0, 0, clock_timestamp())"
					  " ON CONFLICT DO NOTHING"
					  " RETURNING head_id",
					  SPI_OK_INSERT_RETURNING, lengthof(names), names) > 0)
		head_id = result_bigint(0, 1);
	SPI_finish();
	return head_id;
}

/* See the header. */
bool
blocker_head_write(BlockerHead *head, TimestampTz now)
{
	OwnTable	heads = open_heads(true, RowExclusiveLock);
	OwnColumn	changes[3 + 2 * BLOCKER_OPERATIONS] = {
		{"version", Int64GetDatum(head->version + 1)}, {"newest_blocker_id", Int64GetDatum(head->newest_blocker_id)},
		{"changed_at", TimestampTzGetDatum(now)}
	};
	HeapTuple	written;

	for (int i = 0; i < BLOCKER_OPERATIONS; i++)
	{
		changes[3 + 2 * i] = (OwnColumn) {holder_columns[i], Int64GetDatum(head->holders[i]), head->holders[i] == 0};
		changes[4 + 2 * i] = (OwnColumn) {
			expiry_columns[i], TimestampTzGetDatum(head->expires_at[i]), head->expires_at[i] == DT_NOBEGIN
		};
	}
	if (IsolationUsesXactSnapshot() && !own_table_shows(&heads, head->row))
		own_table_raise_past();
	blocker_limit_waits();
	written = own_table_update(&heads, head->row, lengthof(changes), changes, true);
	own_table_close(&heads, NoLock);
	if (written == NULL)
		return false;
	head->row = written;
	head->version++;
	return true;
}

/* See the header. */
void
blocker_head_lock(const BlockerHead *head)
{
	OwnTable	heads = open_heads(true, RowShareLock);
	OwnKey		key = OWN_KEY_BIGINT("head_id", head->head_id);
	HeapTuple	row;

	blocker_limit_waits();
	do
	{
		CHECK_FOR_INTERRUPTS();
		row = own_table_find_unnoticed(&heads, 1, &key);
	} while (row != NULL && !own_table_lock(&heads, row, LockTupleNoKeyExclusive, true));
	own_table_close(&heads, NoLock);
}

/* See the header. */
bool
blocker_head_is_held(const BlockerHead *head, BlockerOperationSet operations, TimestampTz now)
{
	for (int i = 0; i < BLOCKER_OPERATIONS; i++)
	{
		if ((operations & (1 << i)) && head->holders[i] != 0 && head->expires_at[i] > now)
			return true;
	}
	return false;
}

/* See the header. */
bool
blocker_table_is_blocked(const TableName *table, BlockerOperationSet operations)
{
	BlockerHead head;

	return blocker_head_read(table, false, &head) && blocker_head_is_held(&head, operations, GetCurrentTimestamp());
}

/* See the header. */
BlockerOperationSet
blocker_head_operations(const BlockerHead *head, int64 blocker_id)
{
	BlockerOperationSet operations = 0;

	for (int i = 0; i < BLOCKER_OPERATIONS; i++)
	{
		if (head->holders[i] == blocker_id)
			operations |= 1 << i;
	}
	return operations;
}

/* See the header. */
TimestampTz
blocker_head_expiry(const BlockerHead *head, int64 blocker_id)
{
	for (int i = 0; i < BLOCKER_OPERATIONS; i++)
	{
		if (head->holders[i] == blocker_id)
			return head->expires_at[i];
	}
	return DT_NOBEGIN;
}

/* See the header. */
void
blocker_head_set_expiry(BlockerHead *head, int64 blocker_id, TimestampTz expires_at)
{
	for (int i = 0; i < BLOCKER_OPERATIONS; i++)
	{
		if (head->holders[i] == blocker_id)
			head->expires_at[i] = expires_at;
	}
}

/* See the header. */
void
blocker_head_clear(BlockerHead *head, int64 blocker_id)
{
	for (int i = 0; i < BLOCKER_OPERATIONS; i++)
	{
		if (head->holders[i] != blocker_id)
			continue;
		head->holders[i] = 0;
		head->expires_at[i] = DT_NOBEGIN;
	}
}
