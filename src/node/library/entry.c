/*
 * entry.c
 *		Making, comparing and giving back entries.
 */
#include "entry.h"

#include <stdlib.h>
#include <string.h>

#include "cache_kind.h"

/* What malloc adds to an allocation: its header, and on average half of its rounding to 16 bytes. */
#define ALLOCATOR_OVERHEAD 16
/* The same in every process, so that all nodes give a document the same tag. */
#define DIGEST_SEED UINT64_C(0xcbf29ce484222325)

static inline size_t
names_size(const AmoroEntry *entry)
{
	return (size_t) entry->key_size[0] + entry->key_size[1] + entry->key_size[2];
}

/* Puts names and document into the memory of an entry, and what its kind has made of it. */
static void
fill(AmoroEntry *entry, const KeyParts *key, const char *document, const void *table)
{
	char	   *data = entry->data;

	for (int i = 0; i < 3; i++)
	{
		entry->key_size[i] = key->size[i];
		memcpy(data, key->text[i], key->size[i]);
		data += key->size[i];
	}
	if (entry->document_size > 0)
		memcpy(data, document, entry->document_size);
	if (entry->table_size > 0)
		memcpy((void *) entry_table(entry), table, entry->table_size);
}

/* An entry with room for its names, a document and a table of these sizes; NULL when memory is short. */
static AmoroEntry *
allocate(AmoroCacheKind kind, const KeyParts *key, size_t document_size, size_t table_size)
{
	size_t		names = (size_t) key->size[0] + key->size[1] + key->size[2];
	AmoroEntry *entry = malloc(entry_table_offset(names, document_size) + table_size);

	if (entry == NULL)
		return NULL;
	entry->next = NULL;
	entry->hash = key->hash;
	entry->version = 0;
	entry->digest = 0;
	atomic_init(&entry->references, 1);
	entry->document_size = (uint32_t) document_size;
	entry->table_size = (uint32_t) table_size;
	entry->kind = (uint8_t) kind;
	entry->used = 0;
	entry->unknown = false;
	return entry;
}

AmoroEntry *
entry_create_unknown(AmoroCacheKind kind, const KeyParts *key)
{
	AmoroEntry *entry = allocate(kind, key, 0, 0);

	if (entry == NULL)
		return NULL;
	entry->unknown = true;
	fill(entry, key, NULL, NULL);
	return entry;
}

AmoroEntry *
entry_create(AmoroCacheKind kind, const KeyParts *key, const char *document, size_t size, int64_t version)
{
	AmoroEntry *entry;
	void	   *table = NULL;
	size_t		table_size = 0;

	if (size > UINT32_MAX)
		return NULL;
	if (cache_kinds[kind]->make_table != NULL && !cache_kinds[kind]->make_table(document, size, &size, &table, &table_size))
		return NULL;
	entry = allocate(kind, key, size, table_size);
	if (entry != NULL)
	{
		entry->version = version;
		entry->digest = key_hash_text(DIGEST_SEED, document, size);
		fill(entry, key, document, table);
	}
	free(table);
	return entry;
}

bool
entry_matches(const AmoroEntry *entry, AmoroCacheKind kind, const KeyParts *key)
{
	const char *data = entry->data;

	if (entry->hash != key->hash || entry->kind != kind)
		return false;
	for (int i = 0; i < 3; i++)
	{
		if (entry->key_size[i] != key->size[i] || memcmp(data, key->text[i], key->size[i]) != 0)
			return false;
		data += key->size[i];
	}
	return true;
}

bool
entry_in_database(const AmoroEntry *entry, const char *catalog_name, const char *database_name)
{
	return entry->key_size[0] == strlen(catalog_name) &&
		memcmp(entry->data, catalog_name, entry->key_size[0]) == 0 &&
		(database_name == NULL ||
		 (entry->key_size[1] == strlen(database_name) &&
		  memcmp(entry->data + entry->key_size[0], database_name, entry->key_size[1]) == 0));
}

size_t
entry_size(const AmoroEntry *entry)
{
	return entry_table_offset(names_size(entry), entry->document_size) + entry->table_size + ALLOCATOR_OVERHEAD;
}

const char *
amoro_entry_document(const AmoroEntry *entry, size_t *size)
{
	*size = entry->document_size;
	return entry->data + names_size(entry);
}

int64_t
amoro_entry_version(const AmoroEntry *entry)
{
	return entry->version;
}

uint64_t
amoro_entry_digest(const AmoroEntry *entry)
{
	return entry->digest;
}

void
amoro_entry_release(AmoroEntry *entry)
{
	if (entry == NULL)
		return;
	if (atomic_fetch_sub_explicit(&entry->references, 1, memory_order_acq_rel) == 1)
		free(entry);
}
