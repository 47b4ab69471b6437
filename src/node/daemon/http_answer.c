/*
 * http_answer.c
 *		Answers through libh2o.
 */
#include "http_answer.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

typedef struct Status
{
	int			code;
	const char *reason;
} Status;

static const Status statuses[] = {
	{200, "OK"},
	{304, "Not Modified"},
	{400, "Bad Request"},
	{404, "Not Found"},
	{405, "Method Not Allowed"},
	{409, "Conflict"},
	{413, "Payload Too Large"},
	{414, "URI Too Long"},
	{500, "Internal Server Error"},
	{503, "Service Unavailable"},
};

enum
{
	STATUS_COUNT = sizeof(statuses) / sizeof(statuses[0]),
	USUAL_HEADERS = 8			/* more would be no error */
};

static atomic_llong status_counts[STATUS_COUNT];

/* Every status that is ever sent is in the table. */
static int
status_index(int code)
{
	for (int i = 0; i < STATUS_COUNT; i++)
		if (statuses[i].code == code)
			return i;
	return status_index(500);
}

void
http_answer_begin(h2o_req_t *request, int status)
{
	request->res.status = status;
	request->res.reason = statuses[status_index(status)].reason;
	h2o_vector_reserve(&request->pool, &request->res.headers, USUAL_HEADERS);
	/* A cache between us and the client would answer after our lease has ended. */
	h2o_add_header(&request->pool, &request->res.headers, H2O_TOKEN_CACHE_CONTROL, NULL, H2O_STRLIT("no-store"));
}

void
http_answer_header(h2o_req_t *request, const char *name, h2o_iovec_t value)
{
	h2o_add_header_by_str(&request->pool, &request->res.headers, name, strlen(name), 0, NULL, value.base, value.len);
}

/* By hand: two of these in every answer through snprintf take a tenth of all the work that a lookup makes. */
h2o_iovec_t
http_answer_quoted_number(h2o_req_t *request, int64_t number)
{
	size_t		size = sizeof("\"-9223372036854775808\"") - 1;
	char	   *end = (char *) h2o_mem_alloc_pool(&request->pool, size) + size;
	char	   *start = end;
	uint64_t	magnitude = number < 0 ? 0 - (uint64_t) number : (uint64_t) number;

	*--start = '"';
	do
	{
		*--start = (char) ('0' + magnitude % 10);
		magnitude /= 10;
	} while (magnitude != 0);
	if (number < 0)
		*--start = '-';
	*--start = '"';
	return h2o_iovec_init(start, (size_t) (end - start));
}

h2o_iovec_t
http_answer_begin_json(h2o_req_t *request, int status, json_t *value)
{
	char	   *text = json_dumps(value, JSON_COMPACT | JSON_ENSURE_ASCII);
	h2o_iovec_t body;

	json_decref(value);
	if (text == NULL)
	{
		status = 500;
		body = h2o_strdup(&request->pool, H2O_STRLIT("{}"));
	}
	else
		body = h2o_strdup(&request->pool, text, SIZE_MAX);
	free(text);
	http_answer_begin(request, status);
	h2o_add_header(&request->pool, &request->res.headers, H2O_TOKEN_CONTENT_TYPE, NULL,
				   H2O_STRLIT("application/json"));
	return body;
}

h2o_iovec_t
http_answer_begin_error(h2o_req_t *request, int status, const char *type, const char *format,...)
{
	json_t	   *message;
	va_list		arguments;

	va_start(arguments, format);
	message = json_vsprintf(format, arguments);
	va_end(arguments);
	return http_answer_begin_json(request, status,
								  json_pack("{s:{s:o*,s:s,s:i}}", "error", "message", message, "type", type,
											"code", status));
}

void
http_answer_abandon(h2o_req_t *request)
{
	request->res.headers.size = 0;
}

void
http_answer_send_pieces(h2o_req_t *request, h2o_iovec_t *pieces, size_t count)
{
	static h2o_generator_t generator = {NULL, NULL};
	bool		head = h2o_memis(request->method.base, request->method.len, H2O_STRLIT("HEAD"));
	bool		bodiless = request->res.status == 304;
	size_t		length = 0;

	for (size_t i = 0; i < count; i++)
		length += pieces[i].len;
	atomic_fetch_add_explicit(&status_counts[status_index(request->res.status)], 1, memory_order_relaxed);
	if (!bodiless)
		request->res.content_length = length;
	h2o_start_response(request, &generator);
	h2o_send(request, pieces, head || bodiless || length == 0 ? 0 : count, H2O_SEND_STATE_FINAL);
}

void
http_answer_send(h2o_req_t *request, h2o_iovec_t body)
{
	http_answer_send_pieces(request, &body, 1);
}

int
http_answer_counts(HttpAnswerCount *counts, int size)
{
	int			count = size < STATUS_COUNT ? size : STATUS_COUNT;

	for (int i = 0; i < count; i++)
		counts[i] = (HttpAnswerCount) {statuses[i].code, atomic_load(&status_counts[i])};
	return count;
}
