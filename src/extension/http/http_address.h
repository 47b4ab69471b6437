/*
 * http_address.h
 *		Which hosts and addresses this server may connect to on behalf of a catalog.
 */
#ifndef AMORO_META_HTTP_ADDRESS_H
#define AMORO_META_HTTP_ADDRESS_H

#include <sys/socket.h>

#include "postgres.h"

/*
 * Whether the address may be connected to: it is a public one, or it, or the host whose name led to it, is listed in
 * amoro_meta.http_allowed_hosts. Allocates nothing and raises nothing, so that it can be called inside of libcurl.
 */
extern bool http_address_allowed(const struct sockaddr *address, const char *host);
/* The same for an address as text; false when it is none. */
extern bool http_address_text_allowed(const char *address, const char *host);
/* Whether the text is a list of hosts, addresses and networks. */
extern bool http_address_list_valid(const char *list);

#endif							/* AMORO_META_HTTP_ADDRESS_H */
