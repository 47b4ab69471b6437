/*
 * cache.c
 *		The shards: finding, storing, forgetting.
 */
#include "cache.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_BUCKET_COUNT 64
#define ALL_KINDS (~0U)
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
cache_find(Cache *cache, AmoroCacheKind kind, const KeyParts *key)
{
	CacheShard *shard = shard_of(cache, key->hash);
	AmoroEntry *entry;

	pthread_mutex_lock(&shard->lock);
	entry = *find_link(shard, kind, key);
	if (entry != NULL)
	{
		entry_reference(entry);
		entry->used = 1;
		shard->hits[kind]++;
	}
	else
		shard->misses[kind]++;
	pthread_mutex_unlock(&shard->lock);
	return entry;
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
make_room(CacheShard *shard, size_t limit, size_t size)
{
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
			shard->evictions[(*link)->kind]++;
			remove_entry(shard, link);
		}
	}
}

bool
cache_store(Cache *cache, const Lease *lease, const KeyParts *key, AmoroEntry *entry,
			uint64_t lease_generation, uint64_t key_generation)
{
	CacheShard *shard = shard_of(cache, key->hash);
	size_t		size = entry_size(entry);
	AmoroEntry **link;
	bool		stored = false;

	if (cache->shard_bytes > 0 && size > cache->shard_bytes)
		return false;
	pthread_mutex_lock(&shard->lock);

	/* under the lock: whoever raises a generation removes after it, under the same lock */
	if (!RULE(RULE_LOAD_GENERATION) ||
		(atomic_load_explicit(&lease->generation, memory_order_acquire) == lease_generation &&
		 cache_generation(cache, cache_ticket_hash(key)) == key_generation))
	{
		link = find_link(shard, entry->kind, key);
		if (*link != NULL)
			remove_entry(shard, link);
		if (cache->shard_bytes > 0)
			make_room(shard, cache->shard_bytes, size);
		grow_if_full(shard);
		link = bucket_of(shard, entry->hash);
		entry_reference(entry);
		entry->next = *link;
		*link = entry;
		shard->entry_count++;
		shard->bytes += size;
		shard->kind_entries[entry->kind]++;
		shard->kind_bytes[entry->kind] += (int64_t) size;
		stored = true;
	}
	pthread_mutex_unlock(&shard->lock);
	return stored;
}

void
cache_forget(Cache *cache, AmoroCacheKind kind, const KeyParts *key)
{
	CacheShard *shard = shard_of(cache, key->hash);
	_Atomic uint64_t *generation =
		&cache->key_generations[cache_ticket_hash(key) % CACHE_KEY_GENERATIONS];
	AmoroEntry **link;

	atomic_fetch_add_explicit(generation, 1, memory_order_seq_cst);
	pthread_mutex_lock(&shard->lock);
	link = find_link(shard, kind, key);
	if (*link != NULL)
		remove_entry(shard, link);
	shard->invalidations[kind]++;
	pthread_mutex_unlock(&shard->lock);
	atomic_fetch_add_explicit(generation, 1, memory_order_seq_cst);
}

/* Removes the entries of these kinds: of the catalog, or of the database; all of them when catalog_name is NULL. */
static void
sweep(Cache *cache, CacheKindSet kinds, const char *catalog_name, const char *database_name)
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
				if (kinds != ALL_KINDS)
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
	raise_database_generations(cache, catalog_name, database_name);
	sweep(cache, kinds, catalog_name, database_name);
	raise_database_generations(cache, catalog_name, database_name);
}

void
cache_forget_kind(Cache *cache, AmoroCacheKind kind)
{
	cache_forget_database(cache, 1U << kind, NULL, NULL);
}

void
cache_clear(Cache *cache)
{
	sweep(cache, ALL_KINDS, NULL, NULL);
}

int64_t
cache_entry_count(Cache *cache)
{
	int64_t		count = 0;

	for (size_t i = 0; i < cache->shard_count; i++)
	{
		pthread_mutex_lock(&cache->shards[i].lock);
		count += (int64_t) cache->shards[i].entry_count;
		pthread_mutex_unlock(&cache->shards[i].lock);
	}
	return count;
}

void
cache_count(Cache *cache, AmoroNodeStatus *status)
{
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
	sweep(cache, ALL_KINDS, NULL, NULL);
	for (size_t i = 0; i < cache->shard_count; i++)
	{
		free(cache->shards[i].buckets);
		pthread_mutex_destroy(&cache->shards[i].lock);
	}
	free(cache->shards);
	cache->shards = NULL;
}
