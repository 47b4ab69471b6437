/*
 * blocker_answer.c
 *		Blockers as SQL sees them. See the header.
 */
#include "postgres.h"

#include "blocker/blocker_answer.h"
#include "blocker/blocker_argument.h"
#include "catalog/pg_type.h"
#include "error_codes.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(amoro_meta_get_blockers);

static ArrayType *
operations_array(BlockerOperationSet operations)
{
	Datum		elements[BLOCKER_OPERATIONS];
	int			count = 0;

	for (int i = 0; i < BLOCKER_OPERATIONS; i++)
	{
		if (operations & (1 << i))
			elements[count++] = CStringGetTextDatum(blocker_operation_names[i]);
	}
	return construct_array(elements, count, TEXTOID, -1, false, TYPALIGN_INT);
}

/* Milliseconds since 1970, as Amoro counts them. */
static int64
epoch_ms(TimestampTz moment)
{
	return (moment / 1000) + ((int64) POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * SECS_PER_DAY * 1000;
}

static void
push_number(JsonbParseState **state, const char *key, int64 number)
{
	JsonbValue	value = {.type = jbvString};
	char		text[32];

	value.val.string.val = unconstify(char *, key);
	value.val.string.len = strlen(key);
	pushJsonbValue(state, WJB_KEY, &value);
	value.val.string.len = snprintf(text, sizeof(text), INT64_FORMAT, number);
	value.val.string.val = pstrdup(text);
	pushJsonbValue(state, WJB_VALUE, &value);
}

/* The properties of the caller and the three of ours, which win: the last of equal keys stays. */
static Jsonb *
answered_properties(const BlockerRecord *record, TimestampTz expires_at)
{
	JsonbParseState *state = NULL;
	JsonbIterator *iterator = JsonbIteratorInit(&record->properties->root);
	JsonbIteratorToken token;
	JsonbValue	value;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	while ((token = JsonbIteratorNext(&iterator, &value, true)) != WJB_DONE)
	{
		if (token == WJB_KEY || token == WJB_VALUE)
			pushJsonbValue(&state, token, &value);
	}
	push_number(&state, "blocker.timeout", record->timeout_ms);
	push_number(&state, "create.time", epoch_ms(record->created_at));
	push_number(&state, "expiration.time", epoch_ms(expires_at));
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
}

static HeapTuple
blocker_tuple(TupleDesc descriptor, const BlockerHead *head, const BlockerRecord *record)
{
	TimestampTz expires_at = blocker_head_expiry(head, record->blocker_id);
	bool		nulls[11] = {[8] = !record->has_request_id};
	Datum		values[11] = {
		Int64GetDatum(record->blocker_id),
		CStringGetTextDatum(head->table.catalog_name),
		CStringGetTextDatum(head->table.database_name),
		CStringGetTextDatum(head->table.table_name),
		PointerGetDatum(operations_array(blocker_head_operations(head, record->blocker_id))),
		ObjectIdGetDatum(record->acquired_by),
		TimestampTzGetDatum(record->created_at),
		TimestampTzGetDatum(expires_at),
		UUIDPGetDatum(&record->request_id),
		Int64GetDatum(record->prev_blocker_id),
		JsonbPGetDatum(answered_properties(record, expires_at))
	};

	return heap_form_tuple(descriptor, values, nulls);
}

/* See the header. */
Datum
blocker_answer(FunctionCallInfo fcinfo, const BlockerHead *head, const BlockerRecord *record)
{
	TupleDesc	descriptor;

	if (get_call_result_type(fcinfo, NULL, &descriptor) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "the function does not return a row");
	return HeapTupleGetDatum(blocker_tuple(BlessTupleDesc(descriptor), head, record));
}

static void
append_holder(StringInfo text, const BlockerHead *head, int64 holder, TimestampTz expires_at)
{
	BlockerOperationSet operations = blocker_head_operations(head, holder);
	BlockerRecord record;
	char	   *role = blocker_record_read(holder, &record) ? GetUserNameFromId(record.acquired_by, true) : NULL;
	const char *separator = "";

	appendStringInfo(text, "%sBlocker " INT64_FORMAT " of role %s holds ", text->len > 0 ? " " : "", holder,
					 role ? quote_identifier(role) : "unknown");
	for (int i = 0; i < BLOCKER_OPERATIONS; i++)
	{
		if (!(operations & (1 << i)))
			continue;
		appendStringInfo(text, "%s%s", separator, blocker_operation_names[i]);
		separator = " and ";
	}
	appendStringInfo(text, " until %s.", timestamptz_to_str(expires_at));
}

/* See the header. */
void
blocker_raise_conflict(const BlockerHead *head, BlockerOperationSet operations, TimestampTz now)
{
	StringInfoData holders;
	int64		named = 0;

	initStringInfo(&holders);
	for (int i = 0; i < BLOCKER_OPERATIONS; i++)
	{
		int64		holder = head->holders[i];

		if (!(operations & (1 << i)) || holder == 0 || head->expires_at[i] <= now || holder == named)
			continue;
		append_holder(&holders, head, holder, head->expires_at[i]);
		named = holder;
	}
	ereport(ERROR,
			(errcode(ERRCODE_AMORO_BLOCKER_CONFLICT),
			 errmsg("table \"%s\".\"%s\".\"%s\" is blocked",
					head->table.catalog_name, head->table.database_name, head->table.table_name),
			 errdetail_internal("%s", holders.data),
			 errhint("SELECT * FROM get_blockers(%s, %s, %s)", quote_literal_cstr(head->table.catalog_name),
					 quote_literal_cstr(head->table.database_name), quote_literal_cstr(head->table.table_name))));
}

/* See src/schema/blocker.sql. */
Datum
amoro_meta_get_blockers(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	TableName	table = blocker_table_argument(fcinfo, 0);
	BlockerHead head;
	TimestampTz now;
	int64		seen = 0;

	InitMaterializedSRF(fcinfo, 0);
	if (blocker_head_read(&table, false, &head))
	{
		now = GetCurrentTimestamp();
		for (int i = 0; i < BLOCKER_OPERATIONS; i++)
		{
			BlockerRecord record;

			if (head.holders[i] == 0 || head.holders[i] == seen || head.expires_at[i] <= now ||
				!blocker_record_read(head.holders[i], &record))
				continue;
			seen = head.holders[i];
			tuplestore_puttuple(result->setResult, blocker_tuple(result->setDesc, &head, &record));
		}
	}
	return (Datum) 0;
}
