/*
 * model_server.h
 *		The server's side of the rules, as a model.
 */
#ifndef MODEL_SERVER_H
#define MODEL_SERVER_H

#include "world.h"

extern void model_init(ModelServer *server);
/* Handles a request that has arrived. */
extern TransportStatus model_handle(World *world, const NodeRequest *request, NodeAnswer *answer,
									TransportFailure *failure);
/* What a lookup of an object reads. */
extern void model_read(const ModelServer *server, int object, LookupAnswer *answer);
/* A chunk of the objects after that one; 0: from the first. */
extern TransportStatus model_snapshot(const ModelServer *server, int64_t after_object_id, NodeAnswer *answer,
									  TransportFailure *failure);
/* What a heartbeat is told when it is answered, perhaps after a wait: the newest version, and perhaps the changes up to it. */
extern void model_answer(World *world, const NodeRequest *request, NodeAnswer *answer);

#endif							/* MODEL_SERVER_H */
