/*
 * campaign.h
 *		The campaigns of a node, one thread and one connection a service.
 */
#ifndef AMORO_CAMPAIGN_H
#define AMORO_CAMPAIGN_H

#include "node.h"
#include "tenure.h"

/* What the application holds of one: opaque to it. */
struct AmoroLeadership
{
	AmoroNode  *node;
	AmoroLeadership *next;		/* guarded by campaigns_lock of the node */
	Transport  *transport;
	pthread_t	thread;
	AmoroLeadershipOptions options;
	char	   *service;
	Tenure		tenure;
	_Atomic bool closing;
	_Atomic bool hinted;		/* the service has got another leader, or none */
	_Atomic int64_t resigned;	/* token of the tenure that is to be given up */
	_Atomic int64_t pause_us;
	/* of the thread alone */
	NodeTime	due;			/* when to ask again */
	NodeTime	told_end;		/* of the lease, as on_extended was told it */
	bool		unsure;			/* asked to lead, and had no answer */
	int64_t		ceding;			/* token of a tenure that has ended here, which the server does not know; 0: none */
	Random		random;
	Backoff		backoff;
	/* what people are told */
	pthread_mutex_t status_lock;
	AmoroLeadershipStatus status;
};

/* The thread of a campaign, which is its argument. */
extern void *campaign_main(void *campaign);

/* leadership.c */
/* Something has happened to the lease (service NULL), or to a service; wakes whom it may concern. From any thread. */
extern void campaigns_notice(AmoroNode *node, const char *service);
/* Ends all of them, as amoro_leadership_close does. */
extern void campaigns_close(AmoroNode *node);

#endif							/* AMORO_CAMPAIGN_H */
