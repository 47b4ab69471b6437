/*
 * bucket.c
 *		Does this process own a bucket of a service?
 */
#include <stdio.h>
#include <string.h>

#include "node.h"

/* How the document of a bucket begins that a process owns; its incarnation follows, then a quote. */
#define OWNER_PREFIX "{\"owner_incarnation\" : \""

/* The document of a bucket that nobody owns, or that is changing hands, has null there. */
static bool
names_owner(const AmoroEntry *entry, const char *incarnation)
{
	const size_t prefix = sizeof(OWNER_PREFIX) - 1;
	const size_t owner = INCARNATION_SIZE - 1;
	size_t		size;
	const char *document = amoro_entry_document(entry, &size);

	return size > prefix + owner && memcmp(document, OWNER_PREFIX, prefix) == 0 &&
		memcmp(document + prefix, incarnation, owner) == 0 && document[prefix + owner] == '"';
}

AmoroResult
amoro_bucket_owned(AmoroNode *node, const char *service, int bucket, AmoroTicket *ticket)
{
	char		name[16];
	AmoroKey	key = {service, name, NULL};
	AmoroEntry *entry;
	AmoroResult result;

	if (bucket < 1)
		return AMORO_INVALID_ARGUMENT;
	snprintf(name, sizeof(name), "%d", bucket);
	result = amoro_cache_get(node, AMORO_CACHE_BUCKET, &key, &entry, ticket);
	if (result == AMORO_IN_TRANSITION)
		return AMORO_NOT_FOUND;
	if (result == AMORO_OK && !names_owner(entry, node->lease.incarnation))
		result = AMORO_NOT_FOUND;
	amoro_entry_release(entry);
	return result;
}
