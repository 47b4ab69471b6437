/*
 * task_table.c
 *		Rows of the tables of optimizers and tasks, found and changed without SQL.
 *
 * None of these tables has triggers, generated columns or expressions in an index
 * that these changes touch; their primary keys and unique indexes are seen to.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_enum.h"
#include "catalog/pg_type.h"
#include "storage/bufmgr.h"
#include "task_table.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

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

TaskTable
task_table_open(const char *table, const char *index, LOCKMODE mode)
{
	return (TaskTable) {table_open(relation_id(table), mode), index_open(relation_id(index), mode)};
}

/* Changes keep their lock to the end of the transaction, as those of SQL do. */
void
task_table_close(TaskTable *table, LOCKMODE mode)
{
	index_close(table->index, mode);
	table_close(table->relation, mode);
}

static AttrNumber
column_number(TaskTable *table, const char *column)
{
	AttrNumber	number = get_attnum(RelationGetRelid(table->relation), column);

	if (number == InvalidAttrNumber)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of relation amoro_meta.%s does not exist", column,
						RelationGetRelationName(table->relation))));
	return number;
}

/* That in which the index is ordered. */
static Oid
collation_of(TaskTable *table, const char *column)
{
	AttrNumber	number = column_number(table, column);

	for (int i = 0; i < table->index->rd_index->indnkeyatts; i++)
	{
		if (table->index->rd_index->indkey.values[i] == number)
			return table->index->rd_indcollation[i];
	}
	elog(ERROR, "column %s is not in index %s", column, RelationGetRelationName(table->index));
}

SysScanDesc
task_table_scan(TaskTable *table, Snapshot snapshot, int count, const TaskKey *keys)
{
	ScanKeyData scan_keys[MAX_KEYS];

	Assert(count <= MAX_KEYS);
	for (int i = 0; i < count; i++)
		ScanKeyEntryInitialize(&scan_keys[i], 0, column_number(table, keys[i].column), keys[i].strategy, InvalidOid,
							   collation_of(table, keys[i].column), keys[i].procedure, keys[i].value);
	return systable_beginscan_ordered(table->relation, table->index, snapshot, count, scan_keys);
}

HeapTuple
task_table_find(TaskTable *table, int count, const TaskKey *keys, ScanDirection direction)
{
	Snapshot	snapshot = RegisterSnapshot(GetTransactionSnapshot());
	SysScanDesc scan = task_table_scan(table, snapshot, count, keys);
	HeapTuple	row = systable_getnext_ordered(scan, direction);

	if (row != NULL)
		row = heap_copytuple(row);
	systable_endscan_ordered(scan);
	UnregisterSnapshot(snapshot);
	return row;
}

Datum
task_column(TaskTable *table, HeapTuple row, const char *column)
{
	bool		is_null;
	Datum		value = heap_getattr(row, column_number(table, column), RelationGetDescr(table->relation), &is_null);

	return is_null ? (Datum) 0 : value;
}

Datum
task_state(const char *label)
{
	Oid			type = GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid, PointerGetDatum("task_state"),
									   ObjectIdGetDatum(get_namespace_oid("amoro_meta", false)));
	Oid			state = GetSysCacheOid2(ENUMTYPOIDNAME, Anum_pg_enum_oid, ObjectIdGetDatum(type), CStringGetDatum(label));

	if (!OidIsValid(state))
		elog(ERROR, "amoro_meta.task_state has no label %s", label);
	return ObjectIdGetDatum(state);
}

/* What the snapshot of the transaction says is past: the caller has to look anew. */
static void
raise_serialization_failure(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access due to concurrent update"),
			 errhint("Try the transaction again.")));
}

bool
task_table_lock(TaskTable *table, HeapTuple row, bool wait)
{
	Buffer		buffer;
	TM_FailureData failure;
	HeapTupleData target = *row;
	TM_Result	result = heap_lock_tuple(table->relation, &target, GetCurrentCommandId(true), LockTupleNoKeyExclusive,
										 wait ? LockWaitBlock : LockWaitSkip, false, &buffer, &failure);

	ReleaseBuffer(buffer);
	if (wait && result != TM_Ok && IsolationUsesXactSnapshot())
		raise_serialization_failure();
	return result == TM_Ok;
}

static void
set_columns(TaskTable *table, int count, const TaskChange *changes, Datum *values, bool *nulls, bool *replaced)
{
	for (int i = 0; i < count; i++)
	{
		int			position = column_number(table, changes[i].column) - 1;

		values[position] = changes[i].value;
		nulls[position] = false;
		replaced[position] = true;
	}
}

void
task_table_update(TaskTable *table, HeapTuple row, int count, const TaskChange *changes)
{
	Datum		values[MAX_COLUMNS] = {0};
	bool		nulls[MAX_COLUMNS] = {0};
	bool		replaced[MAX_COLUMNS] = {0};
	HeapTuple	changed;

	set_columns(table, count, changes, values, nulls, replaced);
	changed = heap_modify_tuple(row, RelationGetDescr(table->relation), values, nulls, replaced);
	CatalogTupleUpdate(table->relation, &row->t_self, changed);
	CommandCounterIncrement();
	heap_freetuple(changed);
}

void
task_table_insert(TaskTable *table, int count, const TaskChange *columns)
{
	Datum		values[MAX_COLUMNS] = {0};
	bool		nulls[MAX_COLUMNS];
	bool		replaced[MAX_COLUMNS] = {0};
	HeapTuple	row;
	MemoryContext caller = CurrentMemoryContext;

	memset(nulls, true, sizeof(nulls));
	set_columns(table, count, columns, values, nulls, replaced);
	row = heap_form_tuple(RelationGetDescr(table->relation), values, nulls);
	PG_TRY();
	{
		CatalogTupleInsert(table->relation, row);
	}
	PG_CATCH();
	{
		/* there is a newer row than those that the snapshot has, from which the key was counted on */
		if (IsolationUsesXactSnapshot() && geterrcode() == ERRCODE_UNIQUE_VIOLATION)
		{
			MemoryContextSwitchTo(caller);
			FlushErrorState();
			raise_serialization_failure();
		}
		PG_RE_THROW();
	}
	PG_END_TRY();
	CommandCounterIncrement();
	heap_freetuple(row);
}
