/*
 * explorer_launch.h
 *		Keeps an explorer running beside each coordinator that is at work.
 */
#ifndef AMORO_META_EXPLORER_LAUNCH_H
#define AMORO_META_EXPLORER_LAUNCH_H

#include "postgres.h"

#include "clock.h"
#include "postmaster/bgworker.h"

/* What the launcher knows of the explorer of one database. */
typedef struct ExplorerWatch
{
	BackgroundWorkerHandle *handle;
	LeaseTime	started_at;
	LeaseTime	due;
	int			failures;
	bool		reported;		/* that there is no free slot */
} ExplorerWatch;

/*
 * Starts, follows or stops the explorer of a database; wanted: its coordinator is at work. Returns when to look again
 * though nothing happens; 0: never.
 */
extern LeaseTime explorer_attend(ExplorerWatch *watch, Oid database, const char *name, bool wanted, MemoryContext context);

#endif							/* AMORO_META_EXPLORER_LAUNCH_H */
