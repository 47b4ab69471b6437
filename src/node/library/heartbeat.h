/*
 * heartbeat.h
 *		The thread that keeps the lease: it asks what the lease says is next, and nothing else may block it.
 */
#ifndef AMORO_HEARTBEAT_H
#define AMORO_HEARTBEAT_H

#include "node.h"

/* One step: waits until the next request is due, or makes it. False when there is nothing to do any more, for good. */
extern bool heartbeat_step(AmoroNode *node);
/* Gives the lease back, within a bounded time; for a node that is closing. */
extern void heartbeat_release(AmoroNode *node);
/* The thread: steps until the node closes, then releases. */
extern void *heartbeat_main(void *argument);

#endif							/* AMORO_HEARTBEAT_H */
