/*
 * blocker_record.c
 *		Records of table blockers. See the header.
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "blocker/blocker_record.h"
#include "catalog/namespace.h"
#include "commands/sequence.h"
#include "miscadmin.h"
#include "own_table.h"
#include "procedure/procedure_sql.h"
#include "utils/lsyscache.h"

/* See the header. */
bool
blocker_role_has(Oid role, int64 count)
{
	SqlArgument arguments[] = {{REGROLEOID, ObjectIdGetDatum(role), false}, sql_bigint(count)};
	bool		has;

	SPI_connect();
	procedure_sql_latest("SELECT count(*) >= $2 FROM (SELECT FROM amoro_meta.blocker WHERE acquired_by = $1 LIMIT $2) b",
						 lengthof(arguments), arguments);
	has = result_boolean(0, 1);
	SPI_finish();
	return has;
}

static OwnTable
open_records(LOCKMODE mode)
{
	return own_table_open("blocker", "blocker_pkey", mode);
}

static HeapTuple
find_record(OwnTable *records, int64 blocker_id)
{
	OwnKey		key = OWN_KEY_BIGINT("blocker_id", blocker_id);

	return own_table_find_unnoticed(records, 1, &key);
}

static void
record_from_row(OwnTable *records, HeapTuple row, BlockerRecord *record)
{
	bool		is_null;
	Datum		request_id = own_column_or_null(records, row, "request_id", &is_null);

	record->has_request_id = !is_null;
	if (!is_null)
		record->request_id = *DatumGetUUIDP(request_id);
	record->blocker_id = DatumGetInt64(own_column(records, row, "blocker_id"));
	record->prev_blocker_id = DatumGetInt64(own_column(records, row, "prev_blocker_id"));
	record->head_id = DatumGetInt64(own_column(records, row, "head_id"));
	record->acquired_by = DatumGetObjectId(own_column(records, row, "acquired_by"));
	record->timeout_ms = DatumGetInt64(own_column(records, row, "timeout_ms"));
	record->created_at = DatumGetTimestampTz(own_column(records, row, "created_at"));
	record->properties = DatumGetJsonbPCopy(own_column(records, row, "properties"));
}

/* See the header. */
bool
blocker_record_read(int64 blocker_id, BlockerRecord *record)
{
	OwnTable	records = open_records(AccessShareLock);
	OwnKey		key = OWN_KEY_BIGINT("blocker_id", blocker_id);
	HeapTuple	row = own_table_find_latest(&records, 1, &key);

	if (row != NULL)
		record_from_row(&records, row, record);
	own_table_close(&records, AccessShareLock);
	return row != NULL;
}

/* There is no such record by now; where the snapshot of the transaction shows one, that cannot be acted on. */
static void
require_absence(OwnTable *records, int64 blocker_id)
{
	OwnKey		key = OWN_KEY_BIGINT("blocker_id", blocker_id);

	if (IsolationUsesXactSnapshot() && own_table_find(records, 1, &key, ForwardScanDirection) != NULL)
		own_table_raise_past();
}

/* Locks a record in one way or deletes it, if it still is what was found. */
typedef bool (*RecordChange) (OwnTable *records, HeapTuple row, bool wait);

static bool
hold(OwnTable *records, HeapTuple row, bool wait)
{
	return own_table_lock(records, row, LockTupleKeyShare, wait);
}

