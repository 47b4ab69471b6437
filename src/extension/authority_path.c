/*
 * authority_path.c
 *		Paths of devices as scopes of privileges: root and nodes after it, with dots between.
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(amoro_meta_check_path);

typedef enum PathNode
{
	NODE_NAME,
	NODE_ANY,					/* * */
	NODE_ANY_DEPTH,				/* ** */
	NODE_INVALID
} PathNode;

/* A name in backquotes, a backquote in it twice; *end is set to what comes after it, NULL when there is no end. */
static void
skip_quoted(const char *node, const char **end)
{
	const char *c = node + 1;

	while (*c != '\0' && (*c != '`' || c[1] == '`'))
		c += *c == '`' ? 2 : 1;
	*end = *c == '`' && c > node + 1 ? c + 1 : NULL;
}

/* What the node at the beginning of the text is; *end is set to what comes after it. */
static PathNode
read_node(const char *node, const char **end)
{
	if (*node == '`')
	{
		skip_quoted(node, end);
		return *end != NULL && (**end == '.' || **end == '\0') ? NODE_NAME : NODE_INVALID;
	}
	*end = node + strcspn(node, ".");
	if (*end == node)
		return NODE_INVALID;
	if (*end - node == 1 && node[0] == '*')
		return NODE_ANY;
	if (*end - node == 2 && node[0] == '*' && node[1] == '*')
		return NODE_ANY_DEPTH;
	return strcspn(node, "*` ") < *end - node ? NODE_INVALID : NODE_NAME;
}

/* The reason why the path is refused, or NULL. */
static const char *
path_problem(const char *path, bool only_below)
{
	const char *node = path;

	if (strncmp(path, "root", 4) != 0 || (path[4] != '.' && path[4] != '\0'))
		return "It does not begin with root.";
	for (;;)
	{
		const char *end;
		PathNode	kind = read_node(node, &end);

		if (kind == NODE_INVALID)
			return "It has a node that is empty, or is not as it should be and not in backquotes.";
		if (only_below && (kind == NODE_ANY || (kind == NODE_ANY_DEPTH && *end != '\0')))
			return "A privilege is had on one path, or with .** at its end on all below it.";
		if (*end == '\0')
			return NULL;
		node = end + 1;
	}
}

/*
 * amoro_meta_check_path(argument, path, only_below) raises 22023 unless the path is one; only_below: wildcards are a **
 * at its end, if any; else anywhere.
 */
Datum
amoro_meta_check_path(PG_FUNCTION_ARGS)
{
	const char *problem;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(2))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("path must not be null")));
	problem = path_problem(text_to_cstring(PG_GETARG_TEXT_PP(1)), PG_GETARG_BOOL(2));
	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid %s", text_to_cstring(PG_GETARG_TEXT_PP(0))),
				 errdetail_internal("%s", problem),
				 errhint("A path is like root.site1.turbine7; a node with other characters stands in backquotes.")));
	PG_RETURN_VOID();
}
