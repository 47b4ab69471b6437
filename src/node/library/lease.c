/*
 * lease.c
 *		The lease: what it is, when it ends, what is asked next. What answers do to it is in grant.c, what errors
 *		do to it in refusal.c.
 */
#include "lease.h"

#include <stdio.h>
#include <string.h>

void
lease_init(Lease *lease, const NodeClock *clock, void (*clear) (void *argument, bool keep_loaded), void *clear_argument)
{
	memset(lease, 0, sizeof(*lease));
	lease->clock = clock;
	lease->clear = clear;
	lease->clear_argument = clear_argument;
	lease->state = AMORO_NODE_CONNECTING;
	lease->last_recovery_us = -1;
}

void
lease_set_reason(Lease *lease, const char *reason)
{
	if (reason != lease->reason)
		snprintf(lease->reason, sizeof(lease->reason), "%s", reason);
}

/*
 * The order matters to readers, who take the generation first and the end second: whoever sees the new generation
 * sees either no lease, or one that began after the caches were empty.
 */
static void
end_lease(Lease *lease, AmoroNodeState state, const char *reason, bool keep_loaded)
{
	if (lease->state == AMORO_NODE_ACTIVE)
		lease->fences++;
	atomic_store_explicit(&lease->end, 0, memory_order_seq_cst);
	if (RULE(RULE_CLEAR_ON_FENCE))
	{
		atomic_fetch_add_explicit(&lease->generation, 1, memory_order_seq_cst);
		lease->clear(lease->clear_argument, keep_loaded);
	}
	lease->clears++;
	lease->carrying = false;
	lease->recovering_since = 0;
	lease->state = state;
	lease->loaded_version = lease->newest_version;
	lease_set_reason(lease, reason);
}

void
lease_fence(Lease *lease, AmoroNodeState state, const char *reason)
{
	end_lease(lease, state, reason, false);
}

void
lease_lapse(Lease *lease, AmoroNodeState state, const char *reason)
{
	end_lease(lease, state, reason, lease->state == AMORO_NODE_ACTIVE);
}

void
lease_heard(Lease *lease)
{
	lease->outstanding = 0;
	lease->last_heard = clock_now(lease->clock);
}

void
lease_close(Lease *lease)
{
	lease->closed = true;
	atomic_store_explicit(&lease->end, 0, memory_order_seq_cst);
	atomic_fetch_add_explicit(&lease->generation, 1, memory_order_seq_cst);
}

void
lease_expire(Lease *lease)
{
	char		reason[REASON_SIZE];
	AmoroNodeState state = lease->refused ? AMORO_NODE_REFUSED : AMORO_NODE_FENCED;

	if (lease->state != AMORO_NODE_ACTIVE || lease->closed || !RULE(RULE_LAPSED_IS_NOT_EXTENDED))
		return;
	if (clock_now(lease->clock) < atomic_load_explicit(&lease->end, memory_order_relaxed))
		return;
	if (lease->reason[0] == '\0')
		snprintf(reason, sizeof(reason), "no answer from the server within the lease of %lld ms",
				 (long long) (lease->lease_us / 1000));
	else
		snprintf(reason, sizeof(reason), "the lease of %lld ms ended: %.180s",
				 (long long) (lease->lease_us / 1000), lease->reason);
	lease_lapse(lease, state, reason);
}

AmoroNodeState
lease_state(const Lease *lease)
{
	/* ended, though the heartbeat thread has not come by to notice */
	if (lease->state == AMORO_NODE_ACTIVE && !lease_is_valid(lease))
		return AMORO_NODE_FENCED;
	return lease->state;
}

LeaseStep
lease_next_step(const Lease *lease)
{
	switch (lease->state)
	{
		case AMORO_NODE_CLOSED:
		case AMORO_NODE_SUPERSEDED:
			return STEP_STOP;
		case AMORO_NODE_REMOVED:
			return lease->release_due ? STEP_RELEASE : STEP_STOP;
		case AMORO_NODE_ACTIVE:
			if (lease->newest_version > atomic_load_explicit(&lease->applied_version, memory_order_relaxed))
				return STEP_CHANGES;
			return lease->carrying ? STEP_ACTIVATE : STEP_HEARTBEAT;
		default:
			return lease->registered ? STEP_ACTIVATE : STEP_REGISTER;
	}
}

void
lease_request_begin(Lease *lease, RequestKind kind, int64_t wait_ms, NodeRequest *request)
{
	bool		serving = lease->state == AMORO_NODE_ACTIVE;

	memset(request, 0, sizeof(*request));
	request->kind = kind;
	request->sequence = lease->outstanding = ++lease->sequence;
	request->generation = atomic_load_explicit(&lease->generation, memory_order_relaxed);
	request->node_id = lease->node_id;
	request->term = atomic_load_explicit(&lease->term, memory_order_relaxed);
	request->lease_epoch = lease->lease_epoch;
	request->version = atomic_load_explicit(&lease->applied_version, memory_order_relaxed);
	request->wait_ms = kind == REQUEST_HEARTBEAT ? wait_ms : 0;
	memcpy(request->incarnation, lease->incarnation, INCARNATION_SIZE);

	/* what was applied before a fence is forgotten with it: a fenced node has what it has loaded */
	if ((kind == REQUEST_ACTIVATE || kind == REQUEST_SNAPSHOT || kind == REQUEST_CHANGES) && !serving)
	{
		request->version = lease->loaded_version;
		lease->state = AMORO_NODE_RECOVERING;
		if (lease->recovering_since == 0)
			lease->recovering_since = clock_now(lease->clock);
	}

	/* rule 1: the lease counts from here, whatever the network does with the request */
	request->sent = clock_now(lease->clock);
}

void
lease_request_lost(Lease *lease, const NodeRequest *request, const char *reason)
{
	if (request->sequence == lease->outstanding)
		lease->outstanding = 0;
	lease_expire(lease);
	lease->failures++;
	if (lease->state == AMORO_NODE_RECOVERING)
		lease->state = AMORO_NODE_FENCED;
	/* a node that was given up keeps the reason for it */
	if (lease->state != AMORO_NODE_SUPERSEDED && lease->state != AMORO_NODE_REMOVED &&
		lease->state != AMORO_NODE_CLOSED)
		lease_set_reason(lease, reason);
	/* nobody waits for a node that cannot be told: its lease runs out by itself */
	if (request->kind == REQUEST_RELEASE)
		lease->release_due = false;
}
