/*
 * heartbeat.c
 *		The thread that keeps the lease.
 */
#include "heartbeat.h"

#include <stdio.h>
#include <string.h>

#include "campaign.h"
#include "change_feed.h"

/* Before the server has said how long a lease is. */
#define FIRST_TIMEOUT_US 5000000
#define LONGEST_WAIT_MS 5000	/* that the server grants */
#define LONGEST_BACKOFF_US 5000000
#define SLOWEST_RETRY_US 30000000
#define LONGEST_CLOSE_US 2000000

static NodeTime
least(NodeTime a, NodeTime b)
{
	return a < b ? a : b;
}

static NodeTime
greatest(NodeTime a, NodeTime b)
{
	return a > b ? a : b;
}

/*
 * A quarter of the lease, for connecting and for the way of a request beside its wait, which is at most a quarter too
 * (rule 10): a request that hangs, a new connection and another request fit into one lease.
 */
static NodeTime
patience(const AmoroNode *node)
{
	return node->lease.lease_us > 0 ? node->lease.lease_us / 4 : FIRST_TIMEOUT_US;
}

/* Whoever waits for the database is told of a fence now, and not when the database answers. */
static void
tell_waiters(AmoroNode *node)
{
	uint64_t	generation = atomic_load_explicit(&node->lease.generation, memory_order_relaxed);

	if (generation == node->heartbeat.told_generation)
		return;
	node->heartbeat.told_generation = generation;
	loader_fence(node);
}

/* Says once what has changed, to those who wait and to the log; never under a lock. */
static void
report(AmoroNode *node)
{
	Heartbeat  *heartbeat = &node->heartbeat;
	AmoroNodeState state;
	char		reason[REASON_SIZE];
	bool		changed;

	tell_waiters(node);
	campaigns_notice(node, NULL);
	pthread_mutex_lock(&node->lease_lock);
	state = node->lease.state;
	memcpy(reason, node->lease.reason, sizeof(reason));
	pthread_mutex_unlock(&node->lease_lock);

	changed = state != heartbeat->reported_state;
	if (state == AMORO_NODE_ACTIVE && changed)
		node_log(node, AMORO_LOG_INFO, "active: term %lld, lease epoch %lld, metadata version %lld",
				 (long long) node->lease.term, (long long) node->lease.lease_epoch,
				 (long long) node->lease.applied_version);
	else if (reason[0] != '\0' && strstr(heartbeat->reported_reason, reason) == NULL)
		node_log(node, AMORO_LOG_WARNING, "%s: %s", amoro_node_state_name(state), reason);
	else if (changed)
		node_log(node, AMORO_LOG_DEBUG, "%s", amoro_node_state_name(state));
	heartbeat->reported_state = state;
	if (state == AMORO_NODE_ACTIVE || strstr(heartbeat->reported_reason, reason) == NULL)
		memcpy(heartbeat->reported_reason, reason, sizeof(reason));
}

static void
notice_lapse(AmoroNode *node)
{
	pthread_mutex_lock(&node->lease_lock);
	lease_expire(&node->lease);
	pthread_mutex_unlock(&node->lease_lock);
	report(node);
}

/* The moment before which a wait must look at the lease. */
static NodeTime
lapse_or(const AmoroNode *node, NodeTime deadline)
{
	NodeTime	end = atomic_load_explicit(&node->lease.end, memory_order_relaxed);

	return end > 0 && RULE(RULE_LAPSED_IS_NOT_EXTENDED) ? least(end, deadline) : deadline;
}

