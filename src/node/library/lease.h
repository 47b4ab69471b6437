/*
 * lease.h
 *		The node's side of the rules (docs/protocol.md, section 3), without input or output: requests go out with what
 *		lease_request_begin put into them, answers come in, and lease_next_step says what to ask next.
 *
 * One thread, the heartbeat thread, changes a lease, under the lock of the node; any thread reads the atomic
 * members, without a lock.
 */
#ifndef AMORO_LEASE_H
#define AMORO_LEASE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "amoro_node.h"
#include "clock.h"
#include "random.h"
#include "rules.h"

#define REASON_SIZE 256
#define SQLSTATE_SIZE 6

typedef enum GrantAnswer
{
	GRANT_GRANTED,				/* the lease now ends at s + L * (1 - drift) */
	GRANT_RELOAD,				/* clear, note term, epoch and version of this answer, load, activate */
	GRANT_BEHIND,				/* activation: changes are missing after the loaded version */
	GRANT_HELD,					/* rule 8: no lease before the missing changes are applied */
	GRANT_LEAVE					/* the node is being removed: stop serving and release */
} GrantAnswer;

typedef struct NodeGrant
{
	GrantAnswer answer;
	int64_t		node_id;
	int64_t		term;
	int64_t		lease_epoch;
	int64_t		lease_ms;
	int64_t		max_clock_drift_ppm;
	int64_t		heartbeat_interval_ms;
	int64_t		metadata_version;
	char		reason[REASON_SIZE];
} NodeGrant;

typedef enum RequestKind
{
	REQUEST_REGISTER,
	REQUEST_HEARTBEAT,
	REQUEST_ACTIVATE,
	REQUEST_CHANGES,
	REQUEST_RELEASE,
	REQUEST_SNAPSHOT,			/* a chunk of what is loaded before serving */
	REQUEST_LOOKUP,				/* by the loaders; the lease knows nothing of these three */
	REQUEST_LOOKUP_MANY,
	REQUEST_LISTING,
	REQUEST_LEAD,				/* by campaigns, nor of these */
	REQUEST_CEDE
} RequestKind;

#define REQUEST_KIND_COUNT (REQUEST_CEDE + 1)

typedef struct NodeRequest
{
	RequestKind kind;
	uint64_t	sequence;
	NodeTime	sent;			/* before the first byte left */
	uint64_t	generation;		/* of the caches when it was sent */
	int64_t		node_id;
	int64_t		term;
	int64_t		lease_epoch;
	int64_t		version;		/* applied, loaded, or: changes after it */
	int64_t		wait_ms;		/* heartbeat: answer at the first news, or after this */
	char		incarnation[INCARNATION_SIZE];
	const char *service;		/* lead and cede */
	int64_t		token;			/* cede */
} NodeRequest;

typedef enum LeaseStep
{
	STEP_REGISTER,
	STEP_HEARTBEAT,
	STEP_ACTIVATE,
	STEP_CHANGES,
	STEP_SNAPSHOT,				/* by reload_next_step */
	STEP_RELEASE,
	STEP_STOP					/* nothing more, for good */
} LeaseStep;

/* What an answer means for the moment of the next request. */
typedef enum LeaseOutcome
{
	LEASE_GO_ON,				/* the next step at once */
	LEASE_WAIT,					/* the next step one heartbeat interval after this request */
	LEASE_RETRY,				/* after a back-off */
	LEASE_RETRY_SLOWLY,			/* an operator has to act first */
	LEASE_DISCONNECT			/* after a back-off, over a new connection, perhaps to another server */
} LeaseOutcome;

