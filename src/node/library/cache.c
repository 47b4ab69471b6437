/*
 * cache.c
 *		The shards: finding, storing, forgetting.
 */
#include "cache.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_BUCKET_COUNT 64
#define LEAST_SHARD_BYTES ((size_t) 1 << 20)

/* The shard, the bucket and the generation take different bits of the hash. */
static CacheShard *
shard_of(Cache *cache, uint64_t hash)
{
	return &cache->shards[(hash >> 56) & (cache->shard_count - 1)];
}

static AmoroEntry **
bucket_of(CacheShard *shard, uint64_t hash)
{
	return &shard->buckets[(hash >> 16) & (shard->bucket_count - 1)];
}

bool
cache_init(Cache *cache, size_t bytes, uint64_t seed)
{
	memset(cache, 0, sizeof(*cache));
	cache->seed = seed;
	cache->shard_count = CACHE_MAX_SHARDS;
	/* few shards for little memory, or one large document would not fit into its share */
	while (bytes > 0 && cache->shard_count > 1 && bytes / cache->shard_count < LEAST_SHARD_BYTES)
		cache->shard_count /= 2;
	cache->shard_bytes = bytes / cache->shard_count;
	cache->shards = aligned_alloc(64, cache->shard_count * sizeof(CacheShard));
	if (cache->shards == NULL)
		return false;
	memset(cache->shards, 0, cache->shard_count * sizeof(CacheShard));
	for (size_t i = 0; i < cache->shard_count; i++)
	{
		CacheShard *shard = &cache->shards[i];

		pthread_mutex_init(&shard->lock, NULL);
		shard->bucket_count = FIRST_BUCKET_COUNT;
		shard->buckets = calloc(shard->bucket_count, sizeof(AmoroEntry *));
		if (shard->buckets == NULL)
		{
			cache->shard_count = i + 1;
			cache_destroy(cache);
			return false;
		}
	}
	return true;
}

/* Takes *link out of its bucket and drops the cache's reference. */
static void
remove_entry(CacheShard *shard, AmoroEntry **link)
{
	AmoroEntry *entry = *link;
	size_t		size = entry_size(entry);

	*link = entry->next;
	shard->entry_count--;
	shard->bytes -= size;
	if (entry->unknown)
		shard->unknown_count--;
	else
		shard->kind_entries[entry->kind]--;
	shard->kind_bytes[entry->kind] -= (int64_t) size;
	amoro_entry_release(entry);
}

static AmoroEntry **
find_link(CacheShard *shard, AmoroCacheKind kind, const KeyParts *key)
{
	AmoroEntry **link = bucket_of(shard, key->hash);

	while (*link != NULL && !entry_matches(*link, kind, key))
		link = &(*link)->next;
	return link;
}

AmoroEntry *
cache_find(Cache *cache, AmoroCacheKind kind, const KeyParts *key, bool *absent)
{
	CacheShard *shard = shard_of(cache, key->hash);
	AmoroEntry *entry;

	*absent = false;
	pthread_mutex_lock(&shard->lock);
	entry = *find_link(shard, kind, key);
	if (entry == NULL)
		*absent = cache_is_whole(cache, kind);
	else if (entry->unknown)
		entry = NULL;
	else
	{
		entry_reference(entry);
		entry->used = 1;
	}
	if (entry != NULL || *absent)
		shard->hits[kind]++;
	else
		shard->misses[kind]++;
	pthread_mutex_unlock(&shard->lock);
	return entry;
}

/* Before anything goes without leaving a mark: whoever misses it, under the lock of the shard, sees that it must ask. */
static void
end_whole(Cache *cache, CacheKindSet kinds)
{
	for (int kind = 0; kind < AMORO_CACHE_KIND_COUNT; kind++)
	{
		if ((kinds & 1U << kind) != 0)
			atomic_store_explicit(&cache->whole[kind], false, memory_order_release);
	}
}

void
cache_begin_whole(Cache *cache, AmoroCacheKind kind)
{
	atomic_store_explicit(&cache->whole[kind], true, memory_order_release);
}

/* Doubles the buckets when there are more entries than buckets; without memory for it chains just get longer. */
static void
grow_if_full(CacheShard *shard)
{
	size_t		old_count = shard->bucket_count;
	AmoroEntry **old_buckets = shard->buckets;
	AmoroEntry **buckets;

	if (shard->entry_count < old_count)
		return;
	buckets = calloc(old_count * 2, sizeof(AmoroEntry *));
	if (buckets == NULL)
		return;
	shard->buckets = buckets;
	shard->bucket_count = old_count * 2;
	for (size_t i = 0; i < old_count; i++)
	{
		AmoroEntry *next;

		for (AmoroEntry *entry = old_buckets[i]; entry != NULL; entry = next)
		{
			AmoroEntry **link = bucket_of(shard, entry->hash);

			next = entry->next;
			entry->next = *link;
			*link = entry;
		}
	}
	free(old_buckets);
}

