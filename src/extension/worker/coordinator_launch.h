/*
 * coordinator_launch.h
 *		Starts and follows the coordinator of each database that the launcher watches.
 */
#ifndef AMORO_META_COORDINATOR_LAUNCH_H
#define AMORO_META_COORDINATOR_LAUNCH_H

#include "postgres.h"

#include "worker/database_watch.h"

/* Does what is due for one database. */
extern void coordinator_attend(Watch *watch);
/* Whether it runs and has got as far as to work. */
extern bool coordinator_is_at_work(const Watch *watch);
/* How many are about to start. */
extern int	coordinator_count_starting(void);
/* Whether one could not be started for want of a worker slot, and none since. */
extern bool coordinator_lacks_slot(void);
/* Gives the entry back; one with a term in it is kept while its database exists: no later term may be smaller. */
extern void coordinator_release_entry(Watch *watch);

#endif							/* AMORO_META_COORDINATOR_LAUNCH_H */
