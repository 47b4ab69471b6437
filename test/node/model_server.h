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
/* What a heartbeat is told when it is answered, perhaps after a wait: the newest version, and perhaps the changes up to it. */
extern void model_answer(World *world, const NodeRequest *request, NodeAnswer *answer);

#endif							/* MODEL_SERVER_H */
