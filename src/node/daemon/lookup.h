/*
 * lookup.h
 *		Answers from the caches, each under a ticket that is checked at the last moment.
 */
#ifndef AMORO_LOOKUP_H
#define AMORO_LOOKUP_H

#include <h2o.h>

#include "amoro_node.h"
#include "http_server.h"

/* Answers with the document of a table, now or, when it has to be loaded, later. */
extern void lookup_table(h2o_req_t *request, const AmoroKey *key);

/* Readies a thread for lookups that come back from the loaders. */
extern void lookup_attach(HttpThread *thread);
extern void lookup_detach(HttpThread *thread);

#endif							/* AMORO_LOOKUP_H */
