/*
 * document_text.c
 *		JSON objects as text.
 */
#include "change/document_text.h"

#include "utils/builtins.h"
#include "utils/json.h"

void
document_put_name(StringInfo out, const char *name)
{
	appendStringInfoString(out, out->len == 0 ? "{\"" : ", \"");
	appendStringInfoString(out, name);
	appendStringInfoString(out, "\" : ");
}

void
document_put_text(StringInfo out, const char *name, FunctionCallInfo fcinfo, int argument)
{
	char	   *value;

	document_put_name(out, name);
	if (PG_ARGISNULL(argument))
	{
		appendStringInfoString(out, "null");
		return;
	}
	value = text_to_cstring(PG_GETARG_TEXT_PP(argument));
	escape_json(out, value);
	pfree(value);
}

void
document_put_number(StringInfo out, const char *name, FunctionCallInfo fcinfo, int argument)
{
	char		value[MAXINT8LEN + 1];

	document_put_name(out, name);
	if (PG_ARGISNULL(argument))
	{
		appendStringInfoString(out, "null");
		return;
	}
	appendBinaryStringInfo(out, value, pg_lltoa(PG_GETARG_INT64(argument), value));
}

void
document_put_jsonb(StringInfo out, const char *name, FunctionCallInfo fcinfo, int argument)
{
	document_put_name(out, name);
	if (PG_ARGISNULL(argument))
	{
		appendStringInfoString(out, "null");
		return;
	}
	JsonbToCString(out, &PG_GETARG_JSONB_P(argument)->root, 0);
}
