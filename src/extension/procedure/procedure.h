/*
 * procedure.h
 *		The engine of the procedures: their machine is a table of steps, each step one short
 *		transaction of the coordinator (docs/protocol.md, section 7).
 */
#ifndef AMORO_META_PROCEDURE_H
#define AMORO_META_PROCEDURE_H

#include "postgres.h"

#include "clock.h"

/*
 * Runs the procedures of this database that can make a step now, each step in a transaction of its own, started
 * and ended in here. An error of one is recorded on its row and stops no other. Returns the moment at which to
 * call again when nothing wakes the coordinator before; 0 = none. Called by the coordinator, outside a transaction.
 */
extern LeaseTime procedure_run_due(void);
/*
 * Deletes ended procedures older than amoro_meta.history_retention in one bounded batch; true when more are left.
 * Called by the coordinator outside a transaction.
 */
extern bool procedure_prune(void);
/* Registers the transaction callbacks (a submission wakes the coordinator at commit); once, from _PG_init. */
extern void procedure_install_callbacks(void);

#endif							/* AMORO_META_PROCEDURE_H */
