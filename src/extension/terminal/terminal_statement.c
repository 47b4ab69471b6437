/*
 * terminal_statement.c
 *		What a statement of a terminal session asks for: one of the few that are answered in the database, or
 *		something for the engine.
 *
 * Only what is read to its last character is taken as one of ours; whatever has more to it is the engine's, except
 * for USE: an engine that changed the database by itself would leave the session behind.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "terminal/terminal_script.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(amoro_meta_terminal_statements);

#define MAX_PARTS 3
/* Each is answered with the context of the session, which is up to 64 kB. */
#define MAX_STATEMENTS 1000

typedef struct Reader
{
	const char *begin;
	const char *next;
	const char *end;
	bool		backslash_escapes;
} Reader;

/* What was found in a statement. */
typedef struct Command
{
	const char *name;			/* the column "command" */
	int			parts;
	char	   *part[MAX_PARTS];	/* names, from the outermost; or key and value */
} Command;

/* Behind the blanks and comments that begin there. */
static const char *
behind_blanks(const Reader *reader, const char *here)
{
	return terminal_script_skip(reader->begin, here, reader->end);
}

static void
skip(Reader *reader)
{
	reader->next = behind_blanks(reader, reader->next);
}

static bool
at_end(Reader *reader)
{
	skip(reader);
	return reader->next == reader->end;
}

static bool
ends_bare_word(char c)
{
	return strchr(" \t\n\r\f\v.;='\"`(),", c) != NULL;
}

/* Reads the keyword, which no letter may follow; false, and nothing read, when it is another one. */
static bool
read_keyword(Reader *reader, const char *keyword)
{
	size_t		length = strlen(keyword);

	skip(reader);
	if (reader->end - reader->next < length || pg_strncasecmp(reader->next, keyword, length) != 0)
		return false;
	if (reader->next + length < reader->end && !ends_bare_word(reader->next[length]) &&
		reader->next + length == behind_blanks(reader, reader->next + length))
		return false;
	reader->next += length;
	return true;
}

/* What is between the quotes: a doubled quote is one; a backslash gives its meaning up to a quote or a backslash only. */
static char *
read_quoted(Reader *reader)
{
	const char *end = terminal_script_quoted_end(reader->next, reader->end, reader->backslash_escapes);
	char		quote = *reader->next;
	StringInfoData text;

	if (end == NULL)
		return NULL;
	initStringInfo(&text);
	for (const char *c = reader->next + 1; c < end - 1; c++)
	{
		if (*c == quote)
			c++;
		else if (*c == '\\' && reader->backslash_escapes && quote != '`' && strchr("'\"\\", c[1]) != NULL)
			c++;
		appendStringInfoChar(&text, *c);
	}
	reader->next = end;
	return text.data;
}

static bool
at_quote(const Reader *reader)
{
	return reader->next < reader->end && strchr("'\"`", *reader->next) != NULL;
}

/* A name, quoted by "..." or `...` or bare; NULL when there is none. */
static char *
read_name(Reader *reader)
{
	const char *start;

	skip(reader);
	if (at_quote(reader))
		return *reader->next == '\'' ? NULL : read_quoted(reader);
	start = reader->next;
	while (reader->next < reader->end && !ends_bare_word(*reader->next) &&
		   behind_blanks(reader, reader->next) == reader->next)
		reader->next++;
	return reader->next == start ? NULL : pnstrdup(start, reader->next - start);
}

/* Reads [[a.]b.]c up to the end of the statement; false when it is something else. */
static bool
read_names(Reader *reader, Command *command, int most)
{
	do
	{
		if (command->parts == most || (command->part[command->parts] = read_name(reader)) == NULL)
			return false;
		command->parts++;
		skip(reader);
	} while (reader->next < reader->end && *reader->next == '.' && reader->next++);
	return at_end(reader);
}

/* [in NAMES], for SHOW */
static bool
read_place(Reader *reader, Command *command, int most)
{
	if (at_end(reader))
		return true;
	return (read_keyword(reader, "in") || read_keyword(reader, "from")) && read_names(reader, command, most);
}

/* The text up to the end without its comments and the blanks around it; of a text in quotes, what is in them. */
static char *
read_value(Reader *reader)
{
	StringInfoData text;
	Reader		quoted;

	skip(reader);
	quoted = *reader;
	if (at_quote(&quoted) && *quoted.next != '`')
	{
		char	   *value = read_quoted(&quoted);

		if (value != NULL && at_end(&quoted))
			return value;
	}
	initStringInfo(&text);
	while (reader->next < reader->end)
	{
		const char *behind = at_quote(reader) ?
			terminal_script_quoted_end(reader->next, reader->end, reader->backslash_escapes) : NULL;

		if (behind == NULL && (behind = behind_blanks(reader, reader->next)) == reader->end)
			break;				/* blanks and comments at the end */
		if (behind == reader->next)
			behind++;
		appendBinaryStringInfo(&text, reader->next, behind - reader->next);
		reader->next = behind;
	}
	return text.data;
}

