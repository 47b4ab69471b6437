/*
 * lookup_many.h
 *		Many objects of one database by one request: POST /v1/devices/CATALOG/DATABASE with a JSON array of names.
 */
#ifndef AMORO_LOOKUP_MANY_H
#define AMORO_LOOKUP_MANY_H

#include <h2o.h>

#include "amoro_node.h"
#include "object_kind.h"

/* database is in the request's memory. Answers now or, when something has to be loaded, later. */
extern void lookup_many(h2o_req_t *request, const ObjectKind *kind, const AmoroKey *database);

#endif							/* AMORO_LOOKUP_MANY_H */
