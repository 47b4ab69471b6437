/*
 * lookup.c
 *		Lookups: from memory, from the database, and the ticket at the end.
 */
#include "node.h"

#define MOST_LISTED 10000		/* as metadata_listing() has it */

/*
 * Order: generation, then lease, then the key's generation, then the entry. Whatever happens in between either makes
 * the lookup fail, or the ticket stale.
 */
static AmoroResult
peek(AmoroNode *node, AmoroCacheKind kind, const KeyParts *parts, AmoroEntry **entry, AmoroTicket *ticket)
{
	bool		absent;

	ticket->lease_generation = atomic_load_explicit(&node->lease.generation, memory_order_acquire);
	if (!lease_is_valid(&node->lease))
		return AMORO_FENCED;
	ticket->key_hash = cache_ticket_hash(parts);
	ticket->key_generation = cache_generation(&node->cache, ticket->key_hash);
	ticket->metadata_version = atomic_load_explicit(&node->lease.applied_version, memory_order_acquire);
	*entry = cache_find(&node->cache, kind, parts, &absent);
	if (*entry != NULL)
		return AMORO_OK;
	return absent ? AMORO_NOT_FOUND : AMORO_MISS;
}

AmoroResult
amoro_cache_peek(AmoroNode *node, AmoroCacheKind kind, const AmoroKey *key, AmoroEntry **entry, AmoroTicket *ticket)
{
	KeyParts	parts;

	*entry = NULL;
	if ((unsigned) kind >= AMORO_CACHE_KIND_COUNT || !key_parts(&parts, kind, key, node->cache.seed))
		return AMORO_INVALID_ARGUMENT;
	return peek(node, kind, &parts, entry, ticket);
}

/*
 * The applied version is read before the key's generation, which moves before the version does: if the generation is
 * still that of the ticket, no change up to that version has touched the key, and the answer is right as of it.
 */
AmoroResult
amoro_ticket_check(AmoroNode *node, AmoroTicket *ticket)
{
	int64_t		applied = atomic_load_explicit(&node->lease.applied_version, memory_order_acquire);

	if (!RULE(RULE_TICKET))
		return AMORO_OK;
	if (!lease_is_valid(&node->lease) ||
		atomic_load_explicit(&node->lease.generation, memory_order_acquire) != ticket->lease_generation)
		return AMORO_FENCED;
	if (cache_generation(&node->cache, ticket->key_hash) != ticket->key_generation)
		return AMORO_STALE;
	if (applied > ticket->metadata_version)
		ticket->metadata_version = applied;
	return AMORO_OK;
}

/* Hands one load over; what cannot be loaded is answered at once. */
static void
load(AmoroNode *node, LoadSubmission *submission)
{
	AmoroTicket none = {0};

	if (!lease_is_valid(&node->lease))
		submission->result = AMORO_FENCED;
	else
		loader_submit(node, submission, 1);
	if (submission->result != AMORO_OK)
		submission->callback(submission->argument, submission->result, NULL, none);
}

void
amoro_cache_load(AmoroNode *node, AmoroCacheKind kind, const AmoroKey *key, AmoroLoadCallback callback, void *argument)
{
	LoadSubmission submission = {.kind = kind, .callback = callback, .argument = argument};
	AmoroTicket none = {0};

	if ((unsigned) kind >= AMORO_CACHE_KIND_COUNT || !key_parts(&submission.key, kind, key, node->cache.seed))
		callback(argument, AMORO_INVALID_ARGUMENT, NULL, none);
	else
		load(node, &submission);
}

void
amoro_listing_load(AmoroNode *node, AmoroCacheKind kind, const AmoroKey *key, int max_rows, AmoroLoadCallback callback,
				   void *argument)
{
	LoadSubmission submission = {.kind = kind, .max_rows = max_rows, .callback = callback, .argument = argument};
	AmoroTicket none = {0};

	if ((unsigned) kind >= AMORO_CACHE_KIND_COUNT || node->kinds[kind]->names != 3 || max_rows < 1 || max_rows > MOST_LISTED ||
		!key_listing_parts(&submission.key, key, node->cache.seed))
		callback(argument, AMORO_INVALID_ARGUMENT, NULL, none);
	else
		load(node, &submission);
}
