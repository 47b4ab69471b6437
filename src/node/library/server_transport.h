/*
 * server_transport.h
 *		The transport to a real server, over libpq without a blocking call but the resolving of host names.
 */
#ifndef AMORO_SERVER_TRANSPORT_H
#define AMORO_SERVER_TRANSPORT_H

#include "transport.h"

/* What a registration says; the strings must outlive the transport. */
typedef struct Registration
{
	const char *node_name;
	const char *node_kind;
	const char *endpoint;		/* NULL: none */
} Registration;

/* NULL, with a message, when the connection string is of no use. */
extern Transport *server_transport_create(const char *conninfo, const Registration *registration,
										  const NodeClock *clock, char *error, size_t error_size);

#endif							/* AMORO_SERVER_TRANSPORT_H */
