/*
 * backoff.h
 *		How long to wait after a failure: decorrelated jitter, so that nodes which failed together do not come
 *		back together.
 */
#ifndef AMORO_BACKOFF_H
#define AMORO_BACKOFF_H

#include "clock.h"
#include "random.h"

#define BACKOFF_BASE_US 50000

typedef struct Backoff
{
	NodeTime	last;			/* 0: the last attempt succeeded */
} Backoff;

/* The next delay in microseconds, at most cap: evenly between the base and three times the last one. */
static inline NodeTime
backoff_next(Backoff *backoff, Random *random, NodeTime cap)
{
	NodeTime	highest = backoff->last > 0 ? backoff->last * 3 : BACKOFF_BASE_US * 3;
	NodeTime	delay = random_between(random, BACKOFF_BASE_US, highest);

	/* near the cap, too, nodes stay apart */
	if (delay > cap)
		delay = random_between(random, cap / 2, cap);
	backoff->last = delay;
	return delay;
}

static inline void
backoff_reset(Backoff *backoff)
{
	backoff->last = 0;
}

#endif							/* AMORO_BACKOFF_H */
