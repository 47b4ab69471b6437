/*
 * term.c
 *		The reign of a coordinator.
 *
 * A term is timeline << 32 | boot counter. The first coordinator of a server start in
 * a database begins it; one that starts later in the same server start goes on with
 * it, because shared memory has lived on. Whatever a grant relies on is committed
 * before it is published: the term, and the longest lease. The commit waits for a
 * synchronous standby if there is one, since it may be the next to reign.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "error_codes.h"
#include "executor/spi.h"
#include "guc.h"
#include "lease/lease.h"
#include "lease/term.h"
#include "lease/tick.h"
#include "miscadmin.h"
#include "node/node.h"
#include "nodes/makefuncs.h"
#include "shmem.h"
#include "utils/builtins.h"
#include "worker/coordinator.h"
#include "worker/coordinator_transaction.h"
#include "worker/stop_point.h"

/* What the transaction that begins a term finds and decides. */
typedef struct TermWork
{
	MemoryContext context;		/* outlives the transaction */
	bool		adopted;
	bool		first;			/* the term is the first in this extension */
	int64		term;
	LeaseSettings settings;
	int64		longest_owed_us;
	int64		version;
	RegisteredNode *nodes;
	int			node_count;
} TermWork;

/* The rows of amoro_meta.identity and amoro_meta.coordinator as they are read. */
typedef struct TermRows
{
	bool		has_identity;
	int64		system_identifier;
	Oid			database;
	bool		has_coordinator;
	int64		term;
	int32		boot_counter;
	int64		longest_lease_us;
	int64		longest_owed_us;
	int64		timeline_offset;
	Oid			extension;		/* in which the term was begun */
} TermRows;

static int64 my_term = 0;

/* See coordinator.h. */
int64
coordinator_term(void)
{
	return my_term;
}

/* See term.h. */
bool
term_is_lost(void)
{
	return my_term == 0;
}

static int64
column_int64(int column, bool *isnull)
{
	return DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, column, isnull));
}

static void
read_rows(TermRows *rows)
{
	bool		isnull;

	memset(rows, 0, sizeof(*rows));
	SPI_execute("SELECT i.system_identifier, i.database_oid::bigint, c.term, c.boot_counter::bigint,"
				" c.longest_lease_us, c.longest_owed_us, i.timeline_offset::bigint, c.extension_oid::bigint"
				" FROM (VALUES (1)) one LEFT JOIN amoro_meta.identity i ON true LEFT JOIN amoro_meta.coordinator c ON true",
				/* read_only= */ false, /* count= */ 1);
	rows->system_identifier = column_int64(1, &isnull);
	rows->has_identity = !isnull;
	rows->database = (Oid) column_int64(2, &isnull);
	rows->term = column_int64(3, &isnull);
	rows->has_coordinator = !isnull;
	rows->boot_counter = (int32) column_int64(4, &isnull);
	rows->longest_lease_us = column_int64(5, &isnull);
	rows->longest_owed_us = column_int64(6, &isnull);
	rows->timeline_offset = column_int64(7, &isnull);
	if (isnull)
		rows->timeline_offset = 0;
	rows->extension = (Oid) column_int64(8, &isnull);
}

static bool
is_ours(const TermRows *rows)
{
	return (uint64) rows->system_identifier == GetSystemIdentifier() && rows->database == MyDatabaseId;
}

static bool
same_settings(const LeaseSettings *a, const LeaseSettings *b)
{
	return a->lease_us == b->lease_us && a->owed_us == b->owed_us &&
		a->max_clock_drift_ppm == b->max_clock_drift_ppm &&
		a->heartbeat_interval_ms == b->heartbeat_interval_ms && a->ack_timeout_us == b->ack_timeout_us &&
		a->tick_us == b->tick_us && a->grace_us == b->grace_us;
}

/* The settings of the configuration, if they fit together; says once for each combination what does not. */
static bool
read_settings(LeaseSettings *settings)
{
	static LeaseSettings refused;
	const char *problem = NULL;
	const char *detail = NULL;

	if (lease_settings_check(settings, &problem, &detail))
	{
		memset(&refused, 0, sizeof(refused));
		return true;
	}
	if (!same_settings(settings, &refused))
		ereport(WARNING,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("amoro_meta does not use its lease settings: %s", problem),
				 errdetail_internal("%s", detail),
				 errhint("Correct the settings in the configuration file, then SELECT pg_reload_conf();")));
	refused = *settings;
	return false;
}

/* The entry of this database; AmoroShared->lock is held. The coordinator has announced itself, so there is one. */
static DatabaseEntry *
own_entry_locked(void)
{
	DatabaseEntry *entry = database_entry_find(MyDatabaseId);

	if (entry == NULL)
		elog(ERROR, "amoro_meta has no entry for database %u", MyDatabaseId);
	return entry;
}

