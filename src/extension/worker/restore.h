/*
 * restore.h
 *		Dumps that are restored into this database.
 */
#ifndef AMORO_META_RESTORE_H
#define AMORO_META_RESTORE_H

#include "postgres.h"

#include "nodes/parsenodes.h"

/* The owner of the extension, if this COPY brings rows into it that would be taken for those of this database; else InvalidOid. */
extern Oid restore_begins(const CopyStmt *statement);
/* From the commit on the data is of nobody, before it is adopted or the dump has said whose it is. */
extern void restore_disown(Oid owner);

#endif							/* AMORO_META_RESTORE_H */