static void
schedule(AmoroNode *node, NodeTime sent, LeaseOutcome outcome)
{
	Heartbeat  *heartbeat = &node->heartbeat;
	NodeTime	now = clock_now(&node->clock);
	NodeTime	interval = node->lease.heartbeat_interval_us;
	NodeTime	cap = least(greatest(2 * interval, 500000), LONGEST_BACKOFF_US);

	/* with a lease to lose there is no time to lose */
	if (node->lease.state == AMORO_NODE_ACTIVE)
		cap = least(cap, node->lease.lease_us / 8);
	if (node->lease.state == AMORO_NODE_ACTIVE && node->lease.fruitless == 0 && outcome <= LEASE_WAIT)
		backoff_reset(&heartbeat->backoff);
	switch (outcome)
	{
		case LEASE_GO_ON:
			heartbeat->due = now;
			break;
		case LEASE_WAIT:
			heartbeat->due = sent + interval;
			break;
		case LEASE_DISCONNECT:
			heartbeat->transport->close(heartbeat->transport);
			/* fall through */
		case LEASE_RETRY:
			heartbeat->due = now + backoff_next(&heartbeat->backoff, &heartbeat->random, cap);
			break;
		case LEASE_RETRY_SLOWLY:
			heartbeat->due = now + random_between(&heartbeat->random, 500000,
												  least(greatest(5 * interval, 1000000), SLOWEST_RETRY_US));
			break;
	}
}

/* A connection or an answer did not come. */
static void
lost(AmoroNode *node, const NodeRequest *request, const char *reason)
{
	static const NodeRequest none = {.kind = REQUEST_HEARTBEAT};
	NodeTime	now = clock_now(&node->clock);

	pthread_mutex_lock(&node->lease_lock);
	if (!node->lease.closed)
		lease_request_lost(&node->lease, request ? request : &none, reason);
	pthread_mutex_unlock(&node->lease_lock);
	schedule(node, now, LEASE_DISCONNECT);
}

static void
connect_to_server(AmoroNode *node)
{
	Transport  *transport = node->heartbeat.transport;
	NodeTime	deadline = clock_now(&node->clock) + patience(node);
	TransportFailure failure = {"", ""};
	TransportStatus status;

	do
	{
		status = transport->open(transport, lapse_or(node, deadline), deadline, &failure);
		notice_lapse(node);
	} while (status == TRANSPORT_TIMED_OUT && clock_now(&node->clock) < deadline);

	if (status == TRANSPORT_DONE)
		node->heartbeat.due = clock_now(&node->clock);
	else if (status != TRANSPORT_WOKEN)
		lost(node, NULL, failure.message[0] ? failure.message : "no connection to the server in time");
}

/* The caches forget first; only then may the version be reported. */
static LeaseOutcome
apply_changes(AmoroNode *node, const NodeRequest *request, const NodeAnswer *answer)
{
	LeaseOutcome outcome;
	int64_t		version = change_feed_apply(node, answer->changes, answer->change_count, request->version,
											node->lease.newest_version);

	pthread_mutex_lock(&node->lease_lock);
	outcome = lease_changes_applied(&node->lease, request, version);
	pthread_mutex_unlock(&node->lease_lock);
	return outcome;
}

/* A node that does not serve has told how far it is: that it is to reload, it knows, and takes its time for. */
static LeaseOutcome
take_answer_to_report(Lease *lease, const NodeRequest *request, const NodeGrant *grant)
{
	int			fruitless = lease->fruitless;
	LeaseOutcome outcome = lease_answered(lease, request, grant);

	lease->fruitless = fruitless;
	return outcome == LEASE_RETRY ? LEASE_GO_ON : outcome;
}

static LeaseOutcome
take_answer(AmoroNode *node, const NodeRequest *request, NodeAnswer *answer)
{
	Lease	   *lease = &node->lease;
	LeaseOutcome outcome;
	bool		carried;

	if (request->kind == REQUEST_SNAPSHOT)
		return reload_take_chunk(node, answer);
	if (request->kind == REQUEST_CHANGES && lease->state != AMORO_NODE_ACTIVE)
		return reload_take_changes(node, request, answer);
	if (request->kind == REQUEST_CHANGES)
		return apply_changes(node, request, answer);
	pthread_mutex_lock(&node->lease_lock);
	if (request->kind == REQUEST_RELEASE)
	{
		lease->release_due = false;
		lease->outstanding = 0;
		outcome = LEASE_GO_ON;
	}
	else if (request->kind == REQUEST_HEARTBEAT && lease->state != AMORO_NODE_ACTIVE)
		outcome = take_answer_to_report(lease, request, &answer->grant);
	else
		outcome = lease_answered(lease, request, &answer->grant);
	carried = answer->change_count > 0 && outcome == LEASE_GO_ON && lease_next_step(lease) == STEP_CHANGES &&
		answer->grant.term == request->term;
	pthread_mutex_unlock(&node->lease_lock);
	return carried ? apply_changes(node, request, answer) : outcome;
}

