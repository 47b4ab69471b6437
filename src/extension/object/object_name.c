/*
 * object_name.c
 *		What may be a name: 1 to 255 characters, none of them a control character. Slashes, quotes,
 *		dots, blanks and all of Unicode are fine: names are parameters everywhere, never parts of text.
 */
#include "postgres.h"

#include "compat.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "object/object_name.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(amoro_meta_check_name);
PG_FUNCTION_INFO_V1(amoro_meta_is_name);
PG_FUNCTION_INFO_V1(amoro_meta_printable_text);

/* Control characters of ASCII, and of ISO 8859 as UTF-8 spells them. */
static bool
is_control_character(const unsigned char *c, bool utf8)
{
	return *c < 0x20 || *c == 0x7f || (utf8 && c[0] == 0xc2 && c[1] >= 0x80 && c[1] <= 0x9f);
}

/* See object_name.h. */
bool
object_name_has_control_character(const char *name)
{
	bool		utf8 = GetDatabaseEncoding() == PG_UTF8;

	for (const unsigned char *c = (const unsigned char *) name; *c; c++)
	{
		if (is_control_character(c, utf8))
			return true;
	}
	return false;
}

/*
 * object_name_problem tells why a name is refused. See the header.
 */
const char *
object_name_problem(const char *name)
{
	if (*name == '\0')
		return "It is empty.";
	if (pg_mbstrlen(name) > OBJECT_NAME_MAX)
		return "It is longer than " CppAsString2(OBJECT_NAME_MAX) " characters.";
	if (object_name_has_control_character(name))
		return "It has a control character.";
	return NULL;
}

/* See object_name.h. */
void
object_name_refuse(const char *argument, const char *problem)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid %s", argument),
			 errdetail_internal("%s", problem),
			 errhint("A name has 1 to %d characters and no control characters.", OBJECT_NAME_MAX)));
}

/* See object_name.h. */
const char *
argument_name(FunctionCallInfo fcinfo)
{
	return PG_ARGISNULL(0) ? "argument" : text_to_cstring(PG_GETARG_TEXT_PP(0));
}

/*
 * amoro_meta_check_name(argument, name) raises 22004 for null, and 22023 unless the name is one; argument says which.
 */
Datum
amoro_meta_check_name(PG_FUNCTION_ARGS)
{
	const char *argument = argument_name(fcinfo);
	const char *problem;

	if (PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be null", argument)));
	problem = object_name_problem(text_to_cstring(PG_GETARG_TEXT_PP(1)));
	if (problem != NULL)
		object_name_refuse(argument, problem);
	PG_RETURN_VOID();
}

/* Whether amoro_meta_check_name would let the name pass. */
Datum
amoro_meta_is_name(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(object_name_problem(text_to_cstring(PG_GETARG_TEXT_PP(0))) == NULL);
}

/*
 * amoro_meta_printable_text(value, longest) returns the first characters of a text that somebody else wrote, for logs
 * and screens: control characters are question marks, but for newlines and tabs.
 */
Datum
amoro_meta_printable_text(PG_FUNCTION_ARGS)
{
	text	   *value = PG_GETARG_TEXT_PP(0);
	char	   *from = VARDATA_ANY(value);
	int			length = pg_mbcharcliplen(from, VARSIZE_ANY_EXHDR(value), Max(PG_GETARG_INT32(1), 0));
	char	   *printable = pnstrdup(from, length);
	char	   *to = printable;
	bool		utf8 = GetDatabaseEncoding() == PG_UTF8;

	for (const char *c = printable; *c; c++)
	{
		if (*c == '\n' || *c == '\t' || !is_control_character((const unsigned char *) c, utf8))
			*to++ = *c;
		else
		{
			if ((unsigned char) *c == 0xc2)
				c++;			/* it has two bytes */
			*to++ = '?';
		}
	}
	PG_RETURN_TEXT_P(cstring_to_text_with_len(printable, to - printable));
}
