/*
 * device_ttl.c
 *		The time to live that is set for a device: asked for each device that nodes load, so without SQL.
 */
#include "postgres.h"

#include "device_path.h"
#include "fmgr.h"
#include "funcapi.h"
#include "own_table.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(amoro_meta_device_ttl_rule);
PG_FUNCTION_INFO_V1(amoro_meta_device_ttl_ms);

/* That a database has no rules at all, for as long as a statement goes on: most databases have none. */
typedef struct NoRules
{
	int64		database_id;
	TransactionId xmin;
	TransactionId xmax;
	uint32		xcnt;
	int32		subxcnt;
	CommandId	curcid;
} NoRules;

/* The first row of the database, with that pattern if it is not NULL; in the snapshot of the statement; NULL: none. */
static HeapTuple
find_rule(OwnTable *rules, int64 database_id, const char *pattern)
{
	OwnKey		keys[] = {
		OWN_KEY_BIGINT("database_id", database_id),
		OWN_KEY_TEXT("path_pattern", pattern != NULL ? pattern : "")
	};
	SysScanDesc scan = own_table_scan(rules, GetActiveSnapshot(), pattern != NULL ? 2 : 1, keys);
	HeapTuple	row = systable_getnext_ordered(scan, ForwardScanDirection);

	if (row != NULL)
		row = heap_copytuple(row);
	systable_endscan_ordered(scan);
	return row;
}

/*
 * For the path itself, else for what stands before its last dot with ** behind, and so on. A dot within backticks
 * gives what is no pattern, so nothing is set on it.
 */
static HeapTuple
find_longest_match(OwnTable *rules, int64 database_id, const char *path)
{
	HeapTuple	row = find_rule(rules, database_id, path);
	char	   *prefix = pstrdup(path);
	char	   *dot;

	while (row == NULL && (dot = strrchr(prefix, '.')) != NULL)
	{
		*dot = '\0';
		row = find_rule(rules, database_id, psprintf("%s.**", prefix));
	}
	return row;
}

/* The rule that counts for a path; NULL: none. *any: there are rules in the database. */
static HeapTuple
match_rule(OwnTable *rules, int64 database_id, text *path, bool *any)
{
	HeapTuple	row = find_rule(rules, database_id, NULL);

	*any = row != NULL;
	return *any ? find_longest_match(rules, database_id, text_to_cstring(path)) : NULL;
}

/*
 * amoro_meta.device_ttl_rule(database_id, device_path, OUT path_pattern, OUT ttl_ms); nulls: nothing is set.
 */
Datum
amoro_meta_device_ttl_rule(PG_FUNCTION_ARGS)
{
	OwnTable	rules = own_table_open("device_ttl", "device_ttl_pkey", AccessShareLock);
	Datum		values[2] = {0};
	bool		nulls[2] = {true, true};
	bool		any;
	HeapTuple	row = match_rule(&rules, PG_GETARG_INT64(0), PG_GETARG_TEXT_PP(1), &any);
	TupleDesc	descriptor;

	if (row != NULL)
	{
		values[0] = own_column_or_null(&rules, row, "path_pattern", &nulls[0]);
		values[1] = own_column_or_null(&rules, row, "ttl_ms", &nulls[1]);
	}
	own_table_close(&rules, AccessShareLock);
	if (get_call_result_type(fcinfo, NULL, &descriptor) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "device_ttl_rule does not return a row");
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), values, nulls)));
}

/*
 * Whether it is known that a database has no rules in this snapshot. Of two snapshots with the same bounds the later one
 * has as many transactions in progress only if none of them has ended since: they see the same.
 */
static bool
has_no_rules(const NoRules *known, int64 database_id, Snapshot snapshot)
{
	return known != NULL && known->database_id == database_id && known->xmin == snapshot->xmin && known->xmax == snapshot->xmax &&
		known->xcnt == snapshot->xcnt && known->subxcnt == snapshot->subxcnt && known->curcid == snapshot->curcid;
}

static void
remember_no_rules(FmgrInfo *function, int64 database_id, Snapshot snapshot)
{
	if (function->fn_extra == NULL)
		function->fn_extra = MemoryContextAlloc(function->fn_mcxt, sizeof(NoRules));
	*(NoRules *) function->fn_extra = (NoRules) {
		database_id, snapshot->xmin, snapshot->xmax, snapshot->xcnt, snapshot->subxcnt, snapshot->curcid
	};
}

/*
 * amoro_meta.device_ttl_ms(database_id, device_path): ttl_ms of its rule; null: nothing is set.
 */
Datum
amoro_meta_device_ttl_ms(PG_FUNCTION_ARGS)
{
	int64		database_id = PG_GETARG_INT64(0);
	Snapshot	snapshot = GetActiveSnapshot();
	Datum		ttl_ms = (Datum) 0;
	bool		is_null = true;
	bool		any;
	OwnTable	rules;
	HeapTuple	row;

	if (has_no_rules(fcinfo->flinfo->fn_extra, database_id, snapshot))
		PG_RETURN_NULL();
	rules = own_table_open("device_ttl", "device_ttl_pkey", AccessShareLock);
	row = match_rule(&rules, database_id, PG_GETARG_TEXT_PP(1), &any);
	if (row != NULL)
		ttl_ms = own_column_or_null(&rules, row, "ttl_ms", &is_null);
	own_table_close(&rules, AccessShareLock);
	if (!any)
		remember_no_rules(fcinfo->flinfo, database_id, snapshot);
	if (is_null)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(ttl_ms);
}
