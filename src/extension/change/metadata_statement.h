/*
 * metadata_statement.h
 *		What is read of the view amoro_meta.KIND_object, planned once a session for each kind.
 */
#ifndef AMORO_META_METADATA_STATEMENT_H
#define AMORO_META_METADATA_STATEMENT_H

#include "postgres.h"

#include "executor/spi.h"

typedef struct MetadataStatements
{
	char		kind[NAMEDATALEN];	/* key */
	int			name_count;
	SPIPlanPtr	lookup;			/* of one object, by its three names */
	SPIPlanPtr	chunk;			/* of the objects after one, in the order of ids and names */
} MetadataStatements;

/* Columns of both statements. */
enum
{
	OBJECT_ID = 1,
	OBJECT_CATALOG_NAME,
	OBJECT_DATABASE_NAME,
	OBJECT_NAME,
	OBJECT_STATE,
	OBJECT_VERSION,
	OBJECT_DOCUMENT
};

/* For a caller that is connected to SPI. Raises 22023 unless there is such a kind; NULL is none. */
extern MetadataStatements *metadata_statements_of(const char *kind);
/* Has the receiver take the objects after the one with that id and these names, until it wants no more, max_rows at most. */
extern void metadata_run_chunk(MetadataStatements *statements, const Datum *after, int64 max_rows, DestReceiver *receiver);
/* The newest committed version, in the snapshot of the caller's statement. */
extern int64 metadata_read_version(void);

#endif							/* AMORO_META_METADATA_STATEMENT_H */
