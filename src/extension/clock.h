/*
 * clock.h
 *		The one clock that leases are measured with.
 */
#ifndef AMORO_META_CLOCK_H
#define AMORO_META_CLOCK_H

#include "postgres.h"

/* A moment on CLOCK_BOOTTIME of this host, in microseconds. Never stored on disk, never sent to a node. */
typedef int64 LeaseTime;

extern LeaseTime lease_clock_now(void);

#endif							/* AMORO_META_CLOCK_H */
