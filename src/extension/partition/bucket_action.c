/*
 * bucket_action.c
 *		What the procedures on the buckets of services do in their steps (src/schema/service_bucket.sql).
 *
 * A bucket changes its owner in two steps: releasing, it is nobody's; when every node has heard of that, or surely
 * serves nothing any more, whoever owned it has let go, and the next one gets it.
 */
#include "postgres.h"

#include "object/object_action.h"
#include "partition/assignment_action.h"
#include "procedure/procedure_sql.h"

/* NULL stands for all buckets of the service. */
static MetadataChange
bucket_change(const Procedure *procedure, const char *operation, const char *bucket)
{
	return (MetadataChange) {
		.object_kind = "bucket",
		.operation = operation,
		.catalog_name = procedure->catalog_name,
		.database_name = bucket,
		.object_id = procedure->object_id
	};
}

/* Locks the service; raises 42704 when it is gone. */
static void
lock_service(const Procedure *procedure)
{
	SqlArgument id = sql_bigint(procedure->object_id);

	if (procedure_sql("SELECT FROM amoro_meta.bucket_service WHERE service_id = $1 FOR NO KEY UPDATE",
					  SPI_OK_SELECT, 1, &id) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("service \"%s\" has no buckets", procedure->catalog_name)));
}

/* The buckets that carry the marker of this procedure, as text. */
static void
select_marked(const Procedure *procedure)
{
	SqlArgument id = sql_bigint(procedure->procedure_id);

	procedure_sql("SELECT bucket::text FROM amoro_meta.service_bucket WHERE procedure_id = $1"
				  " ORDER BY service_id, service_bucket.bucket FOR NO KEY UPDATE",
				  SPI_OK_SELECT, 1, &id);
}

ActionResult
bucket_create(Procedure *procedure)
{
	SqlArgument row[] = {
		sql_bigint(procedure->object_id), sql_text(procedure->catalog_name), sql_text(argument_text(procedure, "node_kind")),
		sql_bigint(argument_bigint(procedure, "bucket_count"))
	};

	if (procedure_sql("SELECT FROM amoro_meta.bucket_service WHERE service = $1",
					  SPI_OK_SELECT, 1, &row[1]) > 0)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("service \"%s\" has buckets already", procedure->catalog_name)));
	procedure_sql("INSERT INTO amoro_meta.bucket_service (service_id, service, node_kind, bucket_count) VALUES ($1, $2, $3, $4)",
				  SPI_OK_INSERT, lengthof(row), row);
	procedure_append_one(procedure, bucket_change(procedure, "create", NULL));

	SqlArgument buckets[] = {row[0], row[3], sql_bigint(procedure->appended_version)};

	procedure_sql("INSERT INTO amoro_meta.service_bucket (service_id, bucket, state, version)"
				  " SELECT $1, bucket, 'normal', $3 FROM generate_series(1, $2::integer) bucket",
				  SPI_OK_INSERT, lengthof(buckets), buckets);
	procedure_sql("SELECT amoro_meta.request_sweep('balance_buckets')", SPI_OK_SELECT, 0, NULL);
	return ACTION_NEXT;
}

ActionResult
bucket_release(Procedure *procedure)
{
	SqlArgument arguments[] = {sql_bigint(procedure->procedure_id), sql_bigint(procedure->object_id)};

	lock_service(procedure);
	procedure_sql("SELECT b::text FROM amoro_meta.release_buckets($1, $2) b ORDER BY b",
				  SPI_OK_SELECT, lengthof(arguments), arguments);
	assignment_append_changes(procedure, "release", bucket_change);
	return ACTION_NEXT;
}

ActionResult
bucket_hand_over(Procedure *procedure)
{
	select_marked(procedure);
	assignment_append_changes(procedure, "assign", bucket_change);

	SqlArgument arguments[] = {sql_bigint(procedure->procedure_id), sql_bigint(procedure->appended_version)};

	procedure_sql("SELECT amoro_meta.hand_over_buckets($1, $2)", SPI_OK_SELECT, lengthof(arguments), arguments);
	if (!result_boolean(0, 1))
		procedure_sql("SELECT amoro_meta.request_sweep('balance_buckets')", SPI_OK_SELECT, 0, NULL);
	return ACTION_NEXT;
}

