/*
 * lifecycle.h
 *		Commands of users that make a coordinator come or go: CREATE, ALTER and DROP of databases and of the extension.
 */
#ifndef AMORO_META_LIFECYCLE_H
#define AMORO_META_LIFECYCLE_H

#include "postgres.h"

#include "storage/lock.h"

/*
 * Locks of our own, in classes of the advisory locks that SQL cannot take (it takes 1 and 2); seen in pg_locks as
 * objsubid. They need no cleaning up: whoever dies gives them back.
 */
#define LOCK_CLASS_COORDINATOR 36	/* held by the one coordinator of a database */
#define LOCK_CLASS_HOLD 37			/* held by transactions that need the coordinator out of their database */
#define LOCK_CLASS_EXPLORER 38		/* held by the one explorer of a database */

#define SET_LOCKTAG_AMORO(tag, database, lock_class) SET_LOCKTAG_ADVISORY(tag, database, 0, 0, lock_class)

extern void lifecycle_install_hooks(void);
/* Whether a transaction is under way that needs the coordinator of this database out of its way. */
extern bool lifecycle_is_held(Oid database);

#endif							/* AMORO_META_LIFECYCLE_H */
