/*
 * device_path.c
 *		Paths of devices in the tree model, spelled as Apache IoTDB spells them.
 *
 * A node is letters, digits, underscores and whatever is not ASCII; anything else, and what reads as a number, stands in
 * backticks, a backtick in it twice. One path has one canonical form, which is what is stored and looked up.
 */
#include "postgres.h"

#include "device/device_path.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "object/object_name.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(amoro_meta_device_path);
PG_FUNCTION_INFO_V1(amoro_meta_device_paths_overlap);

/* No path of the greatest length has more. */
#define MAX_NODES (DEVICE_PATH_MAX / 2 + 1)

/* A node of a canonical path, quotes and all. */
typedef struct PathNode
{
	const char *text;
	int			length;
} PathNode;

static bool
is_plain_character(unsigned char c)
{
	return IS_HIGHBIT_SET(c) || c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Digits, or digits with an exponent: IoTDB takes it for a number. */
static bool
reads_as_number(const char *name, int length)
{
	int			digits = strspn(name, "0123456789");

	if (digits == 0 || digits >= length)
		return digits > 0;
	if (name[digits] != 'e' && name[digits] != 'E')
		return false;
	return digits + 1 < length && digits + 1 + (int) strspn(name + digits + 1, "0123456789") >= length;
}

static bool
needs_backticks(const char *name, int length)
{
	for (int i = 0; i < length; i++)
	{
		if (!is_plain_character(name[i]))
			return true;
	}
	return reads_as_number(name, length);
}

static void
append_node(StringInfo path, const char *name)
{
	if (!needs_backticks(name, strlen(name)))
	{
		appendStringInfoString(path, name);
		return;
	}
	appendStringInfoChar(path, '`');
	for (const char *c = name; *c; c++)
	{
		if (*c == '`')
			appendStringInfoChar(path, '`');
		appendStringInfoChar(path, *c);
	}
	appendStringInfoChar(path, '`');
}

/* The name between backticks at *cursor, which is moved behind them; NULL with *problem set. */
static char *
read_quoted_name(const char **cursor, const char **problem)
{
	StringInfoData name;
	const char *c = *cursor + 1;

	initStringInfo(&name);
	for (;; c++)
	{
		if (*c == '`' && c[1] == '`')
			c++;
		else if (*c == '`')
			break;
		else if (*c == '\0')
		{
			*problem = "A backtick is not closed.";
			return NULL;
		}
		else if (*c == '*')
		{
			*problem = "A name has an asterisk.";
			return NULL;
		}
		appendStringInfoChar(&name, *c);
	}
	*cursor = c + 1;
	*problem = name.len == 0 ? "A name is empty." : NULL;
	return name.data;
}

/* The same for a name without backticks. */
static char *
read_plain_name(const char **cursor, const char **problem)
{
	const char *start = *cursor;
	const char *end = start;

	while (is_plain_character(*end))
		end++;
	*cursor = end;
	if (*end != '.' && *end != '\0')
		*problem = *end == '*' ? "A wildcard is a node of its own." :
			"A name with other characters than letters, digits and underscores is not in backticks.";
	else if (end == start)
		*problem = "A name is empty.";
	else if (reads_as_number(start, end - start))
		*problem = "A name that reads as a number is not in backticks.";
	return pnstrdup(start, end - start);
}

/* Moves over * or ** at the cursor, which must be a whole node. */
static bool
skip_wildcard(const char **cursor, StringInfo canonical)
{
	int			length = strspn(*cursor, "*");

	if (length < 1 || length > 2 || ((*cursor)[length] != '.' && (*cursor)[length] != '\0'))
		return false;
	appendBinaryStringInfo(canonical, *cursor, length);
	*cursor += length;
	return true;
}

/* Reads one node and appends its canonical form; returns what is wrong, or NULL. */
static const char *
read_node(const char **cursor, bool wildcards, StringInfo canonical)
{
	const char *problem = NULL;
	char	   *name;

	if (**cursor == '*' && skip_wildcard(cursor, canonical))
		return wildcards ? NULL : "It has a wildcard.";
	name = **cursor == '`' ? read_quoted_name(cursor, &problem) : read_plain_name(cursor, &problem);
	if (problem == NULL)
		append_node(canonical, name);
	return problem;
}

static const char *
read_path(const char *path, bool wildcards, StringInfo canonical)
{
	const char *cursor = path;
	int			count = 0;

	for (;;)
	{
		const char *problem = read_node(&cursor, wildcards, canonical);

		CHECK_FOR_INTERRUPTS();
		if (problem != NULL)
			return problem;
		if (count++ == 0 && strcmp(canonical->data, "root") != 0)
			return "Its first node is not root.";
		if (*cursor == '\0')
			return count < 2 ? "It has one node only." : NULL;
		if (*cursor != '.')
			return "After a name in backticks comes a dot or the end.";
		cursor++;
		appendStringInfoChar(canonical, '.');
	}
}

/*
 * device_path_canonical validates a path. See the header.
 */
char *
device_path_canonical(const char *argument, const char *path, bool wildcards)
{
	StringInfoData canonical;
	const char *problem = NULL;

	initStringInfo(&canonical);
	/* before reading it: ten megabytes of dots are refused at once */
	if (strlen(path) > (size_t) 2 * DEVICE_PATH_MAX * MAX_MULTIBYTE_CHAR_LEN)
		problem = "It is longer than " CppAsString2(DEVICE_PATH_MAX) " characters.";
	if (problem == NULL)
		problem = *path == '\0' ? "It is empty." : object_name_has_control_character(path) ? "It has a control character." :
			read_path(path, wildcards, &canonical);
	if (problem == NULL && pg_mbstrlen(canonical.data) > DEVICE_PATH_MAX)
		problem = "It is longer than " CppAsString2(DEVICE_PATH_MAX) " characters.";
	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid %s", argument),
				 errdetail_internal("%s", problem),
				 errhint("A path has the form root.site1.turbine7; names of other characters than letters, digits and "
						 "underscores are put in backticks.")));
	return canonical.data;
}

