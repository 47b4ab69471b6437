/*
 * route.c
 *		Paths are read as the client sent them: a slash separates names, %2F is part of one.
 */
#include "route.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "amoro_node.h"
#include "http_answer.h"
#include "listing.h"
#include "lookup.h"
#include "lookup_many.h"
#include "metrics.h"
#include "object_kind.h"
#include "object_name.h"
#include "status.h"

/* Three names of 255 characters, each of them four bytes, each of those written as %XX, and room for the rest. */
enum
{
	MAX_PATH_LENGTH = 3 * 255 * 4 * 3 + 1024
};

#define METHODS "GET, HEAD"
#define METHODS_OF_DATABASE "GET, HEAD, POST"

typedef struct Route
{
	const char *path;
	void		(*answer) (h2o_req_t *request);
} Route;

static void
answer_not_found(h2o_req_t *request)
{
	http_answer_send(request, http_answer_begin_error(request, 404, "NotFoundException", "there is nothing here"));
}

/* Cuts names at slashes; returns how many segments there are, of which at most size are stored. */
static int
split_segments(h2o_iovec_t names, h2o_iovec_t *segments, int size)
{
	const char *start = names.base;
	const char *end = names.base + names.len;
	int			count = 0;

	for (const char *c = start;; c++)
	{
		if (c < end && *c != '/')
			continue;
		if (count < size)
			segments[count] = h2o_iovec_init(start, (size_t) (c - start));
		count++;
		if (c == end)
			return count;
		start = c + 1;
	}
}

static bool
method_is(const h2o_req_t *request, const char *method)
{
	return h2o_memis(request->method.base, request->method.len, method, strlen(method));
}

static void
answer_wrong_method(h2o_req_t *request, bool many)
{
	const char *allowed = many ? METHODS_OF_DATABASE : METHODS;
	h2o_iovec_t body = http_answer_begin_error(request, 405, "MethodNotAllowedException", "only %s are allowed", allowed);

	http_answer_header(request, "allow", h2o_iovec_init(allowed, strlen(allowed)));
	http_answer_send(request, body);
}

/* Decodes the segments into names; false: it has been answered. */
static bool
decode_names(h2o_req_t *request, const ObjectKind *kind, h2o_iovec_t names, const h2o_iovec_t *segments, int count, char **decoded)
{
	char	   *space = h2o_mem_alloc_pool(&request->pool, names.len + 1);

	for (int i = 0; i < count; i++)
	{
		const char *problem;

		/* each has the place that its slash, or the end, had */
		decoded[i] = space + (segments[i].base - names.base);
		problem = object_name_decode(segments[i].base, segments[i].len, decoded[i]);
		if (problem != NULL)
		{
			http_answer_send(request, http_answer_begin_error(request, 400, "BadRequestException",
															  "the name of the %s %s", kind->labels[i], problem));
			return false;
		}
	}
	return true;
}

/* The names may be those of an object, or of the database of a kind that can be listed. */
static void
answer_object(h2o_req_t *request, const ObjectKind *kind, h2o_iovec_t names)
{
	h2o_iovec_t segments[MAX_OBJECT_NAMES];
	char	   *decoded[MAX_OBJECT_NAMES] = {NULL};
	int			count = split_segments(names, segments, MAX_OBJECT_NAMES);
	bool		whole = count == object_kind_names(kind);
	bool		database = kind->plural != NULL && count == 2;
	ObjectQuestion *question;

	if (!whole && !database)
		answer_not_found(request);
	else if (!method_is(request, "GET") && !method_is(request, "HEAD") && !(database && method_is(request, "POST")))
		answer_wrong_method(request, database);
	else if (decode_names(request, kind, names, segments, count, decoded))
	{
		question = h2o_mem_alloc_pool(&request->pool, sizeof(*question));
		*question = (ObjectQuestion) {.kind = kind, .key = {decoded[0], decoded[1], decoded[2]}};
		if (database && method_is(request, "POST"))
			lookup_many(request, kind, &question->key);
		else if ((!database || listing_read_question(request, question)) &&
				 (!kind->asks_privilege || (question->privilege = privilege_read_question(request)) != NULL))
			lookup_object(request, question);
	}
}

static const Route routes[] = {
	{"/healthz", status_answer_health},
	{"/metrics", metrics_answer},
	{"/v1/status", status_answer},
};

/* A path of count names. */
static void
print_kind(FILE *out, const ObjectKind *kind, int count, const char *methods)
{
	fprintf(out, "%s %.*s", methods, (int) strlen(kind->path) - 1, kind->path);
	for (int i = 0; i < count; i++)
	{
		fputc('/', out);
		for (const char *c = kind->labels[i]; *c != '\0'; c++)
			fputc(toupper((unsigned char) *c), out);
	}
	fputc('\n', out);
}

void
route_print(FILE *out)
{
	const ObjectKind *kind;

	for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++)
		fprintf(out, METHODS " %s\n", routes[i].path);
	for (int i = 0; (kind = object_kind_at(i)) != NULL; i++)
	{
		print_kind(out, kind, object_kind_names(kind), METHODS);
		if (kind->plural != NULL)
			print_kind(out, kind, 2, METHODS_OF_DATABASE);
	}
}

/* The path without query; without scheme and authority, which a proxy may have sent. */
static h2o_iovec_t
request_path(const h2o_req_t *request)
{
	static const char scheme[] = "http://";
	h2o_iovec_t path = request->path;

	if (request->query_at != SIZE_MAX && request->query_at < path.len)
		path.len = request->query_at;
	if (path.len > strlen(scheme) && memcmp(path.base, scheme, strlen(scheme)) == 0)
	{
		const char *authority = path.base + strlen(scheme);
		const char *slash = memchr(authority, '/', path.len - strlen(scheme));

		if (slash != NULL)
			return h2o_iovec_init(slash, path.len - (size_t) (slash - path.base));
	}
	return path;
}

static const Route *
find_route(h2o_iovec_t path)
{
	for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++)
	{
		if (h2o_memis(path.base, path.len, routes[i].path, strlen(routes[i].path)))
			return &routes[i];
	}
	return NULL;
}

int
route_request(h2o_handler_t *handler, h2o_req_t *request)
{
	h2o_iovec_t path = request_path(request);
	const ObjectKind *kind = object_kind_of_path(path.base, path.len);
	const Route *route = kind == NULL ? find_route(path) : NULL;

	if (path.len > MAX_PATH_LENGTH)
		http_answer_send(request, http_answer_begin_error(request, 414, "RequestUriTooLongException",
														  "no path that means something is longer than %d bytes",
														  MAX_PATH_LENGTH));
	else if (route == NULL && kind == NULL)
		answer_not_found(request);
	else if (kind != NULL)
		answer_object(request, kind, h2o_iovec_init(path.base + strlen(kind->path), path.len - strlen(kind->path)));
	else if (!method_is(request, "GET") && !method_is(request, "HEAD"))
		answer_wrong_method(request, false);
	else
		route->answer(request);
	return 0;
}