/* A key, which has dots; NULL when there is none. */
static char *
read_key(Reader *reader)
{
	StringInfoData key;
	char	   *name = read_name(reader);

	if (name == NULL)
		return NULL;
	initStringInfo(&key);
	appendStringInfoString(&key, name);
	while (!at_quote(reader) && reader->next < reader->end && *reader->next == '.')
	{
		CHECK_FOR_INTERRUPTS();
		reader->next++;
		if (reader->next == reader->end || behind_blanks(reader, reader->next) != reader->next ||
			at_quote(reader) || (name = read_name(reader)) == NULL)
			return NULL;
		appendStringInfo(&key, ".%s", name);
		pfree(name);
	}
	return key.data;
}

static bool
read_set(Reader *reader, Command *command)
{
	command->name = "set";
	if (at_end(reader))
		return true;
	if ((command->part[0] = read_key(reader)) == NULL)
		return false;
	command->parts = 1;
	if (at_end(reader))
		return true;
	if (*reader->next != '=')
		return false;
	reader->next++;
	command->part[1] = read_value(reader);
	command->parts = 2;
	return true;
}

static bool
read_reset(Reader *reader, Command *command)
{
	if (!read_set(reader, command) || command->parts > 1)
		return false;
	command->name = "reset";
	return true;
}

static bool
read_show(Reader *reader, Command *command)
{
	static const struct
	{
		const char *word;
		const char *name;
		int			parts;		/* of the name that may follow */
	}			shows[] = {
		{"catalogs", "show catalogs", 0},
		{"databases", "show databases", 1},
		{"schemas", "show databases", 1},
		{"tables", "show tables", 2},
		{"blockers", "show blockers", 3},
		{"optimizers", "show optimizers", 1},
	};

	for (int i = 0; i < lengthof(shows); i++)
	{
		if (read_keyword(reader, shows[i].word))
		{
			command->name = shows[i].name;
			return shows[i].parts == 0 ? at_end(reader) : read_place(reader, command, shows[i].parts);
		}
	}
	return false;
}

static bool
read_describe(Reader *reader, Command *command)
{
	Reader		behind = *reader;

	command->name = "describe";
	if (read_keyword(&behind, "table") && !at_end(&behind) && *behind.next != '.')
		*reader = behind;
	return read_names(reader, command, 3);
}

/* Says what the statement is; "other" is for the engine, "invalid" for nobody. */
static Command
read_command(const char *statement, bool backslash_escapes)
{
	Reader		reader = {statement, statement, statement + strlen(statement), backslash_escapes};
	Command		command = {0};
	bool		ours = false;

	if (read_keyword(&reader, "use"))
	{
		command.name = "use";
		if (!read_names(&reader, &command, 2))
			command.name = "invalid use";
		ours = true;
	}
	else if (read_keyword(&reader, "set"))
		ours = read_set(&reader, &command);
	else if (read_keyword(&reader, "reset"))
		ours = read_reset(&reader, &command);
	else if (read_keyword(&reader, "show"))
		ours = read_show(&reader, &command);
	else if (read_keyword(&reader, "describe") || read_keyword(&reader, "desc"))
		ours = read_describe(&reader, &command);
	if (!ours || strcmp(command.name, "invalid use") == 0)
		command.parts = 0;
	if (!ours)
		command.name = "other";
	return command;
}

static void
put_statement(ReturnSetInfo *result, const char *statement, const Command *command)
{
	Datum		values[3];
	bool		nulls[3] = {false, false, false};
	Datum		parts[MAX_PARTS];

	for (int i = 0; i < command->parts; i++)
		parts[i] = CStringGetTextDatum(command->part[i]);
	values[0] = CStringGetTextDatum(statement);
	values[1] = CStringGetTextDatum(command->name);
	values[2] = PointerGetDatum(construct_array(parts, command->parts, TEXTOID, -1, false, TYPALIGN_INT));
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/*
 * amoro_meta_terminal_statements(script, backslash_escapes) returns the statements of a script in their order, what
 * each of them is, and the names, or key and value, in it. Raises 42601 when a quoted text or a comment does not end,
 * 54000 when there are too many.
 */
Datum
amoro_meta_terminal_statements(PG_FUNCTION_ARGS)
{
	char	   *script = text_to_cstring(PG_GETARG_TEXT_PP(0));
	bool		backslash_escapes = PG_GETARG_BOOL(1);
	List	   *statements = terminal_script_split(script, backslash_escapes);
	ListCell   *cell;

	if (list_length(statements) > MAX_STATEMENTS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a script has at most %d statements", MAX_STATEMENTS),
				 errhint("Nothing of the script was executed.")));
	InitMaterializedSRF(fcinfo, 0);
	foreach(cell, statements)
	{
		Command		command = read_command(lfirst(cell), backslash_escapes);

		CHECK_FOR_INTERRUPTS();
		put_statement((ReturnSetInfo *) fcinfo->resultinfo, lfirst(cell), &command);
	}
	return (Datum) 0;
}
