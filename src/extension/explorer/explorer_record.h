/*
 * explorer_record.h
 *		What the explorer reads from and writes to the database: each function is a transaction of its own.
 */
#ifndef AMORO_META_EXPLORER_RECORD_H
#define AMORO_META_EXPLORER_RECORD_H

#include "postgres.h"

#include "explorer/explorer_round.h"
#include "worker/coordinator_transaction.h"

/* Runs work in a transaction, which is tried again where others were in its way; NULL, or the error. */
extern ErrorData *record_transaction(CoordinatorWork work, void *argument);
/* Logs what could not be done, unless it was because somebody has locked what it takes: then it is just done later. */
extern void record_note_error(const char *what, const ErrorData *error);
/* Each returns NULL, or the error; then nothing is done. */
/* Makes rounds due again that an earlier explorer has left in the middle. */
extern ErrorData *record_begin(void);
/* Begins rounds of catalogs that are due; a list of Round in TopMemoryContext. running: a list of Round. */
extern ErrorData *record_claim(dlist_head *rounds, int places);
/* In how many microseconds a catalog is due; -1: there is none. */
extern ErrorData *record_next_due(dlist_head *rounds, int64 *due_us);
extern void record_progress(Round *round);
/* False when somebody has the row locked: to be tried again. */
extern bool record_end(Round *round);
/* Decides about what is missing, once everything was listed. */
extern ErrorData *record_settle(Round *round);
/* Adds jobs for tables to be read; how many. An error ends the round. */
extern int	record_tables_to_read(Round *round, bool unread, int most);

#endif							/* AMORO_META_EXPLORER_RECORD_H */
