/*
 * blocker_count.c
 *		Counters of calls on table blockers. See the header.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "blocker/blocker_count.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"

PG_FUNCTION_INFO_V1(amoro_meta_blocker_counts);

/* See the header. */
void
blocker_count(BlockerCount what)
{
	DatabaseEntry *entry;

	if (AmoroShared == NULL)
		return;
	LWLockAcquire(AmoroShared->lock, LW_SHARED);
	entry = database_entry_find(MyDatabaseId);
	if (entry != NULL)
		pg_atomic_fetch_add_u64(&entry->blocker_counts[what], 1);
	LWLockRelease(AmoroShared->lock);
}

/* See the header. */
void
blocker_count_reset_locked(DatabaseEntry *entry)
{
	for (int i = 0; i < BLOCKER_COUNTS; i++)
		pg_atomic_write_u64(&entry->blocker_counts[i], 0);
}

/* amoro_meta_blocker_counts() returns a row with a column for each BlockerCount; nulls without shared memory. */
Datum
amoro_meta_blocker_counts(PG_FUNCTION_ARGS)
{
	TupleDesc	descriptor;
	Datum		values[BLOCKER_COUNTS] = {0};
	bool		nulls[BLOCKER_COUNTS];
	DatabaseEntry *entry = NULL;

	if (get_call_result_type(fcinfo, NULL, &descriptor) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "the function does not return a row");
	memset(nulls, true, sizeof(nulls));
	if (AmoroShared != NULL)
	{
		LWLockAcquire(AmoroShared->lock, LW_SHARED);
		entry = database_entry_find(MyDatabaseId);
		for (int i = 0; entry != NULL && i < BLOCKER_COUNTS; i++)
		{
			values[i] = Int64GetDatum((int64) pg_atomic_read_u64(&entry->blocker_counts[i]));
			nulls[i] = false;
		}
		LWLockRelease(AmoroShared->lock);
	}
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), values, nulls)));
}
