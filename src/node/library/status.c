/*
 * status.c
 *		What a node says of itself to people and metrics.
 */
#include <stdio.h>
#include <string.h>

#include "node.h"

static void
fill_from_lease(AmoroNodeStatus *status, const Lease *lease, NodeTime now)
{
	NodeTime	end = atomic_load_explicit(&lease->end, memory_order_acquire);

	status->state = lease_state(lease);
	status->serving = end != 0 && now < end;
	status->lease_remaining_ms = status->serving ? (end - now) / 1000 : 0;
	status->node_id = lease->node_id;
	memcpy(status->incarnation, lease->incarnation, sizeof(status->incarnation));
	status->term = atomic_load_explicit(&lease->term, memory_order_acquire);
	status->lease_epoch = lease->lease_epoch;
	status->applied_version = atomic_load_explicit(&lease->applied_version, memory_order_acquire);
	status->metadata_version = lease->newest_version;
	status->heartbeat_age_ms = lease->last_heard != 0 ? (now - lease->last_heard) / 1000 : -1;
	status->heartbeats = lease->heartbeats;
	status->heartbeat_failures = lease->failures;
	status->fences = lease->fences;
	status->clears = lease->clears;
	status->recoveries = lease->recoveries;
	status->last_recovery_ms = lease->last_recovery_us >= 0 ? lease->last_recovery_us / 1000 : -1;
	snprintf(status->reason, sizeof(status->reason), "%s", lease->reason);
	if (status->state == AMORO_NODE_FENCED && status->reason[0] == '\0')
		snprintf(status->reason, sizeof(status->reason), "no answer from the server within the lease of %lld ms",
				 (long long) (lease->lease_us / 1000));
}

void
amoro_node_status(AmoroNode *node, AmoroNodeStatus *status)
{
	memset(status, 0, sizeof(*status));
	pthread_mutex_lock(&node->lease_lock);
	fill_from_lease(status, &node->lease, clock_now(&node->clock));
	pthread_mutex_unlock(&node->lease_lock);

	status->changes_applied = atomic_load_explicit(&node->changes_applied, memory_order_relaxed);
	cache_count(&node->cache, status);
	for (int kind = 0; kind < AMORO_CACHE_KIND_COUNT; kind++)
	{
		KindCounters *counters = &node->counters[kind];
		int64_t		reload_us = atomic_load_explicit(&counters->last_reload_us, memory_order_relaxed);

		status->caches[kind].loads = atomic_load_explicit(&counters->loads, memory_order_relaxed);
		status->caches[kind].load_failures = atomic_load_explicit(&counters->load_failures, memory_order_relaxed);
		status->caches[kind].clears = atomic_load_explicit(&counters->clears, memory_order_relaxed);
		status->caches[kind].reloads = atomic_load_explicit(&counters->reloads, memory_order_relaxed);
		status->caches[kind].last_reload_ms = reload_us < 0 ? -1 : reload_us / 1000;
		status->caches[kind].loads_refused = atomic_load_explicit(&counters->loads_refused, memory_order_relaxed);
	}
}
