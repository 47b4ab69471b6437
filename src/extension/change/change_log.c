/*
 * change_log.c
 *		The metadata log as SQL sees it: what a node reads of it, and one way to append.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "change/change.h"
#include "error_codes.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(amoro_meta_metadata_changes);
PG_FUNCTION_INFO_V1(amoro_meta_append_change);

#define MOST_ROWS 100000
#define COLUMN_COUNT 9
#define CHANGE_COLUMNS \
	"c.version, c.ordinal, c.object_kind, c.operation, c.catalog_name, c.database_name, c.table_name, c.object_id, c.detail"

/* Every row starts with the counter, so that log and counter are of one snapshot; the columns of the change follow. */
static const char *const read_statement =
	"SELECT v.version, v.pruned_version, " CHANGE_COLUMNS
	" FROM amoro_meta.metadata_version v LEFT JOIN LATERAL"
	" (SELECT * FROM amoro_meta.change WHERE version > $1 ORDER BY version, ordinal LIMIT $2) c ON true"
	" ORDER BY c.version, c.ordinal";
/* The whole of one version, in the same shape. */
static const char *const read_version_statement =
	"SELECT v.version, v.pruned_version, " CHANGE_COLUMNS
	" FROM amoro_meta.metadata_version v, amoro_meta.change c WHERE c.version = $1 AND $2 > 0 ORDER BY c.ordinal";

/* Runs one of them in the snapshot of the caller's statement. */
static void
read_log(SPIPlanPtr *plan, const char *statement, int64 version, int64 limit)
{
	Oid			types[] = {INT8OID, INT8OID};
	Datum		values[] = {Int64GetDatum(version), Int64GetDatum(limit)};

	if (*plan == NULL)
	{
		SPIPlanPtr	prepared = SPI_prepare(statement, 2, types);

		if (prepared == NULL || SPI_keepplan(prepared) != 0)
			elog(ERROR, "could not prepare to read the metadata log: %s", SPI_result_code_string(SPI_result));
		*plan = prepared;
	}
	if (SPI_execute_plan(*plan, values, NULL, /* read_only= */ true, /* count= */ 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read the metadata log");
}

static int64
number_at(uint64 row, int column, bool *isnull)
{
	return DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column, isnull));
}

/* Raises AM006 unless the log reaches back, and forward, to the version. */
static void
require_history(int64 after_version)
{
	bool		isnull;
	int64		newest;
	int64		pruned;

	if (SPI_processed == 0)
		elog(ERROR, "amoro_meta.metadata_version does not have one row");
	newest = number_at(0, 1, &isnull);
	pruned = number_at(0, 2, &isnull);
	if (after_version < pruned || after_version > newest)
		ereport(ERROR,
				(errcode(ERRCODE_AMORO_HISTORY_PRUNED),
				 errmsg("there is no history from version " INT64_FORMAT " on", after_version),
				 errdetail("The changes after version " INT64_FORMAT " up to version " INT64_FORMAT " are kept.", pruned, newest),
				 errhint("Load everything anew: SELECT * FROM metadata_snapshot('table');")));
}

/* How many of the rows are whole versions: all, unless there are more than were asked for. */
static uint64
whole_rows(int64 max_rows)
{
	uint64		count = SPI_processed;
	bool		isnull;
	int64		torn;

	if (count <= max_rows)
		return count;
	torn = number_at(count - 1, 3, &isnull);
	while (count > 0 && number_at(count - 1, 3, &isnull) == torn)
		count--;
	return count;
}

static void
put_rows(ReturnSetInfo *result, uint64 count)
{
	Datum		values[COLUMN_COUNT];
	bool		nulls[COLUMN_COUNT];

	for (uint64 row = 0; row < count; row++)
	{
		for (int i = 0; i < COLUMN_COUNT; i++)
			values[i] = SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, i + 3, &nulls[i]);
		/* the counter without a change */
		if (!nulls[0])
			tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
}

/*
 * amoro_meta_metadata_changes(after_version bigint, max_rows integer) returns setof record: the changes after a
 * version, whole versions only, about max_rows rows, at least one version if there is any. Errors: AM006, 22004, 22023,
 * 25006 on a standby.
 */
Datum
amoro_meta_metadata_changes(PG_FUNCTION_ARGS)
{
	static SPIPlanPtr read_plan = NULL;
	static SPIPlanPtr read_version_plan = NULL;
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	int64		after_version;
	int64		max_rows;
	uint64		count;

	metadata_require_primary();
	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("after_version and max_rows must not be null")));
	after_version = PG_GETARG_INT64(0);
	max_rows = PG_GETARG_INT32(1);
	if (max_rows < 1 || max_rows > MOST_ROWS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max_rows must be between 1 and %d", MOST_ROWS),
				 errdetail("It is %d.", (int) max_rows)));

	InitMaterializedSRF(fcinfo, 0);
	SPI_connect();
	read_log(&read_plan, read_statement, after_version, max_rows + 1);
	require_history(after_version);
	count = whole_rows(max_rows);
	if (count == 0)
	{
		bool		isnull;

		read_log(&read_version_plan, read_version_statement, number_at(0, 3, &isnull), 1);
		count = SPI_processed;
	}
	put_rows(result, count);
	SPI_finish();
	return (Datum) 0;
}

static char *
optional_argument(FunctionCallInfo fcinfo, int number)
{
	return PG_ARGISNULL(number) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(number));
}

/*
 * amoro_meta_append_change(object_kind text, operation text, catalog_name text, database_name text, table_name text,
 * object_id bigint) returns bigint: change_append for what is written in SQL; the version. Errors: see change_append.
 */
Datum
amoro_meta_append_change(PG_FUNCTION_ARGS)
{
	MetadataChange change = {0};
	int64		version;

	change.object_kind = optional_argument(fcinfo, 0);
	change.operation = optional_argument(fcinfo, 1);
	change.catalog_name = optional_argument(fcinfo, 2);
	change.database_name = optional_argument(fcinfo, 3);
	change.table_name = optional_argument(fcinfo, 4);
	change.object_id = PG_ARGISNULL(5) ? 0 : PG_GETARG_INT64(5);
	SPI_connect();
	version = change_append(&change, 1);
	SPI_finish();
	PG_RETURN_INT64(version);
}
