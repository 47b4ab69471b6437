/*
 * reload.c
 *		Loading whole kinds before serving.
 */
#include "reload.h"

#include <stdio.h>
#include <string.h>

#include "change_feed.h"
#include "node.h"

#define FIRST_CHUNK_ROWS 1000
#define LEAST_CHUNK_ROWS 10
#define MOST_CHUNK_ROWS 10000
#define CHUNK_BYTES (2 << 20)	/* what the size of chunks is turned to; the server ends one at twice as much */
#define LONGEST_PAUSE_US 10000000
#define CHANGE_FAILURES 2		/* after which everything is loaded anew, for which no change has to be applied */

static void
begin_anew(AmoroNode *node)
{
	Reload	   *reload = &node->reload;

	reload->left = reload->wanted & ~reload->unsupported;
	reload->has_version = false;
	reload->in_kind = false;
	reload->began = 0;
	reload->delayed = false;
	reload->change_failures = 0;
	cache_clear(&node->cache, reload->wanted);
}

void
reload_clear(AmoroNode *node, bool keep_loaded)
{
	Reload	   *reload = &node->reload;
	CacheKindSet kept = 0;

	if (keep_loaded && reload->has_version && reload->left == 0)
	{
		for (int kind = 0; kind < AMORO_CACHE_KIND_COUNT; kind++)
		{
			if ((reload->wanted & 1U << kind) != 0 && cache_is_whole(&node->cache, (AmoroCacheKind) kind))
				kept |= 1U << kind;
			else
				atomic_fetch_add_explicit(&node->counters[kind].clears, 1, memory_order_relaxed);
		}
		cache_clear(&node->cache, ~kept);
		reload->version = atomic_load_explicit(&node->lease.applied_version, memory_order_relaxed);
		reload->left = reload->wanted & ~kept & ~reload->unsupported;
		reload->has_version = kept != 0;
		reload->in_kind = false;
		reload->began = 0;
		reload->delayed = false;
		return;
	}
	cache_clear(&node->cache, CACHE_ALL_KINDS);
	for (int kind = 0; kind < AMORO_CACHE_KIND_COUNT; kind++)
		atomic_fetch_add_explicit(&node->counters[kind].clears, 1, memory_order_relaxed);
	begin_anew(node);
}

/* The kind that is being loaded, or loaded next. */
static AmoroCacheKind
current_kind(const Reload *reload)
{
	int			kind = 0;

	while ((reload->left & 1U << kind) == 0)
		kind++;
	return (AmoroCacheKind) kind;
}

LookupQuestion
reload_question(AmoroNode *node)
{
	Reload	   *reload = &node->reload;

	if (reload->max_rows == 0)
		reload->max_rows = FIRST_CHUNK_ROWS;
	return (LookupQuestion) {
		.kind_name = node->kinds[current_kind(reload)]->name,
		.key = reload->in_kind ? &reload->after_key : NULL,
		.after_object_id = reload->after_object_id,
		.max_rows = reload->max_rows,
	};
}

/*
 * What is loaded came from this history, and the server still has all of it. Else it is dropped, so that it is never
 * completed with what belongs to another.
 */
static void
check_history(AmoroNode *node)
{
	int64_t		timeline = term_timeline(atomic_load_explicit(&node->lease.term, memory_order_relaxed));

	if (node->reload.has_version && node->reload.timeline != timeline && RULE(RULE_ONE_HISTORY))
		begin_anew(node);
	node->reload.timeline = timeline;
}

/* Nodes that lost their leases together do not load together: the pause is drawn from four times what it took last time. */
static bool
pause_first(AmoroNode *node)
{
	Reload	   *reload = &node->reload;
	NodeTime	longest = 4 * reload->last_duration;

	if (reload->delayed)
		return false;
	reload->delayed = true;
	if (longest > LONGEST_PAUSE_US)
		longest = LONGEST_PAUSE_US;
	if (longest == 0)
		return false;
	node->heartbeat.due = clock_now(&node->clock) + random_between(&node->heartbeat.random, 0, longest);
	return true;
}

