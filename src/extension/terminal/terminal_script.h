/*
 * terminal_script.h
 *		Splits a script of a terminal session into statements.
 */
#ifndef AMORO_META_TERMINAL_SCRIPT_H
#define AMORO_META_TERMINAL_SCRIPT_H

#include "postgres.h"

#include "nodes/pg_list.h"

/*
 * terminal_script_split returns the statements of a script, char * without the semicolon, blanks around them and
 * whatever is only comment. Raises 42601 when a quoted text or a comment does not end: nothing of such a script can
 * be trusted to be what its author meant.
 *
 * backslash_escapes: a backslash in '...' and "..." takes the meaning of the next character, as Spark reads it.
 */
extern List *terminal_script_split(const char *script, bool backslash_escapes);

/* The first character from start to end that is neither blank nor comment; end when there is none. The text begins at begin. */
extern const char *terminal_script_skip(const char *begin, const char *start, const char *end);

/* Where the quoted text that begins at start ends, just behind its closing quote; NULL when it does not end. */
extern const char *terminal_script_quoted_end(const char *start, const char *end, bool backslash_escapes);

#endif							/* AMORO_META_TERMINAL_SCRIPT_H */
