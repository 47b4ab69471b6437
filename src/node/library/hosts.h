/*
 * hosts.h
 *		The servers that a connection string names. Connecting without blocking, libpq leaves timeouts to its caller,
 *		who can only keep one for each host by connecting to one host at a time.
 */
#ifndef AMORO_HOSTS_H
#define AMORO_HOSTS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct Host
{
	char	   *host;			/* NULL: as libpq finds it */
	char	   *hostaddr;
	char	   *port;
} Host;

typedef struct Hosts
{
	int			count;			/* at least 1 */
	Host	   *hosts;
	/* what the string, a service file or the environment leaves open, and we want otherwise than libpq */
	bool		wants_read_write;
	bool		wants_keepalives;
	bool		wants_user_timeout;
} Hosts;

/* False, with libpq's message, when the string is wrong. */
extern bool hosts_read(Hosts *hosts, const char *conninfo, char *error, size_t error_size);
extern void hosts_free(Hosts *hosts);

#endif							/* AMORO_HOSTS_H */
