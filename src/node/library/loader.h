/*
 * loader.h
 *		The small pool of threads that reads from the database what is not in memory: one load a key at a time,
 *		for all who asked before it began, and every one of them answered by its deadline.
 */
#ifndef AMORO_LOADER_H
#define AMORO_LOADER_H

#include <pthread.h>

#include "backoff.h"
#include "load.h"

#define LOADER_MAX_CONNECTIONS 64
/* Callers that wait at the same time; the next one is told that the database is not available. */
#define LOADER_MAX_WAITERS 16384
#define LOADER_TABLE_SIZE 1024

typedef struct Load Load;

typedef struct LoadWorker
{
	AmoroNode  *node;
	Transport  *transport;
	pthread_t	thread;
	bool		started;
} LoadWorker;

typedef struct Loader
{
	pthread_mutex_t lock;
	pthread_cond_t work;
	Load	   *pending[LOADER_TABLE_SIZE]; /* by key, waiting or being run */
	Load	   *queue_head;
	Load	  **queue_tail;
	int			waiter_count;
	bool		stopping;
	NodeTime	timeout;
	NodeTime	failure_logged; /* guarded by lock */
	LoadWorker	workers[LOADER_MAX_CONNECTIONS];
	int			worker_count;
} Loader;

extern void loader_init(Loader *loader, NodeTime timeout);
/* Starts a thread over a transport, which the loader then owns; false when no thread can be had. */
extern bool loader_add_worker(Loader *loader, AmoroNode *node, Transport *transport);
/*
 * Joins the load of this key, or the one after it if that is being run, or queues one: AMORO_OK. No call back with
 * AMORO_FENCED, or AMORO_UNAVAILABLE when the queue is full or the node is closing.
 */
extern AmoroResult loader_submit(AmoroNode *node, AmoroCacheKind kind, const KeyParts *key,
						  AmoroLoadCallback callback, void *argument);
/* After a fence: everybody who waits is told AMORO_FENCED, and not when the database answers. By the heartbeat thread. */
extern void loader_fence(AmoroNode *node);
/* Ends the threads; what waits is told AMORO_UNAVAILABLE. */
extern void loader_stop(AmoroNode *node);
extern void loader_destroy(Loader *loader);

#endif							/* AMORO_LOADER_H */
