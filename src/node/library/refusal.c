/*
 * refusal.c
 *		What an error of the server does to the lease. Whatever the error, a lease that was granted runs to its end
 *		and no further, unless the server says that it is no longer ours.
 */
#include "lease.h"

#include <string.h>

typedef enum RefusalKind
{
	REFUSAL_PASSING,			/* try again */
	REFUSAL_UNKNOWN_NODE,
	REFUSAL_SUPERSEDED,
	REFUSAL_HISTORY_PRUNED,
	REFUSAL_NEEDS_OPERATOR,
	REFUSAL_NO_ROOM,			/* until the lease of an older process is over, or somebody acts */
	REFUSAL_WRONG_SERVER		/* or a connection that is of no use any more */
} RefusalKind;

static const struct
{
	const char *sqlstate;		/* or its first characters */
	RefusalKind kind;
}			refusals[] = {
	{"AM002", REFUSAL_UNKNOWN_NODE},
	{"AM003", REFUSAL_SUPERSEDED},
	{"AM004", REFUSAL_WRONG_SERVER},	/* its term is older than ours */
	{"AM006", REFUSAL_HISTORY_PRUNED},
	{"25006", REFUSAL_WRONG_SERVER},	/* a standby */
	{"42501", REFUSAL_NEEDS_OPERATOR},
	{"0A000", REFUSAL_NEEDS_OPERATOR},	/* protocol version */
	{"22", REFUSAL_NEEDS_OPERATOR}, /* settings, or the options of this node */
	{"53400", REFUSAL_NO_ROOM},
	{"42", REFUSAL_WRONG_SERVER},	/* the extension went or moved: look for it again */
	{"3F", REFUSAL_WRONG_SERVER},
	{"08", REFUSAL_WRONG_SERVER},
	{"57P", REFUSAL_WRONG_SERVER},
};

static RefusalKind
classify(const NodeRequest *request, const char *sqlstate)
{
	/* only a registration shows the protocol version; elsewhere this is a plan that outlived a change of the extension */
	if (strcmp(sqlstate, "0A000") == 0 && request->kind != REQUEST_REGISTER)
		return REFUSAL_WRONG_SERVER;
	/* a name whose removal is under way is free again soon */
	if (strcmp(sqlstate, "AM002") == 0 && request->kind == REQUEST_REGISTER)
		return REFUSAL_PASSING;
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
	{
		if (strncmp(sqlstate, refusals[i].sqlstate, strlen(refusals[i].sqlstate)) == 0)
			return refusals[i].kind;
	}
	return REFUSAL_PASSING;
}

static LeaseOutcome
needs_operator(Lease *lease)
{
	lease->refused = true;
	/* serving, there is a lease to lose: keep the pace until it ends */
	if (lease->state == AMORO_NODE_ACTIVE)
		return LEASE_RETRY;
	lease->state = AMORO_NODE_REFUSED;
	return LEASE_RETRY_SLOWLY;
}

/*
 * The server has never heard of this node, or no longer. Under the same incarnation, so that the server can tell a
 * registration that was lost from a process that had to give way meanwhile.
 */
static LeaseOutcome
register_again(Lease *lease, const char *message)
{
	lease_fence(lease, AMORO_NODE_FENCED, message);
	lease->registered = false;
	return ++lease->fruitless < 2 ? LEASE_GO_ON : LEASE_RETRY;
}

LeaseOutcome
lease_refused(Lease *lease, const NodeRequest *request, const char *sqlstate, const char *message)
{
	if (request->sequence != lease->outstanding || lease->closed)
		return LEASE_WAIT;
	lease_request_lost(lease, request, message);
	if (request->kind == REQUEST_RELEASE)
		return LEASE_GO_ON;
	switch (classify(request, sqlstate))
	{
		case REFUSAL_UNKNOWN_NODE:
			return register_again(lease, message);
		case REFUSAL_SUPERSEDED:
			lease_fence(lease, AMORO_NODE_SUPERSEDED, message);
			return LEASE_GO_ON;
		case REFUSAL_HISTORY_PRUNED:
			lease_fence(lease, AMORO_NODE_FENCED, message);
			return LEASE_GO_ON;
		case REFUSAL_NEEDS_OPERATOR:
			return needs_operator(lease);
		case REFUSAL_NO_ROOM:
			return LEASE_RETRY_SLOWLY;
		case REFUSAL_WRONG_SERVER:
			return LEASE_DISCONNECT;
		case REFUSAL_PASSING:
			break;
	}
	return LEASE_RETRY;
}
