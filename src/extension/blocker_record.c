/*
 * blocker_record.c
 *		The rows of table blockers. See the header.
 */
#include "postgres.h"

#include "access/xact.h"
#include "blocker_record.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "procedure_sql.h"

const char *const blocker_operation_names[BLOCKER_OPERATIONS] = {"OPTIMIZE", "BATCH_WRITE"};

#define HEAD_COLUMNS "SELECT h.head_id, h.version, h.newest_blocker_id, h.optimize_blocker_id, h.optimize_expires_at," \
	" h.batch_write_blocker_id, h.batch_write_expires_at, h.catalog_name, h.database_name, h.table_name" \
	" FROM amoro_meta.blocker_head h "
#define RECORD_COLUMNS " blocker_id, prev_blocker_id, head_id, acquired_by, request_id, timeout_ms, created_at, properties "

static SqlArgument
sql_role(Oid role)
{
	return (SqlArgument) {REGROLEOID, ObjectIdGetDatum(role), false};
}

static SqlArgument
sql_uuid(const pg_uuid_t *value)
{
	return (SqlArgument) {UUIDOID, UUIDPGetDatum(value), value == NULL};
}

static pg_noreturn void
raise_serialization_failure(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access due to concurrent changes of a blocker"),
			 errhint("The transaction might succeed if retried.")));
}

static void
head_from_result(BlockerHead *head)
{
	head->head_id = result_bigint(0, 1);
	head->version = result_bigint(0, 2);
	head->newest_blocker_id = result_bigint(0, 3);
	for (int i = 0; i < BLOCKER_OPERATIONS; i++)
	{
		head->holders[i] = result_bigint(0, 4 + 2 * i);
		head->expires_at[i] = result_timestamptz(0, 5 + 2 * i);
	}
}

/* See the header. */
bool
blocker_head_read(const TableName *table, BlockerHead *head)
{
	SqlArgument names[] = {
		sql_text(table->catalog_name), sql_text(table->database_name), sql_text(table->table_name)
	};

	if (procedure_sql_latest(HEAD_COLUMNS "WHERE h.catalog_name = $1 AND h.database_name = $2 AND h.table_name = $3",
							 lengthof(names), names) == 0)
		return false;
	head->table = *table;
	head_from_result(head);
	return true;
}

/* See the header. */
bool
blocker_head_read_by_id(int64 head_id, BlockerHead *head)
{
	SqlArgument id = sql_bigint(head_id);

	if (procedure_sql_latest(HEAD_COLUMNS "WHERE h.head_id = $1", 1, &id) == 0)
		return false;
	head_from_result(head);
	head->table.catalog_name = result_text(0, 8);
	head->table.database_name = result_text(0, 9);
	head->table.table_name = result_text(0, 10);
	return true;
}

/* See the header. */
int64
blocker_head_create(const TableName *table)
{
	SqlArgument names[] = {
		sql_text(table->catalog_name), sql_text(table->database_name), sql_text(table->table_name)
	};

	if (procedure_sql("INSERT INTO amoro_meta.blocker_head"
					  " (head_id, catalog_name, database_name, table_name, version, newest_blocker_id, changed_at)"
					  " VALUES (amoro_meta.next_id(), $1, $2, $3, 0, 0, clock_timestamp()) ON CONFLICT DO NOTHING"
					  " RETURNING head_id",
					  SPI_OK_INSERT_RETURNING, lengthof(names), names) == 0)
		return 0;
	return result_bigint(0, 1);
}

/* See the header. */
bool
blocker_role_has(Oid role, int64 count)
{
	SqlArgument arguments[] = {sql_role(role), sql_bigint(count)};

	procedure_sql_latest("SELECT count(*) >= $2 FROM (SELECT FROM amoro_meta.blocker WHERE acquired_by = $1 LIMIT $2) b",
						 lengthof(arguments), arguments);
	return result_boolean(0, 1);
}

/* See the header. */
bool
blocker_head_write(BlockerHead *head, TimestampTz now)
{
	SqlArgument arguments[] = {
		sql_bigint(head->head_id), sql_bigint(head->version), sql_bigint(head->newest_blocker_id),
		sql_optional_id(head->holders[BLOCKER_OPTIMIZE]), sql_timestamptz(head->expires_at[BLOCKER_OPTIMIZE]),
		sql_optional_id(head->holders[BLOCKER_BATCH_WRITE]), sql_timestamptz(head->expires_at[BLOCKER_BATCH_WRITE]),
		sql_timestamptz(now)
	};

	if (procedure_sql("UPDATE amoro_meta.blocker_head SET version = version + 1, newest_blocker_id = $3,"
					  " optimize_blocker_id = $4, optimize_expires_at = $5,"
					  " batch_write_blocker_id = $6, batch_write_expires_at = $7, changed_at = $8"
					  " WHERE head_id = $1 AND version = $2",
					  SPI_OK_UPDATE, lengthof(arguments), arguments) > 0)
	{
		head->version++;
		return true;
	}
	if (IsolationUsesXactSnapshot())
		raise_serialization_failure();
	return false;
}