/*
 * device_node_name reads one name. See the header.
 */
char *
device_node_name(const JsonPlace *place)
{
	char	   *name = json_string(place);
	const char *cursor = name;
	const char *problem = object_name_problem(name);
	StringInfoData canonical;

	initStringInfo(&canonical);
	if (problem == NULL)
		problem = read_node(&cursor, false, &canonical);
	if (problem == NULL && *cursor != '\0')
		problem = "It is a path and not one name.";
	if (problem != NULL)
		json_refuse(place, "invalid name \"%s\": %s", json_excerpt(name), problem);
	return canonical.data;
}

/* The node at the cursor, which is moved to the next one; its length is 0 behind the last. */
static PathNode
next_node(const char **cursor)
{
	const char *start = *cursor;
	const char *end = start;
	bool		quoted = false;

	for (; *end != '\0' && (quoted || *end != '.'); end++)
	{
		if (*end == '`')
			quoted = !quoted;
	}
	*cursor = *end == '.' ? end + 1 : end;
	return (PathNode) {start, end - start};
}

static int
split_path(const char *path, PathNode *nodes)
{
	int			count = 0;

	while (count < MAX_NODES && (nodes[count] = next_node(&path)).length > 0)
		count++;
	return count;
}

static bool
is_wildcard(const PathNode *node)
{
	return node->text[0] == '*';
}

/* For one or more nodes. */
static bool
is_deep(const PathNode *node)
{
	return node->length == 2 && node->text[0] == '*';
}

static bool
nodes_overlap(const PathNode *left, const PathNode *right)
{
	return is_wildcard(left) || is_wildcard(right) ||
		(left->length == right->length && memcmp(left->text, right->text, left->length) == 0);
}

/*
 * device_paths_overlap walks over pairs of beginnings: reached[j] says that the nodes of the left one so far and the
 * first j of the right one have a path in common.
 */
bool
device_paths_overlap(const char *left, const char *right)
{
	PathNode	left_nodes[MAX_NODES];
	PathNode	right_nodes[MAX_NODES];
	int			left_count = split_path(left, left_nodes);
	int			right_count = split_path(right, right_nodes);
	bool		rows[2][MAX_NODES + 1] = {{true}};

	for (int i = 0; i < left_count; i++)
	{
		const bool *before = rows[i % 2];
		bool	   *reached = rows[(i + 1) % 2];

		reached[0] = false;
		for (int j = 0; j < right_count; j++)
		{
			/* a wildcard for many nodes stands for this one and may go on */
			reached[j + 1] = nodes_overlap(&left_nodes[i], &right_nodes[j]) &&
				(before[j] || (is_deep(&left_nodes[i]) && reached[j]) || (is_deep(&right_nodes[j]) && before[j + 1]));
		}
	}
	return rows[left_count % 2][right_count];
}

/*
 * device_path_range bounds what can match. See the header.
 */
void
device_path_range(const char *path, char **from, char **to)
{
	const char *wildcard = strchr(path, '*');
	int			length;

	if (wildcard == NULL)
	{
		*from = pstrdup(path);
		*to = device_path_after(path);
		return;
	}
	/* up to and with the dot before the first wildcard; the character after a dot is a slash */
	length = wildcard - path;
	*from = pnstrdup(path, length);
	*to = pnstrdup(path, length);
	(*to)[length - 1] = '/';
}

/*
 * amoro_meta_device_path(argument, path, wildcards) returns the canonical form; raises 22004 for null and 22023.
 */
Datum
amoro_meta_device_path(PG_FUNCTION_ARGS)
{
	const char *argument = argument_name(fcinfo);

	if (PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be null", argument)));
	PG_RETURN_TEXT_P(cstring_to_text(device_path_canonical(argument, text_to_cstring(PG_GETARG_TEXT_PP(1)),
														   !PG_ARGISNULL(2) && PG_GETARG_BOOL(2))));
}

/*
 * amoro_meta_device_paths_overlap(left, right) tells whether some path matches both.
 */
Datum
amoro_meta_device_paths_overlap(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(device_paths_overlap(text_to_cstring(PG_GETARG_TEXT_PP(0)), text_to_cstring(PG_GETARG_TEXT_PP(1))));
}
