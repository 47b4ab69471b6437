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
/* What a waiting heartbeat is told at its end: the newest version. */
extern void model_answer(World *world, const NodeRequest *request, NodeGrant *grant);

#endif							/* MODEL_SERVER_H */
