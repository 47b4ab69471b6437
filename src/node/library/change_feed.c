/*
 * change_feed.c
 *		Applying the metadata log (docs/protocol.md, section 5: what a change makes a node forget).
 */
#include "change_feed.h"

#include <string.h>

#include "campaign.h"

/* How much a change touches. */
typedef enum ChangeReach
{
	REACH_DATABASE,				/* what is below that database, or that catalog, in every kind that has three names */
	REACH_NAME,					/* one name in one kind; without a last name all of the database in that kind */
	REACH_KIND					/* one name in one kind; without a last name the whole kind */
} ChangeReach;

static const struct
{
	const char *object_kind;
	ChangeReach reach;
	AmoroCacheKind kind;
	unsigned	rule;
}			reaches[] = {
	{"catalog", REACH_DATABASE, 0, RULE_APPLY_RELATION},
	{"database", REACH_DATABASE, 0, RULE_APPLY_RELATION},
	{"template", REACH_DATABASE, 0, RULE_APPLY_TEMPLATE},
	{"table", REACH_NAME, AMORO_CACHE_TABLE, RULE_APPLY_RELATION},
	{"view", REACH_NAME, AMORO_CACHE_TABLE, RULE_APPLY_RELATION},
	{"partition", REACH_NAME, AMORO_CACHE_PARTITION, RULE_APPLY_PARTITION},
	{"device", REACH_NAME, AMORO_CACHE_DEVICE, RULE_APPLY_DEVICE},
	{"bucket", REACH_KIND, AMORO_CACHE_BUCKET, RULE_APPLY_BUCKET},
	{"authority", REACH_KIND, AMORO_CACHE_AUTHORITY, RULE_APPLY_AUTHORITY},
};

static CacheKindSet
kinds_with_three_names(void)
{
	CacheKindSet kinds = 0;

	for (int kind = 0; kind < AMORO_CACHE_KIND_COUNT; kind++)
	{
		if (cache_kinds[kind]->names == 3)
			kinds |= 1U << kind;
	}
	return kinds;
}

/* Forgets the name that the change has in a kind; a name that no key can have was never cached. */
static void
forget_name(AmoroNode *node, AmoroCacheKind kind, const MetadataChange *change)
{
	int			names = cache_kinds[kind]->names;
	AmoroKey	key = {
		change->catalog_name, names > 1 ? change->database_name : NULL, names > 2 ? change->object_name : NULL
	};
	KeyParts	parts;

	if (key_parts(&parts, kind, &key, node->cache.seed))
		cache_forget(&node->cache, kind, &parts);
}

/* Kinds that are not known here may be derived from one that is: forget the name in every kind. */
static void
apply_unknown(AmoroNode *node, const MetadataChange *change)
{
	if (change->database_name == NULL || change->object_name == NULL)
		cache_forget_database(&node->cache, kinds_with_three_names(), change->catalog_name, change->database_name);
	for (int kind = 0; kind < AMORO_CACHE_KIND_COUNT; kind++)
		forget_name(node, (AmoroCacheKind) kind, change);
}

static void
apply_known(AmoroNode *node, const MetadataChange *change, ChangeReach reach, AmoroCacheKind kind)
{
	const char *last_names[] = {change->catalog_name, change->database_name, change->object_name};
	const char *last_name = last_names[cache_kinds[kind]->names - 1];

	if (reach == REACH_DATABASE)
		cache_forget_database(&node->cache, kinds_with_three_names(), change->catalog_name, change->database_name);
	else if (last_name != NULL && last_name[0] != '\0')
		forget_name(node, kind, change);
	else if (reach == REACH_NAME)
		cache_forget_database(&node->cache, 1U << kind, change->catalog_name, change->database_name);
	else
		cache_forget_kind(&node->cache, kind);
}

static void
apply(AmoroNode *node, const MetadataChange *change)
{
	if (!RULE(RULE_APPLY_BEFORE_ACK) || change->catalog_name == NULL)
		return;
	/* who leads is in no cache */
	if (strcmp(change->object_kind, "service") == 0)
	{
		campaigns_notice(node, change->object_name);
		return;
	}
	for (size_t i = 0; i < sizeof(reaches) / sizeof(reaches[0]); i++)
	{
		if (strcmp(change->object_kind, reaches[i].object_kind) == 0)
		{
			if (RULE(reaches[i].rule))
				apply_known(node, change, reaches[i].reach, reaches[i].kind);
			return;
		}
	}
	apply_unknown(node, change);
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
