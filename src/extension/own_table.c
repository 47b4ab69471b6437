/*
 * own_table.c
 *		Rows of the tables of this extension, found and changed without SQL.
 *
 * None of these tables has generated columns, and what is changed here neither has
 * triggers nor an index with an expression or a predicate; all its indexes, unique
 * ones too, are seen to.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "compat.h"
#include "executor/tuptable.h"
#include "nodes/execnodes.h"
#include "own_table.h"
#include "storage/bufmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

#define MAX_KEYS 4
/* More than any of the tables has. */
#define MAX_COLUMNS 32

static Oid
relation_id(const char *name)
{
	Oid			relation = get_relname_relid(name, get_namespace_oid("amoro_meta", false));

	if (!OidIsValid(relation))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation amoro_meta.%s does not exist", name)));
	return relation;
}

OwnTable
own_table_open(const char *table, const char *index, LOCKMODE mode)
{
	return (OwnTable) {table_open(relation_id(table), mode), index_open(relation_id(index), mode)};
}

void
own_table_close(OwnTable *table, LOCKMODE mode)
{
	index_close(table->index, mode);
	table_close(table->relation, mode);
}

static AttrNumber
column_number(OwnTable *table, const char *column)
{
	TupleDesc	descriptor = RelationGetDescr(table->relation);

	for (int i = 0; i < descriptor->natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(descriptor, i);

		if (!attribute->attisdropped && strcmp(NameStr(attribute->attname), column) == 0)
			return attribute->attnum;
	}
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_COLUMN),
			 errmsg("column \"%s\" of relation amoro_meta.%s does not exist", column,
					RelationGetRelationName(table->relation))));
	return InvalidAttrNumber;	/* keep compiler quiet */
}

/* That in which the index is ordered. */
static Oid
collation_of(OwnTable *table, AttrNumber column)
{
	for (int i = 0; i < table->index->rd_index->indnkeyatts; i++)
	{
		if (table->index->rd_index->indkey.values[i] == column)
			return table->index->rd_indcollation[i];
	}
	elog(ERROR, "column %d is not in index %s", column, RelationGetRelationName(table->index));
	return InvalidOid;			/* keep compiler quiet */
}

SysScanDesc
own_table_scan(OwnTable *table, Snapshot snapshot, int count, const OwnKey *keys)
{
	ScanKeyData scan_keys[MAX_KEYS];

	Assert(count <= MAX_KEYS);
	for (int i = 0; i < count; i++)
	{
		AttrNumber	column = column_number(table, keys[i].column);

		ScanKeyEntryInitialize(&scan_keys[i], 0, column, keys[i].strategy, InvalidOid, collation_of(table, column),
							   keys[i].procedure, keys[i].value);
	}
	return systable_beginscan_ordered(table->relation, table->index, snapshot, count, scan_keys);
}

static HeapTuple
find(OwnTable *table, Snapshot snapshot, int count, const OwnKey *keys, ScanDirection direction)
{
	SysScanDesc scan = own_table_scan(table, snapshot, count, keys);
	HeapTuple	row = systable_getnext_ordered(scan, direction);

	if (row != NULL)
		row = heap_copytuple(row);
	systable_endscan_ordered(scan);
	return row;
}

HeapTuple
own_table_find(OwnTable *table, int count, const OwnKey *keys, ScanDirection direction)
{
	Snapshot	snapshot = RegisterSnapshot(GetTransactionSnapshot());
	HeapTuple	row = find(table, snapshot, count, keys, direction);

	UnregisterSnapshot(snapshot);
	return row;
}

HeapTuple
own_table_find_latest(OwnTable *table, int count, const OwnKey *keys)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	HeapTuple	row = find(table, snapshot, count, keys, ForwardScanDirection);

	UnregisterSnapshot(snapshot);
	return row;
}

/* SnapshotSelf, being none of a moment, may miss a row that moves meanwhile; that there is none must be noticed besides. */
HeapTuple
own_table_find_unnoticed(OwnTable *table, int count, const OwnKey *keys)
{
	HeapTuple	row = find(table, SnapshotSelf, count, keys, ForwardScanDirection);

	return row != NULL ? row : own_table_find_latest(table, count, keys);
}

Datum
own_column_or_null(OwnTable *table, HeapTuple row, const char *column, bool *is_null)
{
	return heap_getattr(row, column_number(table, column), RelationGetDescr(table->relation), is_null);
}

Datum
own_column(OwnTable *table, HeapTuple row, const char *column)
{
	bool		is_null;
	Datum		value = own_column_or_null(table, row, column, &is_null);

	return is_null ? (Datum) 0 : value;
}

bool
own_table_shows(OwnTable *table, HeapTuple row)
{
	HeapTupleData version = {.t_self = row->t_self, .t_tableOid = row->t_tableOid};
	Buffer		buffer;

	if (!heap_fetch(table->relation, GetTransactionSnapshot(), &version, &buffer, false))
		return false;
	ReleaseBuffer(buffer);
	return true;
}

void
own_table_raise_past(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access due to concurrent update"),
			 errhint("Try the transaction again.")));
}

