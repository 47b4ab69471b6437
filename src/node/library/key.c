/*
 * key.c
 *		Measuring and hashing keys.
 */
#include "key.h"

#include <stdio.h>
#include <string.h>

#include "cache_kind.h"

bool
key_parts(KeyParts *parts, AmoroCacheKind kind, const AmoroKey *key, uint64_t seed)
{
	const char *text[3] = {key->catalog_name, key->database_name, key->object_name};

	for (int i = 0; i < 3; i++)
	{
		size_t		size = text[i] ? strnlen(text[i], KEY_PART_LIMIT + 1) : 0;

		if ((size > 0) != (i < cache_kinds[kind]->names) || size > KEY_PART_LIMIT)
			return false;
		parts->text[i] = size > 0 ? text[i] : "";
		parts->size[i] = (uint16_t) size;
	}
	parts->database_hash = key_hash_text(key_hash_text(seed, text[0], parts->size[0]), parts->text[1], parts->size[1]);
	parts->hash = key_hash_text(parts->database_hash + (uint64_t) kind, parts->text[2], parts->size[2]);
	return true;
}

bool
key_listing_parts(KeyParts *parts, const AmoroKey *key, uint64_t seed)
{
	const char *text[3] = {key->catalog_name, key->database_name, key->object_name};

	for (int i = 0; i < 3; i++)
	{
		size_t		size = text[i] ? strnlen(text[i], KEY_PART_LIMIT + 1) : 0;

		if ((size == 0 && i < 2) || size > KEY_PART_LIMIT)
			return false;
		parts->text[i] = size > 0 ? text[i] : "";
		parts->size[i] = (uint16_t) size;
	}
	parts->database_hash = key_database_hash(text[0], text[1], seed);
	parts->hash = key_listing_hash(parts->database_hash);
	return true;
}

void
key_describe(const KeyParts *parts, char *text, size_t size)
{
	size_t		length = 0;

	text[0] = '\0';
	for (int i = 0; i < 3 && parts->size[i] > 0 && length < size; i++)
		length += (size_t) snprintf(text + length, size - length, "%s\"%s\"", i > 0 ? "." : "", parts->text[i]);
}

uint64_t
key_database_hash(const char *catalog_name, const char *database_name, uint64_t seed)
{
	return key_hash_text(key_hash_text(seed, catalog_name, strlen(catalog_name)), database_name, strlen(database_name));
}