/* Waits for the answer, and notices on the way when the lease ends. */
static TransportStatus
receive(AmoroNode *node, const NodeRequest *request, NodeTime deadline, NodeAnswer *answer, TransportFailure *failure)
{
	Transport  *transport = node->heartbeat.transport;
	TransportStatus status;

	for (;;)
	{
		status = transport->receive(transport, request, lapse_or(node, deadline), answer, failure);
		if (status != TRANSPORT_TIMED_OUT)
			return status;
		notice_lapse(node);
		if (clock_now(&node->clock) >= deadline)
			return status;
	}
}

/* For a chunk there is more time than for what a lease depends on. */
static NodeTime
request_deadline(const AmoroNode *node, const NodeRequest *request)
{
	NodeTime	way = patience(node);

	if (request->kind == REQUEST_SNAPSHOT)
		way = greatest(way, node->loader.timeout);
	return request->sent + request->wait_ms * 1000 + way;
}

static LeaseOutcome
take_refusal(AmoroNode *node, const NodeRequest *request, const TransportFailure *failure)
{
	LeaseOutcome outcome;

	if (reload_refused(node, request, failure))
		return LEASE_GO_ON;
	if (node->lease.state != AMORO_NODE_ACTIVE)
		reload_failed(node, request->kind, false, failure->message);
	pthread_mutex_lock(&node->lease_lock);
	outcome = lease_refused(&node->lease, request, failure->sqlstate, failure->message);
	pthread_mutex_unlock(&node->lease_lock);
	return outcome;
}

static void
lose_request(AmoroNode *node, const NodeRequest *request, bool timed_out, const char *reason)
{
	if (node->lease.state != AMORO_NODE_ACTIVE)
		reload_failed(node, request->kind, timed_out, reason);
	lost(node, request, reason);
}

static void
make_request(AmoroNode *node, const NodeRequest *request)
{
	Transport  *transport = node->heartbeat.transport;
	NodeTime	deadline = request_deadline(node, request);
	LookupQuestion question = {NULL};
	NodeAnswer	answer = {0};
	TransportFailure failure = {"", ""};
	TransportStatus status;
	char		detail[64];

	reload_describe(node, detail, sizeof(detail));
	if (request->kind == REQUEST_SNAPSHOT)
		question = reload_question(node);
	status = transport->send(transport, request, detail, &question, deadline, &failure);
	if (status == TRANSPORT_DONE)
		status = receive(node, request, deadline, &answer, &failure);

	switch (status)
	{
		case TRANSPORT_DONE:
			{
				LeaseOutcome outcome = take_answer(node, request, &answer);

				transport->answer_release(transport, &answer);
				schedule(node, request->sent, outcome);
				break;
			}
		case TRANSPORT_REFUSED:
			schedule(node, request->sent, take_refusal(node, request, &failure));
			break;
		case TRANSPORT_WOKEN:
			break;				/* closing: heartbeat_release deals with the connection */
		case TRANSPORT_TIMED_OUT:
			lose_request(node, request, true, "no answer from the server in time");
			break;
		case TRANSPORT_BROKEN:
			lose_request(node, request, false, failure.message[0] ? failure.message : "the connection to the server broke");
			break;
	}
}