/* A table is in another bucket afterwards, so nobody owns any meanwhile; then the owners get those of theirs that are left. */
ActionResult
bucket_alter_release(Procedure *procedure)
{
	SqlArgument arguments[] = {
		sql_bigint(procedure->object_id), sql_bigint(procedure->procedure_id), sql_bigint(argument_bigint(procedure, "bucket_count"))
	};

	lock_service(procedure);
	procedure_sql("UPDATE amoro_meta.service_bucket SET state = 'releasing', procedure_id = $2,"
				  " next_node_id = CASE WHEN bucket <= $3 THEN node_id END, next_incarnation = CASE WHEN bucket <= $3 THEN incarnation END"
				  " WHERE service_id = $1",
				  SPI_OK_UPDATE, lengthof(arguments), arguments);
	procedure_append_one(procedure, bucket_change(procedure, "release", NULL));
	return ACTION_NEXT;
}

ActionResult
bucket_alter_commit(Procedure *procedure)
{
	SqlArgument id = sql_bigint(procedure->procedure_id);
	SqlArgument count[] = {sql_bigint(procedure->object_id), sql_bigint(argument_bigint(procedure, "bucket_count"))};

	lock_service(procedure);
	procedure_append_one(procedure, bucket_change(procedure, "assign", NULL));

	SqlArgument handed[] = {id, sql_bigint(procedure->appended_version)};
	SqlArgument added[] = {count[0], count[1], handed[1]};

	procedure_sql("DELETE FROM amoro_meta.service_bucket WHERE service_id = $1 AND bucket > $2", SPI_OK_DELETE, lengthof(count), count);
	procedure_sql("SELECT amoro_meta.hand_over_buckets($1, $2)", SPI_OK_SELECT, lengthof(handed), handed);
	procedure_sql("INSERT INTO amoro_meta.service_bucket (service_id, bucket, state, version)"
				  " SELECT s.service_id, bucket, 'normal', $3 FROM amoro_meta.bucket_service s"
				  " CROSS JOIN LATERAL generate_series(s.bucket_count + 1, $2::integer) bucket WHERE s.service_id = $1",
				  SPI_OK_INSERT, lengthof(added), added);
	procedure_sql("UPDATE amoro_meta.bucket_service SET bucket_count = $2 WHERE service_id = $1", SPI_OK_UPDATE, lengthof(count), count);
	procedure_sql("SELECT amoro_meta.request_sweep('balance_buckets')", SPI_OK_SELECT, 0, NULL);
	return ACTION_NEXT;
}

ActionResult
bucket_drop_mark(Procedure *procedure)
{
	SqlArgument arguments[] = {sql_bigint(procedure->object_id), sql_bigint(procedure->procedure_id)};

	lock_service(procedure);
	procedure_sql("UPDATE amoro_meta.service_bucket SET state = 'pre_drop', procedure_id = $2 WHERE service_id = $1",
				  SPI_OK_UPDATE, lengthof(arguments), arguments);
	procedure_append_one(procedure, bucket_change(procedure, "pre_drop", NULL));
	return ACTION_NEXT;
}

ActionResult
bucket_drop_commit(Procedure *procedure)
{
	SqlArgument id = sql_bigint(procedure->object_id);

	lock_service(procedure);
	procedure_sql("DELETE FROM amoro_meta.service_bucket WHERE service_id = $1", SPI_OK_DELETE, 1, &id);
	procedure_sql("DELETE FROM amoro_meta.bucket_service WHERE service_id = $1", SPI_OK_DELETE, 1, &id);
	procedure_append_one(procedure, bucket_change(procedure, "drop", NULL));
	return ACTION_NEXT;
}

/* See assignment_action.h. */
void
bucket_unmark(int64 procedure_id, ChangeList *changes)
{
	SqlArgument id = sql_bigint(procedure_id);

	/* one change for all of them */
	procedure_sql("WITH unmarked AS (UPDATE amoro_meta.service_bucket SET state = 'normal', procedure_id = NULL,"
				  " next_node_id = NULL, next_incarnation = NULL WHERE procedure_id = $1 RETURNING service_id)"
				  " SELECT s.service, NULL::text, NULL::text, s.service_id FROM amoro_meta.bucket_service s"
				  " WHERE s.service_id IN (SELECT service_id FROM unmarked)",
				  SPI_OK_SELECT, 1, &id);
	object_rolled_back("bucket", changes);
}
