/*
 * metadata_object.c
 *		What nodes load: single objects, many at once, and everything of a kind in chunks.
 *
 * Every row that one call returns is of the snapshot of the caller's statement, and
 * so is the version of the metadata beside it.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "change/change.h"
#include "change/metadata_statement.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lease/lease.h"
#include "miscadmin.h"
#include "tcop/dest.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(amoro_meta_metadata_lookup);
PG_FUNCTION_INFO_V1(amoro_meta_metadata_lookup_many);
PG_FUNCTION_INFO_V1(amoro_meta_metadata_snapshot_chunk);

#define MOST_LOOKUPS 10000
#define MOST_CHUNK_ROWS 100000
#define NAME_COUNT 3

/* What every row of an answer starts with. */
typedef struct Header
{
	int64		metadata_version;
	int64		term;
} Header;

/* Fills in the header; checks that this is a primary. */
static Header
read_header(void)
{
	Header		header;

	header.term = lease_current_term();
	header.metadata_version = metadata_read_version();
	return header;
}

static Datum
column(uint64 row, int number, bool *isnull)
{
	return SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, number, isnull);
}

static void
refuse_names(const char *kind, int name_count)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("these are not the names of a %s", kind),
			 errdetail("Given in the order catalog_name, database_name, table_name it has %d; the others are null.", name_count)));
}

/*
 * Looks one object up and puts its row: the header, with ordinal unless it is 0, found, and what there is of it. A name
 * that the kind has not is the empty string.
 */
static void
put_object(ReturnSetInfo *result, const Header *header, MetadataStatements *statements, Datum *names, int32 ordinal)
{
	static const int columns[] = {OBJECT_STATE, OBJECT_ID, OBJECT_VERSION, OBJECT_DOCUMENT};
	Datum		values[8] = {0};
	bool		nulls[8] = {0};
	int			n = 0;
	bool		found;

	if (SPI_execute_plan(statements->lookup, names, NULL, /* read_only= */ true, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not look metadata up");
	found = SPI_processed > 0;
	values[n++] = Int64GetDatum(header->metadata_version);
	values[n++] = Int64GetDatum(header->term);
	if (ordinal > 0)
		values[n++] = Int32GetDatum(ordinal);
	values[n++] = BoolGetDatum(found);
	for (int i = 0; i < lengthof(columns); i++, n++)
	{
		if (found)
			values[n] = column(0, columns[i], &nulls[n]);
		else
			nulls[n] = true;
	}
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	SPI_freetuptable(SPI_tuptable);
}

/*
 * amoro_meta_metadata_lookup(kind text, catalog_name text, database_name text, table_name text) returns setof record:
 * one row, an object or that there is none. Errors: 22023 unknown kind or wrong number of names, 25006 on a standby.
 */
Datum
amoro_meta_metadata_lookup(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	char	   *kind = PG_ARGISNULL(0) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(0));
	MetadataStatements *statements;
	Datum		names[NAME_COUNT];
	Header		header;

	metadata_require_primary();
	InitMaterializedSRF(fcinfo, 0);
	SPI_connect();
	statements = metadata_statements_of(kind);
	for (int i = 0; i < NAME_COUNT; i++)
	{
		if (PG_ARGISNULL(i + 1) == (i < statements->name_count))
			refuse_names(kind, statements->name_count);
		names[i] = PG_ARGISNULL(i + 1) ? CStringGetTextDatum("") : PG_GETARG_DATUM(i + 1);
	}
	header = read_header();
	put_object(result, &header, statements, names, 0);
	SPI_finish();
	return (Datum) 0;
}

/* The elements of an array of names, none of them null; its length in *count, or that it does not fit the others. */
static Datum *
read_names(ArrayType *array, int *count)
{
	Datum	   *elements;
	bool	   *nulls;
	int			length;

	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls, &length);
	if (ARR_NDIM(array) > 1 || length > MOST_LOOKUPS || (*count >= 0 && length != *count))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the arrays of names are not of one length and dimension"),
				 errdetail("At most %d objects are looked up at once.", MOST_LOOKUPS)));
	for (int i = 0; i < length; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("a name must not be null")));
	}
	*count = length;
	return elements;
}

/*
 * amoro_meta_metadata_lookup_many(kind text, catalog_names text[], database_names text[], table_names text[]) returns
 * setof record: a row for each object. Errors: 22023 unknown kind, wrong number of names, arrays that do not fit
 * together, 22004 a null name, 25006 on a standby.
 */
Datum
amoro_meta_metadata_lookup_many(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	char	   *kind = PG_ARGISNULL(0) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(0));
	Datum	   *names[NAME_COUNT] = {NULL};
	MetadataStatements *statements;
	Header		header;
	int			count = -1;

	metadata_require_primary();
	InitMaterializedSRF(fcinfo, 0);
	SPI_connect();
	statements = metadata_statements_of(kind);
	for (int i = 0; i < NAME_COUNT; i++)
	{
		if (PG_ARGISNULL(i + 1) == (i < statements->name_count))
			refuse_names(kind, statements->name_count);
		if (!PG_ARGISNULL(i + 1))
			names[i] = read_names(PG_GETARG_ARRAYTYPE_P(i + 1), &count);
	}
	header = read_header();
	for (int row = 0; row < count; row++)
	{
		Datum		key[NAME_COUNT];

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < NAME_COUNT; i++)
			key[i] = names[i] != NULL ? names[i][row] : CStringGetTextDatum("");
		put_object(result, &header, statements, key, row + 1);
	}
	SPI_finish();
	return (Datum) 0;
}

