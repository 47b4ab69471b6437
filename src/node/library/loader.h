/*
 * loader.h
 *		The small pool of threads that reads from the database what is not in memory: one load a key at a time,
 *		for all who asked before it began, and every one of them answered by its deadline. What is asked for together is
 *		read together (load_batch.h).
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

/* Loads that are read by one request. */
#define LOAD_BATCH_LIMIT 1000

typedef struct Load Load;

/* What a thread is about to read, or reads. */
typedef struct LoadBatch
{
	Load	   *loads[LOAD_BATCH_LIMIT];
	AmoroKey	keys[LOAD_BATCH_LIMIT]; /* of those that are asked for, in their order */
	int			count;
	int			most;			/* so many of them are asked for at once */
	bool		reconnected;
} LoadBatch;

typedef struct LoadWorker
{
	AmoroNode  *node;
	Transport  *transport;
	pthread_t	thread;
	bool		started;
	LoadBatch  *batch;
} LoadWorker;

/* Who asks for what. */
typedef struct LoadSubmission
{
	AmoroCacheKind kind;
	KeyParts	key;
	int			max_rows;		/* of a page of a listing (key_listing_parts); 0: the key is an object's */
	AmoroLoadCallback callback;
	void	   *argument;
	AmoroResult result;			/* AMORO_OK: the callback will come */
} LoadSubmission;

typedef struct Loader
{
	pthread_mutex_t lock;
	pthread_cond_t work;
	Load	   *pending[LOADER_TABLE_SIZE]; /* by key, waiting or being run */
	Load	   *queue_head;
	Load	  **queue_tail;
	int			waiter_count;
	uint64_t	groups;			/* that were submitted so far */
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
 * Of each: joins the load of this key, or the one after it if that is being run, or queues one. Without a call back:
 * AMORO_FENCED, or AMORO_UNAVAILABLE when the queue is full or the node is closing.
 */
extern void loader_submit(AmoroNode *node, LoadSubmission *submissions, int count);
/*
 * For the thread that runs a load: answers those it was run for, and takes the entry over. timed_out: those alone whose time
 * is over; others wait for another run. The load may be gone then.
 */
extern void loader_answer(AmoroNode *node, Load *load, bool timed_out, AmoroResult result, AmoroEntry *entry, AmoroTicket ticket);
/* After a fence: everybody who waits is told AMORO_FENCED, and not when the database answers. By the heartbeat thread. */
extern void loader_fence(AmoroNode *node);
/* Ends the threads; what waits is told AMORO_UNAVAILABLE. */
extern void loader_stop(AmoroNode *node);
extern void loader_destroy(Loader *loader);

#endif							/* AMORO_LOADER_H */
