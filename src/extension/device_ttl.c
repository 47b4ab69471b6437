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

/*
 * amoro_meta.device_ttl_rule(database_id, device_path, OUT path_pattern, OUT ttl_ms); nulls: nothing is set.
 */
Datum
amoro_meta_device_ttl_rule(PG_FUNCTION_ARGS)
{
	int64		database_id = PG_GETARG_INT64(0);
	OwnTable	rules = own_table_open("device_ttl", "device_ttl_pkey", AccessShareLock);
	HeapTuple	row = find_rule(&rules, database_id, NULL);
	Datum		values[2] = {0};
	bool		nulls[2] = {true, true};
	TupleDesc	descriptor;

	/* most databases have none */
	if (row != NULL)
		row = find_longest_match(&rules, database_id, text_to_cstring(PG_GETARG_TEXT_PP(1)));
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