static bool
is_done(TM_Result result, bool waited)
{
	if (waited && result != TM_Ok && IsolationUsesXactSnapshot())
		own_table_raise_past();
	return result == TM_Ok;
}

bool
own_table_lock(OwnTable *table, HeapTuple row, LockTupleMode mode, bool wait)
{
	Buffer		buffer;
	TM_FailureData failure;
	HeapTupleData target = *row;
	TM_Result	result = heap_lock_tuple(table->relation, &target, GetCurrentCommandId(true), mode,
										 wait ? LockWaitBlock : LockWaitSkip, true, &buffer, &failure);

	ReleaseBuffer(buffer);
	return is_done(result, wait);
}

static void
set_columns(OwnTable *table, int count, const OwnColumn *columns, Datum *values, bool *nulls, bool *replaced)
{
	Assert(RelationGetDescr(table->relation)->natts <= MAX_COLUMNS);
	for (int i = 0; i < count; i++)
	{
		int			position = column_number(table, columns[i].column) - 1;

		values[position] = columns[i].value;
		nulls[position] = columns[i].is_null;
		replaced[position] = true;
	}
}

static void
insert_into_indexes(Relation relation, HeapTuple row)
{
	CatalogIndexState indexes = CatalogOpenIndexes(relation);
	TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(relation), &TTSOpsHeapTuple);

	ExecStoreHeapTuple(row, slot, false);
	for (int i = 0; i < indexes->ri_NumIndices; i++)
	{
		Relation	index = indexes->ri_IndexRelationDescs[i];
		IndexInfo  *info = indexes->ri_IndexRelationInfo[i];
		Datum		values[INDEX_MAX_KEYS];
		bool		nulls[INDEX_MAX_KEYS];

		if (!info->ii_ReadyForInserts)
			continue;
		FormIndexDatum(info, slot, NULL, values, nulls);
		index_insert(index, values, nulls, &row->t_self, relation,
					 index->rd_index->indisunique ? UNIQUE_CHECK_YES : UNIQUE_CHECK_NO, false, info);
	}
	ExecDropSingleTupleTableSlot(slot);
	CatalogCloseIndexes(indexes);
}

HeapTuple
own_table_update(OwnTable *table, HeapTuple row, int count, const OwnColumn *changes, bool wait)
{
	Datum		values[MAX_COLUMNS] = {0};
	bool		nulls[MAX_COLUMNS] = {0};
	bool		replaced[MAX_COLUMNS] = {0};
	HeapTuple	changed;
	TM_Result	result;

	/* heap_update() itself can only wait */
	if (!wait && !own_table_lock(table, row, LockTupleNoKeyExclusive, false))
		return NULL;
	set_columns(table, count, changes, values, nulls, replaced);
	changed = heap_modify_tuple(row, RelationGetDescr(table->relation), values, nulls, replaced);
	result = compat_heap_update(table->relation, &row->t_self, changed);
	if (!is_done(result, wait))
		return NULL;
	/* one that stays on its page is found by the entries of the former version */
	if (!HeapTupleIsHeapOnly(changed))
		insert_into_indexes(table->relation, changed);
	CommandCounterIncrement();
	return changed;
}

static TM_Result
delete_version(OwnTable *table, HeapTuple row, bool wait)
{
	TM_FailureData failure;

	return heap_delete(table->relation, &row->t_self, GetCurrentCommandId(true), InvalidSnapshot, wait, &failure, false);
}

bool
own_table_delete(OwnTable *table, HeapTuple row, bool wait)
{
	TM_Result	result = delete_version(table, row, wait);

	/* what is locked by nobody but this transaction must not be taken for another's */
	if (result == TM_BeingModified && own_table_lock(table, row, LockTupleExclusive, false))
		result = delete_version(table, row, true);
	if (!is_done(result, wait))
		return false;
	CommandCounterIncrement();
	return true;
}

void
own_table_insert(OwnTable *table, int count, const OwnColumn *columns)
{
	Datum		values[MAX_COLUMNS] = {0};
	bool		nulls[MAX_COLUMNS];
	bool		replaced[MAX_COLUMNS] = {0};
	HeapTuple	row;
	MemoryContext caller = CurrentMemoryContext;

	memset(nulls, true, sizeof(nulls));
	set_columns(table, count, columns, values, nulls, replaced);
	row = heap_form_tuple(RelationGetDescr(table->relation), values, nulls);
	heap_insert(table->relation, row, GetCurrentCommandId(true), 0, NULL);
	PG_TRY();
	{
		insert_into_indexes(table->relation, row);
	}
	PG_CATCH();
	{
		/* there is a newer row than those that the snapshot has, from which the key was counted on */
		if (IsolationUsesXactSnapshot() && geterrcode() == ERRCODE_UNIQUE_VIOLATION)
		{
			MemoryContextSwitchTo(caller);
			FlushErrorState();
			own_table_raise_past();
		}
		PG_RE_THROW();
	}
	PG_END_TRY();
	CommandCounterIncrement();
}
