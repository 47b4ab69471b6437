/*
 * lookup_many.c
 *		Many lookups at once, and callers who wait for the answers.
 */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "node.h"

/* How much longer than the load itself a caller waits before it gives up on being called back. */
#define CALLBACK_GRACE_US 250000

/* What was asked for together. The last one that is answered calls back, or he who asked, if all were before he was done. */
typedef struct Group
{
	_Atomic size_t unanswered;
	void		(*callback) (void *argument);
	void	   *argument;
	struct GroupMember
	{
		struct Group *group;
		AmoroLookup *lookup;
	}			members[];
} Group;

size_t
amoro_cache_peek_many(AmoroNode *node, AmoroCacheKind kind, AmoroLookup *lookups, size_t count)
{
	size_t		misses = 0;

	for (size_t i = 0; i < count; i++)
	{
		AmoroLookup *lookup = &lookups[i];

		if (lookup->result == AMORO_MISS)
			lookup->result = amoro_cache_peek(node, kind, &lookup->key, &lookup->entry, &lookup->ticket);
		misses += lookup->result == AMORO_MISS;
	}
	return misses;
}

static void
one_answered(Group *group)
{
	if (atomic_fetch_sub_explicit(&group->unanswered, 1, memory_order_acq_rel) != 1)
		return;
	group->callback(group->argument);
	free(group);
}

static void
member_answered(void *argument, AmoroResult result, AmoroEntry *entry, AmoroTicket ticket)
{
	struct GroupMember *member = argument;

	member->lookup->result = result;
	member->lookup->entry = entry;
	member->lookup->ticket = ticket;
	one_answered(member->group);
}

/* Makes submissions of the misses; returns how many. Names that no object can have are answered. */
static int
collect(AmoroNode *node, AmoroCacheKind kind, AmoroLookup *lookups, size_t count, Group *group, LoadSubmission *submissions)
{
	int			collected = 0;

	for (size_t i = 0; i < count; i++)
	{
		LoadSubmission *submission = &submissions[collected];

		if (lookups[i].result != AMORO_MISS)
			continue;
		if ((unsigned) kind >= AMORO_CACHE_KIND_COUNT || !key_parts(&submission->key, kind, &lookups[i].key, node->cache.seed))
		{
			lookups[i].result = AMORO_INVALID_ARGUMENT;
			continue;
		}
		group->members[collected] = (struct GroupMember) {group, &lookups[i]};
		submission->kind = kind;
		submission->max_rows = 0;
		submission->callback = member_answered;
		submission->argument = &group->members[collected];
		collected++;
	}
	return collected;
}

static void
answer_misses(AmoroLookup *lookups, size_t count, AmoroResult result)
{
	for (size_t i = 0; i < count; i++)
	{
		if (lookups[i].result == AMORO_MISS)
			lookups[i].result = result;
	}
}

void
amoro_cache_load_many(AmoroNode *node, AmoroCacheKind kind, AmoroLookup *lookups, size_t count,
					  void (*callback) (void *argument), void *argument)
{
	Group	   *group = malloc(sizeof(Group) + count * sizeof(struct GroupMember));
	LoadSubmission *submissions = malloc((count > 0 ? count : 1) * sizeof(LoadSubmission));
	int			collected;

	if (group == NULL || submissions == NULL || count > LOADER_MAX_WAITERS)
	{
		answer_misses(lookups, count, AMORO_UNAVAILABLE);
		free(group);
		free(submissions);
		callback(argument);
		return;
	}
	group->callback = callback;
	group->argument = argument;
	collected = collect(node, kind, lookups, count, group, submissions);
	/* one more than there are, so that it does not end before all are handed over */
	atomic_init(&group->unanswered, (size_t) collected + 1);
	if (collected > 0)
		loader_submit(node, submissions, collected);
	for (int i = 0; i < collected; i++)
	{
		if (submissions[i].result == AMORO_OK)
			continue;
		group->members[i].lookup->result = submissions[i].result;
		one_answered(group);
	}
	free(submissions);
	one_answered(group);
}

/* One blocked caller, with lookups of its own. Whoever of it and the last answer comes last frees it. */
typedef struct BlockedCaller
{
	pthread_mutex_t lock;
	pthread_cond_t answered;
	bool		done;
	bool		abandoned;
	size_t		count;
	AmoroLookup lookups[];
} BlockedCaller;

static BlockedCaller *
blocked_caller_create(size_t count)
{
	BlockedCaller *caller = calloc(1, sizeof(BlockedCaller) + count * sizeof(AmoroLookup));
	pthread_condattr_t attributes;

	if (caller == NULL)
		return NULL;
	caller->count = count;
	pthread_mutex_init(&caller->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&caller->answered, &attributes);
	pthread_condattr_destroy(&attributes);
	return caller;
}

