/*
 * explorer.h
 *		The background worker that speaks HTTP on behalf of one database (src/extension/README.md).
 */
#ifndef AMORO_META_EXPLORER_H
#define AMORO_META_EXPLORER_H

#include "postgres.h"

extern PGDLLEXPORT void amoro_meta_explorer_main(Datum database);
/* Wakes the explorer of a database, from any process, to look what is due. */
extern void explorer_wake(Oid database);
/* In the explorer: whether it was woken since it asked last. The latch does not say: a wait for a lock takes it for its own. */
extern bool explorer_was_woken(void);
extern void explorer_install_callbacks(void);

#endif							/* AMORO_META_EXPLORER_H */
