/*
 * task_table.h
 *		Rows of the tables of optimizers and tasks, found and changed without SQL: what is done a thousand times a
 *		second is a few lookups, each of which costs less than the start of a statement.
 */
#ifndef AMORO_META_TASK_TABLE_H
#define AMORO_META_TASK_TABLE_H

#include "postgres.h"

#include "access/htup.h"
#include "access/genam.h"
#include "access/stratnum.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"

/* A table of schema amoro_meta and one of its indexes, open. */
typedef struct TaskTable
{
	Relation	relation;
	Relation	index;
} TaskTable;

/* A condition on a column of the index: strategy is BTEqualStrategyNumber or another, procedure that of the operator. */
typedef struct TaskKey
{
	const char *column;
	StrategyNumber strategy;
	RegProcedure procedure;
	Datum		value;
} TaskKey;

#define TASK_KEY_BIGINT(column, value) {column, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(value)}
#define TASK_KEY_INTEGER(column, value) {column, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(value)}

extern TaskTable task_table_open(const char *table, const char *index, LOCKMODE mode);
extern void task_table_close(TaskTable *table, LOCKMODE mode);

/* The first row in the order of the index, or the last, as of now; a copy, or NULL. */
extern HeapTuple task_table_find(TaskTable *table, int count, const TaskKey *keys, ScanDirection direction);

/* A scan as of now, for more than one row. */
extern SysScanDesc task_table_scan(TaskTable *table, Snapshot snapshot, int count, const TaskKey *keys);

/* A column of a row; 0 for SQL's NULL. */
extern Datum task_column(TaskTable *table, HeapTuple row, const char *column);

/* The label of a state, as its Datum in column state. */
extern Datum task_state(const char *label);

/* A column that is set. */
typedef struct TaskChange
{
	const char *column;
	Datum		value;
} TaskChange;

/*
 * Locks a row if it is still as it was read, and nobody has it; with wait it waits for whoever has. False when it is
 * not; where the snapshot is that of the transaction, waiting ends in 40001 then. A locked row may be changed by
 * task_table_update. An insert whose key is there already, unseen by such a snapshot, ends in 40001, too.
 */
extern bool task_table_lock(TaskTable *table, HeapTuple row, bool wait);
extern void task_table_update(TaskTable *table, HeapTuple row, int count, const TaskChange *changes);
extern void task_table_insert(TaskTable *table, int count, const TaskChange *columns);

#endif							/* AMORO_META_TASK_TABLE_H */