/* The arguments of a chunk. */
typedef struct ChunkLimits
{
	Datum		after[4];		/* object_id and names of the last object before */
	int64		rows;
	int64		bytes;
} ChunkLimits;

static Datum
text_argument(FunctionCallInfo fcinfo, int number)
{
	return PG_ARGISNULL(number) ? CStringGetTextDatum("") : PG_GETARG_DATUM(number);
}

static ChunkLimits
read_limits(FunctionCallInfo fcinfo)
{
	ChunkLimits limits;

	if (PG_ARGISNULL(5) || PG_ARGISNULL(6))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("max_rows and max_bytes must not be null")));
	limits.rows = PG_GETARG_INT32(5);
	limits.bytes = PG_GETARG_INT32(6);
	if (limits.rows < 1 || limits.rows > MOST_CHUNK_ROWS || limits.bytes < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max_rows must be between 1 and %d, max_bytes positive", MOST_CHUNK_ROWS),
				 errdetail("They are " INT64_FORMAT " and " INT64_FORMAT ".", limits.rows, limits.bytes)));
	limits.after[0] = Int64GetDatum(PG_ARGISNULL(1) ? PG_INT64_MIN : PG_GETARG_INT64(1));
	for (int i = 1; i < lengthof(limits.after); i++)
		limits.after[i] = text_argument(fcinfo, i + 1);
	return limits;
}

/* Takes the rows of a chunk as they come, without a copy in between, up to the limits. */
typedef struct ChunkReceiver
{
	DestReceiver methods;		/* first, so that one is the other */
	ReturnSetInfo *result;
	const Header *header;
	const ChunkLimits *limits;
	int64		rows;
	int64		bytes;
	bool		full;
} ChunkReceiver;

/* slot NULL: the row that says that there are no more. */
static void
put_chunk_row(const ChunkReceiver *receiver, TupleTableSlot *slot)
{
	static const int columns[] = {
		OBJECT_ID, OBJECT_CATALOG_NAME, OBJECT_DATABASE_NAME, OBJECT_NAME, OBJECT_STATE, OBJECT_VERSION, OBJECT_DOCUMENT
	};
	Datum		values[9] = {Int64GetDatum(receiver->header->metadata_version), Int64GetDatum(receiver->header->term)};
	bool		nulls[9] = {false, false};

	for (int i = 0; i < lengthof(columns); i++)
	{
		if (slot != NULL)
			values[i + 2] = slot_getattr(slot, columns[i], &nulls[i + 2]);
		else
			nulls[i + 2] = true;
	}
	tuplestore_putvalues(receiver->result->setResult, receiver->result->setDesc, values, nulls);
}

static void
begin_chunk(DestReceiver *self, int operation, TupleDesc type)
{
}

static bool
receive_object(TupleTableSlot *slot, DestReceiver *self)
{
	ChunkReceiver *receiver = (ChunkReceiver *) self;
	bool		isnull;
	Datum		document;

	CHECK_FOR_INTERRUPTS();
	put_chunk_row(receiver, slot);
	document = slot_getattr(slot, OBJECT_DOCUMENT, &isnull);
	receiver->bytes += isnull ? 0 : (int64) VARSIZE_ANY_EXHDR(DatumGetPointer(document));
	receiver->full = ++receiver->rows >= receiver->limits->rows || receiver->bytes >= receiver->limits->bytes;
	return !receiver->full;
}

static void
end_chunk(DestReceiver *self)
{
}

/*
 * amoro_meta_metadata_snapshot_chunk(kind text, after_object_id bigint, after_catalog_name text, after_database_name text,
 * after_object_name text, max_rows integer, max_bytes integer) returns setof record: the next objects of a kind, and at
 * their end a row without names. Errors: 22023 unknown kind or limits out of range, 22004 null limits, 25006 on a standby.
 */
Datum
amoro_meta_metadata_snapshot_chunk(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	char	   *kind = PG_ARGISNULL(0) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(0));
	MetadataStatements *statements;
	ChunkLimits limits;
	Header		header;
	ChunkReceiver receiver = {
		.methods = {.receiveSlot = receive_object, .rStartup = begin_chunk, .rShutdown = end_chunk, .rDestroy = end_chunk, .mydest = DestTuplestore},
		.result = result, .header = &header, .limits = &limits
	};

	metadata_require_primary();
	limits = read_limits(fcinfo);
	InitMaterializedSRF(fcinfo, 0);
	SPI_connect();
	statements = metadata_statements_of(kind);
	header = read_header();
	metadata_run_chunk(statements, limits.after, limits.rows, &receiver.methods);
	if (!receiver.full)
		put_chunk_row(&receiver, NULL);
	SPI_finish();
	return (Datum) 0;
}