static void
blocked_caller_free(BlockedCaller *caller)
{
	for (size_t i = 0; i < caller->count; i++)
		amoro_entry_release(caller->lookups[i].entry);
	pthread_cond_destroy(&caller->answered);
	pthread_mutex_destroy(&caller->lock);
	free(caller);
}

static void
wake_caller(void *argument)
{
	BlockedCaller *caller = argument;
	bool		abandoned;

	pthread_mutex_lock(&caller->lock);
	abandoned = caller->abandoned;
	caller->done = true;
	pthread_cond_signal(&caller->answered);
	pthread_mutex_unlock(&caller->lock);
	if (abandoned)
		blocked_caller_free(caller);
}

static void
wake_caller_with(void *argument, AmoroResult result, AmoroEntry *entry, AmoroTicket ticket)
{
	AmoroLookup *lookup = ((BlockedCaller *) argument)->lookups;

	lookup->result = result;
	lookup->entry = entry;
	lookup->ticket = ticket;
	wake_caller(argument);
}

/* Waits for the call back; false: given up, and the caller must not be touched any more. */
static bool
wait_for_answers(BlockedCaller *caller, NodeTime timeout)
{
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
	caller->abandoned = !done;
	pthread_mutex_unlock(&caller->lock);
	return done;
}

/* The answers go to the misses among lookups, in their order. */
static void
take_answers(BlockedCaller *caller, AmoroLookup *lookups, size_t count)
{
	size_t		taken = 0;

	for (size_t i = 0; i < count; i++)
	{
		AmoroLookup *answer = &caller->lookups[taken];

		if (lookups[i].result != AMORO_MISS)
			continue;
		lookups[i].result = answer->result;
		lookups[i].entry = answer->entry;
		lookups[i].ticket = answer->ticket;
		answer->entry = NULL;
		taken++;
	}
	blocked_caller_free(caller);
}

void
amoro_cache_get_many(AmoroNode *node, AmoroCacheKind kind, AmoroLookup *lookups, size_t count)
{
	BlockedCaller *caller;
	size_t		misses;

	for (size_t i = 0; i < count; i++)
	{
		lookups[i].result = AMORO_MISS;
		lookups[i].entry = NULL;
	}
	misses = amoro_cache_peek_many(node, kind, lookups, count);
	if (misses == 0)
		return;
	caller = blocked_caller_create(misses);
	if (caller == NULL)
	{
		answer_misses(lookups, count, AMORO_UNAVAILABLE);
		return;
	}
	misses = 0;
	for (size_t i = 0; i < count; i++)
	{
		if (lookups[i].result == AMORO_MISS)
			caller->lookups[misses++] = lookups[i];
	}
	amoro_cache_load_many(node, kind, caller->lookups, misses, wake_caller, caller);
	if (wait_for_answers(caller, node->loader.timeout))
		take_answers(caller, lookups, count);
	else
		answer_misses(lookups, count, AMORO_UNAVAILABLE);
}

/* One load, or one page of a listing, by one that blocks. */
static AmoroResult
load_and_wait(AmoroNode *node, AmoroCacheKind kind, int max_rows, const AmoroKey *key, AmoroEntry **entry, AmoroTicket *ticket)
{
	BlockedCaller *caller = blocked_caller_create(1);
	AmoroLookup lookup = {.result = AMORO_MISS};

	*entry = NULL;
	if (caller == NULL)
		return AMORO_UNAVAILABLE;
	if (max_rows > 0)
		amoro_listing_load(node, kind, key, max_rows, wake_caller_with, caller);
	else
		amoro_cache_load(node, kind, key, wake_caller_with, caller);
	if (!wait_for_answers(caller, node->loader.timeout))
		return AMORO_UNAVAILABLE;
	take_answers(caller, &lookup, 1);
	*entry = lookup.entry;
	*ticket = lookup.ticket;
	return lookup.result;
}

AmoroResult
amoro_cache_get(AmoroNode *node, AmoroCacheKind kind, const AmoroKey *key, AmoroEntry **entry, AmoroTicket *ticket)
{
	AmoroResult result = amoro_cache_peek(node, kind, key, entry, ticket);

	return result == AMORO_MISS ? load_and_wait(node, kind, 0, key, entry, ticket) : result;
}

AmoroResult
amoro_listing_get(AmoroNode *node, AmoroCacheKind kind, const AmoroKey *key, int max_rows, AmoroEntry **entry, AmoroTicket *ticket)
{
	*entry = NULL;
	if (max_rows < 1)
		return AMORO_INVALID_ARGUMENT;
	return load_and_wait(node, kind, max_rows, key, entry, ticket);
}