static bool
report_is_due(const AmoroNode *node)
{
	const Reload *reload = &node->reload;

	if (reload->failure[0] == '\0' && reload->left == 0)
		return false;
	return clock_now(&node->clock) - reload->reported >= node->lease.heartbeat_interval_us;
}

LeaseStep
reload_next_step(AmoroNode *node)
{
	Reload	   *reload = &node->reload;
	int64_t		loaded = node->lease.newest_version;

	check_history(node);
	if (reload->left != 0 && !reload->in_kind && reload->began == 0)
	{
		if (pause_first(node))
			return STEP_STOP;
		reload->began = reload->reported = clock_now(&node->clock);
		reload->entries = 0;
	}
	if (report_is_due(node))
	{
		reload->reported = clock_now(&node->clock);
		return STEP_HEARTBEAT;
	}
	if (reload->left != 0)
		return STEP_SNAPSHOT;
	if (reload->has_version && RULE(RULE_CATCH_UP))
		loaded = reload->version;
	pthread_mutex_lock(&node->lease_lock);
	node->lease.loaded_version = loaded;
	pthread_mutex_unlock(&node->lease_lock);
	return loaded < node->lease.newest_version ? STEP_CHANGES : STEP_ACTIVATE;
}

/* What cannot be kept, or carries a marker, has to be asked. */
static void
install(AmoroNode *node, AmoroCacheKind kind, const ObjectRow *row)
{
	Cache	   *cache = &node->cache;
	const LookupAnswer *answer = &row->answer;
	AmoroEntry *entry = NULL;
	KeyParts	parts;
	bool		stored = false;

	if (!key_parts(&parts, kind, &row->key, cache->seed))
		return;
	if (answer->document != NULL && answer->state != NULL && strcmp(answer->state, "normal") == 0)
		entry = entry_create(kind, &parts, answer->document, answer->document_size, answer->object_version);
	if (entry != NULL)
		stored = cache_store(cache, &node->lease, &parts, entry,
							 atomic_load_explicit(&node->lease.generation, memory_order_relaxed),
							 cache_generation(cache, cache_ticket_hash(&parts)));
	if (!stored)
		cache_store_unknown(cache, kind, &parts);
	amoro_entry_release(entry);
}

static void
copy_name(char *target, const char *name)
{
	snprintf(target, KEY_PART_LIMIT + 1, "%s", name != NULL ? name : "");
}

/* Where the next chunk goes on, and how large it is to be. */
static void
advance(Reload *reload, const NodeAnswer *answer)
{
	const ObjectRow *row;
	size_t		bytes = 1;
	int64_t		rows;

	if (answer->row_count == 0)
		return;
	row = &answer->rows[answer->row_count - 1];
	reload->after_object_id = row->object_id;
	copy_name(reload->after[0], row->key.catalog_name);
	copy_name(reload->after[1], row->key.database_name);
	copy_name(reload->after[2], row->key.object_name);
	reload->after_key = (AmoroKey) {reload->after[0], reload->after[1], reload->after[2]};
	for (int i = 0; i < answer->row_count; i++)
		bytes += answer->rows[i].answer.document_size;
	rows = (int64_t) answer->row_count * CHUNK_BYTES / (int64_t) bytes;
	reload->max_rows = rows < LEAST_CHUNK_ROWS ? LEAST_CHUNK_ROWS : rows > MOST_CHUNK_ROWS ? MOST_CHUNK_ROWS : (int) rows;
}

static void
end_kind(AmoroNode *node, AmoroCacheKind kind)
{
	Reload	   *reload = &node->reload;
	NodeTime	now = clock_now(&node->clock);

	reload->left &= ~(1U << kind);
	reload->in_kind = false;
	reload->after_object_id = 0;
	atomic_fetch_add_explicit(&node->counters[kind].reloads, 1, memory_order_relaxed);
	atomic_store_explicit(&node->counters[kind].last_reload_us, now - reload->kind_began, memory_order_relaxed);
	if (reload->left == 0)
	{
		reload->last_duration = now - reload->began;
		reload->failure[0] = '\0';
	}
}

