/*
 * node.h
 *		The parts of a node. Locks, in this order: lease_lock, loader.lock, a shard's lock; campaigns_lock stands alone; no call back and no log
 *		message is made under any of them.
 */
#ifndef AMORO_NODE_INTERNAL_H
#define AMORO_NODE_INTERNAL_H

#include <pthread.h>

#include "amoro_node.h"
#include "backoff.h"
#include "cache.h"
#include "cache_kind.h"
#include "lease.h"
#include "loader.h"
#include "reload.h"
#include "transport.h"

typedef struct KindCounters
{
	_Atomic int64_t loads;
	_Atomic int64_t load_failures;
	_Atomic int64_t loads_refused;
	_Atomic int64_t clears;
	_Atomic int64_t reloads;
	_Atomic int64_t last_reload_us; /* -1: none yet */
} KindCounters;

/* The heartbeat thread and what only it touches. */
typedef struct Heartbeat
{
	Transport  *transport;
	pthread_t	thread;
	bool		started;
	NodeTime	due;			/* when to send the next request */
	uint64_t	told_generation;	/* of the lease, when those who waited for a load were last told of a fence */
	Random		random;
	Backoff		backoff;
	AmoroNodeState reported_state;
	char		reported_reason[REASON_SIZE];
} Heartbeat;

struct AmoroNode
{
	/* first, and apart from the rest: read by every lookup, written at every heartbeat */
	Lease		lease;
	pthread_mutex_t lease_lock; /* guards what is not atomic in lease */
	Cache		cache;
	const CacheKind *const *kinds;
	KindCounters counters[AMORO_CACHE_KIND_COUNT];
	_Atomic int64_t changes_applied;
	_Atomic bool closing;
	bool		release_wanted; /* the server may owe us a lease; set before closing */
	Heartbeat	heartbeat;
	Reload		reload;			/* touched by the heartbeat thread alone */
	Loader		loader;
	AmoroLeadership *campaigns; /* for services, chained */
	pthread_mutex_t campaigns_lock;
	NodeClock	clock;
	const char *conninfo;
	struct Registration *registration;	/* what the transports refer to */
	void		(*log) (void *argument, int level, const char *message);
	void	   *log_argument;
};

/* A node without threads; NULL when memory is short. The transport becomes the node's. */
extern AmoroNode *node_create(const NodeClock *clock, Transport *transport, size_t cache_bytes, NodeTime load_timeout,
							  unsigned preload);
/* What is left of a node whose threads have ended. */
extern void node_destroy(AmoroNode *node);
/* Stops serving at once, and wakes the threads to end. */
extern void node_begin_close(AmoroNode *node);
extern void node_log(AmoroNode *node, int level, const char *format,...) __attribute__((format(printf, 3, 4)));

#endif							/* AMORO_NODE_INTERNAL_H */
