/*
 * grant.c
 *		What an answer of the server does to the lease (docs/protocol.md, section 3, rules 1, 3, 5, 6 and 8).
 */
#include "lease.h"

#include <stdio.h>

/* Recovery takes two answers; more than this many in a row that are no grant, and we slow down. */
#define FRUITLESS_LIMIT 4

#define LONGEST_LEASE_MS (INT64_C(24) * 3600 * 1000)

static bool
grant_is_sane(const NodeGrant *grant)
{
	return grant->term > 0 && grant->lease_epoch >= 0 && grant->metadata_version >= 0 &&
		grant->lease_ms > 0 && grant->lease_ms <= LONGEST_LEASE_MS &&
		grant->max_clock_drift_ppm >= 0 && grant->max_clock_drift_ppm < 1000000 &&
		grant->heartbeat_interval_ms > 0 && grant->heartbeat_interval_ms <= grant->lease_ms;
}

/* L * (1 - drift), rounded down. */
static int64_t
usable_lease(const Lease *lease)
{
	int64_t		allowance = (lease->lease_us * lease->max_clock_drift_ppm + 999999) / 1000000;

	return RULE(RULE_ALLOW_FOR_DRIFT) ? lease->lease_us - allowance : lease->lease_us;
}

static LeaseOutcome
after_no_grant(Lease *lease)
{
	return ++lease->fruitless < FRUITLESS_LIMIT ? LEASE_GO_ON : LEASE_RETRY;
}

static void
take_settings(Lease *lease, const NodeGrant *grant, NodeTime now)
{
	lease->highest_term = grant->term;
	lease->newest_version = grant->metadata_version;
	lease->lease_us = grant->lease_ms * 1000;
	lease->max_clock_drift_ppm = grant->max_clock_drift_ppm;
	lease->heartbeat_interval_us = grant->heartbeat_interval_ms * 1000;
	lease->last_heard = now;
	lease->refused = false;
}

static void
take_term(Lease *lease, const NodeGrant *grant)
{
	atomic_store_explicit(&lease->term, grant->term, memory_order_release);
	lease->lease_epoch = grant->lease_epoch;
}

static void
begin_serving(Lease *lease, const NodeRequest *request, NodeTime now)
{
	atomic_store_explicit(&lease->applied_version, request->version, memory_order_release);
	lease->state = AMORO_NODE_ACTIVE;
	lease->recoveries++;
	lease->last_recovery_us = now - lease->recovering_since;
	lease->recovering_since = 0;
}

static LeaseOutcome
answer_granted(Lease *lease, const NodeRequest *request, const NodeGrant *grant, NodeTime now)
{
	NodeTime	base = RULE(RULE_MEASURE_FROM_SEND) ? request->sent : now;
	NodeTime	end = base + usable_lease(lease);
	bool		serving = lease->state == AMORO_NODE_ACTIVE;

	if (grant->term != request->term || grant->lease_epoch != request->lease_epoch)
	{
		lease_set_reason(lease, "the server granted another lease than the one that was asked for");
		return LEASE_DISCONNECT;
	}

	/*
	 * The answer belongs to the caches as they were when it was asked for: after a lapse only an activation begins
	 * a lease, and only one that was sent after the caches were cleared.
	 */
	if (request->generation != atomic_load_explicit(&lease->generation, memory_order_relaxed) ||
		(!serving && request->kind != REQUEST_ACTIVATE) || now >= end)
	{
		lease->loaded_version = lease->newest_version;
		return after_no_grant(lease);
	}

	if (!serving)
		begin_serving(lease, request, now);
	if (request->kind == REQUEST_ACTIVATE)
		lease->carrying = false;
	if (end > atomic_load_explicit(&lease->end, memory_order_relaxed) || !RULE(RULE_NEVER_BACKWARDS))
		atomic_store_explicit(&lease->end, end, memory_order_seq_cst);
	lease->fruitless = 0;
	lease->reason[0] = '\0';

	/* it is the heartbeats that wait for news at the server, so after an activation one begins at once */
	if (request->kind == REQUEST_ACTIVATE)
		return LEASE_GO_ON;
	return lease_next_step(lease) == STEP_HEARTBEAT ? LEASE_WAIT : LEASE_GO_ON;
}

/*
 * The server has begun another term, or it has fenced us. In a later term of the same timeline nothing that we applied
 * is lost, so a node that holds its lease, which the new term still owes it, may keep its caches and go on serving while
 * it activates (rule 6). Else everything is forgotten.
 */
