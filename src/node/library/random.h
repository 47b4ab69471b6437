/*
 * random.h
 *		Random numbers: for jitter, and for the incarnation of a process.
 */
#ifndef AMORO_RANDOM_H
#define AMORO_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

#define INCARNATION_SIZE 37		/* a uuid as text, with its NUL */

typedef struct Random
{
	uint64_t	state;
} Random;

/* Seeds from the kernel. */
extern void random_seed(Random *random);
extern uint64_t random_next(Random *random);
/* Evenly from [low, high); low when the range is empty. */
extern int64_t random_between(Random *random, int64_t low, int64_t high);
/* Writes a new version 4 uuid; false when the kernel gives no random bytes. */
extern bool random_incarnation(char incarnation[INCARNATION_SIZE]);

#endif							/* AMORO_RANDOM_H */
