/*
 * task_state.c
 *		States of tasks. See the header.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_enum.h"
#include "catalog/pg_type.h"
#include "task/task_state.h"
#include "utils/builtins.h"
#include "utils/syscache.h"

/* See the header. */
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

/* See the header. */
bool
task_is_handed_out(OwnTable *tasks, int64 process_id, int32 task_id, int32 attempt)
{
	OwnKey		keys[] = {OWN_KEY_BIGINT("process_id", process_id), OWN_KEY_INTEGER("task_id", task_id)};
	HeapTuple	row = own_table_find(tasks, lengthof(keys), keys, ForwardScanDirection);
	Datum		state;

	if (row == NULL || DatumGetInt32(own_column(tasks, row, "attempt")) != attempt)
		return false;
	state = own_column(tasks, row, "state");
	return state == task_state("SCHEDULED") || state == task_state("ACKED");
}
