/*
 * tenure.c
 *		Leading one service, without input or output.
 */
#include "tenure.h"

#include <string.h>

void
tenure_init(Tenure *tenure, const Lease *lease)
{
	memset(tenure, 0, sizeof(*tenure));
	tenure->lease = lease;
}

void
tenure_request_begin(const Tenure *tenure, const char *service, NodeRequest *request)
{
	const Lease *lease = tenure->lease;

	memset(request, 0, sizeof(*request));
	request->kind = REQUEST_LEAD;
	request->service = service;
	request->generation = atomic_load(&lease->generation);
	request->node_id = lease->node_id;
	request->term = atomic_load(&lease->term);
	request->lease_epoch = lease->lease_epoch;
	memcpy(request->incarnation, lease->incarnation, INCARNATION_SIZE);
	request->sent = clock_now(lease->clock);
}

bool
tenure_answered(Tenure *tenure, const NodeRequest *request, const LeadershipAnswer *answer, NodeTime margin)
{
	const Lease *lease = tenure->lease;
	bool		same = answer->term == request->term && answer->lease_epoch == request->lease_epoch &&
		request->term == atomic_load(&lease->term) && request->lease_epoch == lease->lease_epoch &&
		request->generation == atomic_load(&lease->generation);

	if (!answer->leader || answer->token <= 0 || !(same || !RULE(RULE_TENURE_OF_ONE_LEASE)))
		return false;
	atomic_store(&tenure->generation, atomic_load(&lease->generation));
	atomic_store(&tenure->term, atomic_load(&lease->term));
	atomic_store(&tenure->margin, margin < lease->lease_us / 2 ? margin : lease->lease_us / 2);
	atomic_store(&tenure->token, answer->token);
	return true;
}

void
tenure_end(Tenure *tenure)
{
	atomic_store(&tenure->token, 0);
}

NodeTime
tenure_stop_time(const Tenure *tenure)
{
	return atomic_load(&tenure->lease->end) - atomic_load(&tenure->margin);
}

static bool
of_this_lease(const Tenure *tenure)
{
	return (atomic_load(&tenure->generation) == atomic_load(&tenure->lease->generation) &&
			atomic_load(&tenure->term) == atomic_load(&tenure->lease->term)) || !RULE(RULE_TENURE_OF_ONE_LEASE);
}

/*
 * The end is read between two looks at what lease it is of, and the clock after it: whoever is stopped in between finds
 * the tenure over.
 */
bool
tenure_holds(const Tenure *tenure, int64_t *token)
{
	NodeTime	stop;

	*token = atomic_load(&tenure->token);
	if (*token == 0 || !of_this_lease(tenure))
		return false;
	stop = tenure_stop_time(tenure);
	if (!lease_is_valid(tenure->lease) || (clock_now(tenure->lease->clock) >= stop && RULE(RULE_LAPSE_BY_ARITHMETIC)))
		return false;
	return of_this_lease(tenure) && atomic_load(&tenure->token) == *token;
}
