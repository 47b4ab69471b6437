/*
 * blocker_argument.c
 *		What the functions on blockers are called with. See the header.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "blocker/blocker_argument.h"
#include "catalog/pg_type.h"
#include "common/int.h"
#include "guc.h"
#include "json/json_place.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "object/definition_parts.h"
#include "object/object_name.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#define MAX_PROPERTIES_SIZE (64 * 1024)

static void
require_argument(FunctionCallInfo fcinfo, int number, const char *name)
{
	if (PG_ARGISNULL(number))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be null", name)));
}

static char *
name_argument(FunctionCallInfo fcinfo, int number, const char *name)
{
	char	   *value;
	const char *problem;

	require_argument(fcinfo, number, name);
	value = text_to_cstring(PG_GETARG_TEXT_PP(number));
	problem = object_name_problem(value);
	if (problem != NULL)
		object_name_refuse(name, problem);
	return value;
}

/* See the header. */
TableName
blocker_table_argument(FunctionCallInfo fcinfo, int number)
{
	TableName	table;

	table.catalog_name = name_argument(fcinfo, number, "catalog_name");
	table.database_name = name_argument(fcinfo, number + 1, "database_name");
	table.table_name = name_argument(fcinfo, number + 2, "table_name");
	return table;
}

static BlockerOperationSet
operation_from_text(const char *name)
{
	for (int i = 0; i < BLOCKER_OPERATIONS; i++)
	{
		if (strcmp(name, blocker_operation_names[i]) == 0)
			return 1 << i;
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unknown operation: %s", quote_literal_cstr(pnstrdup(name, pg_mbcliplen(name, strlen(name), 100)))),
			 errhint("The operations are OPTIMIZE and BATCH_WRITE.")));
	return 0;					/* keep compiler quiet */
}

/* See the header. */
BlockerOperationSet
blocker_operations_argument(FunctionCallInfo fcinfo, int number)
{
	ArrayType  *array;
	Datum	   *elements;
	bool	   *nulls;
	int			count;
	BlockerOperationSet operations = 0;

	require_argument(fcinfo, number, "operations");
	array = PG_GETARG_ARRAYTYPE_P(number);
	if (ARR_NDIM(array) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("operations is an array of arrays")));
	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls, &count);
	if (count == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("operations is empty"),
				 errhint("The operations are OPTIMIZE and BATCH_WRITE.")));
	for (int i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("an operation must not be null")));
		operations |= operation_from_text(TextDatumGetCString(elements[i]));
	}
	return operations;
}

/* See the header. */
BlockerOperationSet
blocker_operation_argument(FunctionCallInfo fcinfo, int number)
{
	require_argument(fcinfo, number, "operation");
	return operation_from_text(text_to_cstring(PG_GETARG_TEXT_PP(number)));
}

/* In microseconds, a month as 30 days; PG_INT64_MAX for what does not fit. */
static int64
interval_us(const Interval *interval)
{
	int64		days = (int64) interval->month * DAYS_PER_MONTH + interval->day;
	int64		result;

	if (pg_mul_s64_overflow(days, USECS_PER_DAY, &result) || pg_add_s64_overflow(result, interval->time, &result))
		return PG_INT64_MAX;
	return result;
}

/* See the header. */
int64
blocker_timeout_argument(FunctionCallInfo fcinfo, int number, int64 default_ms)
{
	int64		timeout_us;

	if (PG_ARGISNULL(number))
		return Min(default_ms, guc_max_blocker_timeout);
	timeout_us = interval_us(PG_GETARG_INTERVAL_P(number));
	if (timeout_us < 1000 || timeout_us / 1000 > guc_max_blocker_timeout)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("timeout is not between 1 ms and %d ms", guc_max_blocker_timeout),
				 errhint("The limit is the setting amoro_meta.max_blocker_timeout; a blocker that is needed longer is renewed.")));
	return timeout_us / 1000;
}

/* See the header. */
Jsonb *
blocker_properties_argument(FunctionCallInfo fcinfo, int number)
{
	Jsonb	   *properties;
	JsonPlace	document;

	require_argument(fcinfo, number, "properties");
	properties = PG_GETARG_JSONB_P(number);
	if (VARSIZE(properties) > MAX_PROPERTIES_SIZE)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("properties are larger than %d kB", MAX_PROPERTIES_SIZE / 1024)));
	if (JB_ROOT_IS_OBJECT(properties) && JB_ROOT_COUNT(properties) == 0)
		return properties;
	document = json_document(properties);
	(void) properties_read(&document);
	return properties;
}

/* See the header. */
int64
blocker_id_argument(FunctionCallInfo fcinfo, int number)
{
	require_argument(fcinfo, number, "blocker_id");
	return PG_GETARG_INT64(number);
}

/* See the header. */
void
blocker_require_writable(void)
{
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("cannot change blockers on a standby"),
				 errhint("Connect to the primary server.")));
	PreventCommandIfReadOnly("a change of blockers");
}
