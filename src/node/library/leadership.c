/*
 * leadership.c
 *		The campaigns of a node as the application has them: opened, asked, given up, closed.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "campaign.h"
#include "key.h"
#include "server_transport.h"

void
campaigns_notice(AmoroNode *node, const char *service)
{
	pthread_mutex_lock(&node->campaigns_lock);
	for (AmoroLeadership *campaign = node->campaigns; campaign != NULL; campaign = campaign->next)
	{
		if (service != NULL && strcmp(service, campaign->service) != 0)
			continue;
		if (service != NULL)
			atomic_store(&campaign->hinted, true);
		campaign->transport->wake(campaign->transport);
	}
	pthread_mutex_unlock(&node->campaigns_lock);
}

static void
campaign_free(AmoroLeadership *campaign)
{
	if (campaign->transport != NULL)
		campaign->transport->destroy(campaign->transport);
	pthread_mutex_destroy(&campaign->status_lock);
	free(campaign->service);
	free(campaign);
}

void
amoro_leadership_close(AmoroLeadership *campaign)
{
	AmoroNode  *node = campaign->node;
	AmoroLeadership **link = &node->campaigns;

	pthread_mutex_lock(&node->campaigns_lock);
	while (*link != campaign)
		link = &(*link)->next;
	*link = campaign->next;
	pthread_mutex_unlock(&node->campaigns_lock);
	atomic_store(&campaign->closing, true);
	campaign->transport->wake(campaign->transport);
	pthread_join(campaign->thread, NULL);
	campaign_free(campaign);
}

void
campaigns_close(AmoroNode *node)
{
	while (node->campaigns != NULL)
		amoro_leadership_close(node->campaigns);
}

static bool
start_thread(AmoroLeadership *campaign)
{
	sigset_t	all;
	sigset_t	before;
	bool		started;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	started = pthread_create(&campaign->thread, NULL, campaign_main, campaign) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return started;
}

AmoroResult
amoro_leadership_open(AmoroNode *node, const AmoroLeadershipOptions *options, AmoroLeadership **result,
					  char *error, size_t error_size)
{
	AmoroLeadership *campaign;

	*result = NULL;
	snprintf(error, error_size, "a service has a name of 1 to 255 characters, and a margin of 0 to 86400000 ms");
	if (options->service == NULL || options->service[0] == '\0' || options->stop_margin_ms < 0 ||
		options->stop_margin_ms > 86400000 || strnlen(options->service, KEY_PART_LIMIT + 1) > KEY_PART_LIMIT)
		return AMORO_INVALID_ARGUMENT;
	snprintf(error, error_size, "out of memory or threads");
	campaign = calloc(1, sizeof(AmoroLeadership));
	if (campaign == NULL)
		return AMORO_INVALID_ARGUMENT;
	campaign->node = node;
	campaign->options = *options;
	campaign->service = strdup(options->service);
	campaign->options.service = campaign->service;
	pthread_mutex_init(&campaign->status_lock, NULL);
	random_seed(&campaign->random);
	tenure_init(&campaign->tenure, &node->lease);
	campaign->transport = campaign->service != NULL ?
		server_transport_create(node->conninfo, node->registration, &node->clock, error, error_size) : NULL;
	if (campaign->transport == NULL || !start_thread(campaign))
	{
		campaign_free(campaign);
		return AMORO_INVALID_ARGUMENT;
	}
	pthread_mutex_lock(&node->campaigns_lock);
	campaign->next = node->campaigns;
	node->campaigns = campaign;
	pthread_mutex_unlock(&node->campaigns_lock);
	*result = campaign;
	error[0] = '\0';
	return AMORO_OK;
}

AmoroResult
amoro_leadership_check(AmoroLeadership *campaign, int64_t *token)
{
	return tenure_holds(&campaign->tenure, token) ? AMORO_OK : AMORO_FENCED;
}

void
amoro_leadership_resign(AmoroLeadership *campaign, int64_t token, int pause_ms)
{
	atomic_store(&campaign->pause_us, (int64_t) pause_ms * 1000);
	atomic_store(&campaign->resigned, token);
	campaign->transport->wake(campaign->transport);
}

void
amoro_leadership_status(AmoroLeadership *campaign, AmoroLeadershipStatus *status)
{
	NodeTime	left;

	pthread_mutex_lock(&campaign->status_lock);
	*status = campaign->status;
	pthread_mutex_unlock(&campaign->status_lock);
	status->leading = tenure_holds(&campaign->tenure, &status->token);
	if (!status->leading)
	{
		status->token = 0;
		return;
	}
	left = tenure_stop_time(&campaign->tenure) - clock_now(&campaign->node->clock);
	status->remaining_ms = left > 0 ? left / 1000 : 0;
}
