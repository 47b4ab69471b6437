/*
 * privilege.c
 *		Whether a user may do something, over HTTP.
 */
#include "privilege.h"

#include <stdbool.h>
#include <string.h>

#include "http_answer.h"
#include "object_name.h"

static const char *const parameters[] = {"privilege", "catalog", "database", "table", "path"};

enum
{
	PARAMETER_COUNT = sizeof(parameters) / sizeof(parameters[0])
};

static void
refuse(h2o_req_t *request, const char *parameter, const char *problem)
{
	http_answer_send(request, http_answer_begin_error(request, 400, "BadRequestException", "%s %s", parameter, problem));
}

/* Which parameter a piece of the query, name=value, is; -1: none of ours. */
static int
parameter_of(const char *piece, size_t length)
{
	for (int i = 0; i < PARAMETER_COUNT; i++)
	{
		size_t		size = strlen(parameters[i]);

		if (length > size && piece[size] == '=' && memcmp(piece, parameters[i], size) == 0)
			return i;
	}
	return -1;
}

/* Reads one piece into its value; false: it has been answered. */
static bool
read_piece(h2o_req_t *request, const char *piece, size_t length, const char **values)
{
	int			parameter = parameter_of(piece, length);
	const char *problem;
	char	   *value;
	size_t		skip;

	if (parameter < 0)
	{
		refuse(request, "the query", "has a parameter other than privilege, catalog, database, table and path");
		return false;
	}
	skip = strlen(parameters[parameter]) + 1;
	value = h2o_mem_alloc_pool(&request->pool, length - skip + 1);
	problem = values[parameter] != NULL ? "is given twice" : object_name_decode(piece + skip, length - skip, value);
	if (problem != NULL)
	{
		refuse(request, parameters[parameter], problem);
		return false;
	}
	values[parameter] = value;
	return true;
}

/* Reads all pieces, between which there are ampersands; false: it has been answered. */
static bool
read_query(h2o_req_t *request, const char **values)
{
	const char *end = request->path.base + request->path.len;
	const char *piece = request->query_at != SIZE_MAX ? request->path.base + request->query_at + 1 : end;

	while (piece < end)
	{
		const char *next = memchr(piece, '&', (size_t) (end - piece));

		if (next == NULL)
			next = end;
		if (!read_piece(request, piece, (size_t) (next - piece), values))
			return false;
		piece = next + 1;
	}
	return true;
}

const PrivilegeQuestion *
privilege_read_question(h2o_req_t *request)
{
	const char *values[PARAMETER_COUNT] = {NULL};
	PrivilegeQuestion *question = h2o_mem_alloc_pool(&request->pool, sizeof(*question));

	if (!read_query(request, values))
		return NULL;
	question->scope = (AmoroScope) {values[1], values[2], values[3], values[4]};
	if (values[0] == NULL)
		refuse(request, "privilege", "is not given");
	else if (!amoro_privilege_parse(values[0], &question->privilege))
		refuse(request, "privilege", "is none that there is");
	else if (!amoro_scope_is_valid(&question->scope))
		refuse(request, "the scope", "is none: a database needs its catalog, a table or a path (which begins with root) both");
	else
		return question;
	return NULL;
}

h2o_iovec_t
privilege_begin_answer(h2o_req_t *request, const PrivilegeQuestion *question, const AmoroEntry *entry)
{
	bool		allowed = entry != NULL && amoro_privilege_allowed(entry, question->privilege, &question->scope) == AMORO_OK;

	http_answer_begin(request, 200);
	h2o_add_header(&request->pool, &request->res.headers, H2O_TOKEN_CONTENT_TYPE, NULL, H2O_STRLIT("application/json"));
	return allowed ? h2o_iovec_init(H2O_STRLIT("{\"allowed\":true}")) : h2o_iovec_init(H2O_STRLIT("{\"allowed\":false}"));
}
