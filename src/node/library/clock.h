/*
 * clock.h
 *		The only clock that decides anything: CLOCK_BOOTTIME, which goes on while the machine sleeps. A test
 *		puts its own in.
 */
#ifndef AMORO_CLOCK_H
#define AMORO_CLOCK_H

#include <stdint.h>

/* Microseconds since some fixed moment. */
typedef int64_t NodeTime;

#define NODE_TIME_NEVER INT64_MAX

typedef struct NodeClock
{
	NodeTime	(*read) (void *argument);
	void	   *argument;
} NodeClock;

extern const NodeClock clock_boottime;

static inline NodeTime
clock_now(const NodeClock *clock)
{
	return clock->read(clock->argument);
}

#endif							/* AMORO_CLOCK_H */
