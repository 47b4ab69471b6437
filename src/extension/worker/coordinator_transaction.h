/*
 * coordinator_transaction.h
 *		The only way in which the coordinator runs SQL: short transactions, as the extension's owner.
 */
#ifndef AMORO_META_COORDINATOR_TRANSACTION_H
#define AMORO_META_COORDINATOR_TRANSACTION_H

#include "postgres.h"

/* What to do in the transaction; SPI is connected, a snapshot is active. */
typedef void (*CoordinatorWork) (void *argument);

/*
 * Runs work in a transaction of its own and commits it. NULL when it is committed; when work or the commit raised
 * an error, everything is rolled back and the error is returned, unlogged, in the memory context of the caller
 * (which must outlive the transaction).
 *
 * An error before work begins is raised: 55P03 while somebody drops the extension, 42704 when it is gone. The caller
 * lets it through to the coordinator's cycle, which sorts it out.
 */
extern ErrorData *coordinator_transaction(CoordinatorWork work, void *argument);

typedef enum ExtensionPresence
{
	EXTENSION_PRESENT,
	EXTENSION_ABSENT,
	EXTENSION_LOCKED,			/* somebody drops it and has not committed */
	EXTENSION_OTHER_VERSION		/* than the library */
} ExtensionPresence;

/* Looks, in a transaction of its own. */
extern ExtensionPresence coordinator_probe_extension(void);

/* The oid of the extension that the newest transaction has locked: another one is another extension, with other data. */
extern Oid	coordinator_extension(void);

/* For the explorer, once: its transactions are called its own, and wait for no standby's tick. */
extern void coordinator_transaction_of_explorer(void);

/* Session settings that a user's ALTER DATABASE SET must not change under the coordinator. */
extern void coordinator_pin_settings(void);

#endif							/* AMORO_META_COORDINATOR_TRANSACTION_H */
