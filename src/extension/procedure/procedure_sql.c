/*
 * procedure_sql.c
 *		Fixed SQL with typed parameters through SPI, for the steps of the procedures.
 *
 * Statements are constants of this library, never built from names or stored in
 * tables. Each is planned once in a backend.
 */
#include "postgres.h"

#include "nodes/parsenodes.h"
#include "procedure/procedure_sql.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

typedef struct PlannedStatement
{
	const char *sql;			/* key: the address of the constant */
	SPIPlanPtr	plan;
} PlannedStatement;

#define MAX_ARGUMENTS 16

static HTAB *planned_statements = NULL;

SqlArgument
sql_bigint(int64 value)
{
	return (SqlArgument) {INT8OID, Int64GetDatum(value), false};
}

SqlArgument
sql_optional_id(int64 value)
{
	return (SqlArgument) {INT8OID, Int64GetDatum(value), value == 0};
}

SqlArgument
sql_integer(int32 value)
{
	return (SqlArgument) {INT4OID, Int32GetDatum(value), false};
}

SqlArgument
sql_boolean(bool value)
{
	return (SqlArgument) {BOOLOID, BoolGetDatum(value), false};
}

SqlArgument
sql_text(const char *value)
{
	return (SqlArgument) {TEXTOID, value ? CStringGetTextDatum(value) : (Datum) 0, value == NULL};
}

SqlArgument
sql_jsonb(Jsonb *value)
{
	return (SqlArgument) {JSONBOID, value ? JsonbPGetDatum(value) : (Datum) 0, value == NULL};
}

SqlArgument
sql_timestamptz(TimestampTz value)
{
	return (SqlArgument) {TIMESTAMPTZOID, TimestampTzGetDatum(value), value == DT_NOBEGIN};
}

static SPIPlanPtr
plan_statement(const char *sql, int count, const SqlArgument *arguments)
{
	PlannedStatement *entry;
	bool		found;
	Oid			types[MAX_ARGUMENTS];

	if (planned_statements == NULL)
	{
		HASHCTL		control = {.keysize = sizeof(const char *), .entrysize = sizeof(PlannedStatement)};

		planned_statements = hash_create("amoro_meta statements", 64, &control, HASH_ELEM | HASH_BLOBS);
	}
	entry = hash_search(planned_statements, &sql, HASH_FIND, NULL);
	if (entry != NULL)
		return entry->plan;

	Assert(count <= MAX_ARGUMENTS);
	for (int i = 0; i < count; i++)
		types[i] = arguments[i].type;

	/* one plan for all parameters: they look rows up by their keys */
	SPIPlanPtr	plan = SPI_prepare_cursor(sql, count, types, CURSOR_OPT_GENERIC_PLAN);

	if (plan == NULL)
		elog(ERROR, "could not prepare \"%s\": %s", sql, SPI_result_code_string(SPI_result));
	SPI_keepplan(plan);
	entry = hash_search(planned_statements, &sql, HASH_ENTER, &found);
	entry->plan = plan;
	return plan;
}

static uint64
execute_statement(const char *sql, int expected, int count, const SqlArgument *arguments, Snapshot snapshot)
{
	SPIPlanPtr	plan = plan_statement(sql, count, arguments);
	Datum		values[MAX_ARGUMENTS];
	char		nulls[MAX_ARGUMENTS];
	int			result;

	for (int i = 0; i < count; i++)
	{
		values[i] = arguments[i].value;
		nulls[i] = arguments[i].is_null ? 'n' : ' ';
	}
	if (snapshot == InvalidSnapshot)
		result = SPI_execute_plan(plan, values, nulls, /* read_only= */ false, /* count= */ 0);
	else
		result = SPI_execute_snapshot(plan, values, nulls, snapshot, InvalidSnapshot, /* read_only= */ true,
									  /* fire_triggers= */ false, /* count= */ 0);
	if (result != expected)
		elog(ERROR, "unexpected result of \"%s\": %s", sql, SPI_result_code_string(result));
	return SPI_processed;
}

/*
 * procedure_sql runs one constant statement. See the header.
 */
uint64
procedure_sql(const char *sql, int expected, int count, const SqlArgument *arguments)
{
	return execute_statement(sql, expected, count, arguments, InvalidSnapshot);
}

/*
 * procedure_sql_latest reads with the newest snapshot. See the header.
 */
uint64
procedure_sql_latest(const char *sql, int count, const SqlArgument *arguments)
{
	return execute_statement(sql, SPI_OK_SELECT, count, arguments, GetLatestSnapshot());
}

/*
 * procedure_sql_along_index leaves the planner no choice. See the header.
 */
uint64
procedure_sql_along_index(const char *sql, int expected, int count, const SqlArgument *arguments)
{
	/* what is forbidden costs so much that the JIT compiler would take it for a large query */
	static const char *const forbidden[] = {"enable_seqscan", "enable_bitmapscan", "enable_sort", "jit"};
	int			level = NewGUCNestLevel();
	uint64		processed;

	for (int i = 0; i < lengthof(forbidden); i++)
		(void) set_config_option(forbidden[i], "off", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	processed = procedure_sql(sql, expected, count, arguments);
	AtEOXact_GUC(true, level);
	return processed;
}

static Datum
result_datum(uint64 row, int column, bool *is_null)
{
	if (row >= SPI_processed)
		elog(ERROR, "the result has no row " UINT64_FORMAT, row);
	return SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column, is_null);
}

bool
result_is_null(uint64 row, int column)
{
	bool		is_null;

	(void) result_datum(row, column, &is_null);
	return is_null;
}

int64
result_bigint(uint64 row, int column)
{
	bool		is_null;
	Datum		value = result_datum(row, column, &is_null);

	return is_null ? 0 : DatumGetInt64(value);
}

bool
result_boolean(uint64 row, int column)
{
	bool		is_null;
	Datum		value = result_datum(row, column, &is_null);

	return !is_null && DatumGetBool(value);
}

TimestampTz
result_timestamptz(uint64 row, int column)
{
	bool		is_null;
	Datum		value = result_datum(row, column, &is_null);

	return is_null ? DT_NOBEGIN : DatumGetTimestampTz(value);
}

char *
result_text(uint64 row, int column)
{
	bool		is_null;
	Datum		value = result_datum(row, column, &is_null);

	return is_null ? NULL : TextDatumGetCString(value);
}

Jsonb *
result_jsonb(uint64 row, int column)
{
	bool		is_null;
	Datum		value = result_datum(row, column, &is_null);

	return is_null ? NULL : DatumGetJsonbPCopy(value);
}
