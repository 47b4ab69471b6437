/*
 * plain_table.c
 *		Reads a table that somebody else owns without running any of their code.
 *
 * A query would: views, policies, casts, generated columns, even expressions of indexes are evaluated with the rights
 * of whoever reads. So the table is scanned by hand, and only if it is an ordinary one whose columns are of types that
 * come with the server; these know how to write themselves.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(amoro_meta_plain_table_problem);
PG_FUNCTION_INFO_V1(amoro_meta_read_plain_table);

/* A column to read: its number, its name as key, and the function that writes its values. */
typedef struct Column
{
	AttrNumber	number;
	char	   *name;
	FmgrInfo	output;
} Column;

/* Base types that initdb made: no domain, no enum, no type of an extension. */
static bool
type_is_built_in(Oid type)
{
	HeapTuple	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	bool		built_in = false;

	if (HeapTupleIsValid(tuple))
	{
		Form_pg_type form = (Form_pg_type) GETSTRUCT(tuple);

		built_in = form->typtype == TYPTYPE_BASE && form->typnamespace == PG_CATALOG_NAMESPACE && type < FirstNormalObjectId;
		ReleaseSysCache(tuple);
	}
	return built_in;
}

/* The column of that name, or 0, with the reason why it cannot be read. */
static AttrNumber
find_column(Relation relation, const char *name, char **problem)
{
	TupleDesc	descriptor = RelationGetDescr(relation);

	for (int i = 0; i < descriptor->natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(descriptor, i);

		if (attribute->attisdropped || strcmp(NameStr(attribute->attname), name) != 0)
			continue;
		if (attribute->attgenerated != '\0')
			*problem = psprintf("its column %s is generated", name);
		else if (!type_is_built_in(attribute->atttypid))
			*problem = psprintf("its column %s has a type that does not come with the server", name);
		return attribute->attnum;
	}
	*problem = psprintf("it has no column %s", name);
	return 0;
}

/* Finds the columns; returns NULL, or why the table cannot be read. The array of columns is for the caller. */
static char *
inspect(Relation relation, ArrayType *names, Column **columns, int *count)
{
	Datum	   *values;
	char	   *problem = NULL;

	if (relation->rd_rel->relkind != RELKIND_RELATION)
		return "it is not an ordinary table";
	if (relation->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		return "it is a temporary table";	/* whose pages are in the memory of another process */
	if (relation->rd_rel->relrowsecurity)
		return "it has row-level security";
	deconstruct_array(names, TEXTOID, -1, false, TYPALIGN_INT, &values, NULL, count);
	*columns = palloc0(Max(*count, 1) * sizeof(Column));
	for (int i = 0; i < *count && problem == NULL; i++)
	{
		Column	   *column = &(*columns)[i];
		Oid			output;
		bool		varlena;

		column->name = TextDatumGetCString(values[i]);
		column->number = find_column(relation, column->name, &problem);
		if (problem != NULL)
			break;
		getTypeOutputInfo(TupleDescAttr(RelationGetDescr(relation), column->number - 1)->atttypid, &output, &varlena);
		fmgr_info(output, &column->output);
	}
	return problem;
}

/*
 * amoro_meta_plain_table_problem(relation, columns) returns null when the columns can be read, else why not.
 */
Datum
amoro_meta_plain_table_problem(PG_FUNCTION_ARGS)
{
	Relation	relation = try_table_open(PG_GETARG_OID(0), AccessShareLock);
	Column	   *columns;
	int			count;
	char	   *problem = relation == NULL ? "it does not exist" : inspect(relation, PG_GETARG_ARRAYTYPE_P(1), &columns, &count);

	/* the lock stays: what was found holds until the end of the transaction */
	if (relation != NULL)
		table_close(relation, NoLock);
	if (problem == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(problem));
}

/* An object with the values of a row as text; without those that are null. */
static Datum
row_as_json(TupleTableSlot *slot, Column *columns, int count)
{
	JsonbParseState *state = NULL;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	for (int i = 0; i < count; i++)
	{
		bool		isnull;
		Datum		datum = slot_getattr(slot, columns[i].number, &isnull);
		JsonbValue	part;

		if (isnull)
			continue;
		part.type = jbvString;
		part.val.string.val = columns[i].name;
		part.val.string.len = strlen(columns[i].name);
		pushJsonbValue(&state, WJB_KEY, &part);
		part.val.string.val = OutputFunctionCall(&columns[i].output, datum);
		part.val.string.len = strlen(part.val.string.val);
		pushJsonbValue(&state, WJB_VALUE, &part);
	}
	return JsonbPGetDatum(JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL)));
}

static void
scan(Relation relation, Column *columns, int count, ReturnSetInfo *result)
{
	TableScanDesc scan = table_beginscan(relation, GetActiveSnapshot(), 0, NULL);
	TupleTableSlot *slot = table_slot_create(relation, NULL);
	MemoryContext row_context = AllocSetContextCreate(CurrentMemoryContext, "amoro_meta row", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old_context = MemoryContextSwitchTo(row_context);

	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		Datum		value = row_as_json(slot, columns, count);
		bool		isnull = false;

		CHECK_FOR_INTERRUPTS();
		tuplestore_putvalues(result->setResult, result->setDesc, &value, &isnull);
		MemoryContextReset(row_context);
	}
	MemoryContextSwitchTo(old_context);
	MemoryContextDelete(row_context);
	ExecDropSingleTupleTableSlot(slot);
	table_endscan(scan);
}

/*
 * amoro_meta_read_plain_table(relation, columns) returns each row as an object of texts, in the snapshot of the
 * statement that calls it. Who may read the table is for the caller to check. Raises 42809 when it cannot be read
 * without running code of its owner, or lacks a column.
 */
Datum
amoro_meta_read_plain_table(PG_FUNCTION_ARGS)
{
	Relation	relation = table_open(PG_GETARG_OID(0), AccessShareLock);
	Column	   *columns;
	int			count;
	char	   *problem = inspect(relation, PG_GETARG_ARRAYTYPE_P(1), &columns, &count);

	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("table \"%s\" cannot be read", RelationGetRelationName(relation)),
				 errdetail_internal("The reason: %s.", problem)));
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	scan(relation, columns, count, (ReturnSetInfo *) fcinfo->resultinfo);
	table_close(relation, NoLock);
	return (Datum) 0;
}
