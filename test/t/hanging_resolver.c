/*
 * hanging_resolver.c
 *		Preloaded into the server: the name server for names that begin with "hang." never answers (fault D05).
 *
 * Also notes, in the file $AMORO_RESOLVER, the signals that are not blocked in the thread that waits (fault D19).
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

int
getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **result)
{
	int			(*original) (const char *, const char *, const struct addrinfo *, struct addrinfo **);
	const char *file = getenv("AMORO_RESOLVER");

	if (node != NULL && strncmp(node, "hang.", 5) == 0)
	{
		if (file != NULL)
			note_open_signals(file);
		for (;;)
			sleep(1);
	}
	*(void **) &original = dlsym(RTLD_NEXT, "getaddrinfo");
	return original(node, service, hints, result);
}
