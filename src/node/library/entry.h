/*
 * entry.h
 *		One cached object: immutable, one allocation, counted references.
 */
#ifndef AMORO_ENTRY_H
#define AMORO_ENTRY_H

#include <stdatomic.h>
#include <stddef.h>

#include "key.h"

struct AmoroEntry
{
	AmoroEntry *next;			/* in its bucket; guarded by the lock of the shard */
	uint64_t	hash;
	int64_t		version;
	uint64_t	digest;			/* of the document */
	_Atomic uint32_t references;
	uint32_t	document_size;
	uint32_t	table_size;
	uint16_t	key_size[3];
	uint8_t		kind;
	uint8_t		used;			/* since the eviction hand last came by; guarded by the lock of the shard */
	bool		unknown;		/* no document: what there is of this name must be asked */
	char		data[];			/* the three names, the document, and what its kind makes of it (at a multiple of 8 bytes) */
};

/* NULL when memory is short, the document larger than 4 GB, or not what its kind expects. The caller holds the one reference. */
extern AmoroEntry *entry_create(AmoroCacheKind kind, const KeyParts *key, const char *document, size_t size,
								int64_t version);
/* An entry that says of a name that the database must be asked (see cache_begin_whole). NULL when memory is short. */
extern AmoroEntry *entry_create_unknown(AmoroCacheKind kind, const KeyParts *key);
extern bool entry_matches(const AmoroEntry *entry, AmoroCacheKind kind, const KeyParts *key);
extern bool entry_in_database(const AmoroEntry *entry, const char *catalog_name, const char *database_name);
/* Bytes of memory, the allocator's own included. */
extern size_t entry_size(const AmoroEntry *entry);

static inline size_t
entry_table_offset(size_t names_size, size_t document_size)
{
	return (offsetof(AmoroEntry, data) + names_size + document_size + 7) / 8 * 8;
}

/* What the kind has made of the document; only of kinds that make something. */
static inline const void *
entry_table(const AmoroEntry *entry)
{
	return (const char *) entry +
		entry_table_offset((size_t) entry->key_size[0] + entry->key_size[1] + entry->key_size[2], entry->document_size);
}

static inline void
entry_reference(AmoroEntry *entry)
{
	atomic_fetch_add_explicit(&entry->references, 1, memory_order_relaxed);
}

#endif							/* AMORO_ENTRY_H */
