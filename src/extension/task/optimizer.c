/*
 * optimizer.c
 *		Who polls: an optimizer, found by its token, and one of its threads.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "own_table.h"
#include "task/optimizer.h"
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
bool
optimizer_look_up(const OptimizerThread *thread, Optimizer *optimizer)
{
	OwnTable	table = own_table_open("optimizer", "optimizer_token_key", AccessShareLock);
	OwnKey		key = {"token", BTEqualStrategyNumber, F_UUID_EQ, thread->token.value};
	HeapTuple	row = own_table_find(&table, 1, &key, ForwardScanDirection);
	bool		found = row != NULL && own_column(&table, row, "registered_by") == thread->role.value &&
		own_column(&table, row, "expired_at") == 0;

	if (found)
		*optimizer = (Optimizer) {
			.id = DatumGetInt64(own_column(&table, row, "optimizer_id")),
			.group_name = TextDatumGetCString(own_column(&table, row, "group_name")),
			.thread_count = DatumGetInt32(own_column(&table, row, "thread_count")),
			.draining = DatumGetBool(own_column(&table, row, "draining"))
		};
	own_table_close(&table, AccessShareLock);
	return found;
}

/* See optimizer.h. */
Optimizer
optimizer_find(const OptimizerThread *thread)
{
	Optimizer	optimizer = {0};

	if (!optimizer_look_up(thread, &optimizer))
		procedure_sql_along_index("SELECT amoro_meta.raise_unknown_optimizer($1)", SPI_OK_SELECT, 1, &thread->token);
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
