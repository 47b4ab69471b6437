/*
 * terminal_script.c
 *		Splits a script of a terminal session into statements.
 *
 * A semicolon ends a statement unless it stands in quotes ('...', "...", `...`; a doubled quote is one quote), in a
 * comment that runs to the end of the line (two dashes; # where nothing but blanks stands before it on its line), or
 * in a bracketed comment, which may hold others. It works on bytes: in every encoding that a database can have, the
 * bytes of ASCII characters stand for those alone.
 */
#include "postgres.h"

#include "compat.h"
#include "miscadmin.h"
#include "terminal/terminal_script.h"

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

static bool
begins_line_comment(const char *c, const char *begin, const char *end)
{
	if (c[0] == '-')
		return c + 1 < end && c[1] == '-';
	if (c[0] != '#')
		return false;
	while (c > begin && is_blank(c[-1]) && c[-1] != '\n')
		c--;
	return c == begin || c[-1] == '\n';
}

static const char *
line_comment_end(const char *c, const char *end)
{
	while (c < end && *c != '\n')
		c++;
	return c;
}

/* NULL when the comment does not end */
static const char *
bracketed_comment_end(const char *c, const char *end)
{
	int			depth = 0;

	while (c + 1 < end)
	{
		if (c[0] == '/' && c[1] == '*')
		{
			depth++;
			c += 2;
		}
		else if (c[0] == '*' && c[1] == '/')
		{
			c += 2;
			if (--depth == 0)
				return c;
		}
		else
			c++;
	}
	return NULL;
}

/* See terminal_script.h. */
const char *
terminal_script_quoted_end(const char *start, const char *end, bool backslash_escapes)
{
	char		quote = *start;

	for (const char *c = start + 1; c < end; c++)
	{
		if (*c == '\\' && backslash_escapes && quote != '`')
			c++;
		else if (*c == quote)
		{
			if (c + 1 < end && c[1] == quote)
				c++;
			else
				return c + 1;
		}
	}
	return NULL;
}

/* Says where it begins, not how: the log of the server is no place for it. */
pg_noreturn static void
refuse_unended(const char *what, const char *script, const char *start)
{
	int			line = 1;

	for (const char *c = script; c < start; c++)
		line += *c == '\n';
	ereport(ERROR,
			(errcode(ERRCODE_SYNTAX_ERROR),
			 errmsg("%s does not end", what),
			 errdetail("It begins on line %d.", line),
			 errhint("Nothing of the script was executed.")));
}

/* Behind the comment or the quoted text that begins here; NULL when none does. */
static const char *
behind_token(const char *c, const char *begin, const char *end, bool backslash_escapes)
{
	const char *behind;

	if (begins_line_comment(c, begin, end))
		return line_comment_end(c, end);
	if (c[0] == '/' && c + 1 < end && c[1] == '*')
	{
		if ((behind = bracketed_comment_end(c, end)) == NULL)
			refuse_unended("a comment", begin, c);
		return behind;
	}
	if (*c == '\'' || *c == '"' || *c == '`')
	{
		if ((behind = terminal_script_quoted_end(c, end, backslash_escapes)) == NULL)
			refuse_unended("a quoted text", begin, c);
		return behind;
	}
	return NULL;
}

/* See terminal_script.h. */
const char *
terminal_script_skip(const char *begin, const char *start, const char *end)
{
	const char *c = start;

	while (c < end)
	{
		const char *behind = NULL;

		if (is_blank(*c))
			behind = c + 1;
		else if (begins_line_comment(c, begin, end))
			behind = line_comment_end(c, end);
		else if (c[0] == '/' && c + 1 < end && c[1] == '*')
			behind = bracketed_comment_end(c, end);
		if (behind == NULL)
			break;
		c = behind;
	}
	return c;
}

static List *
append_statement(List *statements, const char *script, const char *start, const char *end)
{
	if (terminal_script_skip(script, start, end) == end)
		return statements;
	while (is_blank(*start))
		start++;
	while (is_blank(end[-1]))
		end--;
	return lappend(statements, pnstrdup(start, end - start));
}

/* See terminal_script.h. */
List *
terminal_script_split(const char *script, bool backslash_escapes)
{
	const char *end = script + strlen(script);
	const char *start = script;
	const char *c = script;
	List	   *statements = NIL;

	while (c < end)
	{
		const char *behind = behind_token(c, script, end, backslash_escapes);

		CHECK_FOR_INTERRUPTS();
		if (behind != NULL)
			c = behind;
		else if (*c == ';')
		{
			statements = append_statement(statements, script, start, c);
			start = ++c;
		}
		else
			c++;
	}
	return append_statement(statements, script, start, end);
}
