/*
 * campaign.h
 *		The campaigns of a node, one thread and one connection a service.
 */
#ifndef AMORO_CAMPAIGN_H
#define AMORO_CAMPAIGN_H

#include "node.h"

/* Something has happened to the lease (service NULL), or to a service; wakes whom it may concern. From any thread. */
extern void campaigns_notice(AmoroNode *node, const char *service);
/* Ends all of them, as amoro_leadership_close does. */
extern void campaigns_close(AmoroNode *node);

#endif							/* AMORO_CAMPAIGN_H */
