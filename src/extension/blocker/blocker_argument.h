/*
 * blocker_argument.h
 *		What the functions on blockers are called with, validated: 22004 for null, 22023 for what makes no sense.
 */
#ifndef AMORO_META_BLOCKER_ARGUMENT_H
#define AMORO_META_BLOCKER_ARGUMENT_H

#include "postgres.h"

#include "blocker/blocker_record.h"
#include "fmgr.h"

/* Three names, from the argument with this number on. */
extern TableName blocker_table_argument(FunctionCallInfo fcinfo, int number);
/* An array of names of operations, as a set. */
extern BlockerOperationSet blocker_operations_argument(FunctionCallInfo fcinfo, int number);
/* One name of an operation. */
extern BlockerOperationSet blocker_operation_argument(FunctionCallInfo fcinfo, int number);
/* An interval in milliseconds, at most amoro_meta.max_blocker_timeout; the given default, cut to that, for null. */
extern int64 blocker_timeout_argument(FunctionCallInfo fcinfo, int number, int64 default_ms);
/* An object of strings, of bearable size. */
extern Jsonb *blocker_properties_argument(FunctionCallInfo fcinfo, int number);
/* Raises 25006 where blockers cannot be changed: on a standby, in a read-only transaction. */
extern void blocker_require_writable(void);
extern int64 blocker_id_argument(FunctionCallInfo fcinfo, int number);

#endif							/* AMORO_META_BLOCKER_ARGUMENT_H */
