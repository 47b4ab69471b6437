/*
 * random.c
 *		Random numbers: for jitter, and for the incarnation of a process.
 */
#include "random.h"

#include <stdio.h>
#include <sys/random.h>

void
random_seed(Random *random)
{
	if (getrandom(&random->state, sizeof(random->state), 0) != sizeof(random->state))
		random->state = (uint64_t) (uintptr_t) random;
}

/* splitmix64: a counter through a mixing function, so that any seed will do */
uint64_t
random_next(Random *random)
{
	uint64_t	mixed = (random->state += UINT64_C(0x9e3779b97f4a7c15));

	mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
	return mixed ^ (mixed >> 31);
}

int64_t
random_between(Random *random, int64_t low, int64_t high)
{
	if (high <= low)
		return low;
	return low + (int64_t) (random_next(random) % (uint64_t) (high - low));
}

bool
random_incarnation(char incarnation[INCARNATION_SIZE])
{
	unsigned char bytes[16];
	char	   *out = incarnation;

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return false;
	bytes[6] = (bytes[6] & 0x0f) | 0x40;	/* version 4 */
	bytes[8] = (bytes[8] & 0x3f) | 0x80;	/* variant of RFC 4122 */
	for (int i = 0; i < 16; i++)
	{
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*out++ = '-';
		out += snprintf(out, 3, "%02x", bytes[i]);
	}
	return true;
}