/* Whether the data was restored from a dump since its term began: into another extension than that one. */
static bool
data_replaced(const TermRows *rows)
{
	return rows->has_coordinator && rows->extension != coordinator_extension();
}

static int64
next_term(const TermRows *rows, int32 *boot_counter)
{
	int64		highest;
	/* never below what the row speaks of: a restored dump may come from a server on a later timeline */
	int64		timeline = Max((int64) GetWALInsertionTimeLine() + rows->timeline_offset, rows->term >> 32);

	LWLockAcquire(AmoroShared->lock, LW_SHARED);
	highest = own_entry_locked()->highest_term;
	LWLockRelease(AmoroShared->lock);

	/* Dropped and created again, or restored from a dump, the row may be behind what this server start already used. */
	*boot_counter = rows->has_coordinator ? rows->boot_counter : 0;
	if (highest >> 32 == timeline)
		*boot_counter = Max(*boot_counter, (int32) (highest & PG_INT32_MAX));
	if (*boot_counter == PG_INT32_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("there is no term after the %dth of a timeline", PG_INT32_MAX)));
	*boot_counter += 1;
	return timeline << 32 | *boot_counter;
}

static void
read_version(TermWork *work)
{
	bool		isnull;

	SPI_execute("SELECT version FROM amoro_meta.metadata_version", false, 1);
	work->version = SPI_processed == 1 ? column_int64(1, &isnull) : 0;
}

static void
write_term(TermWork *work, const TermRows *rows, int32 boot_counter)
{
	/* While a dump is being restored and may yet turn out to be ours, the row goes on to say that it is from one. */
	Oid			extension = work->first && rows->has_coordinator ? rows->extension : coordinator_extension();
	Oid			types[5] = {INT8OID, INT4OID, INT8OID, INT8OID, OIDOID};
	Datum		values[5] = {
		Int64GetDatum(work->term), Int32GetDatum(boot_counter),
		Int64GetDatum(Max(rows->longest_lease_us, work->settings.lease_us)),
		Int64GetDatum(work->longest_owed_us), ObjectIdGetDatum(extension)
	};

	/* The trigger replace_singleton makes this row take the place of the old one. */
	SPI_execute_with_args("INSERT INTO amoro_meta.coordinator"
						  " (term, boot_counter, longest_lease_us, longest_owed_us, extension_oid, term_started_at)"
						  " VALUES ($1, $2, $3, $4, $5, pg_catalog.clock_timestamp())",
						  5, types, values, NULL, false, 0);
}

static void
write_identity(TermRows *rows)
{
	Oid			types[3] = {INT8OID, OIDOID, INT4OID};
	Datum		values[3] = {Int64GetDatum((int64) GetSystemIdentifier()), ObjectIdGetDatum(MyDatabaseId)};

	rows->timeline_offset = Max((rows->term >> 32) - (int64) GetWALInsertionTimeLine(), 0);
	values[2] = Int32GetDatum((int32) rows->timeline_offset);
	SPI_execute_with_args("INSERT INTO amoro_meta.identity"
						  " (system_identifier, database_oid, database_name, timeline_offset, adopted_at)"
						  " VALUES ($1, $2, pg_catalog.current_database(), $3, pg_catalog.clock_timestamp())",
						  3, types, values, NULL, false, 0);
}

/*
 * Versions are given anew after those of a dump: a node that has applied some from after the dump must not take them
 * for the same. So the data of a dump goes on as on a later timeline, on which every node forgets what it has.
 */
static void
begin_history(TermRows *rows)
{
	Oid			types[1] = {INT4OID};
	Datum		values[1];
	int64		newest;

	LWLockAcquire(AmoroShared->lock, LW_SHARED);
	newest = Max(rows->term, own_entry_locked()->highest_term) >> 32;
	LWLockRelease(AmoroShared->lock);
	rows->timeline_offset = newest + 1 - (int64) GetWALInsertionTimeLine();
	values[0] = Int32GetDatum((int32) rows->timeline_offset);
	SPI_execute_with_args("UPDATE amoro_meta.identity SET timeline_offset = $1", 1, types, values, NULL, false, 0);
}

/* Reads whether the data is ours, and the term of this server start if it still is the one in the row. */
static void
read_term(void *argument)
{
	TermWork   *work = argument;
	TermRows	rows;

	read_rows(&rows);
	work->adopted = !rows.has_identity || is_ours(&rows);
	LWLockAcquire(AmoroShared->lock, LW_SHARED);
	work->term = own_entry_locked()->term;
	LWLockRelease(AmoroShared->lock);
	if (!rows.has_identity || !work->adopted || data_replaced(&rows) || work->term != rows.term)
		work->term = 0;
}

