/*
 * key.h
 *		Names of objects as keys: up to three strings, hashed with their lengths and compared one by one, so that no two
 *		names are ever glued into one.
 */
#ifndef AMORO_KEY_H
#define AMORO_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
/* "catalog"."database"."object", cut off at size bytes. */
extern void key_describe(const KeyParts *parts, char *text, size_t size);
/* Goes on with a hash, or begins one from any number. */
extern uint64_t key_hash_text(uint64_t hash, const char *text, size_t size);
/* The hash that all objects of one database share. */
extern uint64_t key_database_hash(const char *catalog_name, const char *database_name, uint64_t seed);

#endif							/* AMORO_KEY_H */
