/*
 * leader.c
 *		What the leader of the service of a run does: it says that it lives, a line each two milliseconds, until it is ended. The
 *		file is $AMORO_LEADERS; a line is the token and the moment (CLOCK_BOOTTIME, microseconds), and goes out in one piece.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int
main(void)
{
	const char *file = getenv("AMORO_LEADERS");
	const char *token = getenv("AMORO_TOKEN");
	int			out = file != NULL ? open(file, O_WRONLY | O_CREAT | O_APPEND, 0644) : -1;

	if (out < 0 || token == NULL)
		return 2;
	for (;;)
	{
		struct timespec now;
		char		line[64];
		int			length;

		clock_gettime(CLOCK_BOOTTIME, &now);
		length = snprintf(line, sizeof(line), "%s %lld\n", token, (long long) now.tv_sec * 1000000 + now.tv_nsec / 1000);
		if (write(out, line, (size_t) length) != length)
			return 2;
		usleep(2000);
	}
}
