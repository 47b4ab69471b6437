/*
 * query.h
 *		The query of a request: names and values, percent-decoded.
 */
#ifndef AMORO_QUERY_H
#define AMORO_QUERY_H

#include <stdbool.h>

#include <h2o.h>

/*
 * Puts the value of each parameter that is given into values, which are NULL before, in the request's memory; a value is
 * what may be a name. False: it has been answered, because one is wrong, is given twice or is none of these.
 */
extern bool query_read(h2o_req_t *request, const char *const *parameters, int count, const char **values);
/* Answers that what is named is wrong. */
extern void query_refuse(h2o_req_t *request, const char *what, const char *problem);

#endif							/* AMORO_QUERY_H */
