/*
 * clock.c
 *		Reading CLOCK_BOOTTIME. The wall clock is read nowhere in the library.
 */
#include "clock.h"

#include <stddef.h>
#include <time.h>

static NodeTime
read_boottime(void *argument)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (NodeTime) now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

const NodeClock clock_boottime = {read_boottime, NULL};
