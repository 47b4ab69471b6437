/*
 * http_answer.h
 *		Building one answer: status and headers first, the body last, so that whoever must check a ticket can do so
 *		between the two.
 */
#ifndef AMORO_HTTP_ANSWER_H
#define AMORO_HTTP_ANSWER_H

#include <stdint.h>

#include <h2o.h>
#include <jansson.h>

/* Where answers are counted, by status: see http_answer_count. */
typedef struct HttpAnswerCount
{
	int			status;
	int64_t		count;
} HttpAnswerCount;

/* Sets the status; the headers that every answer has. */
extern void http_answer_begin(h2o_req_t *request, int status);
/* The name (in lower case) and the value must stay for as long as the request does. */
extern void http_answer_header(h2o_req_t *request, const char *name, h2o_iovec_t value);
/* A number between double quotes, in the request's memory: an entity tag, and a number to those who skip the quotes. */
extern h2o_iovec_t http_answer_quoted_number(h2o_req_t *request, int64_t number);
/* Begins an answer that is an error, {"error":{"message","type","code"}}; its body is returned, for http_answer_send. */
extern h2o_iovec_t http_answer_begin_error(h2o_req_t *request, int status, const char *type,
										   const char *format,...) __attribute__((format(printf, 4, 5)));
/* Begins an answer that is a JSON value, and takes the value over. */
extern h2o_iovec_t http_answer_begin_json(h2o_req_t *request, int status, json_t *value);
/* Forgets what was begun. */
extern void http_answer_abandon(h2o_req_t *request);
/* Writes the answer to the socket, now; the body must stay for as long as the request's memory. */
extern void http_answer_send(h2o_req_t *request, h2o_iovec_t body);
/* The same of a body that is in several pieces; the array itself is the caller's. */
extern void http_answer_send_pieces(h2o_req_t *request, h2o_iovec_t *pieces, size_t count);

/* Fills counts with the answers sent so far, returns how many statuses there are (at most size). */
extern int	http_answer_counts(HttpAnswerCount *counts, int size);

#endif							/* AMORO_HTTP_ANSWER_H */
