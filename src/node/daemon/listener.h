/*
 * listener.h
 *		The socket that amoro-node accepts HTTP connections on.
 */
#ifndef AMORO_LISTENER_H
#define AMORO_LISTENER_H

#include <stddef.h>

/*
 * Listens on "host:port", "[ipv6]:port" or "*:port". An unanswered byte ends a connection after client_timeout_ms.
 * Returns a descriptor and writes the address that was bound to bound; or returns -1 and writes why to error.
 */
extern int	listener_open(const char *address, int client_timeout_ms, char *bound, size_t bound_size,
						  char *error, size_t error_size);

#endif							/* AMORO_LISTENER_H */
