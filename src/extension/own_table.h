/*
 * own_table.h
 *		Rows of the tables of this extension, found and changed without SQL: what is done a thousand times a second is a
 *		few lookups, each of which costs less than the start of a statement.
 */
#ifndef AMORO_META_OWN_TABLE_H
#define AMORO_META_OWN_TABLE_H

#include "postgres.h"

#include "access/genam.h"
#include "access/htup.h"
#include "access/stratnum.h"
#include "compat.h"
#include "nodes/lockoptions.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"

/* A table of schema amoro_meta and one of its indexes, open. */
typedef struct OwnTable
{
	Relation	relation;
	Relation	index;
} OwnTable;

/* A condition on a column of the index: strategy is BTEqualStrategyNumber or another, procedure that of the operator. */
typedef struct OwnKey
{
	const char *column;
	StrategyNumber strategy;
	RegProcedure procedure;
	Datum		value;
} OwnKey;

#define OWN_KEY_BIGINT(column, value) {column, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(value)}
#define OWN_KEY_INTEGER(column, value) {column, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(value)}
#define OWN_KEY_TEXT(column, value) {column, BTEqualStrategyNumber, F_TEXTEQ, CStringGetTextDatum(value)}
#define OWN_KEY_BYTES(column, datum) {column, BTEqualStrategyNumber, F_BYTEAEQ, datum}

/* A column that is set. */
typedef struct OwnColumn
{
	const char *column;
	Datum		value;
	bool		is_null;
} OwnColumn;

/* For a table that is changed, close with NoLock: the lock stays to the end of the transaction, as SQL would keep it. */
extern OwnTable own_table_open(const char *table, const char *index, LOCKMODE mode);
extern void own_table_close(OwnTable *table, LOCKMODE mode);

/* The first row in the order of the index, or the last, as the transaction sees it now; a copy, or NULL. */
extern HeapTuple own_table_find(OwnTable *table, int count, const OwnKey *keys, ScanDirection direction);

/* The one row of a key as it is committed by now, whatever the snapshot of the transaction shows; a copy, or NULL. */
extern HeapTuple own_table_find_latest(OwnTable *table, int count, const OwnKey *keys);

/*
 * The same, of a row that is about to be changed or locked, or whose value does not depend on whom this transaction comes
 * before: a row that is found is no reason for SERIALIZABLE to fail another transaction, nor are its neighbours.
 */
extern HeapTuple own_table_find_unnoticed(OwnTable *table, int count, const OwnKey *keys);

/* A scan in the order of the index, for more than one row. */
extern SysScanDesc own_table_scan(OwnTable *table, Snapshot snapshot, int count, const OwnKey *keys);

/* A column of a row, and whether it is null; own_column is 0 for SQL's NULL. */
extern Datum own_column_or_null(OwnTable *table, HeapTuple row, const char *column, bool *is_null);
extern Datum own_column(OwnTable *table, HeapTuple row, const char *column);

/* Whether the snapshot of the transaction shows this very version of a row that was found as of now. */
extern bool own_table_shows(OwnTable *table, HeapTuple row);

/* Raises 40001: the snapshot of the transaction shows what is past. */
extern pg_noreturn void own_table_raise_past(void);

/*
 * These lock or change a row if it still is the version that was found; false, or no new version, if not, and, unless
 * they are to wait for other transactions, if another one has it. With wait, where the snapshot is that of the
 * transaction, that ends in 40001. So does an insert whose key is there already, unseen by such a snapshot.
 */
extern bool own_table_lock(OwnTable *table, HeapTuple row, LockTupleMode mode, bool wait);
extern HeapTuple own_table_update(OwnTable *table, HeapTuple row, int count, const OwnColumn *changes, bool wait);
extern bool own_table_delete(OwnTable *table, HeapTuple row, bool wait);
extern void own_table_insert(OwnTable *table, int count, const OwnColumn *columns);

#endif							/* AMORO_META_OWN_TABLE_H */
