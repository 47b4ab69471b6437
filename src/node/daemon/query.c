/*
 * query.c
 *		Reading queries.
 */
#include "query.h"

#include <stdio.h>
#include <string.h>

#include "http_answer.h"
#include "object_name.h"

void
query_refuse(h2o_req_t *request, const char *what, const char *problem)
{
	http_answer_send(request, http_answer_begin_error(request, 400, "BadRequestException", "%s %s", what, problem));
}

/* Which parameter a piece of the query, name=value, is; -1: none of these. */
static int
parameter_of(const char *piece, size_t length, const char *const *parameters, int count)
{
	for (int i = 0; i < count; i++)
	{
		size_t		size = strlen(parameters[i]);

		if (length > size && piece[size] == '=' && memcmp(piece, parameters[i], size) == 0)
			return i;
	}
	return -1;
}

static void
refuse_unknown(h2o_req_t *request, const char *const *parameters, int count)
{
	char		problem[256];
	size_t		length = (size_t) snprintf(problem, sizeof(problem), "has a parameter other than ");

	for (int i = 0; i < count && length < sizeof(problem); i++)
		length += (size_t) snprintf(problem + length, sizeof(problem) - length, "%s%s",
									i == 0 ? "" : i == count - 1 ? " and " : ", ", parameters[i]);
	query_refuse(request, "the query", problem);
}

/* Reads one piece into its value; false: it has been answered. */
static bool
read_piece(h2o_req_t *request, const char *piece, size_t length, const char *const *parameters, int count, const char **values)
{
	int			parameter = parameter_of(piece, length, parameters, count);
	const char *problem;
	char	   *value;
	size_t		skip;

	if (parameter < 0)
	{
		refuse_unknown(request, parameters, count);
		return false;
	}
	skip = strlen(parameters[parameter]) + 1;
	value = h2o_mem_alloc_pool(&request->pool, length - skip + 1);
	problem = values[parameter] != NULL ? "is given twice" : object_name_decode(piece + skip, length - skip, value);
	if (problem != NULL)
	{
		query_refuse(request, parameters[parameter], problem);
		return false;
	}
	values[parameter] = value;
	return true;
}

bool
query_read(h2o_req_t *request, const char *const *parameters, int count, const char **values)
{
	const char *end = request->path.base + request->path.len;
	const char *piece = request->query_at != SIZE_MAX ? request->path.base + request->query_at + 1 : end;

	while (piece < end)
	{
		const char *next = memchr(piece, '&', (size_t) (end - piece));

		if (next == NULL)
			next = end;
		if (!read_piece(request, piece, (size_t) (next - piece), parameters, count, values))
			return false;
		piece = next + 1;
	}
	return true;
}
