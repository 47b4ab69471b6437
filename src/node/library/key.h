/*
 * key.h
 *		Names of objects as keys: up to three strings, hashed with their lengths and compared one by one, so that no two
 *		names are ever glued into one.
 */
#ifndef AMORO_KEY_H
#define AMORO_KEY_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "amoro_node.h"

/* A server refuses names of more than 255 characters, which are at most 1020 bytes. */
#define KEY_PART_LIMIT 1020

typedef struct KeyParts
{
	const char *text[3];		/* as in AmoroKey; those that the kind has not are empty */
	uint16_t	size[3];
	uint64_t	database_hash;	/* of the first two */
	uint64_t	hash;			/* of kind and all three */
} KeyParts;

/* Measures and hashes; false when a part is missing, empty or too long to be a name, or is one that the kind has not. */
extern bool key_parts(KeyParts *parts, AmoroCacheKind kind, const AmoroKey *key, uint64_t seed);
/*
 * Of a page of a listing of a database: text has the name after which it begins (NULL or empty: at the first), and hash is
 * that of the database, so that all its pages have the generation that every change in the database raises.
 */
extern bool key_listing_parts(KeyParts *parts, const AmoroKey *key, uint64_t seed);
/* "catalog"."database"."object", cut off at size bytes. */
extern void key_describe(const KeyParts *parts, char *text, size_t size);
/* The hash that all objects of one database share. */
extern uint64_t key_database_hash(const char *catalog_name, const char *database_name, uint64_t seed);

/* Folds the 128-bit product of two words: every bit of the input reaches every bit of the result. */
static inline uint64_t
key_mix(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128) a * b;

	return (uint64_t) product ^ (uint64_t) (product >> 64);
}

/* The last bytes of a text, fewer than eight, as one word, without a loop or a call. */
static inline uint64_t
key_tail(const char *text, size_t size)
{
	const unsigned char *bytes = (const unsigned char *) text;
	uint32_t	head;
	uint32_t	tail;

	if (size < 4)
		return size == 0 ? 0 : (uint64_t) bytes[0] << 16 | (uint64_t) bytes[size / 2] << 8 | bytes[size - 1];
	memcpy(&head, text, sizeof(head));
	memcpy(&tail, text + size - sizeof(tail), sizeof(tail));
	return (uint64_t) le32toh(head) << 32 | le32toh(tail);
}

/* KeyParts.hash of the listings of a database. */
static inline uint64_t
key_listing_hash(uint64_t database_hash)
{
	return key_mix(database_hash ^ UINT64_C(0x589965cc75374cc3), UINT64_C(0x1d8e4e27c47d124f));
}

/* Goes on with a hash, or begins one from any number; the same on every machine. */
static inline uint64_t
key_hash_text(uint64_t hash, const char *text, size_t size)
{
	const uint64_t odd = UINT64_C(0xa0761d6478bd642f);
	uint64_t	word;

	hash ^= key_mix(size ^ UINT64_C(0xe7037ed1a0b428db), odd);
	while (size >= sizeof(word))
	{
		memcpy(&word, text, sizeof(word));
		hash = key_mix(hash ^ le64toh(word), odd);
		text += sizeof(word);
		size -= sizeof(word);
	}
	return key_mix(hash ^ key_tail(text, size), UINT64_C(0x8ebc6af09c88c6e3));
}

#endif							/* AMORO_KEY_H */
