/*
 * procedure_sql.h
 *		Fixed SQL with typed parameters through SPI, for the steps of the procedures.
 */
#ifndef AMORO_META_PROCEDURE_SQL_H
#define AMORO_META_PROCEDURE_SQL_H

#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"

typedef struct SqlArgument
{
	Oid			type;
	Datum		value;
	bool		is_null;
} SqlArgument;

/* A parameter each; a NULL pointer and the number 0 of sql_optional_id become SQL's NULL. */
extern SqlArgument sql_bigint(int64 value);
extern SqlArgument sql_optional_id(int64 value);
extern SqlArgument sql_integer(int32 value);
extern SqlArgument sql_boolean(bool value);
extern SqlArgument sql_text(const char *value);
extern SqlArgument sql_jsonb(Jsonb *value);
extern SqlArgument sql_timestamptz(TimestampTz value);

/*
 * Runs one statement with a snapshot of its own and raises XX000 unless SPI answers as expected; returns the number
 * of rows. The caller is connected to SPI. sql is a string constant: its address is the key under which it is planned.
 */
extern uint64 procedure_sql(const char *sql, int expected, int count, const SqlArgument *arguments);

/*
 * The same for a SELECT that is to see what is committed by now, and what this transaction did, whatever snapshot the
 * transaction has.
 */
extern uint64 procedure_sql_latest(const char *sql, int count, const SqlArgument *arguments);

/*
 * The same as procedure_sql for a statement of which only one plan is good: lookups and walks along indexes, neither sorted nor
 * compiled. The planner does not know that a table has just grown, nor that a queue is emptied from its head.
 */
extern uint64 procedure_sql_along_index(const char *sql, int expected, int count, const SqlArgument *arguments);

/* Column of a row of the last result; text and jsonb are copied into the current context, NULL for SQL's NULL. */
extern int64 result_bigint(uint64 row, int column);
extern bool result_boolean(uint64 row, int column);
extern bool result_is_null(uint64 row, int column);
extern char *result_text(uint64 row, int column);
extern Jsonb *result_jsonb(uint64 row, int column);
/* -infinity (DT_NOBEGIN) for SQL's NULL */
extern TimestampTz result_timestamptz(uint64 row, int column);

#endif							/* AMORO_META_PROCEDURE_SQL_H */
