/*
 * listener.c
 *		From "host:port" to a listening socket.
 */
#include "listener.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Splits "host:port"; an empty host or * is every address. */
static bool
split_address(const char *address, char *host, size_t host_size, const char **port)
{
	const char *colon = strrchr(address, ':');
	const char *start = address;
	size_t		length;

	if (colon == NULL || colon[1] == '\0')
		return false;
	length = (size_t) (colon - address);
	if (length >= 2 && address[0] == '[' && colon[-1] == ']')
	{
		start++;
		length -= 2;
	}
	if (length >= host_size)
		return false;
	memcpy(host, start, length);
	host[length] = '\0';
	if (strcmp(host, "*") == 0)
		host[0] = '\0';
	*port = colon + 1;
	return true;
}

static int
listen_on(const struct addrinfo *candidate, int client_timeout_ms)
{
	unsigned int timeout = (unsigned int) client_timeout_ms;
	int			on = 1;
	int			off = 0;
	int			descriptor = socket(candidate->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int			saved_errno;

	if (descriptor < 0)
		return -1;
	setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (candidate->ai_family == AF_INET6)
		setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	/* Accepted sockets inherit this; it is what cuts off a client that does not take its answer. */
	setsockopt(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof(timeout));
	if (bind(descriptor, candidate->ai_addr, candidate->ai_addrlen) == 0 && listen(descriptor, SOMAXCONN) == 0)
		return descriptor;
	saved_errno = errno;
	close(descriptor);
	errno = saved_errno;
	return -1;
}

/* Every address is asked for: one socket of IPv6 takes clients of IPv4 as well, where the machine has IPv6. */
static int
listen_on_any(const struct addrinfo *candidates, bool wildcard, int client_timeout_ms)
{
	int			descriptor = -1;

	for (const struct addrinfo *candidate = candidates; candidate != NULL && descriptor < 0; candidate = candidate->ai_next)
		if (!wildcard || candidate->ai_family == AF_INET6)
			descriptor = listen_on(candidate, client_timeout_ms);
	for (const struct addrinfo *candidate = candidates; candidate != NULL && descriptor < 0; candidate = candidate->ai_next)
		if (wildcard && candidate->ai_family != AF_INET6)
			descriptor = listen_on(candidate, client_timeout_ms);
	return descriptor;
}

static void
describe_bound(int descriptor, char *bound, size_t bound_size)
{
	struct sockaddr_storage address;
	socklen_t	length = sizeof(address);
	char		host[NI_MAXHOST];
	char		port[NI_MAXSERV];

	if (getsockname(descriptor, (struct sockaddr *) &address, &length) != 0 ||
		getnameinfo((struct sockaddr *) &address, length, host, sizeof(host), port, sizeof(port),
					NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		snprintf(bound, bound_size, "unknown");
	else
		snprintf(bound, bound_size, address.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

int
listener_open(const char *address, int client_timeout_ms, char *bound, size_t bound_size,
			  char *error, size_t error_size)
{
	struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM};
	struct addrinfo *candidates;
	char		host[NI_MAXHOST];
	const char *port;
	int			descriptor = -1;
	int			code;

	if (!split_address(address, host, sizeof(host), &port))
	{
		snprintf(error, error_size, "\"%s\" is not HOST:PORT", address);
		return -1;
	}
	code = getaddrinfo(host[0] != '\0' ? host : NULL, port, &hints, &candidates);
	if (code != 0)
	{
		snprintf(error, error_size, "cannot resolve \"%s\": %s", address, gai_strerror(code));
		return -1;
	}
	descriptor = listen_on_any(candidates, host[0] == '\0', client_timeout_ms);
	if (descriptor < 0)
		snprintf(error, error_size, "cannot listen on \"%s\": %s", address, strerror(errno));
	else
		describe_bound(descriptor, bound, bound_size);
	freeaddrinfo(candidates);
	return descriptor;
}
