/*
 * lease.h
 *		The server's side of the rules (docs/protocol.md, section 3), over shared memory alone.
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

/* Why a request gets no answer but an error. */
typedef enum LeaseRefusal
{
	LEASE_ACCEPTED = 0,
	LEASE_NO_COORDINATOR,
	LEASE_NOT_ADOPTED,
	LEASE_NO_SETTINGS,			/* the settings do not fit together, and never did in this term */
	LEASE_UNKNOWN_NODE,
	LEASE_RELEASED,
	LEASE_OTHER_ROLE,
	LEASE_STALE_INCARNATION,
	LEASE_STALE_TERM,			/* the request is of a term that this server has not reached */
	LEASE_NO_SLOT,
	LEASE_AHEAD					/* the version is not published yet: wait for it, then ask again with ahead_is_final */
} LeaseRefusal;

/* What a node says. */
typedef struct LeaseRequest
{
	Oid			database;
	Oid			role;
	int64		node_id;
	pg_uuid_t	incarnation;
	int64		term;
	int64		lease_epoch;
	int64		version;		/* applied, or loaded */
	bool		with_news;		/* a heartbeat: the answer is to carry the changes, if they are at hand */
	int64		wait_us;		/* a heartbeat: wait for news when there are none */
	bool		ahead_is_final; /* a version beyond the published one is answered with reload */
	const char *detail;			/* at most SLOT_TEXT_SIZE - 1 bytes; NULL: nothing */
} LeaseRequest;

/* What it is told. */
typedef struct LeaseGrant
{
	GrantAnswer answer;
	const char *reason;			/* a constant; NULL when granted */
	int64		term;
	int64		lease_epoch;
	int64		metadata_version;
	int64		heartbeat;		/* number of this request of the node */
	LeaseSettings settings;
	bool		waiting;		/* there is nothing new: lease_wait_for_news has to be called */
	const char *news;			/* the changes after request->version up to metadata_version, valid until the next request; or NULL */
	int			news_length;
} LeaseGrant;

/* What a frontier is computed for, and when it can move by itself. */
typedef struct LeaseFrontier
{
	int64		version;		/* published, and every slot that counts has applied it */
	LeaseTime	next_moment;	/* earliest moment at which a lease that holds it back is over; 0 = none */
} LeaseFrontier;

/*
 * What a coordinator calls once the term is durable: publishes term, settings and version, and makes a
 * joining slot for every registered node, owed one longest lease from now (rule 5). node_registry_read
 * (node.h) makes the list.
 */
typedef struct RegisteredNode
{
	int64		node_id;		/* 0: nodes that this server never heard of may hold leases */
	pg_uuid_t	incarnation;
	Oid			role;
	bool		removing;
	bool		superseded;		/* an older incarnation that may still hold a lease */
} RegisteredNode;

/* lease_term.c: the coordinator's calls */
extern void lease_begin_term(Oid database, int64 term, LeaseSettings settings, int64 longest_owed_us,
							 int64 version, const RegisteredNode *nodes, int node_count);
/*
 * Ends the term without beginning another: for a coordinator that finds the data replaced under it. To be called
 * before it reads the version that it hands to lease_begin_term, so that commits in between are not forgotten.
 */
extern void lease_end_term(Oid database);
/* Frees every slot of a database that has gone, or has the extension no more. */
extern void lease_forget_database(Oid database);
extern void lease_publish_settings(Oid database, LeaseSettings settings);
extern bool lease_settings_check(LeaseSettings *settings, const char **message, const char **detail);
/* The term of this database in shared memory, 0 when no coordinator has begun one. */
extern int64 lease_current_term(void);

/* lease_frontier.c: the coordinator's calls */
/* Computes the frontier; fences every slot whose lease is over (rule 4), before the caller commits what relies on it. */
extern LeaseFrontier lease_frontier(Oid database, int64 awaited_version);
/* Frees the slots that nothing refers to any more; returns how many. */
extern int	lease_reap(Oid database);
/* Marks every slot of a node as leaving; true when none of them is owed a lease any more. */
extern bool lease_node_gone(Oid database, int64 node_id, LeaseTime *next_moment);
/* Takes that back: the removal was cancelled. */
extern void lease_node_stays(Oid database, int64 node_id);
/* After the removal of a node's row is committed. */
extern void lease_forget_node(Oid database, int64 node_id);

/* lease.c: the nodes' calls */
extern LeaseRefusal lease_heartbeat(const LeaseRequest *request, LeaseGrant *grant);
extern LeaseRefusal lease_activate(const LeaseRequest *request, LeaseGrant *grant);
extern LeaseRefusal lease_release(const LeaseRequest *request, bool *released);
/* Raises AM005 unless this database has a term that was begun in this server start. */
extern void lease_require_coordinator(void);
pg_noreturn extern void lease_raise(LeaseRefusal refusal, const LeaseRequest *request);

/* lease_registration.c: a slot from the call of register_node to the end of its transaction */
extern LeaseRefusal lease_register(const LeaseRequest *request, LeaseGrant *grant, int64 *registration);
extern void lease_registration_committed(const LeaseRequest *request, int64 registration);
extern void lease_registration_rolled_back(const LeaseRequest *request);
extern bool lease_incarnation_known(const LeaseRequest *request);
extern bool lease_unseen_owed(Oid database);

/* lease_publish.c */
extern void lease_publish(Oid database, int64 version, const char *news, int news_length);
extern int64 lease_published_version(Oid database);
extern void lease_wait_for_news(const LeaseRequest *request, LeaseGrant *grant);
extern bool lease_wait_for_version(Oid database, int64 version, int64 wait_us);

/* lease_news.c: the newest changes as text, for the answers of heartbeats */
extern void lease_news_forget_locked(DatabaseEntry *entry);
extern void lease_news_append_locked(DatabaseEntry *entry, int64 previous, const char *news, int news_length);
extern void lease_news_copy_locked(const DatabaseEntry *entry, const LeaseRequest *request, LeaseGrant *grant);

/* for the files lease*.c and node*.c */
extern LeaseRefusal lease_entry_locked(Oid database, DatabaseEntry **entry);
extern LeaseRefusal lease_find_party_locked(const LeaseRequest *request, DatabaseEntry **entry, NodeSlot **slot);
extern bool lease_owed_locked(const NodeSlot *slot, LeaseTime now);
extern void lease_settle_locked(NodeSlot *slot, LeaseTime now);
extern void lease_publish_locked(DatabaseEntry *entry, int64 version, LeaseTime now, const char *news, int news_length);
extern LeaseTime lease_behind_since_locked(const DatabaseEntry *entry, const NodeSlot *slot);
extern void lease_wake_waiters(Oid database, int64 node_id);
extern void lease_describe_locked(const DatabaseEntry *entry, const NodeSlot *slot, LeaseGrant *grant);

#endif							/* AMORO_META_LEASE_H */
