/*
 * coordinator_status.c
 *		The coordinators of all databases as SQL sees them: amoro_stat_coordinator.
 */
#include "postgres.h"

#include "blocker/blocker_count.h"
#include "compat.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "shmem.h"
#include "task/task_activity.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "worker/sweep.h"

#define STATUS_COLUMNS 26

static const char *
state_name(CoordinatorState state)
{
	switch (state)
	{
		case COORDINATOR_NONE:
			return "none";
		case COORDINATOR_STARTING:
			return "starting";
		case COORDINATOR_RUNNING:
			return "running";
		case COORDINATOR_BACKOFF:
			return "backoff";
		case COORDINATOR_NOT_ADOPTED:
			return "not_adopted";
		case COORDINATOR_HELD:
			return "held";
		case COORDINATOR_ABSENT:
			return "absent";
		case COORDINATOR_OTHER_VERSION:
			return "other_version";
	}
	return "unknown";
}

/* A column whose zero means that there is nothing to show. */
static Datum
nonzero(int64 value, bool *isnull)
{
	*isnull = value == 0;
	return Int64GetDatum(value);
}

static Datum
nonempty(const char *value, bool *isnull)
{
	*isnull = value[0] == '\0';
	return CStringGetTextDatum(value);
}

static void
put_status(ReturnSetInfo *result, const DatabaseEntry *entry)
{
	Datum		values[STATUS_COLUMNS];
	bool		nulls[STATUS_COLUMNS] = {0};
	int			i = 0;

	values[i++] = ObjectIdGetDatum(entry->database);
	nulls[i] = entry->coordinator.pid == 0;
	values[i++] = Int32GetDatum(entry->coordinator.pid);
	values[i++] = CStringGetTextDatum(state_name(entry->state));
	values[i] = nonzero(entry->term, &nulls[i]);
	i++;
	values[i] = nonzero(entry->started_at, &nulls[i]);
	i++;
	values[i] = nonzero(entry->last_cycle_at, &nulls[i]);
	i++;
	values[i++] = Int64GetDatum(entry->starts);
	values[i++] = Int64GetDatum(entry->cycles);
	values[i++] = Int64GetDatum(entry->steps);
	values[i++] = Int64GetDatum(entry->errors);
	values[i++] = Int32GetDatum(entry->consecutive_failures);
	values[i] = nonempty(entry->last_error_code == 0 ? "" : unpack_sql_state(entry->last_error_code), &nulls[i]);
	i++;
	values[i] = nonempty(entry->last_error, &nulls[i]);
	i++;
	values[i] = nonzero(entry->backoff_until, &nulls[i]);
	i++;
	values[i] = nonempty(entry->stopped_at, &nulls[i]);
	i++;
	values[i] = nonzero(entry->settings.lease_us / 1000, &nulls[i]);
	i++;
	values[i] = nonzero(entry->settings.owed_us / 1000, &nulls[i]);
	i++;
	values[i++] = Int32GetDatum(entry->settings.max_clock_drift_ppm);
	values[i++] = Int32GetDatum(entry->settings.heartbeat_interval_ms);
	values[i++] = Int64GetDatum(entry->settings.ack_timeout_us / 1000);
	values[i] = nonzero(entry->settings.tick_us / 1000, &nulls[i]);
	i++;
	values[i] = nonzero(entry->last_tick_at, &nulls[i]);
	i++;
	values[i] = nonzero(entry->tick_pending_since, &nulls[i]);
	i++;
	values[i++] = Int64GetDatum(entry->published_version);
	values[i] = nonzero(entry->awaited_version, &nulls[i]);
	i++;
	values[i] = nonzero(entry->stats_reset, &nulls[i]);
	i++;
	Assert(i == STATUS_COLUMNS);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

PG_FUNCTION_INFO_V1(amoro_meta_coordinators);
PG_FUNCTION_INFO_V1(amoro_meta_stat_reset);

/* One row for every database that has an entry; none when the library is not preloaded. */
Datum
amoro_meta_coordinators(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; AmoroShared != NULL && i < AmoroShared->max_databases; i++)
	{
		DatabaseEntry entry;

		/* One at a time: the lock is everybody's, and making a row allocates. */
		LWLockAcquire(AmoroShared->lock, LW_SHARED);
		memcpy(&entry, &AmoroDatabases[i], sizeof(entry));
		LWLockRelease(AmoroShared->lock);
		if (OidIsValid(entry.database))
			put_status(result, &entry);
	}
	return (Datum) 0;
}

/* Sets the counters and last errors of this database to nothing: those of its coordinator, its sweeps, blockers and tasks. */
Datum
amoro_meta_stat_reset(PG_FUNCTION_ARGS)
{
	DatabaseEntry *entry;

	if (AmoroShared == NULL)
		PG_RETURN_VOID();
	task_count_reset();
	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	entry = database_entry_find(MyDatabaseId);
	if (entry != NULL)
	{
		entry->starts = entry->cycles = entry->steps = entry->errors = 0;
		entry->last_error_code = 0;
		entry->last_error[0] = '\0';
		sweep_reset_locked(entry);
		blocker_count_reset_locked(entry);
		entry->stats_reset = GetCurrentTimestamp();
	}
	LWLockRelease(AmoroShared->lock);
	PG_RETURN_VOID();
}