typedef struct Lease
{
	/* read by every lookup */
	_Atomic NodeTime end;		/* 0: fenced */
	_Atomic uint64_t generation;	/* grows with every clear, never restarts */
	_Atomic int64_t applied_version;
	_Atomic int64_t term;

	const NodeClock *clock;
	/*
	 * Forgets every entry of every cache. With keep_loaded, what was loaded before serving may be kept for the next
	 * recovery: it was right as of the applied version, and nobody reads it before the changes since then are applied.
	 */
	void		(*clear) (void *argument, bool keep_loaded);
	void	   *clear_argument;

	AmoroNodeState state;		/* AMORO_NODE_ACTIVE: holds a lease, or held one whose end was not noticed yet */
	bool		closed;			/* lease_close was called: nothing brings it back */
	bool		registered;
	bool		carrying;		/* active in an old term, to be activated in a new one with the caches kept */
	bool		release_due;
	bool		refused;		/* the last answer was a refusal that an operator has to resolve */
	int			fruitless;		/* answers in a row that were no grant */
	uint64_t	sequence;
	uint64_t	outstanding;	/* sequence of the newest request without an answer; 0: none */
	int64_t		node_id;
	int64_t		lease_epoch;
	int64_t		highest_term;
	int64_t		newest_version; /* that the server spoke of */
	int64_t		loaded_version; /* what a fenced node has loaded, to activate with */
	int64_t		lease_us;		/* L of the last answer; 0: none yet */
	int64_t		max_clock_drift_ppm;
	int64_t		heartbeat_interval_us;
	NodeTime	last_heard;		/* 0: never */
	NodeTime	recovering_since;	/* first attempt to activate after a fence; 0: none */
	int64_t		last_recovery_us;	/* -1: none yet */
	int64_t		heartbeats;
	int64_t		failures;
	int64_t		fences;
	int64_t		clears;
	int64_t		recoveries;
	char		incarnation[INCARNATION_SIZE];
	char		reason[REASON_SIZE];
} Lease;

extern void lease_init(Lease *lease, const NodeClock *clock, void (*clear) (void *argument, bool keep_loaded),
					   void *clear_argument);
/* What to ask next. */
extern LeaseStep lease_next_step(const Lease *lease);
/* Notes the moment before a request is sent, and what it says. wait_ms counts for a heartbeat only. */
extern void lease_request_begin(Lease *lease, RequestKind kind, int64_t wait_ms, NodeRequest *request);
/* An answer came. */
extern LeaseOutcome lease_answered(Lease *lease, const NodeRequest *request, const NodeGrant *grant);
/* The server raised an error. */
extern LeaseOutcome lease_refused(Lease *lease, const NodeRequest *request, const char *sqlstate, const char *message);
/* No answer: lost, too late, or the connection broke. */
extern void lease_request_lost(Lease *lease, const NodeRequest *request, const char *reason);
/* The caches have forgotten everything that changed up to and including version; only then may it be reported. */
extern LeaseOutcome lease_changes_applied(Lease *lease, const NodeRequest *request, int64_t version);
/* Fences a lease whose end has come: the end itself is noticed by every reader, this forgets and counts. */
extern void lease_expire(Lease *lease);
/* Stops serving and forgets everything. */
extern void lease_fence(Lease *lease, AmoroNodeState state, const char *reason);
/* Stops serving because the lease is over, and for no other reason: see clear. */
extern void lease_lapse(Lease *lease, AmoroNodeState state, const char *reason);
/* An answer came that is neither grant nor error. */
extern void lease_heard(Lease *lease);
/* A snapshot of what a lookup would be told; the caller holds the lock of the node. */
extern AmoroNodeState lease_state(const Lease *lease);
/* Stops serving at once, from any thread; the heartbeat thread fences afterwards. */
extern void lease_close(Lease *lease);
extern void lease_set_reason(Lease *lease, const char *reason);

/* Rule 7: arithmetic at every access. */
static inline bool
lease_is_valid(const Lease *lease)
{
	NodeTime	end = atomic_load_explicit(&lease->end, memory_order_acquire);

	if (!RULE(RULE_LAPSE_BY_ARITHMETIC))
		return end != 0;
	return end != 0 && clock_now(lease->clock) < end;
}

static inline int64_t
term_timeline(int64_t term)
{
	return term >> 32;
}

#endif							/* AMORO_LEASE_H */
