/*
 * launcher.h
 *		The static background worker that keeps one coordinator running in every database that has the extension.
 */
#ifndef AMORO_META_LAUNCHER_H
#define AMORO_META_LAUNCHER_H

#include "postgres.h"

extern PGDLLEXPORT void amoro_meta_launcher_main(Datum unused);
/* Registers the launcher; while the postmaster loads its preloaded libraries. */
extern void launcher_register(void);

#endif							/* AMORO_META_LAUNCHER_H */
