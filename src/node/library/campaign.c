/*
 * campaign.c
 *		Campaigning for one service, and leading it. The thread waits, when it leads, for nothing but the end of the lease and for
 *		news of it: a server that does not answer never keeps it from stopping.
 */
#include "campaign.h"

#include <stdio.h>
#include <string.h>

#include "server_transport.h"

#define FIRST_TIMEOUT_US 5000000
#define LONGEST_CEDE_US 2000000
#define LONGEST_BACKOFF_US 5000000

static void
note(AmoroLeadership *campaign, const char *leader_name, const char *reason)
{
	AmoroLeadershipStatus *status = &campaign->status;
	bool		news;

	pthread_mutex_lock(&campaign->status_lock);
	news = reason[0] != '\0' && strcmp(status->reason, reason) != 0;
	snprintf(status->reason, sizeof(status->reason), "%s", reason);
	snprintf(status->leader_name, sizeof(status->leader_name), "%s", leader_name != NULL ? leader_name : "");
	pthread_mutex_unlock(&campaign->status_lock);
	if (news)
		node_log(campaign->node, AMORO_LOG_DEBUG, "does not lead %s: %s", campaign->service, reason);
}

static void
count(AmoroLeadership *campaign, int64_t *counter)
{
	pthread_mutex_lock(&campaign->status_lock);
	*counter += 1;
	pthread_mutex_unlock(&campaign->status_lock);
}

static NodeTime
lease_length(AmoroLeadership *campaign)
{
	NodeTime	lease_us;

	pthread_mutex_lock(&campaign->node->lease_lock);
	lease_us = campaign->node->lease.lease_us;
	pthread_mutex_unlock(&campaign->node->lease_lock);
	return lease_us;
}

static NodeTime
patience(AmoroLeadership *campaign)
{
	NodeTime	lease_us = lease_length(campaign);

	return lease_us > 0 ? lease_us / 4 : FIRST_TIMEOUT_US;
}

static void
begin_request(AmoroLeadership *campaign, NodeRequest *request)
{
	pthread_mutex_lock(&campaign->node->lease_lock);
	tenure_request_begin(&campaign->tenure, campaign->service, request);
	pthread_mutex_unlock(&campaign->node->lease_lock);
}

/* Asks, and waits for the answer in spite of whoever wakes us. Not to be called by a leader. */
static TransportStatus
ask(AmoroLeadership *campaign, const NodeRequest *request, NodeTime deadline, NodeAnswer *answer, TransportFailure *failure)
{
	Transport  *transport = campaign->transport;
	TransportStatus status;

	do
	{
		transport->wake_reset(transport);
		status = transport->open(transport, deadline, deadline, failure);
	} while (status == TRANSPORT_WOKEN && !atomic_load(&campaign->closing));
	while (status == TRANSPORT_DONE)
	{
		status = transport->send(transport, request, NULL, NULL, deadline, failure);
		if (status != TRANSPORT_WOKEN)
			break;
		transport->wake_reset(transport);
		status = TRANSPORT_DONE;
	}
	while (status == TRANSPORT_DONE)
	{
		status = transport->receive(transport, request, deadline, answer, failure);
		if (status != TRANSPORT_WOKEN)
			break;
		transport->wake_reset(transport);
		status = TRANSPORT_DONE;
	}
	if (status == TRANSPORT_TIMED_OUT)
		snprintf(failure->message, sizeof(failure->message), "no answer from the server in time");
	if (status != TRANSPORT_DONE && status != TRANSPORT_REFUSED)
		transport->close(transport);
	return status;
}

static void
retry_later(AmoroLeadership *campaign, const char *reason)
{
	note(campaign, NULL, reason);
	campaign->due = clock_now(&campaign->node->clock) +
		backoff_next(&campaign->backoff, &campaign->random, LONGEST_BACKOFF_US);
}

/* Tells the server of a tenure that has ended, so that nobody waits for it. */
static void
cede(AmoroLeadership *campaign, NodeTime patience_us)
{
	AmoroNode  *node = campaign->node;
	NodeRequest request;
	NodeAnswer	answer = {0};
	TransportFailure failure = {"", ""};
	TransportStatus status;

	begin_request(campaign, &request);
	request.kind = REQUEST_CEDE;
	request.token = campaign->ceding;
	status = ask(campaign, &request, clock_now(&node->clock) + patience_us, &answer, &failure);
	if (status == TRANSPORT_DONE)
		campaign->transport->answer_release(campaign->transport, &answer);
	/* who is refused has nothing any more that could be given back */
	if (status == TRANSPORT_DONE || status == TRANSPORT_REFUSED)
		campaign->ceding = 0;
	else
		retry_later(campaign, failure.message);
}

static void
lose(AmoroLeadership *campaign, const char *reason)
{
	int64_t		token = atomic_load(&campaign->tenure.token);

	tenure_end(&campaign->tenure);
	count(campaign, &campaign->status.losses);
	note(campaign, NULL, reason);
	node_log(campaign->node, AMORO_LOG_INFO, "stops to lead %s (token %lld): %s", campaign->service, (long long) token, reason);
	if (campaign->options.on_loss != NULL)
		campaign->options.on_loss(campaign->options.argument, token, reason);
	campaign->ceding = token;
	campaign->due = 0;
}