static LeaseOutcome
answer_reload(Lease *lease, const NodeRequest *request, const NodeGrant *grant)
{
	int64_t		term = atomic_load_explicit(&lease->term, memory_order_relaxed);
	int64_t		applied = atomic_load_explicit(&lease->applied_version, memory_order_relaxed);
	bool		same_timeline = term_timeline(grant->term) == term_timeline(term) ||
		!RULE(RULE_CLEAR_ON_NEW_TIMELINE);
	bool		next_term = grant->term > term || !RULE(RULE_EPOCH);

	if (lease->state == AMORO_NODE_ACTIVE)
	{
		if (same_timeline && next_term && grant->metadata_version >= applied)
			lease->carrying = true;
		else if (grant->term == term && grant->metadata_version >= applied)
			lease_lapse(lease, AMORO_NODE_FENCED,
						grant->reason[0] ? grant->reason : "the server has ended the lease");
		else if (grant->term != term && !same_timeline)
			lease_fence(lease, AMORO_NODE_FENCED, "the server is on another timeline");
		else
			lease_fence(lease, AMORO_NODE_FENCED, "the server has lost changes that were applied here");
	}
	else if (request->kind == REQUEST_ACTIVATE && grant->metadata_version < request->version)
		lease->clear(lease->clear_argument, false);	/* loaded from a server that has lost some of it since */
	take_term(lease, grant);
	lease->loaded_version = lease->newest_version;
	return after_no_grant(lease);
}

static LeaseOutcome
answer_behind(Lease *lease, const NodeGrant *grant)
{
	/* serving, a node is behind when changes are to be fetched; anything else cannot be caught up with */
	if (lease->state == AMORO_NODE_ACTIVE &&
		grant->metadata_version <= atomic_load_explicit(&lease->applied_version, memory_order_relaxed))
		lease_fence(lease, AMORO_NODE_FENCED, "the server has lost changes that were applied here");
	lease->loaded_version = lease->newest_version;
	return after_no_grant(lease);
}

static LeaseOutcome
answer_held(Lease *lease, const NodeGrant *grant)
{
	char		reason[REASON_SIZE];

	snprintf(reason, sizeof(reason), "the server holds the lease back: %.200s",
			 grant->reason[0] ? grant->reason : "changes were not applied in time");
	lease_set_reason(lease, reason);
	lease->loaded_version = lease->newest_version;
	if (lease_next_step(lease) == STEP_CHANGES)
		return LEASE_GO_ON;
	/* nothing is missing here: it is the server that may grant nothing, and another one may be the primary by now */
	return ++lease->fruitless % FRUITLESS_LIMIT == 0 ? LEASE_DISCONNECT : LEASE_RETRY;
}

static LeaseOutcome
answer_leave(Lease *lease, const NodeGrant *grant)
{
	lease_fence(lease, AMORO_NODE_REMOVED, grant->reason[0] ? grant->reason : "the node is being removed");
	lease->release_due = true;
	return LEASE_GO_ON;
}

LeaseOutcome
lease_answered(Lease *lease, const NodeRequest *request, const NodeGrant *grant)
{
	NodeTime	now = clock_now(lease->clock);

	if ((request->sequence != lease->outstanding && RULE(RULE_NEWEST_REQUEST)) ||
		lease->closed)
		return LEASE_WAIT;
	lease->outstanding = 0;
	lease_expire(lease);		/* before anything that could extend it */

	if (!grant_is_sane(grant))
	{
		lease_request_lost(lease, request, "the server's answer makes no sense");
		return LEASE_DISCONNECT;
	}
	if (grant->term < lease->highest_term && RULE(RULE_REFUSE_OLD_TERM))
	{
		char		reason[REASON_SIZE];

		snprintf(reason, sizeof(reason), "refused an answer of term %lld after one of term %lld: not the current server"
				 " (if the extension was created anew and the clock was set back, restart this node)",
				 (long long) grant->term, (long long) lease->highest_term);
		lease_request_lost(lease, request, reason);
		return LEASE_DISCONNECT;
	}
	take_settings(lease, grant, now);
	lease->heartbeats++;

	if (request->kind == REQUEST_REGISTER)
	{
		lease->registered = true;
		lease->node_id = grant->node_id;
	}
	switch (grant->answer)
	{
		case GRANT_GRANTED:
			return answer_granted(lease, request, grant, now);
		case GRANT_RELOAD:
			return answer_reload(lease, request, grant);
		case GRANT_BEHIND:
			return answer_behind(lease, grant);
		case GRANT_HELD:
			return answer_held(lease, grant);
		case GRANT_LEAVE:
			return answer_leave(lease, grant);
	}
	return LEASE_DISCONNECT;
}

LeaseOutcome
lease_changes_applied(Lease *lease, const NodeRequest *request, int64_t version)
{
	if (lease->closed)
		return LEASE_WAIT;
	lease->outstanding = 0;
	lease_expire(lease);
	lease->last_heard = clock_now(lease->clock);
	/* fetched for caches that were cleared meanwhile: a cleared node activates with what the server says is newest */
	if (lease->state != AMORO_NODE_ACTIVE ||
		request->generation != atomic_load_explicit(&lease->generation, memory_order_relaxed))
		return LEASE_GO_ON;
	if (version <= request->version)
		lease_fence(lease, AMORO_NODE_FENCED, "the server's change log lacks changes that it spoke of");
	else
		atomic_store_explicit(&lease->applied_version, version, memory_order_release);
	return LEASE_GO_ON;
}
