/*
 * load_batch.h
 *		What one thread of the loaders reads by one request. Every load in it obeys the rule for filling a cache
 *		by itself (load.h): one that a change overtook is read again, the others are answered.
 */
#ifndef AMORO_LOAD_BATCH_H
#define AMORO_LOAD_BATCH_H

#include "loader.h"

typedef struct LoadWaiter LoadWaiter;

struct LoadWaiter
{
	LoadWaiter *next;
	AmoroLoadCallback callback;
	void	   *argument;
	NodeTime	deadline;
};

/* What is set when a load is made stays; the rest is guarded by the lock of the loader, but what the thread that runs it has. */
struct Load
{
	Load	   *next_pending;
	Load	   *next_queued;
	AmoroCacheKind kind;
	int			max_rows;		/* as in LoadSubmission */
	KeyParts	key;			/* points into names */
	AmoroKey	names_key;		/* the same, for the transport */
	uint64_t	group;			/* of what was asked for together; 0: alone */
	NodeTime	deadline;
	LoadWaiter *waiters;
	LoadWaiter *late;			/* came while it was being run */
	bool		running;
	bool		again;			/* it has been run, for earlier waiters */
	LoadNote	note;			/* of the thread that runs it */
	bool		unrepresentable;	/* ditto: the encoding of the database lacks a character of the names, so nothing in it has them */
	char		names[];
};

/* Reads the loads of the worker's batch, until all are answered. */
extern void load_batch_run(LoadWorker *worker);

#endif							/* AMORO_LOAD_BATCH_H */
