/*
 * cache.h
 *		The entries of all kinds, in shards with a lock each, and the generations that tell whether a change overtook
 *		a reader or a loader.
 *
 * Forgetting is: generation up, remove, generation up again. The first step keeps out a load that read before the
 * change; the second rise makes stale the ticket of a reader who met the entry after the first. What is forgotten also
 * raises the generation of the listings of its database, which are never kept.
 *
 * A kind of which everything is in memory is whole: a name that is not there does not exist. It stays whole while what
 * is removed leaves a mark that its name must be asked; without such a mark (a whole database, an eviction, too many
 * marks) it is whole no more, and every miss asks. What is right never depends on it: a name that is not there is an
 * answer under the same ticket as an entry.
 */
#ifndef AMORO_CACHE_H
#define AMORO_CACHE_H

#include <pthread.h>
#include <stdatomic.h>

#include "entry.h"
#include "lease.h"

#define CACHE_KEY_GENERATIONS 4096	/* keys share them: a change makes a few others stale, which costs a retry */
#define CACHE_DATABASE_GENERATIONS 1024
#define CACHE_MAX_SHARDS 64
#define CACHE_MAX_UNKNOWN 4096	/* marks in a shard, after which no kind that adds one is whole any more */

/* A set of kinds: bits 1 << kind. */
typedef unsigned CacheKindSet;

#define CACHE_ALL_KINDS (~0U)

typedef struct CacheShard
{
	pthread_mutex_t lock;
	AmoroEntry **buckets;
	size_t		bucket_count;	/* a power of two */
	size_t		entry_count;
	size_t		bytes;
	size_t		hand;			/* bucket where the search for a victim goes on */
	size_t		unknown_count;	/* entries that only say that a name must be asked */
	uint64_t	hits[AMORO_CACHE_KIND_COUNT];
	uint64_t	misses[AMORO_CACHE_KIND_COUNT];
	uint64_t	evictions[AMORO_CACHE_KIND_COUNT];
	uint64_t	invalidations[AMORO_CACHE_KIND_COUNT];
	int64_t		kind_entries[AMORO_CACHE_KIND_COUNT];
	int64_t		kind_bytes[AMORO_CACHE_KIND_COUNT];
} __attribute__((aligned(64))) CacheShard;

typedef struct Cache
{
	uint64_t	seed;
	size_t		shard_count;	/* a power of two */
	size_t		shard_bytes;	/* limit of each; 0: none */
	CacheShard *shards;
	_Atomic uint64_t key_generations[CACHE_KEY_GENERATIONS];
	_Atomic uint64_t database_generations[CACHE_DATABASE_GENERATIONS];
	_Atomic bool whole[AMORO_CACHE_KIND_COUNT];
} Cache;

/* False when memory is short. bytes: limit of all entries, 0 = none. */
extern bool cache_init(Cache *cache, size_t bytes, uint64_t seed);
extern void cache_destroy(Cache *cache);
/* A reference to the entry, or NULL; *absent: there is no such object, else it has to be asked. */
extern AmoroEntry *cache_find(Cache *cache, AmoroCacheKind kind, const KeyParts *key, bool *absent);
/*
 * Takes an entry in, if the lease is still of lease_generation and the key of key_generation; true if it did. The
 * caller keeps its own reference.
 */
extern bool cache_store(Cache *cache, const Lease *lease, const KeyParts *key, AmoroEntry *entry,
						uint64_t lease_generation, uint64_t key_generation);
/* The database says that there is no such object: takes the mark away that it has to be asked, under the same conditions. */
extern void cache_store_absent(Cache *cache, const Lease *lease, AmoroCacheKind kind, const KeyParts *key,
							   uint64_t lease_generation, uint64_t key_generation);
/*
 * From now on a kind is whole: for one who loads all of it into an empty cache that nobody reads yet. A name of which the
 * document cannot be kept gets a mark by cache_store_unknown.
 */
extern void cache_begin_whole(Cache *cache, AmoroCacheKind kind);
extern void cache_store_unknown(Cache *cache, AmoroCacheKind kind, const KeyParts *key);
extern void cache_forget(Cache *cache, AmoroCacheKind kind, const KeyParts *key);
/* Everything of one database, or of a whole catalog when database_name is NULL, in the kinds of that set. */
extern void cache_forget_database(Cache *cache, CacheKindSet kinds, const char *catalog_name, const char *database_name);
/* Everything of one kind. */
extern void cache_forget_kind(Cache *cache, AmoroCacheKind kind);
/* Everything of these kinds; the generation of the lease is what keeps loads out. */
extern void cache_clear(Cache *cache, CacheKindSet kinds);
/* Adds the figures of all shards to status. */
extern void cache_count(Cache *cache, AmoroNodeStatus *status);
extern int64_t cache_entry_count(Cache *cache);

static inline bool
cache_is_whole(const Cache *cache, AmoroCacheKind kind)
{
	return atomic_load_explicit(&cache->whole[kind], memory_order_acquire);
}

/* What a ticket keeps of a key: enough to find its two generations again. */
static inline uint64_t
cache_ticket_hash(const KeyParts *key)
{
	return (key->database_hash << 32) | (key->hash & UINT32_MAX);
}

/* The sum of two counters that only grow stays the same only while both do. */
static inline uint64_t
cache_generation(const Cache *cache, uint64_t ticket_hash)
{
	return atomic_load_explicit(&cache->key_generations[ticket_hash % CACHE_KEY_GENERATIONS],
								memory_order_acquire) +
		atomic_load_explicit(&cache->database_generations[(ticket_hash >> 32) % CACHE_DATABASE_GENERATIONS],
							 memory_order_acquire);
}

#endif							/* AMORO_CACHE_H */
