/*
 * partition_action.c
 *		What the procedures on the partitions of databases do in their steps (src/schema/partition.sql).
 *
 * A slot changes its nodes as a bucket does its owner (bucket_action.c): while it is releasing only those nodes have it
 * that had it before and keep it.
 */
#include "postgres.h"

#include "error_codes.h"
#include "miscadmin.h"
#include "object/database_content.h"
#include "object/object_action.h"
#include "partition/assignment_action.h"
#include "procedure/procedure_sql.h"

/* Slots that one statement of a drop deletes. */
#define DROP_BATCH 1000

/* NULL stands for all slots of the database. */
static MetadataChange
partition_change(const Procedure *procedure, const char *operation, const char *slot)
{
	return (MetadataChange) {
		.object_kind = "partition",
		.operation = operation,
		.catalog_name = procedure->catalog_name,
		.database_name = procedure->database_name,
		.table_name = slot,
		.object_id = procedure->object_id
	};
}

/* The database stays as it is to the end of the transaction, and so do its partitions; 42704 and AM401 as ever. */
static void
lock_partitions(const Procedure *procedure)
{
	SqlArgument id = sql_bigint(procedure->object_id);

	database_require_normal(procedure->object_id, procedure->database_name);
	if (procedure_sql("SELECT FROM amoro_meta.partition_set WHERE database_id = $1 FOR NO KEY UPDATE",
					  SPI_OK_SELECT, 1, &id) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("database \"%s\".\"%s\" has no partitions", procedure->catalog_name, procedure->database_name)));
}

ActionResult
partition_create(Procedure *procedure)
{
	SqlArgument row[] = {
		sql_bigint(procedure->object_id), sql_bigint(argument_bigint(procedure, "slot_count")),
		sql_bigint(argument_bigint(procedure, "replica_count")), sql_text(argument_text(procedure, "node_kind"))
	};

	database_require_normal(procedure->object_id, procedure->database_name);
	if (procedure_sql("SELECT FROM amoro_meta.partition_set WHERE database_id = $1", SPI_OK_SELECT, 1, row) > 0)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("database \"%s\".\"%s\" has partitions already", procedure->catalog_name, procedure->database_name)));
	procedure_sql("INSERT INTO amoro_meta.partition_set (database_id, slot_count, replica_count, node_kind) VALUES ($1, $2, $3, $4)",
				  SPI_OK_INSERT, lengthof(row), row);
	procedure_append_one(procedure, partition_change(procedure, "create", NULL));

	SqlArgument slots[] = {row[0], row[1], sql_bigint(procedure->appended_version)};

	procedure_sql("INSERT INTO amoro_meta.partition (database_id, slot, node_ids, state, version)"
				  " SELECT $1, g.slot, coalesce(p.node_ids, '{}'), 'normal', $3 FROM generate_series(0, $2::integer - 1) g (slot)"
				  " LEFT JOIN amoro_meta.planned_partitions($1, false) p USING (slot)",
				  SPI_OK_INSERT, lengthof(slots), slots);
	return ACTION_NEXT;
}

ActionResult
partition_move_release(Procedure *procedure)
{
	SqlArgument arguments[] = {
		sql_bigint(procedure->procedure_id), sql_bigint(procedure->object_id), sql_bigint(argument_bigint(procedure, "slot")),
		sql_bigint(argument_bigint(procedure, "from_node_id")), sql_text(argument_text(procedure, "from_node_name")),
		sql_bigint(argument_bigint(procedure, "to_node_id")), sql_text(argument_text(procedure, "to_node_name"))
	};

	lock_partitions(procedure);
	procedure_sql("SELECT amoro_meta.release_partition($1, $2, $3::integer, $4, $5, $6, $7)",
				  SPI_OK_SELECT, lengthof(arguments), arguments);
	procedure_append_one(procedure, partition_change(procedure, "release", pstrdup(procedure->object_name)));
	return ACTION_NEXT;
}

/* Marks the slots that are to have other nodes. replica_count: how many nodes each should have; 0: as it is. */
static void
release_partitions(Procedure *procedure, int64 replica_count)
{
	SqlArgument arguments[] = {
		sql_bigint(procedure->procedure_id), sql_bigint(procedure->object_id), sql_boolean(argument_boolean(procedure, "move")),
		sql_optional_id(replica_count)
	};

	procedure_sql("SELECT s::text FROM amoro_meta.release_partitions($1, $2, $3, $4::integer) s ORDER BY s",
				  SPI_OK_SELECT, lengthof(arguments), arguments);
	assignment_append_changes(procedure, "release", partition_change);
}

ActionResult
partition_balance_release(Procedure *procedure)
{
	lock_partitions(procedure);
	release_partitions(procedure, 0);
	return ACTION_NEXT;
}

