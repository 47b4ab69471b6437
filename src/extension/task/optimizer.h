/*
 * optimizer.h
 *		Who polls: an optimizer, found by its token.
 */
#ifndef AMORO_META_OPTIMIZER_H
#define AMORO_META_OPTIMIZER_H

#include "postgres.h"

#include "fmgr.h"
#include "procedure/procedure_sql.h"

typedef struct Optimizer
{
	int64		id;
	char	   *group_name;
	int32		thread_count;
	bool		draining;
} Optimizer;

/* One of its threads, as the first two arguments of a function name it. */
typedef struct OptimizerThread
{
	SqlArgument token;
	SqlArgument role;
	int32		thread_id;
} OptimizerThread;

/* Checks that the server may be written to and that neither argument is null. */
extern OptimizerThread optimizer_thread(FunctionCallInfo fcinfo);

/* The optimizer of a token, if it is the caller's and registered. */
extern bool optimizer_look_up(const OptimizerThread *thread, Optimizer *optimizer);

/* The optimizer of that thread. Errors: AM301, 42501, 22023. SPI is connected. */
extern Optimizer optimizer_find(const OptimizerThread *thread);

/* Keeps the optimizer from being unregistered, and others from polling as the same thread, to the end of the transaction. */
extern void optimizer_lock_thread(const OptimizerThread *thread);

#endif							/* AMORO_META_OPTIMIZER_H */
