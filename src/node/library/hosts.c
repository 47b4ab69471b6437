/*
 * hosts.c
 *		The servers that a connection string names.
 */
#include "hosts.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* libpq refuses this value before it touches the network, but after it has read every other option. */
#define PROBE_SSLMODE "amoro-probe"

static const char *
option_value(const PQconninfoOption *options, const char *keyword)
{
	for (; options->keyword != NULL; options++)
	{
		if (strcmp(options->keyword, keyword) == 0)
			return options->val != NULL && options->val[0] != '\0' ? options->val : NULL;
	}
	return NULL;
}

static int
count_items(const char *list)
{
	int			count = 1;

	if (list == NULL)
		return 0;
	for (; *list != '\0'; list++)
		count += *list == ',';
	return count;
}

/* The item of that index in a list; a single item stands for all; NULL when empty. */
static char *
copy_item(const char *list, int index)
{
	const char *end;

	if (list == NULL)
		return NULL;
	if (count_items(list) == 1)
		index = 0;
	while (index-- > 0)
	{
		list = strchr(list, ',');
		if (list == NULL)
			return NULL;
		list++;
	}
	end = strchrnul(list, ',');
	return end > list ? strndup(list, (size_t) (end - list)) : NULL;
}

static bool
split(Hosts *hosts, const PQconninfoOption *options)
{
	const char *host = option_value(options, "host");
	const char *hostaddr = option_value(options, "hostaddr");
	const char *port = option_value(options, "port");

	hosts->count = hostaddr ? count_items(hostaddr) : host ? count_items(host) : 1;
	hosts->hosts = calloc((size_t) hosts->count, sizeof(Host));
	if (hosts->hosts == NULL)
		return false;
	for (int i = 0; i < hosts->count; i++)
	{
		hosts->hosts[i].host = copy_item(host, i);
		hosts->hosts[i].hostaddr = copy_item(hostaddr, i);
		hosts->hosts[i].port = copy_item(port, i);
	}
	return true;
}

bool
hosts_read(Hosts *hosts, const char *conninfo, char *error, size_t error_size)
{
	const char *keywords[] = {"dbname", "sslmode", NULL};
	const char *values[] = {conninfo, PROBE_SSLMODE, NULL};
	PGconn	   *conn = PQconnectStartParams(keywords, values, 1);
	PQconninfoOption *options = conn ? PQconninfo(conn) : NULL;
	bool		read = false;

	memset(hosts, 0, sizeof(*hosts));
	if (options != NULL && strstr(PQerrorMessage(conn), PROBE_SSLMODE) != NULL)
	{
		const char *session = option_value(options, "target_session_attrs");
		const char *user_timeout = option_value(options, "tcp_user_timeout");

		hosts->wants_read_write = session == NULL || strcmp(session, "any") == 0;
		hosts->wants_keepalives = option_value(options, "keepalives_idle") == NULL &&
			option_value(options, "keepalives_interval") == NULL && option_value(options, "keepalives_count") == NULL;
		hosts->wants_user_timeout = user_timeout == NULL || strcmp(user_timeout, "0") == 0;
		read = split(hosts, options);
	}
	if (!read && error_size > 0)
	{
		snprintf(error, error_size, "%s", conn ? PQerrorMessage(conn) : "out of memory");
		error[strcspn(error, "\n")] = '\0';
	}
	PQconninfoFree(options);
	PQfinish(conn);
	return read;
}

void
hosts_free(Hosts *hosts)
{
	for (int i = 0; i < hosts->count && hosts->hosts != NULL; i++)
	{
		free(hosts->hosts[i].host);
		free(hosts->hosts[i].hostaddr);
		free(hosts->hosts[i].port);
	}
	free(hosts->hosts);
	hosts->hosts = NULL;
}
