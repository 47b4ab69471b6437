/*
 * hanging_resolver.c
 *		Preloaded into the server: the name server for names that begin with "hang." never answers (fault D05).
 *
 * Also notes, in the file $AMORO_RESOLVER, the signals that are not blocked in the thread that waits (fault D19). Other names have the
 * addresses that a line of the file $AMORO_HOSTS gives them, "name address address", at each moment (fault D11).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void
note_open_signals(const char *file)
{
	sigset_t	blocked;
	char		line[64];
	int			open_signals = 0;
	int			fd = open(file, O_WRONLY | O_CREAT | O_APPEND, 0600);

	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	for (int i = 1; i < 32; i++)
		open_signals += i != SIGKILL && i != SIGSTOP && !sigismember(&blocked, i);
	if (fd >= 0)
	{
		int			length = snprintf(line, sizeof(line), "open signals: %d\n", open_signals);

		if (write(fd, line, length) != length)
			abort();
		close(fd);
	}
}

typedef int (*Resolver) (const char *, const char *, const struct addrinfo *, struct addrinfo **);

/* Resolves each address of the line into one list; 0, or an error of getaddrinfo. */
static int
resolve_line(char *line, Resolver original, const char *service, const struct addrinfo *hints, struct addrinfo **result)
{
	char	   *place = NULL;
	int			error = EAI_NONAME;

	for (char *address = strtok_r(line, " \n", &place); address != NULL; address = strtok_r(NULL, " \n", &place))
	{
		error = original(address, service, hints, result);
		if (error != 0)
			return error;
		while (*result != NULL)
			result = &(*result)->ai_next;
	}
	return error;
}

int
getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **result)
{
	Resolver	original;
	const char *file = getenv("AMORO_RESOLVER");
	FILE	   *hosts = getenv("AMORO_HOSTS") == NULL ? NULL : fopen(getenv("AMORO_HOSTS"), "r");
	char		line[256];
	int			error = -1;

	if (node != NULL && strncmp(node, "hang.", 5) == 0)
	{
		if (file != NULL)
			note_open_signals(file);
		for (;;)
			sleep(1);
	}
	*(void **) &original = dlsym(RTLD_NEXT, "getaddrinfo");
	while (node != NULL && hosts != NULL && error == -1 && fgets(line, sizeof(line), hosts) != NULL)
	{
		if (strncmp(line, node, strlen(node)) == 0 && line[strlen(node)] == ' ')
			error = resolve_line(line + strlen(node), original, service, hints, result);
	}
	if (hosts != NULL)
		fclose(hosts);
	return error != -1 ? error : original(node, service, hints, result);
}