/* Somebody who is moving a slot is in the way. */
static void
require_unmarked(const Procedure *procedure)
{
	SqlArgument id = sql_bigint(procedure->object_id);

	if (procedure_sql("SELECT min(procedure_id) FROM amoro_meta.partition WHERE database_id = $1 AND state <> 'normal'",
					  SPI_OK_SELECT, 1, &id) > 0 && !result_is_null(0, 1))
		ereport(ERROR,
				(errcode(ERRCODE_AMORO_OBJECT_IN_TRANSITION),
				 errmsg("a partition of database \"%s\".\"%s\" is in transition", procedure->catalog_name, procedure->database_name),
				 errdetail("Procedure " INT64_FORMAT " works on it.", result_bigint(0, 1)),
				 errhint("SELECT procedure_status(" INT64_FORMAT ")", result_bigint(0, 1))));
}

ActionResult
partition_alter_release(Procedure *procedure)
{
	lock_partitions(procedure);
	require_unmarked(procedure);
	release_partitions(procedure, argument_bigint(procedure, "replica_count"));
	return ACTION_NEXT;
}

ActionResult
partition_hand_over(Procedure *procedure)
{
	SqlArgument id = sql_bigint(procedure->procedure_id);

	procedure_sql("SELECT slot::text FROM amoro_meta.partition WHERE procedure_id = $1 ORDER BY partition.slot FOR NO KEY UPDATE",
				  SPI_OK_SELECT, 1, &id);
	assignment_append_changes(procedure, "assign", partition_change);

	SqlArgument arguments[] = {id, sql_bigint(procedure->appended_version)};

	procedure_sql("SELECT amoro_meta.hand_over_partitions($1, $2)", SPI_OK_SELECT, lengthof(arguments), arguments);
	if (!result_boolean(0, 1))
		procedure_sql("SELECT amoro_meta.request_sweep('repair_partitions')", SPI_OK_SELECT, 0, NULL);
	return ACTION_NEXT;
}

ActionResult
partition_alter_commit(Procedure *procedure)
{
	SqlArgument arguments[] = {sql_bigint(procedure->object_id), sql_bigint(argument_bigint(procedure, "replica_count"))};

	procedure_sql("UPDATE amoro_meta.partition_set SET replica_count = $2 WHERE database_id = $1",
				  SPI_OK_UPDATE, lengthof(arguments), arguments);
	return partition_hand_over(procedure);
}

ActionResult
partition_drop_mark(Procedure *procedure)
{
	SqlArgument arguments[] = {sql_bigint(procedure->object_id), sql_bigint(procedure->procedure_id)};

	lock_partitions(procedure);
	require_unmarked(procedure);
	procedure_sql("UPDATE amoro_meta.partition SET state = 'pre_drop', procedure_id = $2 WHERE database_id = $1",
				  SPI_OK_UPDATE, lengthof(arguments), arguments);
	procedure_append_one(procedure, partition_change(procedure, "pre_drop", NULL));
	return ACTION_NEXT;
}

/* Deletes slots of a database, at most that many, then what says that it has some; returns how many rows. */
static int
delete_slots(int64 database_id, int most)
{
	SqlArgument arguments[] = {sql_bigint(database_id), sql_integer(most)};
	int			count = (int) procedure_sql("DELETE FROM amoro_meta.partition WHERE database_id = $1 AND slot IN"
											" (SELECT slot FROM amoro_meta.partition WHERE database_id = $1 ORDER BY slot LIMIT $2)",
											SPI_OK_DELETE, lengthof(arguments), arguments);

	if (count == 0)
		count = (int) procedure_sql("DELETE FROM amoro_meta.partition_set WHERE database_id = $1", SPI_OK_DELETE, 1, arguments);
	return count;
}

ActionResult
partition_drop_commit(Procedure *procedure)
{
	lock_partitions(procedure);
	while (delete_slots(procedure->object_id, DROP_BATCH) > 0)
		CHECK_FOR_INTERRUPTS();
	procedure_append_one(procedure, partition_change(procedure, "drop", NULL));
	return ACTION_NEXT;
}

/* See assignment_action.h. */
void
partition_unmark(int64 procedure_id, ChangeList *changes)
{
	SqlArgument id = sql_bigint(procedure_id);

	/* one change for all slots of the database */
	procedure_sql("WITH unmarked AS (UPDATE amoro_meta.partition SET state = 'normal', procedure_id = NULL,"
				  " next_node_ids = NULL WHERE procedure_id = $1 RETURNING database_id)"
				  " SELECT c.catalog_name, d.database_name, NULL::text, d.database_id"
				  " FROM amoro_meta.database d JOIN amoro_meta.catalog c USING (catalog_id)"
				  " WHERE d.database_id IN (SELECT database_id FROM unmarked)",
				  SPI_OK_SELECT, 1, &id);
	object_rolled_back("partition", changes);
}

/* See database_content.h. */
int
partition_drop_some(const Procedure *procedure, int limit, ChangeList *changes)
{
	return delete_slots(procedure->object_id, limit);
}
