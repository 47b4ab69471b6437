/*
 * clock.c
 *		Preloaded into amoro-node: moves its clocks (faults L07 and L08).
 *
 * The file $AMORO_CLOCK holds two numbers of eight bytes, nanoseconds that are added to the wall clock and to
 * CLOCK_BOOTTIME; a test changes them while the node runs. Other clocks stay as they are, which is what a
 * suspended machine (boot time goes on, monotonic time does not) and an administrator (wall clock only) do.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static const volatile int64_t *offsets;

__attribute__((constructor)) static void
map_offsets(void)
{
	const char *file = getenv("AMORO_CLOCK");
	int			descriptor = file != NULL ? open(file, O_RDONLY | O_CLOEXEC) : -1;
	void	   *address = mmap(NULL, 2 * sizeof(int64_t), PROT_READ, MAP_SHARED, descriptor, 0);

	if (address == MAP_FAILED)
		abort();
	offsets = address;
}

int
clock_gettime(clockid_t clock, struct timespec *result)
{
	int			(*original) (clockid_t, struct timespec *);
	int			status;
	int64_t		nanoseconds;

	*(void **) &original = dlsym(RTLD_NEXT, "clock_gettime");
	status = original(clock, result);
	if (status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_BOOTTIME))
	{
		nanoseconds = result->tv_sec * INT64_C(1000000000) + result->tv_nsec + offsets[clock == CLOCK_BOOTTIME];
		result->tv_sec = nanoseconds / INT64_C(1000000000);
		result->tv_nsec = nanoseconds % INT64_C(1000000000);
	}
	return status;
}

int
gettimeofday(struct timeval *restrict result, void *restrict zone)
{
	struct timespec now;

	(void) zone;
	clock_gettime(CLOCK_REALTIME, &now);
	result->tv_sec = now.tv_sec;
	result->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t
time(time_t *result)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (result != NULL)
		*result = now.tv_sec;
	return now.tv_sec;
}