static void
begin_term(void *argument)
{
	TermWork   *work = argument;
	TermRows	rows;
	int32		boot_counter;

	/* Against a dump that is being restored at this moment: what was read before the lock is read again. */
	SPI_execute("LOCK TABLE amoro_meta.coordinator, amoro_meta.identity IN SHARE ROW EXCLUSIVE MODE", false, 0);
	read_rows(&rows);
	work->adopted = !rows.has_identity || is_ours(&rows);
	if (!work->adopted)
		return;
	work->first = !rows.has_identity;
	if (!rows.has_identity)
		write_identity(&rows);
	else if (data_replaced(&rows))
		begin_history(&rows);
	work->term = next_term(&rows, &boot_counter);
	if (!read_settings(&work->settings))
		memset(&work->settings, 0, sizeof(work->settings));
	work->longest_owed_us = Max(rows.longest_owed_us, work->settings.grace_us);
	write_term(work, &rows, boot_counter);
	work->nodes = node_registry_read(rows.has_coordinator ? rows.term : 0, work->term, work->context, &work->node_count);
	read_version(work);
}

static void
run(CoordinatorWork work, void *argument)
{
	ErrorData  *error = coordinator_transaction(work, argument);

	if (error != NULL)
		ReThrowError(error);
}

/* See term.h. */
bool
term_establish(void)
{
	TermWork	work = {.context = CurrentMemoryContext};

	run(read_term, &work);
	if (work.term != 0)
	{
		my_term = work.term;
		return true;
	}
	/* Without a term no lease is granted, so those that are out run out. */
	my_term = 0;
	lease_end_term(MyDatabaseId);
	if (work.adopted)
		run(begin_term, &work);
	if (!work.adopted)
		return false;
	stop_point("begin_term");
	lease_begin_term(MyDatabaseId, work.term, work.settings, work.longest_owed_us, work.version,
					 work.nodes, work.node_count);
	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	own_entry_locked()->highest_term = work.term;
	if (work.first)
		own_entry_locked()->first_term = work.term;
	LWLockRelease(AmoroShared->lock);
	my_term = work.term;
	tick_start_over();
	return true;
}

/* Always a write, so that the commit waits for the standby even if an interrupted attempt has left the values behind. */
static void
write_longest_lease(void *argument)
{
	LeaseSettings *settings = argument;
	Oid			types[2] = {INT8OID, INT8OID};
	Datum		values[2] = {Int64GetDatum(settings->lease_us), Int64GetDatum(settings->grace_us)};

	coordinator_check_term();
	SPI_execute_with_args("UPDATE amoro_meta.coordinator SET"
						  " longest_lease_us = GREATEST(longest_lease_us, $1), longest_owed_us = GREATEST(longest_owed_us, $2)",
						  2, types, values, NULL, false, 0);
}

/* See term.h. */
void
term_apply_settings(void)
{
	LeaseSettings wanted;
	LeaseSettings current;

	if (!read_settings(&wanted))
		return;
	LWLockAcquire(AmoroShared->lock, LW_SHARED);
	current = own_entry_locked()->settings;
	LWLockRelease(AmoroShared->lock);
	if (same_settings(&wanted, &current))
		return;
	run(write_longest_lease, &wanted);
	lease_publish_settings(MyDatabaseId, wanted);
	tick_start_over();
}

/*
 * See coordinator.h. Locks on the tables, which cost neither WAL nor a transaction id: whoever writes one of the rows
 * takes one first that conflicts (begin_term, the trigger of a dump that is restored, adopt_database), and so waits for
 * the end of this transaction. All take them in the order in which a dump is restored.
 */
void
coordinator_check_term(void)
{
	static SPIPlanPtr plan = NULL;
	TermRows	rows = {0};
	bool		isnull;

	(void) RangeVarGetRelid(makeRangeVar("amoro_meta", "coordinator", -1), RowExclusiveLock, false);
	(void) RangeVarGetRelid(makeRangeVar("amoro_meta", "identity", -1), RowExclusiveLock, false);
	if (plan == NULL)
	{
		plan = SPI_prepare("SELECT c.term, i.system_identifier, i.database_oid::bigint, c.extension_oid::bigint"
						   " FROM amoro_meta.coordinator c, amoro_meta.identity i", 0, NULL);
		if (plan == NULL || SPI_keepplan(plan) != 0)
			elog(ERROR, "could not prepare the check of the term: %s", SPI_result_code_string(SPI_result));
	}
	SPI_execute_plan(plan, NULL, NULL, /* read_only= */ false, /* count= */ 1);
	if (SPI_processed == 1)
	{
		rows.term = column_int64(1, &isnull);
		rows.system_identifier = column_int64(2, &isnull);
		rows.database = (Oid) column_int64(3, &isnull);
		rows.extension = (Oid) column_int64(4, &isnull);
	}
	if (my_term == 0 || rows.term != my_term || rows.extension != coordinator_extension() || !is_ours(&rows))
	{
		my_term = 0;
		ereport(ERROR,
				(errcode(ERRCODE_AMORO_STALE_TERM),
				 errmsg("the term of this coordinator is over"),
				 errdetail("Another term was begun, or the data was replaced by that of a dump.")));
	}
}
