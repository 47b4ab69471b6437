/*
 * coordinator.h
 *		The background worker that drives everything durable in one database (src/extension/README.md).
 */
#ifndef AMORO_META_COORDINATOR_H
#define AMORO_META_COORDINATOR_H

#include "postgres.h"

extern PGDLLEXPORT void amoro_meta_coordinator_main(Datum database);
/* Wakes the coordinator of this database, from any backend. */
extern void coordinator_wake(Oid database);
/* Wakes it to look again whether the extension is there and the data is its own. */
extern void coordinator_recheck(Oid database);
/* The term under which this coordinator works; 0 elsewhere. */
extern int64 coordinator_term(void);
/*
 * For the coordinator, in a transaction: keeps the row of amoro_meta.coordinator as it is until the end of the
 * transaction, and raises AM004 unless term and identity are still its own. Every step calls it first (W17: a second
 * coordinator can commit nothing).
 */
extern void coordinator_check_term(void);

#endif							/* AMORO_META_COORDINATOR_H */
