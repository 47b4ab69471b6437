/*
 * route.h
 *		Which part of the daemon answers a request.
 */
#ifndef AMORO_ROUTE_H
#define AMORO_ROUTE_H

#include <stdio.h>

#include <h2o.h>

/* Answers every request, or has a lookup answer it later; always 0 (handled), as libh2o wants it. */
extern int	route_request(h2o_handler_t *handler, h2o_req_t *request);
/* All paths, with the methods that are allowed, a line each. */
extern void route_print(FILE *out);

#endif							/* AMORO_ROUTE_H */
