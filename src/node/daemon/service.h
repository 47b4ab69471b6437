/*
 * service.h
 *		The service that this node campaigns for (--service), and its hooks.
 */
#ifndef AMORO_SERVICE_H
#define AMORO_SERVICE_H

#include <stdbool.h>

#include "amoro_node.h"
#include "options.h"

typedef struct Service Service;

/* Before there are threads: starts the keeper of the hooks. NULL, with a message in the log, when that fails. */
extern Service *service_prepare(const DaemonOptions *options);
/* Begins to campaign. */
extern bool service_start(Service *service, AmoroNode *node);
/* What people are told of it; false when the node campaigns for none. */
extern bool service_status(Service *service, AmoroLeadershipStatus *status);
/* Its hooks cannot be relied on any more: the process has to end. */
extern bool service_is_broken(Service *service);
/* Stops to lead, gives the service to others; before the node is closed. */
extern void service_stop(Service *service);

#endif							/* AMORO_SERVICE_H */
