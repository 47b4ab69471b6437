/*
 * authority_document.c
 *		What a node serves of a user, and what it decides by: the privileges of the user and of every role that it is in,
 *		one scope after the other. Nodes load all users before they serve, so this is in C, with plans that are kept.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "change/document_text.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/json.h"

PG_FUNCTION_INFO_V1(amoro_meta_authority_document);

/* Of one privilege on one scope, by one grantor. Texts may be NULL. */
typedef struct Grant
{
	const char *scope[4];		/* kind, catalog, database, table or path */
	const char *privilege;
	bool		grant_option;
} Grant;

typedef struct Grants
{
	Grant	   *grants;			/* in the order of scopes, then of privileges, byte by byte */
	int			count;
} Grants;

static SPIPlanPtr
keep_plan(const char *statement, Oid type)
{
	SPIPlanPtr	plan = SPI_prepare_cursor(statement, 1, &type, CURSOR_OPT_GENERIC_PLAN);

	if (plan == NULL || SPI_keepplan(plan) != 0)
		elog(ERROR, "could not prepare to read privileges: %s", SPI_result_code_string(SPI_result));
	return plan;
}

static void
execute(SPIPlanPtr plan, Datum value)
{
	if (SPI_execute_plan(plan, &value, NULL, /* read_only= */ true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read privileges");
}

static Datum
value_at(uint64 row, int column, bool *isnull)
{
	return SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column, isnull);
}

static const char *
text_at(uint64 row, int column)
{
	bool		isnull;
	Datum		value = value_at(row, column, &isnull);

	return isnull ? NULL : TextDatumGetCString(value);
}

static int
compare_texts(const char *a, const char *b)
{
	if (a == NULL || b == NULL)
		return (a == NULL) - (b == NULL);
	return strcmp(a, b);
}

static int
compare_scopes(const Grant *a, const Grant *b)
{
	int			order = 0;

	for (int i = 0; i < lengthof(a->scope) && order == 0; i++)
		order = compare_texts(a->scope[i], b->scope[i]);
	return order;
}

static int
compare_grants(const void *a, const void *b)
{
	int			order = compare_scopes(a, b);

	return order != 0 ? order : strcmp(((const Grant *) a)->privilege, ((const Grant *) b)->privilege);
}

static int
compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *) a, *(const char *const *) b);
}

/*
 * Whose privileges a user has, as an array: its own id and those of all its roles. Puts the names of the roles as JSON,
 * and the newest version of all of these into *version.
 */