/* Begins with the first chunk of a kind; of the first kind of all, this is the version as of which everything is right. */
static void
begin_kind(AmoroNode *node, AmoroCacheKind kind, const LookupAnswer *head)
{
	Reload	   *reload = &node->reload;

	if (!reload->has_version)
	{
		reload->has_version = true;
		reload->version = head->metadata_version;
	}
	reload->in_kind = true;
	reload->kind_began = clock_now(&node->clock);
	cache_begin_whole(&node->cache, kind);
}

LeaseOutcome
reload_take_chunk(AmoroNode *node, const NodeAnswer *answer)
{
	Reload	   *reload = &node->reload;
	AmoroCacheKind kind;

	pthread_mutex_lock(&node->lease_lock);
	lease_heard(&node->lease);
	pthread_mutex_unlock(&node->lease_lock);
	if (reload->left == 0)
		return LEASE_GO_ON;
	/* of another history, or from before what is here already: a server that the next heartbeat will tell apart */
	if (term_timeline(answer->lookup.term) != reload->timeline ||
		(reload->has_version && answer->lookup.metadata_version < reload->version))
	{
		reload_failed(node, REQUEST_SNAPSHOT, false, "the metadata was read from another server");
		return LEASE_DISCONNECT;
	}
	kind = current_kind(reload);
	if (!reload->in_kind)
		begin_kind(node, kind, &answer->lookup);
	for (int i = 0; i < answer->row_count; i++)
		install(node, kind, &answer->rows[i]);
	reload->entries += answer->row_count;
	advance(reload, answer);
	if (answer->last)
		end_kind(node, kind);
	return LEASE_GO_ON;
}

LeaseOutcome
reload_take_changes(AmoroNode *node, const NodeRequest *request, const NodeAnswer *answer)
{
	Reload	   *reload = &node->reload;
	int64_t		version = change_feed_apply(node, answer->changes, answer->change_count, request->version,
											node->lease.newest_version);

	pthread_mutex_lock(&node->lease_lock);
	lease_heard(&node->lease);
	if (version <= request->version)
		lease_fence(&node->lease, AMORO_NODE_FENCED, "the server's change log lacks changes that it spoke of");
	pthread_mutex_unlock(&node->lease_lock);
	if (version > request->version)
	{
		reload->version = version;
		reload->change_failures = 0;
		reload->failure[0] = '\0';
	}
	return LEASE_GO_ON;
}

bool
reload_refused(AmoroNode *node, const NodeRequest *request, const TransportFailure *failure)
{
	Reload	   *reload = &node->reload;
	AmoroCacheKind kind;

	if (request->kind != REQUEST_SNAPSHOT || strcmp(failure->sqlstate, "22023") != 0 || reload->left == 0)
		return false;
	kind = current_kind(reload);
	node_log(node, AMORO_LOG_WARNING, "the server does not know the kind %s: it is not loaded before serving", node->kinds[kind]->name);
	reload->unsupported |= 1U << kind;
	reload->left &= ~(1U << kind);
	reload->in_kind = false;
	pthread_mutex_lock(&node->lease_lock);
	lease_heard(&node->lease);
	pthread_mutex_unlock(&node->lease_lock);
	return true;
}

void
reload_failed(AmoroNode *node, RequestKind kind, bool timed_out, const char *reason)
{
	Reload	   *reload = &node->reload;

	if (kind != REQUEST_SNAPSHOT && kind != REQUEST_CHANGES)
		return;
	snprintf(reload->failure, sizeof(reload->failure), "%s", reason);
	reload->reported = 0;
	if (timed_out && reload->max_rows > LEAST_CHUNK_ROWS)
		reload->max_rows /= 2;
	if (kind == REQUEST_CHANGES && ++reload->change_failures >= CHANGE_FAILURES)
		begin_anew(node);
}

void
reload_describe(AmoroNode *node, char *text, size_t size)
{
	const Reload *reload = &node->reload;

	if (reload->failure[0] != '\0')
		snprintf(text, size, "reload failed: %s", reload->failure);
	else if (reload->left != 0)
		snprintf(text, size, "reloading %s: %lld entries", node->kinds[current_kind(reload)]->name, (long long) reload->entries);
	else
		snprintf(text, size, "%lld entries", (long long) cache_entry_count(&node->cache));
}
