/*
 * database_watch.h
 *		What the launcher knows of each database: whether it wants a coordinator, and how that fares.
 */
#ifndef AMORO_META_DATABASE_WATCH_H
#define AMORO_META_DATABASE_WATCH_H

#include "postgres.h"

#include "clock.h"
#include "explorer/explorer_launch.h"
#include "nodes/pg_list.h"
#include "postmaster/bgworker.h"

typedef enum WatchState
{
	WATCH_WAITING,				/* to be started at due */
	WATCH_STARTING,				/* to have announced itself by due */
	WATCH_RUNNING,
	WATCH_ABSENT				/* no extension; to be probed again at due */
} WatchState;

typedef struct Watch
{
	Oid			database;
	char		name[NAMEDATALEN];
	WatchState	state;
	LeaseTime	due;
	int			failures;		/* in a row, of coordinators that never completed a cycle */
	bool		wanted;			/* exists, can be connected to, is in the list */
	bool		exists;
	bool		probe_again;	/* the extension came or went while we were probing */
	BackgroundWorkerHandle *handle; /* NULL when the process is not a child of this launcher's making */
	ExplorerWatch explorer;
} Watch;

/* Of this process; what is in it lives in launcher_context. */
extern List *database_watches;
extern MemoryContext launcher_context;

/* How long a database in which nothing happens is left alone. */
#define DATABASE_SWEEP_US INT64CONST(300000000)

/* Brings the list in line with pg_database. */
extern void database_watch_read(void);
/* Takes over what others have put into the queue: databases in which the extension came or went. */
extern void database_watch_probe(void);
/* Looks at once where there was no extension. */
extern void database_watch_retry_absent(void);

#endif							/* AMORO_META_DATABASE_WATCH_H */
