/*
 * lookup.c
 *		Lookups: from memory, from the database, and the ticket at the end.
 */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "node.h"

/* How much longer than the load itself a caller waits before it gives up on being called back. */
#define CALLBACK_GRACE_US 250000

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

void
amoro_cache_load(AmoroNode *node, AmoroCacheKind kind, const AmoroKey *key, AmoroLoadCallback callback, void *argument)
{
	AmoroTicket ticket = {0};
	KeyParts	parts;
	AmoroResult result;

	if ((unsigned) kind >= AMORO_CACHE_KIND_COUNT || !key_parts(&parts, kind, key, node->cache.seed))
		callback(argument, AMORO_INVALID_ARGUMENT, NULL, ticket);
	else if (!lease_is_valid(&node->lease))
		callback(argument, AMORO_FENCED, NULL, ticket);
	else if ((result = loader_submit(node, kind, &parts, callback, argument)) != AMORO_OK)
		callback(argument, result, NULL, ticket);
}

/* One blocked caller. Whoever of the caller and the loader comes last frees it. */
typedef struct BlockedCaller
{
	pthread_mutex_t lock;
	pthread_cond_t answered;
	bool		done;
	bool		abandoned;
	AmoroResult result;
	AmoroEntry *entry;
	AmoroTicket ticket;
} BlockedCaller;

static void
blocked_caller_free(BlockedCaller *caller)
{
	pthread_cond_destroy(&caller->answered);
	pthread_mutex_destroy(&caller->lock);
	free(caller);
}

static BlockedCaller *
blocked_caller_create(void)
{
	BlockedCaller *caller = calloc(1, sizeof(BlockedCaller));
	pthread_condattr_t attributes;

	if (caller == NULL)
		return NULL;
	pthread_mutex_init(&caller->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&caller->answered, &attributes);
	pthread_condattr_destroy(&attributes);
	return caller;
}

static void
wake_caller(void *argument, AmoroResult result, AmoroEntry *entry, AmoroTicket ticket)
{
	BlockedCaller *caller = argument;
	bool		abandoned;

	pthread_mutex_lock(&caller->lock);
	abandoned = caller->abandoned;
	caller->done = true;
	caller->result = result;
	caller->entry = entry;
	caller->ticket = ticket;
	pthread_cond_signal(&caller->answered);
	pthread_mutex_unlock(&caller->lock);
	if (abandoned)
	{
		amoro_entry_release(entry);
		blocked_caller_free(caller);
	}
}

static AmoroResult
wait_for_load(BlockedCaller *caller, NodeTime timeout, AmoroEntry **entry, AmoroTicket *ticket)
{
	AmoroResult result = AMORO_UNAVAILABLE;
	struct timespec until;
	int			rc = 0;
	bool		done;

	clock_gettime(CLOCK_MONOTONIC, &until);
	timeout += CALLBACK_GRACE_US;
	until.tv_sec += timeout / 1000000;
	until.tv_nsec += (timeout % 1000000) * 1000;
	if (until.tv_nsec >= 1000000000)
	{
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}

	pthread_mutex_lock(&caller->lock);
	while (!caller->done && rc == 0)
		rc = pthread_cond_timedwait(&caller->answered, &caller->lock, &until);
	done = caller->done;
	if (done)
	{
		result = caller->result;
		*entry = caller->entry;
		*ticket = caller->ticket;
	}
	else
		caller->abandoned = true;
	pthread_mutex_unlock(&caller->lock);
	if (done)
		blocked_caller_free(caller);
	return result;
}

AmoroResult
amoro_cache_get(AmoroNode *node, AmoroCacheKind kind, const AmoroKey *key, AmoroEntry **entry, AmoroTicket *ticket)
{
	BlockedCaller *caller;
	KeyParts	parts;
	AmoroResult result;

	*entry = NULL;
	if ((unsigned) kind >= AMORO_CACHE_KIND_COUNT || !key_parts(&parts, kind, key, node->cache.seed))
		return AMORO_INVALID_ARGUMENT;
	result = peek(node, kind, &parts, entry, ticket);
	if (result != AMORO_MISS)
		return result;
	caller = blocked_caller_create();
	if (caller == NULL)
		return AMORO_UNAVAILABLE;
	result = loader_submit(node, kind, &parts, wake_caller, caller);
	if (result != AMORO_OK)
	{
		blocked_caller_free(caller);
		return result;
	}
	return wait_for_load(caller, node->loader.timeout, entry, ticket);
}