static void
gain(AmoroLeadership *campaign, int64_t token)
{
	NodeTime	end = atomic_load(&campaign->node->lease.end);

	backoff_reset(&campaign->backoff);
	count(campaign, &campaign->status.gains);
	note(campaign, campaign->node->registration->node_name, "");
	node_log(campaign->node, AMORO_LOG_INFO, "leads %s (token %lld)", campaign->service, (long long) token);
	campaign->told_end = end;
	if (campaign->options.on_gain != NULL)
		campaign->options.on_gain(campaign->options.argument, token, end - atomic_load(&campaign->tenure.margin), end);
}

/* As a leader: waits for the end, or for news. */
static void
lead(AmoroLeadership *campaign)
{
	Transport  *transport = campaign->transport;
	int64_t		token;
	NodeTime	end;

	transport->wake_reset(transport);
	if (atomic_load(&campaign->resigned) == atomic_load(&campaign->tenure.token))
	{
		lose(campaign, "it gave up");
		campaign->due = clock_now(&campaign->node->clock) + atomic_load(&campaign->pause_us);
		return;
	}
	if (!tenure_holds(&campaign->tenure, &token))
	{
		lose(campaign, "the lease of the node has ended, or is about to");
		return;
	}
	end = atomic_load(&campaign->node->lease.end);
	if (end > campaign->told_end && campaign->options.on_extended != NULL)
		campaign->options.on_extended(campaign->options.argument, token, end - atomic_load(&campaign->tenure.margin), end);
	campaign->told_end = end;
	(void) transport->sleep(transport, tenure_stop_time(&campaign->tenure));
}

static void
take_answer(AmoroLeadership *campaign, const NodeRequest *request, const LeadershipAnswer *answer)
{
	AmoroNode  *node = campaign->node;
	NodeTime	interval;
	bool		began;

	pthread_mutex_lock(&node->lease_lock);
	began = tenure_answered(&campaign->tenure, request, answer, (NodeTime) campaign->options.stop_margin_ms * 1000);
	interval = node->lease.heartbeat_interval_us;
	pthread_mutex_unlock(&node->lease_lock);
	if (began)
	{
		gain(campaign, answer->token);
		return;
	}
	/* led in a lease that is over by now: to be given back before it is asked for anew */
	if (answer->leader)
		campaign->ceding = answer->token;
	note(campaign, answer->leader_name, answer->reason != NULL ? answer->reason : "the lease has changed meanwhile");
	if (answer->retry_after_us > 0 && answer->retry_after_us < interval)
		interval = answer->retry_after_us;
	backoff_reset(&campaign->backoff);
	campaign->due = clock_now(&node->clock) + interval;
}

/* Whether there is a lease, long enough to lead in it. */
static bool
may_ask(AmoroLeadership *campaign)
{
	Lease	   *lease = &campaign->node->lease;
	NodeTime	margin = (NodeTime) campaign->options.stop_margin_ms * 1000;
	NodeTime	half = lease_length(campaign) / 2;

	if (margin > half)
		margin = half;
	return lease_is_valid(lease) && clock_now(&campaign->node->clock) < atomic_load(&lease->end) - margin;
}

static void
ask_to_lead(AmoroLeadership *campaign, NodeTime patience_us)
{
	NodeRequest request;
	NodeAnswer	answer = {0};
	TransportFailure failure = {"", ""};
	TransportStatus status;

	begin_request(campaign, &request);
	status = ask(campaign, &request, request.sent + patience_us, &answer, &failure);
	campaign->unsure = status != TRANSPORT_DONE && status != TRANSPORT_REFUSED;
	if (status == TRANSPORT_DONE)
	{
		take_answer(campaign, &request, &answer.leadership);
		campaign->transport->answer_release(campaign->transport, &answer);
	}
	else
		retry_later(campaign, failure.message[0] != '\0' ? failure.message : "no connection to the server");
}

static void
campaign_step(AmoroLeadership *campaign)
{
	AmoroNode  *node = campaign->node;
	Transport  *transport = campaign->transport;

	transport->wake_reset(transport);
	if (atomic_exchange(&campaign->hinted, false) && campaign->resigned == 0)
		campaign->due = 0;
	if (clock_now(&node->clock) < campaign->due || (campaign->ceding == 0 && !may_ask(campaign)))
	{
		if (campaign->due == 0 || clock_now(&node->clock) >= campaign->due)
			note(campaign, NULL, "the node holds no lease");
		(void) transport->sleep(transport, clock_now(&node->clock) < campaign->due ? campaign->due : NODE_TIME_NEVER);
		return;
	}
	if (campaign->ceding != 0)
	{
		cede(campaign, patience(campaign));
		return;
	}
	atomic_store(&campaign->resigned, 0);
	ask_to_lead(campaign, patience(campaign));
}

void *
campaign_main(void *argument)
{
	AmoroLeadership *campaign = argument;

	while (!atomic_load(&campaign->closing))
	{
		if (atomic_load(&campaign->tenure.token) != 0)
			lead(campaign);
		else
			campaign_step(campaign);
	}
	/* whoever was not answered may lead all the same; asked again, he is told so */
	if (campaign->unsure)
		ask_to_lead(campaign, LONGEST_CEDE_US);
	if (atomic_load(&campaign->tenure.token) != 0)
		lose(campaign, "the node is closing");
	if (campaign->ceding != 0)
		cede(campaign, LONGEST_CEDE_US);
	campaign->transport->close(campaign->transport);
	return NULL;
}
