/*
 * change_feed.c
 *		Applying the metadata log.
 */
#include "change_feed.h"

#include <string.h>

/* A name that no key can have was never cached. */
static void
forget_object(AmoroNode *node, AmoroCacheKind kind, const MetadataChange *change)
{
	AmoroKey	key = {change->catalog_name, change->database_name, change->object_name};
	KeyParts	parts;

	if (key_parts(&parts, kind, &key, node->cache.seed))
		cache_forget(&node->cache, kind, &parts);
}

static void
apply(AmoroNode *node, const MetadataChange *change)
{
	if (!RULE(RULE_APPLY_BEFORE_ACK) || change->catalog_name == NULL)
		return;
	/* a change to a catalog or a database touches everything in it */
	if (change->database_name == NULL || change->object_name == NULL)
	{
		cache_forget_database(&node->cache, change->catalog_name, change->database_name);
		return;
	}
	/* kinds that are not known here may be derived from one that is: forget the name in every kind */
	for (int kind = 0; kind < AMORO_CACHE_KIND_COUNT; kind++)
		forget_object(node, (AmoroCacheKind) kind, change);
}

int64_t
change_feed_apply(AmoroNode *node, const MetadataChange *changes, int count, int64_t after, int64_t newest)
{
	int64_t		applied = after;

	/* what is committed but not published yet stays for the next time: reported now, the server would not know it */
	for (int i = 0; i < count && changes[i].version <= newest; i++)
	{
		if (changes[i].version <= after)
			continue;
		apply(node, &changes[i]);
		atomic_fetch_add_explicit(&node->changes_applied, 1, memory_order_relaxed);
		applied = changes[i].version;
	}
	return applied;
}
