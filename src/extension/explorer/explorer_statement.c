/*
 * explorer_statement.c
 *		Statements of the explorer, with their plans kept, and what they return.
 */
#include "explorer/explorer_statement.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "wire_text.h"

/* See explorer_statement.h. */
void
statement_run(Statement *statement, Datum *values, const char *nulls)
{
	int			result;

	if (statement->plan == NULL)
	{
		SPIPlanPtr	plan = SPI_prepare(statement->text, statement->count, statement->types);

		if (plan == NULL || SPI_keepplan(plan) != 0)
			elog(ERROR, "could not prepare \"%s\": %s", statement->text, SPI_result_code_string(SPI_result));
		statement->plan = plan;
	}
	result = SPI_execute_plan(statement->plan, values, nulls, /* read_only= */ false, /* count= */ 0);
	if (result < 0)
		elog(ERROR, "could not run \"%s\": %s", statement->text, SPI_result_code_string(result));
}

/* See explorer_statement.h. */
Datum
statement_column(uint64 row, int number, bool *isnull)
{
	return SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, number, isnull);
}

/* See explorer_statement.h. */
int64
statement_int64(int number)
{
	bool		isnull;
	Datum		value = statement_column(0, number, &isnull);

	return isnull ? 0 : DatumGetInt64(value);
}

/* See explorer_statement.h. */
bool
statement_bool(uint64 row, int number)
{
	bool		isnull;
	Datum		value = statement_column(row, number, &isnull);

	return !isnull && DatumGetBool(value);
}

/* See explorer_statement.h. */
char *
statement_text(uint64 row, int number, MemoryContext context)
{
	char	   *text = SPI_getvalue(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, number);

	return text == NULL ? NULL : MemoryContextStrdup(context, text);
}

/* See explorer_statement.h. */
char *
statement_text_to_send(uint64 row, int number, MemoryContext context)
{
	char	   *text = SPI_getvalue(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, number);

	return text == NULL ? NULL : wire_text_to_send(text, context);
}

/* See explorer_statement.h. */
Datum
statement_text_argument(const char *text, char *null)
{
	*null = text == NULL ? 'n' : ' ';
	return text == NULL ? (Datum) 0 : CStringGetTextDatum(text);
}

/* See explorer_statement.h. */
Datum
statement_int64_array(const int64 *values, int count)
{
	Datum	   *datums = palloc(Max(count, 1) * sizeof(Datum));

	for (int i = 0; i < count; i++)
		datums[i] = Int64GetDatum(values[i]);
	return PointerGetDatum(construct_array(datums, count, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

/* See explorer_statement.h. */
Datum
statement_text_array(char **values, int count)
{
	Datum	   *datums = palloc(Max(count, 1) * sizeof(Datum));

	for (int i = 0; i < count; i++)
		datums[i] = CStringGetTextDatum(values[i]);
	return PointerGetDatum(construct_array(datums, count, TEXTOID, -1, false, TYPALIGN_INT));
}

/* See explorer_statement.h. */
void
statement_append_ids(MemoryContext context, Datum array, int64 **ids, int *count, int *capacity)
{
	ArrayType  *values = DatumGetArrayTypeP(array);
	int			length = ArrayGetNItems(ARR_NDIM(values), ARR_DIMS(values));

	if (*count + length > *capacity)
	{
		*capacity = Max(*count + length, *capacity * 2);
		*ids = *ids == NULL ? MemoryContextAllocHuge(context, *capacity * sizeof(int64)) :
			repalloc_huge(*ids, *capacity * sizeof(int64));
	}
	if (length > 0)
		memcpy(*ids + *count, ARR_DATA_PTR(values), length * sizeof(int64));
	*count += length;
}
