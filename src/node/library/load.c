/*
 * load.c
 *		The rule for filling a cache.
 */
#include "load.h"

#include <string.h>

bool
load_begin(const Lease *lease, const Cache *cache, const KeyParts *key, LoadNote *note)
{
	note->lease_generation = atomic_load_explicit(&lease->generation, memory_order_acquire);
	if (!lease_is_valid(lease))
		return false;
	note->key_generation = cache_generation(cache, cache_ticket_hash(key));
	note->applied_version = atomic_load_explicit(&lease->applied_version, memory_order_acquire);
	note->listing = false;
	return true;
}

/* What the state of the object means for a reader; *cacheable: it carries no marker. */
static AmoroResult
read_state(const LookupAnswer *answer, bool *cacheable)
{
	const char *state = answer->state ? answer->state : "normal";

	*cacheable = answer->found && strcmp(state, "normal") == 0;
	if (strcmp(state, "pre_create") == 0 || strcmp(state, "pre_drop") == 0)
		return AMORO_IN_TRANSITION;
	return answer->found && answer->document != NULL ? AMORO_OK : AMORO_NOT_FOUND;
}

LoadVerdict
load_finish(const Lease *lease, Cache *cache, AmoroCacheKind kind, const KeyParts *key,
			const LoadNote *note, const LookupAnswer *answer,
			AmoroResult *result, AmoroEntry **entry, AmoroTicket *ticket)
{
	bool		cacheable;

	*entry = NULL;
	ticket->lease_generation = note->lease_generation;
	ticket->key_generation = note->key_generation;
	ticket->key_hash = cache_ticket_hash(key);
	ticket->metadata_version = answer->metadata_version;
	if (atomic_load_explicit(&lease->generation, memory_order_acquire) != note->lease_generation ||
		!lease_is_valid(lease))
	{
		*result = AMORO_FENCED;
		if (RULE(RULE_LOAD_GENERATION))
			return LOAD_ANSWERED;
	}
	if (answer->term != atomic_load_explicit(&lease->term, memory_order_acquire) && RULE(RULE_LOAD_TERM))
		return LOAD_OTHER_SERVER;
	if (answer->metadata_version < note->applied_version && RULE(RULE_LOAD_VERSION))
		return LOAD_OTHER_SERVER;
	if (cache_generation(cache, ticket->key_hash) != note->key_generation && RULE(RULE_LOAD_GENERATION))
		return LOAD_OVERTAKEN;

	*result = read_state(answer, &cacheable);
	if (*result == AMORO_NOT_FOUND && !note->listing)
		cache_store_absent(cache, lease, kind, key, note->lease_generation, note->key_generation);
	if (*result != AMORO_OK)
		return LOAD_ANSWERED;
	*entry = entry_create(kind, key, answer->document, answer->document_size, answer->object_version);
	if (*entry == NULL)
		*result = AMORO_UNAVAILABLE;
	else if (!note->listing && (cacheable || !RULE(RULE_MARKED_NOT_CACHED)))
		cache_store(cache, lease, key, *entry, note->lease_generation, note->key_generation);
	return LOAD_ANSWERED;
}
