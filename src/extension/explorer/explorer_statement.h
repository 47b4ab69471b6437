/*
 * explorer_statement.h
 *		Statements of the explorer, with their plans kept, and what they return. All are used in a transaction.
 */
#ifndef AMORO_META_EXPLORER_STATEMENT_H
#define AMORO_META_EXPLORER_STATEMENT_H

#include "postgres.h"

#include "executor/spi.h"

typedef struct Statement
{
	const char *text;
	int			count;
	Oid			types[9];
	SPIPlanPtr	plan;
} Statement;

/* Runs the statement, and keeps its plan for the next time; nulls are as SPI has them, or NULL. */
extern void statement_run(Statement *statement, Datum *values, const char *nulls);
/* Columns of the result, counted from 1; those without a row are of the first. */
extern Datum statement_column(uint64 row, int number, bool *isnull);
extern int64 statement_int64(int number);
extern bool statement_bool(uint64 row, int number);
/* Copied into a context that outlives the transaction; NULL for null. */
extern char *statement_text(uint64 row, int number, MemoryContext context);
/* The same in UTF-8, to be sent. */
extern char *statement_text_to_send(uint64 row, int number, MemoryContext context);
/* Arguments. */
extern Datum statement_text_argument(const char *text, char *null);
extern Datum statement_int64_array(const int64 *values, int count);
extern Datum statement_text_array(char **values, int count);
/* Adds the ids of an array of the result to one of ours, which is in the context and grows. */
extern void statement_append_ids(MemoryContext context, Datum array, int64 **ids, int *count, int *capacity);

#endif							/* AMORO_META_EXPLORER_STATEMENT_H */
