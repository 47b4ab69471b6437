/*
 * tenure.h
 *		Leading one service, without input or output (docs/protocol.md, section 10). One thread begins and ends a tenure; any
 *		thread asks whether it holds, without a lock.
 */
#ifndef AMORO_TENURE_H
#define AMORO_TENURE_H

#include "lease.h"
#include "transport.h"

typedef struct Tenure
{
	_Atomic int64_t token;		/* 0: not leading */
	_Atomic uint64_t generation;	/* of the lease, to which the tenure belongs */
	_Atomic int64_t term;
	_Atomic NodeTime margin;	/* it ends so long before the lease does */
	const Lease *lease;
} Tenure;

extern void tenure_init(Tenure *tenure, const Lease *lease);
/* The lease's holder asks to lead: notes in *request what lease that is. The caller holds the lock of the node. */
extern void tenure_request_begin(const Tenure *tenure, const char *service, NodeRequest *request);
/* An answer came: true when the tenure has begun. margin: as wished, at most half a lease. The caller holds the lock of the node. */
extern bool tenure_answered(Tenure *tenure, const NodeRequest *request, const LeadershipAnswer *answer, NodeTime margin);
/* Ends it; from here on it does not hold, whatever the lease does. */
extern void tenure_end(Tenure *tenure);
/* When the tenure ends unless the lease is extended. */
extern NodeTime tenure_stop_time(const Tenure *tenure);
/* Whether the node leads now; *token then says under which token. */
extern bool tenure_holds(const Tenure *tenure, int64_t *token);

#endif							/* AMORO_TENURE_H */
