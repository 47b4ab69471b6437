/*
 * lookup.h
 *		Answers from the caches, each under a ticket that is checked at the last moment.
 */
#ifndef AMORO_LOOKUP_H
#define AMORO_LOOKUP_H

#include <h2o.h>

#include "amoro_node.h"
#include "http_server.h"
#include "object_kind.h"
#include "privilege.h"

/*
 * Answers with the document of an object, or (question not NULL, which is in the request's memory) whether a user may do
 * something; now or, when it has to be loaded, later.
 */
extern void lookup_object(h2o_req_t *request, const ObjectKind *kind, const AmoroKey *key, const PrivilegeQuestion *question);

/* Readies a thread for lookups that come back from the loaders. */
extern void lookup_attach(HttpThread *thread);
extern void lookup_detach(HttpThread *thread);

#endif							/* AMORO_LOOKUP_H */