/* See the header. */
void
blocker_head_lock(const BlockerHead *head)
{
	SqlArgument id = sql_bigint(head->head_id);

	procedure_sql("SELECT FROM amoro_meta.blocker_head WHERE head_id = $1 FOR NO KEY UPDATE", SPI_OK_SELECT, 1, &id);
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

static bool
record_from_result(BlockerRecord *record)
{
	bool		is_null;
	Datum		request_id;

	if (SPI_processed == 0)
		return false;
	record->blocker_id = result_bigint(0, 1);
	record->prev_blocker_id = result_bigint(0, 2);
	record->head_id = result_bigint(0, 3);
	record->acquired_by = DatumGetObjectId(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 4, &is_null));
	request_id = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 5, &is_null);
	record->has_request_id = !is_null;
	if (!is_null)
		record->request_id = *DatumGetUUIDP(request_id);
	record->timeout_ms = result_bigint(0, 6);
	record->created_at = result_timestamptz(0, 7);
	record->properties = result_jsonb(0, 8);
	return true;
}

/* See the header. */
bool
blocker_record_read(int64 blocker_id, BlockerRecord *record)
{
	SqlArgument id = sql_bigint(blocker_id);

	procedure_sql_latest("SELECT" RECORD_COLUMNS "FROM amoro_meta.blocker WHERE blocker_id = $1", 1, &id);
	return record_from_result(record);
}

/* A record that is there but not to be seen in the snapshot of the transaction: what was found cannot be acted on. */
static bool
require_absence(int64 blocker_id, BlockerRecord *record)
{
	if (IsolationUsesXactSnapshot() && blocker_record_read(blocker_id, record))
		raise_serialization_failure();
	return false;
}

/* See the header. */
bool
blocker_record_lock(int64 blocker_id, BlockerRecord *record)
{
	SqlArgument id = sql_bigint(blocker_id);

	procedure_sql("SELECT" RECORD_COLUMNS "FROM amoro_meta.blocker WHERE blocker_id = $1 FOR KEY SHARE",
				  SPI_OK_SELECT, 1, &id);
	return record_from_result(record) || require_absence(blocker_id, record);
}

/* See the header. */
bool
blocker_record_delete(int64 blocker_id, BlockerRecord *record)
{
	SqlArgument id = sql_bigint(blocker_id);

	procedure_sql("DELETE FROM amoro_meta.blocker WHERE blocker_id = $1 RETURNING" RECORD_COLUMNS,
				  SPI_OK_DELETE_RETURNING, 1, &id);
	return record_from_result(record) || require_absence(blocker_id, record);
}

/* See the header. */
bool
blocker_record_try_lock(int64 blocker_id)
{
	SqlArgument id = sql_bigint(blocker_id);

	return procedure_sql("SELECT FROM amoro_meta.blocker WHERE blocker_id = $1 FOR UPDATE SKIP LOCKED",
						 SPI_OK_SELECT, 1, &id) > 0;
}

/* Ids of the era at hand are at or below one that was given before: the sequence was set back by hand. */
static void
begin_next_era(int64 newest_blocker_id)
{
	SqlArgument era = sql_integer((int32) (newest_blocker_id >> 40) + 1);

	procedure_sql("UPDATE amoro_meta.blocker_era SET era = greatest(era, $1) WHERE singleton", SPI_OK_UPDATE, 1, &era);
}

/* See the header. */
void
blocker_record_insert(BlockerRecord *record, const BlockerHead *head, TimestampTz expires_at)
{
	SqlArgument arguments[] = {
		sql_bigint(record->prev_blocker_id), sql_bigint(head->head_id), sql_role(record->acquired_by),
		sql_uuid(record->has_request_id ? &record->request_id : NULL), sql_bigint(record->timeout_ms),
		sql_timestamptz(record->created_at), sql_timestamptz(expires_at), sql_jsonb(record->properties)
	};

	for (;;)
	{
		/* the head was read before the id is taken, so whoever was given one before has taken a smaller one */
		procedure_sql("INSERT INTO amoro_meta.blocker (blocker_id, prev_blocker_id, head_id, acquired_by, request_id,"
					  " timeout_ms, created_at, check_at, properties)"
					  " VALUES ((greatest(amoro_meta.timeline_id() - 1 +"
					  "   coalesce((SELECT i.timeline_offset FROM amoro_meta.identity i WHERE i.singleton), 0),"
					  "   (SELECT e.era FROM amoro_meta.blocker_era e WHERE e.singleton))::bigint << 40)"
					  "  + nextval('amoro_meta.id_sequence'),"
					  "  $1, $2, $3, $4, $5, $6, $7, $8) RETURNING blocker_id",
					  SPI_OK_INSERT_RETURNING, lengthof(arguments), arguments);
		record->blocker_id = result_bigint(0, 1);
		if (record->blocker_id > head->newest_blocker_id)
			break;
		CHECK_FOR_INTERRUPTS();
		begin_next_era(head->newest_blocker_id);
		(void) blocker_record_delete(record->blocker_id, record);
	}
	record->head_id = head->head_id;
}

/* See the header. */
void
blocker_record_date(const BlockerRecord *record, TimestampTz expires_at)
{
	SqlArgument arguments[] = {
		sql_bigint(record->blocker_id), sql_timestamptz(record->created_at), sql_timestamptz(expires_at)
	};

	procedure_sql("UPDATE amoro_meta.blocker SET created_at = $2, check_at = $3 WHERE blocker_id = $1",
				  SPI_OK_UPDATE, lengthof(arguments), arguments);
}
