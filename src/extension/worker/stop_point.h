/*
 * stop_point.h
 *		Named points at which the coordinator can be made to stop, for tests (amoro_meta.debug_stop_at).
 */
#ifndef AMORO_META_STOP_POINT_H
#define AMORO_META_STOP_POINT_H

#include "postgres.h"

/* Returns at once unless amoro_meta.debug_stop_at is this name; else waits, serving interrupts, until it is not. */
extern void stop_point(const char *name);

#endif							/* AMORO_META_STOP_POINT_H */
