/*
 * lease.h
 *		The server's side of the ten rules (DESIGN.md, section 4), over shared memory alone.
 *		Every function takes AmoroShared->lock itself; those that end in _locked expect it held.
 */
#ifndef AMORO_META_LEASE_H
#define AMORO_META_LEASE_H

#include "postgres.h"

#include "shmem.h"

typedef enum GrantAnswer
{
	GRANT_GRANTED,				/* the lease now ends at s + L * (1 - drift) */
	GRANT_RELOAD,				/* clear, note term, epoch and version of this answer, load, activate */
	GRANT_BEHIND,				/* activation: fetch the changes after the loaded version and try again */
	GRANT_HELD,					/* rule 8: no lease before the missing changes are applied */
	GRANT_LEAVE					/* the node is being removed: stop serving and release */
} GrantAnswer;

/* What a frontier is computed for, and when it can move by itself. */
typedef struct LeaseFrontier
{
	int64		version;		/* every slot that counts has applied it; PG_INT64_MAX when none counts */
	LeaseTime	next_moment;	/* earliest moment at which a lease that holds it back ends; 0 = none */
} LeaseFrontier;

/*
 * What a coordinator calls once the term is durable: publishes term, settings and version, and makes a
 * joining slot for every registered node, owed one longest lease from now (rule 5).
 */
typedef struct RegisteredNode
{
	int64		node_id;
	pg_uuid_t	incarnation;
	Oid			role;
	bool		removing;
} RegisteredNode;

extern void lease_begin_term(Oid database, int64 term, LeaseSettings settings, int64 longest_owed_us,
							 int64 version, const RegisteredNode *nodes, int node_count);
extern void lease_publish_settings(Oid database, LeaseSettings settings);
/* Computes the frontier; fences every slot whose lease is over (rule 4), before the caller commits what relies on it. */
extern LeaseFrontier lease_frontier(Oid database, int64 awaited_version);
/* Frees the slots that nothing refers to any more; returns how many. */
extern int	lease_reap(Oid database);
/* Marks every slot of a node as leaving; true when none of them is owed a lease any more. */
extern bool lease_node_gone(Oid database, int64 node_id, LeaseTime *next_moment);
/* After the removal of a node's row is committed. */
extern void lease_forget_node(Oid database, int64 node_id);
/* Raises AM005 unless this database has a term that was begun in this server start. */
extern void lease_require_coordinator(void);

#endif							/* AMORO_META_LEASE_H */
