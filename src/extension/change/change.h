/*
 * change.h
 *		Appending to the metadata log, and publishing a version once it is committed
 *		(docs/protocol.md, section 5).
 */
#ifndef AMORO_META_CHANGE_H
#define AMORO_META_CHANGE_H

#include "postgres.h"

#include "utils/jsonb.h"

typedef struct MetadataChange
{
	const char *object_kind;	/* "database", "table" */
	const char *operation;		/* "pre_create", "create", "pre_alter", "alter", "rename", "pre_drop", "drop", "rollback" */
	const char *catalog_name;
	const char *database_name;
	const char *table_name;		/* NULL for a database */
	int64		object_id;
	int64		procedure_id;
	Jsonb	   *detail;			/* NULL = {} */
} MetadataChange;

/*
 * Allocates the next version and inserts the changes under it, through SPI (already connected). To be the last
 * write of the transaction: the counter row stays locked to its end, so versions commit in order without gaps.
 * Publication follows right after commit. Refused in a prepared transaction, and in a subtransaction.
 */
extern int64 change_append(const MetadataChange *changes, int count);
/* Registers the transaction callbacks; once, from _PG_init. */
extern void change_install_callbacks(void);
/*
 * Deletes changes beyond amoro_meta.change_history in one bounded batch; true when more are left. Called by the
 * coordinator in a transaction.
 */
extern bool change_prune(void);

/* Raises 25006 on a standby, whose metadata may be of the past. */
extern void metadata_require_primary(void);

#endif							/* AMORO_META_CHANGE_H */