/* The hand passes over entries that were used since it last came by, and takes the others, until size fits. */
static void
make_room(Cache *cache, CacheShard *shard, size_t size)
{
	size_t		limit = cache->shard_bytes;

	/* twice around at most: the first time may only find entries in use */
	for (size_t steps = shard->bucket_count * 2 + 1; steps > 0 && shard->bytes + size > limit; steps--)
	{
		AmoroEntry **link = &shard->buckets[shard->hand++ & (shard->bucket_count - 1)];

		while (*link != NULL && shard->bytes + size > limit)
		{
			if ((*link)->used)
			{
				(*link)->used = 0;
				link = &(*link)->next;
				continue;
			}
			end_whole(cache, 1U << (*link)->kind);
			if (!(*link)->unknown)
				shard->evictions[(*link)->kind]++;
			remove_entry(shard, link);
		}
	}
}

/* Under the lock: puts the entry in the place of the one that *link is, or into its bucket. */
static void
put_entry(Cache *cache, CacheShard *shard, AmoroEntry **link, AmoroEntry *entry)
{
	size_t		size = entry_size(entry);

	if (*link != NULL)
		remove_entry(shard, link);
	if (cache->shard_bytes > 0)
		make_room(cache, shard, size);
	grow_if_full(shard);
	link = bucket_of(shard, entry->hash);
	entry->next = *link;
	*link = entry;
	shard->entry_count++;
	shard->bytes += size;
	if (entry->unknown)
		shard->unknown_count++;
	else
		shard->kind_entries[entry->kind]++;
	shard->kind_bytes[entry->kind] += (int64_t) size;
}

/* Under the lock: whoever raises a generation removes after it, under the same lock. */
static bool
is_overtaken(const Cache *cache, const Lease *lease, const KeyParts *key, uint64_t lease_generation, uint64_t key_generation)
{
	if (!RULE(RULE_LOAD_GENERATION))
		return false;
	return atomic_load_explicit(&lease->generation, memory_order_acquire) != lease_generation ||
		cache_generation(cache, cache_ticket_hash(key)) != key_generation;
}

bool
cache_store(Cache *cache, const Lease *lease, const KeyParts *key, AmoroEntry *entry,
			uint64_t lease_generation, uint64_t key_generation)
{
	CacheShard *shard = shard_of(cache, key->hash);
	bool		stored = false;

	if (cache->shard_bytes > 0 && entry_size(entry) > cache->shard_bytes)
		return false;
	pthread_mutex_lock(&shard->lock);
	if (!is_overtaken(cache, lease, key, lease_generation, key_generation))
	{
		entry_reference(entry);
		put_entry(cache, shard, find_link(shard, entry->kind, key), entry);
		stored = true;
	}
	pthread_mutex_unlock(&shard->lock);
	return stored;
}

void
cache_store_absent(Cache *cache, const Lease *lease, AmoroCacheKind kind, const KeyParts *key,
				   uint64_t lease_generation, uint64_t key_generation)
{
	CacheShard *shard = shard_of(cache, key->hash);
	AmoroEntry **link;

	pthread_mutex_lock(&shard->lock);
	link = find_link(shard, kind, key);
	if (*link != NULL && (*link)->unknown && !is_overtaken(cache, lease, key, lease_generation, key_generation))
		remove_entry(shard, link);
	pthread_mutex_unlock(&shard->lock);
}

/*
 * Under the lock: leaves a mark at *link, in the place of an entry if there is one; takes mark over. Without room or memory
 * for it the kind is whole no more.
 */
static void
put_unknown(Cache *cache, CacheShard *shard, AmoroCacheKind kind, AmoroEntry **link, AmoroEntry *mark)
{
	bool		fits = mark != NULL && shard->unknown_count < CACHE_MAX_UNKNOWN;

	if (cache_is_whole(cache, kind) && fits && RULE(RULE_MARK_FORGOTTEN))
	{
		put_entry(cache, shard, link, mark);
		return;
	}
	if (RULE(RULE_MARK_FORGOTTEN))
		end_whole(cache, 1U << kind);
	if (*link != NULL)
		remove_entry(shard, link);
	amoro_entry_release(mark);
}

void
cache_store_unknown(Cache *cache, AmoroCacheKind kind, const KeyParts *key)
{
	CacheShard *shard = shard_of(cache, key->hash);
	AmoroEntry *mark = entry_create_unknown(kind, key);

	pthread_mutex_lock(&shard->lock);
	put_unknown(cache, shard, kind, find_link(shard, kind, key), mark);
	pthread_mutex_unlock(&shard->lock);
}

void
cache_forget(Cache *cache, AmoroCacheKind kind, const KeyParts *key)
{
	CacheShard *shard = shard_of(cache, key->hash);
	_Atomic uint64_t *generation =
		&cache->key_generations[cache_ticket_hash(key) % CACHE_KEY_GENERATIONS];
	_Atomic uint64_t *listings = &cache->key_generations[key_listing_hash(key->database_hash) % CACHE_KEY_GENERATIONS];
	AmoroEntry *mark = cache_is_whole(cache, kind) ? entry_create_unknown(kind, key) : NULL;

	if (RULE(RULE_LISTING))
		atomic_fetch_add_explicit(listings, 1, memory_order_seq_cst);
	atomic_fetch_add_explicit(generation, 1, memory_order_seq_cst);
	pthread_mutex_lock(&shard->lock);
	put_unknown(cache, shard, kind, find_link(shard, kind, key), mark);
	shard->invalidations[kind]++;
	pthread_mutex_unlock(&shard->lock);
	atomic_fetch_add_explicit(generation, 1, memory_order_seq_cst);
}

