/*
 * optimizer.c
 *		Who polls: an optimizer, found by its token, and one of its threads.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "optimizer.h"
#include "utils/fmgrprotos.h"
#include "utils/uuid.h"

/* First keys of advisory locks, see README.md; the second ones are hashes. */
#define OPTIMIZER_LOCK 1095565313
#define THREAD_LOCK 1095565314

/* See optimizer.h. */
OptimizerThread
optimizer_thread(FunctionCallInfo fcinfo)
{
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("a standby hands out no tasks"),
				 errhint("Connect to the primary server.")));
	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("token and thread_id must not be null")));
	return (OptimizerThread) {
		.token = {UUIDOID, PG_GETARG_DATUM(0), false},
		.role = {OIDOID, ObjectIdGetDatum(GetOuterUserId()), false},
		.thread_id = PG_GETARG_INT32(1)
	};
}

/* See optimizer.h. */
Optimizer
optimizer_find(const OptimizerThread *thread)
{
	SqlArgument arguments[] = {thread->token, thread->role};
	Optimizer	optimizer;

	if (procedure_sql("SELECT o.optimizer_id, o.group_name, o.thread_count::bigint, o.draining FROM amoro_meta.optimizer o"
					  " WHERE o.token = $1 AND o.registered_by = $2 AND o.expired_at IS NULL",
					  SPI_OK_SELECT, lengthof(arguments), arguments) == 0)
		procedure_sql("SELECT amoro_meta.raise_unknown_optimizer($1)", SPI_OK_SELECT, 1, arguments);
	optimizer.id = result_bigint(0, 1);
	optimizer.group_name = result_text(0, 2);
	optimizer.thread_count = (int32) result_bigint(0, 3);
	optimizer.draining = result_boolean(0, 4);
	if (thread->thread_id < 0 || thread->thread_id >= optimizer.thread_count)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("thread %d is none of the optimizer", thread->thread_id),
				 errdetail("It has registered %d threads, the first is 0.", optimizer.thread_count)));
	return optimizer;
}

/*
 * optimizer_lock_thread: see the header. The row of the optimizer is locked by nobody who polls, because it would be
 * written by each of its threads for that.
 */
void
optimizer_lock_thread(const OptimizerThread *thread)
{
	uint32		hash = hash_bytes(DatumGetUUIDP(thread->token.value)->data, UUID_LEN);

	DirectFunctionCall2(pg_advisory_xact_lock_shared_int4, Int32GetDatum(OPTIMIZER_LOCK), Int32GetDatum((int32) hash));
	DirectFunctionCall2(pg_advisory_xact_lock_int4, Int32GetDatum(THREAD_LOCK),
						Int32GetDatum((int32) hash_combine(hash, hash_uint32((uint32) thread->thread_id))));
}