/* Does something to a record as it is by now, and waits for whoever has it; false when there is none. */
static bool
change_record(int64 blocker_id, RecordChange change, LOCKMODE mode, BlockerRecord *record)
{
	OwnTable	records = open_records(mode);
	HeapTuple	row;

	while ((row = find_record(&records, blocker_id)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		if (IsolationUsesXactSnapshot() && !own_table_shows(&records, row))
			own_table_raise_past();
		if (change(&records, row, false))
			break;
		blocker_limit_waits();
		if (change(&records, row, true))
			break;
	}
	if (row != NULL)
		record_from_row(&records, row, record);
	else
		require_absence(&records, blocker_id);
	own_table_close(&records, NoLock);
	return row != NULL;
}

/* See the header. */
bool
blocker_record_lock(int64 blocker_id, BlockerRecord *record)
{
	return change_record(blocker_id, hold, RowShareLock, record);
}

/* See the header. */
bool
blocker_record_delete(int64 blocker_id, BlockerRecord *record)
{
	return change_record(blocker_id, own_table_delete, RowExclusiveLock, record);
}

/* See the header. */
bool
blocker_record_try_lock(int64 blocker_id)
{
	OwnTable	records = open_records(RowShareLock);
	HeapTuple	row = find_record(&records, blocker_id);
	bool		locked = row != NULL && own_table_lock(&records, row, LockTupleExclusive, false);

	own_table_close(&records, NoLock);
	return locked;
}

/* A column of a row that there is only one of; 0 when there is none. */
static int32
singleton_column(const char *table_name, const char *index_name, const char *column)
{
	OwnTable	table = own_table_open(table_name, index_name, AccessShareLock);
	OwnKey		key = {"singleton", BTEqualStrategyNumber, F_BOOLEQ, BoolGetDatum(true)};
	HeapTuple	row = own_table_find_unnoticed(&table, 1, &key);
	int32		value = row == NULL ? 0 : DatumGetInt32(own_column(&table, row, column));

	own_table_close(&table, AccessShareLock);
	return value;
}

/* As amoro_meta.next_id(), in an era that is not before amoro_meta.current_blocker_era(). */
static int64
next_blocker_id(void)
{
	int32		timeline = (int32) GetWALInsertionTimeLine() - 1 + singleton_column("identity", "identity_pkey", "timeline_offset");
	int32		era = singleton_column("blocker_era", "blocker_era_pkey", "era");
	Oid			sequence = get_relname_relid("id_sequence", get_namespace_oid("amoro_meta", false));

	return ((int64) Max(timeline, era) << 40) + nextval_internal(sequence, false);
}

/* Ids of the era at hand are at or below one that was given before: the sequence was set back by hand. */
static void
begin_next_era(int64 newest_blocker_id)
{
	SqlArgument era = sql_integer((int32) (newest_blocker_id >> 40) + 1);

	blocker_limit_waits();
	SPI_connect();
	procedure_sql("UPDATE amoro_meta.blocker_era SET era = greatest(era, $1) WHERE singleton", SPI_OK_UPDATE, 1, &era);
	SPI_finish();
}

/* See the header. */
void
blocker_record_insert(BlockerRecord *record, const BlockerHead *head, TimestampTz expires_at)
{
	OwnTable	records = open_records(RowExclusiveLock);

	/* the head was read before the id is taken, so whoever was given one before has taken a smaller one */
	while ((record->blocker_id = next_blocker_id()) <= head->newest_blocker_id)
	{
		CHECK_FOR_INTERRUPTS();
		begin_next_era(head->newest_blocker_id);
	}
	record->head_id = head->head_id;

	OwnColumn	columns[] = {
		{"blocker_id", Int64GetDatum(record->blocker_id)}, {"prev_blocker_id", Int64GetDatum(record->prev_blocker_id)},
		{"head_id", Int64GetDatum(record->head_id)}, {"acquired_by", ObjectIdGetDatum(record->acquired_by)},
		{"request_id", UUIDPGetDatum(&record->request_id), !record->has_request_id},
		{"timeout_ms", Int64GetDatum(record->timeout_ms)}, {"created_at", TimestampTzGetDatum(record->created_at)},
		{"check_at", TimestampTzGetDatum(expires_at)}, {"properties", JsonbPGetDatum(record->properties)}
	};

	own_table_insert(&records, lengthof(columns), columns);
	own_table_close(&records, NoLock);
}

/* See the header. */
void
blocker_record_date(const BlockerRecord *record, TimestampTz expires_at)
{
	OwnTable	records = open_records(RowExclusiveLock);
	HeapTuple	row = find_record(&records, record->blocker_id);
	OwnColumn	changes[] = {{"created_at", TimestampTzGetDatum(record->created_at)}, {"check_at", TimestampTzGetDatum(expires_at)}};

	if (row == NULL || own_table_update(&records, row, lengthof(changes), changes, true) == NULL)
		elog(ERROR, "record of blocker " INT64_FORMAT " was not found", record->blocker_id);
	own_table_close(&records, NoLock);
}