/*
 * Removes the entries of these kinds: of the catalog, or of the database; all of them when catalog_name is NULL. count: as
 * invalidations.
 */
static void
sweep(Cache *cache, CacheKindSet kinds, const char *catalog_name, const char *database_name, bool count)
{
	for (size_t i = 0; i < cache->shard_count; i++)
	{
		CacheShard *shard = &cache->shards[i];

		pthread_mutex_lock(&shard->lock);
		for (size_t b = 0; b < shard->bucket_count && shard->entry_count > 0; b++)
		{
			AmoroEntry **link = &shard->buckets[b];

			while (*link != NULL)
			{
				if ((kinds & 1U << (*link)->kind) == 0 ||
					(catalog_name != NULL && !entry_in_database(*link, catalog_name, database_name)))
				{
					link = &(*link)->next;
					continue;
				}
				if (count)
					shard->invalidations[(*link)->kind]++;
				remove_entry(shard, link);
			}
		}
		pthread_mutex_unlock(&shard->lock);
	}
}

/* Of one database; of all of them when database_name is NULL. */
static void
raise_database_generations(Cache *cache, const char *catalog_name, const char *database_name)
{
	if (database_name != NULL)
	{
		uint64_t	hash = key_database_hash(catalog_name, database_name, cache->seed);

		/* the same 32 bits that a ticket keeps */
		hash &= UINT32_MAX;
		atomic_fetch_add_explicit(&cache->database_generations[hash % CACHE_DATABASE_GENERATIONS], 1,
								  memory_order_seq_cst);
		return;
	}
	for (int i = 0; i < CACHE_DATABASE_GENERATIONS; i++)
		atomic_fetch_add_explicit(&cache->database_generations[i], 1, memory_order_seq_cst);
}

void
cache_forget_database(Cache *cache, CacheKindSet kinds, const char *catalog_name, const char *database_name)
{
	end_whole(cache, kinds);
	raise_database_generations(cache, catalog_name, database_name);
	sweep(cache, kinds, catalog_name, database_name, true);
	raise_database_generations(cache, catalog_name, database_name);
}

void
cache_forget_kind(Cache *cache, AmoroCacheKind kind)
{
	cache_forget_database(cache, 1U << kind, NULL, NULL);
}

void
cache_clear(Cache *cache, CacheKindSet kinds)
{
	end_whole(cache, kinds);
	sweep(cache, kinds, NULL, NULL, false);
}

int64_t
cache_entry_count(Cache *cache)
{
	int64_t		count = 0;

	for (size_t i = 0; i < cache->shard_count; i++)
	{
		pthread_mutex_lock(&cache->shards[i].lock);
		count += (int64_t) (cache->shards[i].entry_count - cache->shards[i].unknown_count);
		pthread_mutex_unlock(&cache->shards[i].lock);
	}
	return count;
}

void
cache_count(Cache *cache, AmoroNodeStatus *status)
{
	for (int kind = 0; kind < AMORO_CACHE_KIND_COUNT; kind++)
		status->caches[kind].whole = cache_is_whole(cache, (AmoroCacheKind) kind);
	for (size_t i = 0; i < cache->shard_count; i++)
	{
		CacheShard *shard = &cache->shards[i];

		pthread_mutex_lock(&shard->lock);
		for (int kind = 0; kind < AMORO_CACHE_KIND_COUNT; kind++)
		{
			status->caches[kind].entries += shard->kind_entries[kind];
			status->caches[kind].bytes += shard->kind_bytes[kind];
			status->caches[kind].hits += (int64_t) shard->hits[kind];
			status->caches[kind].misses += (int64_t) shard->misses[kind];
			status->caches[kind].evictions += (int64_t) shard->evictions[kind];
			status->caches[kind].invalidations += (int64_t) shard->invalidations[kind];
		}
		pthread_mutex_unlock(&shard->lock);
	}
}

void
cache_destroy(Cache *cache)
{
	if (cache->shards == NULL)
		return;
	for (size_t i = 0; i < cache->shard_count; i++)
		if (cache->shards[i].buckets == NULL)
		{
			/* never finished by cache_init */
			pthread_mutex_destroy(&cache->shards[i].lock);
			cache->shard_count = i;
			break;
		}
	sweep(cache, CACHE_ALL_KINDS, NULL, NULL, false);
	for (size_t i = 0; i < cache->shard_count; i++)
	{
		free(cache->shards[i].buckets);
		pthread_mutex_destroy(&cache->shards[i].lock);
	}
	free(cache->shards);
	cache->shards = NULL;
}