static Datum
read_holders(int64 user_id, StringInfo roles, int64 *version)
{
	static SPIPlanPtr plan = NULL;
	uint64		count;
	Datum	   *ids;
	const char **names;
	bool		isnull;

	if (plan == NULL)
		plan = keep_plan("SELECT p.principal_id, p.principal_name, p.version FROM amoro_meta.role_member m"
						 " CROSS JOIN LATERAL amoro_meta.principal_closure(m.role_id) c"
						 " JOIN amoro_meta.principal p ON p.principal_id OPERATOR(pg_catalog.=) c.principal_id"
						 " WHERE m.member_id OPERATOR(pg_catalog.=) $1 GROUP BY p.principal_id", INT8OID);
	execute(plan, Int64GetDatum(user_id));
	count = SPI_processed;
	ids = palloc((count + 1) * sizeof(Datum));
	names = palloc((count + 1) * sizeof(char *));
	for (uint64 i = 0; i < count; i++)
	{
		int64		role_version = DatumGetInt64(value_at(i, 3, &isnull));

		ids[i] = value_at(i, 1, &isnull);
		names[i] = text_at(i, 2);
		*version = Max(*version, role_version);
	}
	ids[count] = Int64GetDatum(user_id);
	qsort(names, count, sizeof(char *), compare_names);
	for (uint64 i = 0; i < count; i++)
	{
		appendStringInfoString(roles, i > 0 ? ", " : "");
		escape_json(roles, names[i]);
	}
	return PointerGetDatum(construct_array(ids, (int) count + 1, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

static Grants
read_grants(Datum holders)
{
	static SPIPlanPtr plan = NULL;
	Grants		grants;

	if (plan == NULL)
		plan = keep_plan("SELECT g.scope_kind, g.catalog_name, g.database_name, g.object_name, g.privilege, g.grant_option"
						 " FROM amoro_meta.privilege_grant g WHERE g.grantee_id OPERATOR(pg_catalog.=) ANY ($1)", INT8ARRAYOID);
	execute(plan, holders);
	grants.count = (int) SPI_processed;
	grants.grants = palloc_extended((Size) grants.count * sizeof(Grant), MCXT_ALLOC_HUGE);
	for (int i = 0; i < grants.count; i++)
	{
		Grant	   *grant = &grants.grants[i];
		bool		isnull;

		for (int j = 0; j < lengthof(grant->scope); j++)
			grant->scope[j] = text_at((uint64) i, j + 1);
		grant->privilege = text_at((uint64) i, 5);
		grant->grant_option = DatumGetBool(value_at((uint64) i, 6, &isnull));
	}
	qsort(grants.grants, grants.count, sizeof(Grant), compare_grants);
	return grants;
}

/* A privilege may be there several times, by several grantors or through several roles: the options of all count. */
static int
merge_privileges(Grants *grants)
{
	int			merged = 0;

	for (int i = 0; i < grants->count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (merged > 0 && compare_grants(&grants->grants[merged - 1], &grants->grants[i]) == 0)
			grants->grants[merged - 1].grant_option |= grants->grants[i].grant_option;
		else
			grants->grants[merged++] = grants->grants[i];
	}
	return merged;
}

/* The privileges of one scope, quoted and with a separator; of those with the option to grant them alone. */
static void
put_privileges(StringInfo out, const Grant *grants, int count, const char *quote, const char *separator, bool grantable)
{
	bool		first = true;

	for (int i = 0; i < count; i++)
	{
		if (grantable && !grants[i].grant_option)
			continue;
		appendStringInfo(out, "%s%s%s%s", first ? "" : separator, quote, grants[i].privilege, quote);
		first = false;
	}
}

static void
put_scope_as_json(StringInfo out, const Grant *grants, int count)
{
	const char *const *scope = grants->scope;
	const char *const names[] = {"scope", "catalog", "database", strcmp(scope[0], "path") == 0 ? "path" : "table"};
	bool		grantable = false;

	for (int i = 0; i < lengthof(names); i++)
	{
		if (scope[i] == NULL)
			continue;
		appendStringInfo(out, "%s\"%s\": ", i == 0 ? "{" : ", ", names[i]);
		escape_json(out, scope[i]);
	}
	for (int i = 0; i < count; i++)
		grantable |= grants[i].grant_option;
	appendStringInfoString(out, ", \"privileges\": [");
	put_privileges(out, grants, count, "\"", ", ", false);
	appendStringInfoChar(out, ']');
	if (grantable)
	{
		appendStringInfoString(out, ", \"grantable\": [");
		put_privileges(out, grants, count, "\"", ", ", true);
		appendStringInfoChar(out, ']');
	}
	appendStringInfoChar(out, '}');
}

/* As the text format of COPY: names have no control characters, so there is only the backslash. */
static void
put_scope_as_line(StringInfo out, const Grant *grants, int count)
{
	for (int i = 0; i < lengthof(grants->scope); i++)
	{
		if (grants->scope[i] == NULL)
			continue;
		for (const char *c = grants->scope[i]; *c != '\0'; c++)
		{
			if (*c == '\\')
				appendStringInfoChar(out, '\\');
			appendStringInfoChar(out, *c);
		}
		appendStringInfoChar(out, '\t');
	}
	put_privileges(out, grants, count, "", ",", false);
}

/* All scopes, by one of these. */
static void
put_scopes(StringInfo out, const Grants *grants, void (*put) (StringInfo out, const Grant *grants, int count), const char *separator)
{
	int			end;

	for (int start = 0; start < grants->count; start = end)
	{
		for (end = start + 1; end < grants->count && compare_scopes(&grants->grants[start], &grants->grants[end]) == 0; end++)
			;
		if (start > 0)
			appendStringInfoString(out, separator);
		put(out, &grants->grants[start], end - start);
	}
}

/*
 * amoro_meta_authority_document(user_id bigint, user_name text, disabled boolean, properties jsonb, user_version bigint)
 * returns (version bigint, document text). A disabled user has no privileges.
 */
Datum
amoro_meta_authority_document(PG_FUNCTION_ARGS)
{
	int64		version = PG_GETARG_INT64(4);
	bool		disabled = PG_GETARG_BOOL(2);
	Grants		grants = {NULL, 0};
	StringInfoData roles;
	StringInfoData out;
	Datum		values[2];
	bool		nulls[2] = {false, false};
	Datum		holders;
	MemoryContext caller = CurrentMemoryContext;
	TupleDesc	row;

	if (get_call_result_type(fcinfo, NULL, &row) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	SPI_connect();
	initStringInfo(&roles);
	holders = read_holders(PG_GETARG_INT64(0), &roles, &version);
	if (!disabled)
	{
		grants = read_grants(holders);
		grants.count = merge_privileges(&grants);
	}
	MemoryContextSwitchTo(caller);
	initStringInfo(&out);
	document_put_text(&out, "user", fcinfo, 1);
	document_put_number(&out, "user_id", fcinfo, 0);
	document_put_name(&out, "version");
	appendStringInfo(&out, INT64_FORMAT, version);
	document_put_name(&out, "disabled");
	appendStringInfoString(&out, disabled ? "true" : "false");
	document_put_jsonb(&out, "properties", fcinfo, 3);
	document_put_name(&out, "roles");
	appendStringInfo(&out, "[%s]", roles.data);
	document_put_name(&out, "privileges");
	appendStringInfoChar(&out, '[');
	put_scopes(&out, &grants, put_scope_as_json, ", ");
	appendStringInfoString(&out, "]}\n");
	put_scopes(&out, &grants, put_scope_as_line, "\n");
	SPI_finish();
	values[0] = Int64GetDatum(version);
	values[1] = PointerGetDatum(cstring_to_text_with_len(out.data, out.len));
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(row), values, nulls)));
}