static RequestKind
request_of(LeaseStep step)
{
	switch (step)
	{
		case STEP_REGISTER:
			return REQUEST_REGISTER;
		case STEP_ACTIVATE:
			return REQUEST_ACTIVATE;
		case STEP_CHANGES:
			return REQUEST_CHANGES;
		case STEP_SNAPSHOT:
			return REQUEST_SNAPSHOT;
		case STEP_RELEASE:
			return REQUEST_RELEASE;
		default:
			return REQUEST_HEARTBEAT;
	}
}

bool
heartbeat_step(AmoroNode *node)
{
	Heartbeat  *heartbeat = &node->heartbeat;
	Lease	   *lease = &node->lease;
	NodeRequest request;
	LeaseStep	step;
	int64_t		wait_ms = 0;

	notice_lapse(node);
	if (lease_next_step(lease) == STEP_STOP)
		return false;
	if (clock_now(&node->clock) < heartbeat->due)
	{
		heartbeat->transport->sleep(heartbeat->transport, lapse_or(node, heartbeat->due));
		return true;
	}
	if (!heartbeat->transport->is_open(heartbeat->transport))
	{
		connect_to_server(node);
		return true;
	}
	step = lease_next_step(lease);
	if (step == STEP_ACTIVATE && lease->state != AMORO_NODE_ACTIVE)
	{
		step = reload_next_step(node);
		if (step == STEP_STOP)
			return true;
	}
	if (lease->state == AMORO_NODE_ACTIVE && heartbeat->transport->can_wait(heartbeat->transport))
		wait_ms = least(least(lease->heartbeat_interval_us, lease->lease_us / 4) / 1000, LONGEST_WAIT_MS);

	pthread_mutex_lock(&node->lease_lock);
	lease_request_begin(lease, request_of(step), wait_ms, &request);
	pthread_mutex_unlock(&node->lease_lock);
	make_request(node, &request);
	report(node);
	return true;
}

void
heartbeat_release(AmoroNode *node)
{
	Transport  *transport = node->heartbeat.transport;
	NodeTime	now = clock_now(&node->clock);
	NodeTime	deadline = now + least(greatest(patience(node), 500000), LONGEST_CLOSE_US);
	NodeRequest request;
	NodeAnswer	answer = {0};
	TransportFailure failure = {"", ""};
	TransportStatus status;

	if (!node->release_wanted)
		return;
	transport->wake_reset(transport);
	/* a connection that still waits for the answer to a heartbeat cannot be asked anything */
	transport->set_aside(transport);
	pthread_mutex_lock(&node->lease_lock);
	lease_request_begin(&node->lease, REQUEST_RELEASE, 0, &request);
	pthread_mutex_unlock(&node->lease_lock);

	status = transport->open(transport, deadline, deadline, &failure);
	if (status == TRANSPORT_DONE)
		status = transport->send(transport, &request, NULL, NULL, deadline, &failure);
	if (status == TRANSPORT_DONE)
		status = transport->receive(transport, &request, deadline, &answer, &failure);
	if (status == TRANSPORT_DONE)
		transport->answer_release(transport, &answer);
	else
		node_log(node, AMORO_LOG_WARNING, "the lease could not be released and will be waited for: %s",
				 failure.message[0] ? failure.message : "no answer from the server in time");
	transport->close(transport);
}

void *
heartbeat_main(void *argument)
{
	AmoroNode  *node = argument;
	Transport  *transport = node->heartbeat.transport;

	while (!atomic_load_explicit(&node->closing, memory_order_acquire) && heartbeat_step(node))
		;
	/* nothing to do any more (superseded, removed): keep no connection, and wait to be closed */
	if (!atomic_load_explicit(&node->closing, memory_order_acquire))
		transport->close(transport);
	while (!atomic_load_explicit(&node->closing, memory_order_acquire))
		transport->sleep(transport, NODE_TIME_NEVER);
	pthread_mutex_lock(&node->lease_lock);
	lease_fence(&node->lease, AMORO_NODE_CLOSED, "the node is closing");
	pthread_mutex_unlock(&node->lease_lock);
	heartbeat_release(node);
	return NULL;
}
