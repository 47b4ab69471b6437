/*
 * metadata_statement.c
 *		Plans by kind of metadata.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "change/metadata_statement.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"

#define COLUMNS "o.object_id, o.catalog_name, o.database_name, o.object_name, o.state, o.version, o.document"

static HTAB *statements_by_kind = NULL;

static SPIPlanPtr
keep_plan(const char *statement, int count, Oid *types)
{
	SPIPlanPtr	plan = SPI_prepare_cursor(statement, count, types, CURSOR_OPT_GENERIC_PLAN);

	if (plan == NULL || SPI_keepplan(plan) != 0)
		elog(ERROR, "could not prepare to read metadata: %s", SPI_result_code_string(SPI_result));
	return plan;
}

/* Raises 22023 unless there is such a kind; returns how many names its objects have. */
static int
name_count_of(const char *kind)
{
	Oid			types[] = {TEXTOID};
	Datum		values[] = {kind != NULL ? CStringGetTextDatum(kind) : (Datum) 0};
	bool		isnull;

	if (SPI_execute_with_args("SELECT amoro_meta.metadata_name_count($1), amoro_meta.check_metadata_kind($1)", 1, types, values,
							  kind != NULL ? " " : "n", /* read_only= */ true, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not check the kind of metadata");
	return DatumGetInt32(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
}

/* Of a kind that there is. */
static const char *
view_of(const char *kind)
{
	return quote_identifier(psprintf("%s_object", kind));
}

static SPIPlanPtr
plan_lookup(const char *kind)
{
	Oid			types[] = {TEXTOID, TEXTOID, TEXTOID};
	char	   *statement = psprintf("SELECT " COLUMNS " FROM amoro_meta.%s o WHERE o.catalog_name = $1"
									 " AND o.database_name = $2 AND o.object_name = $3", view_of(kind));

	return keep_plan(statement, lengthof(types), types);
}

/* The id alone is compared first, as an index can; names decide only between objects of one id. */
static SPIPlanPtr
plan_chunk(const char *kind)
{
	Oid			types[] = {INT8OID, TEXTOID, TEXTOID, TEXTOID, INT8OID};
	char	   *statement = psprintf("SELECT " COLUMNS " FROM amoro_meta.%s o WHERE o.object_id >= $1"
									 " AND (o.object_id > $1 OR (o.catalog_name, o.database_name, o.object_name) > ($2, $3, $4))"
									 " ORDER BY o.object_id, o.catalog_name, o.database_name, o.object_name LIMIT $5",
									 view_of(kind));

	return keep_plan(statement, lengthof(types), types);
}

MetadataStatements *
metadata_statements_of(const char *kind)
{
	MetadataStatements *entry = NULL;
	char		key[NAMEDATALEN];
	int			name_count;

	if (statements_by_kind == NULL)
	{
		HASHCTL		control = {.keysize = NAMEDATALEN, .entrysize = sizeof(MetadataStatements)};

		statements_by_kind = hash_create("amoro_meta kinds of metadata", 16, &control, HASH_ELEM | HASH_STRINGS);
	}
	if (kind != NULL && strlen(kind) < NAMEDATALEN)
		entry = hash_search(statements_by_kind, kind, HASH_FIND, NULL);
	if (entry != NULL)
		return entry;

	name_count = name_count_of(kind);
	SPIPlanPtr	lookup = plan_lookup(kind);
	SPIPlanPtr	chunk = plan_chunk(kind);

	strlcpy(key, kind, sizeof(key));
	entry = hash_search(statements_by_kind, key, HASH_ENTER, NULL);
	entry->name_count = name_count;
	entry->lookup = lookup;
	entry->chunk = chunk;
	return entry;
}

void
metadata_run_chunk(MetadataStatements *statements, const Datum *after, int64 max_rows, DestReceiver *receiver)
{
	static const Oid types[] = {INT8OID, TEXTOID, TEXTOID, TEXTOID, INT8OID};
	SPIExecuteOptions options = {.params = makeParamList(lengthof(types)), .read_only = true, .dest = receiver};

	for (int i = 0; i < lengthof(types); i++)
	{
		options.params->params[i] = (ParamExternData) {
			.value = i < lengthof(types) - 1 ? after[i] : Int64GetDatum(max_rows), .pflags = PARAM_FLAG_CONST, .ptype = types[i]
		};
	}
	if (SPI_execute_plan_extended(statements->chunk, &options) != SPI_OK_SELECT)
		elog(ERROR, "could not read metadata in chunks");
}

int64
metadata_read_version(void)
{
	static SPIPlanPtr plan = NULL;
	bool		isnull;

	if (plan == NULL)
		plan = keep_plan("SELECT v.version FROM amoro_meta.metadata_version v", 0, NULL);
	if (SPI_execute_plan(plan, NULL, NULL, /* read_only= */ true, 1) != SPI_OK_SELECT || SPI_processed != 1)
		elog(ERROR, "amoro_meta.metadata_version does not have one row");
	return DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
}
