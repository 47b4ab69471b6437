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

/* How long of a wait of that many microseconds a statement has time for: at most half of statement_timeout. */
extern int64 wait_within_statement(int64 wait_us);

#endif							/* AMORO_META_CLOCK_H */
