/*
 * node_grant.h
 *		Answers to nodes as rows of the SQL type node_grant.
 */
#ifndef AMORO_META_NODE_GRANT_H
#define AMORO_META_NODE_GRANT_H

#include "postgres.h"

#include "fmgr.h"
#include "lease/lease.h"

/* The row that a SQL function, whose result type is node_grant, returns. */
extern Datum node_grant_datum(FunctionCallInfo fcinfo, int64 node_id, const LeaseGrant *grant);
/* Raises 25006 on a standby, AM005 when the library was not preloaded. */
extern void node_require_primary(void);

#endif							/* AMORO_META_NODE_GRANT_H */
