/*
 * cache_test.c
 *		Keys, entries, generations, tickets, and the rule for filling a cache.
 */
#include "scenario.h"

#include <stdio.h>
#include <string.h>

#include "change_feed.h"
#include "world.h"

/* An active node in a world, to be freed with world_destroy. */
static World *
active_world(void)
{
	World	   *world = world_create(1);

	world_add_node(world);
	world_run(world, 100000);
	return world;
}

static void
parts_of(const World *world, KeyParts *parts, const char *catalog, const char *database, const char *table)
{
	AmoroKey	key = {catalog, database, table};

	assert_true(key_parts(parts, AMORO_CACHE_TABLE, &key, world->node->cache.seed));
}

static bool
store(World *world, const KeyParts *parts, const char *document)
{
	Cache	   *cache = &world->node->cache;
	AmoroEntry *entry = entry_create(AMORO_CACHE_TABLE, parts, document, strlen(document), 1);
	bool		stored = cache_store(cache, &world->node->lease, parts, entry, world->node->lease.generation,
									 cache_generation(cache, cache_ticket_hash(parts)));

	amoro_entry_release(entry);
	return stored;
}

static bool
is_cached(World *world, const KeyParts *parts)
{
	bool		absent;
	AmoroEntry *entry = cache_find(&world->node->cache, AMORO_CACHE_TABLE, parts, &absent);

	amoro_entry_release(entry);
	return entry != NULL;
}

static void
apply(World *world, int64_t version, const char *catalog, const char *database, const char *table)
{
	MetadataChange change = {version, table ? "table" : "database", "alter", catalog, database, table};

	assert_int_equal(change_feed_apply(world->node, &change, 1, version - 1, version), version);
}

/* names that would be one if they were glued */
static void
test_keys_are_never_glued(void **state)
{
	static const char *const names[][3] = {
		{"a", "b", "c.d"}, {"a", "b.c", "d"}, {"a.b", "c", "d"}, {"ab", "c", "d"}, {"a", "bc", "d"},
		{"a", "b", "cd"}, {"a/b", "c", "d"}, {"a", "b/c", "d"}, {"\"a\"", "b", "c"}, {"a", "b", "c"},
		{"A", "b", "c"}, {"\xc3\xa4", "b", "c"}, {"a", "b", " c"}, {"a", "b", "c "},
	};
	const int	count = sizeof(names) / sizeof(names[0]);
	World	   *world = active_world();

	for (int i = 0; i < count; i++)
	{
		KeyParts	parts;

		parts_of(world, &parts, names[i][0], names[i][1], names[i][2]);
		assert_false(is_cached(world, &parts));
		assert_true(store(world, &parts, names[i][2]));
	}
	for (int i = 0; i < count; i++)
	{
		KeyParts	parts;
		AmoroEntry *entry;
		bool		absent;
		const char *document;
		size_t		size;

		parts_of(world, &parts, names[i][0], names[i][1], names[i][2]);
		entry = cache_find(&world->node->cache, AMORO_CACHE_TABLE, &parts, &absent);
		assert_non_null(entry);
		document = amoro_entry_document(entry, &size);
		assert_int_equal(size, strlen(names[i][2]));
		assert_memory_equal(document, names[i][2], size);
		amoro_entry_release(entry);
	}
	world_destroy(world);
}

static void
test_bad_keys(void **state)
{
	World	   *world = active_world();
	char		long_name[2000];
	AmoroKey	keys[] = {{NULL, "b", "c"}, {"a", NULL, "c"}, {"a", "b", NULL}, {"", "b", "c"}, {"a", "b", ""},
	{"a", "b", long_name}};
	AmoroEntry *entry;
	AmoroTicket ticket;

	memset(long_name, 'x', sizeof(long_name));
	long_name[sizeof(long_name) - 1] = '\0';
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
	{
		assert_int_equal(amoro_cache_peek(world->node, AMORO_CACHE_TABLE, &keys[i], &entry, &ticket), AMORO_INVALID_ARGUMENT);
		assert_null(entry);
		assert_int_equal(amoro_cache_get(world->node, AMORO_CACHE_TABLE, &keys[i], &entry, &ticket), AMORO_INVALID_ARGUMENT);
	}
	assert_int_equal(amoro_cache_peek(world->node, (AmoroCacheKind) 77, &(AmoroKey) {"a", "b", "c"}, &entry, &ticket),
					 AMORO_INVALID_ARGUMENT);
	world_destroy(world);
}

/* an entry in use outlives its cache; a name stored again takes the place of the old (item 45) */
static void
test_entries_outlive_the_cache(void **state)
{
	World	   *world = active_world();
	KeyParts	parts;
	AmoroEntry *first;
	AmoroEntry *second;
	size_t		size;
	bool		absent;

	parts_of(world, &parts, "a", "b", "c");
	store(world, &parts, "first");
	first = cache_find(&world->node->cache, AMORO_CACHE_TABLE, &parts, &absent);
	store(world, &parts, "second");
	second = cache_find(&world->node->cache, AMORO_CACHE_TABLE, &parts, &absent);
	assert_int_equal(cache_entry_count(&world->node->cache), 1);
	world_destroy(world);
	assert_memory_equal(amoro_entry_document(first, &size), "first", 5);
	assert_memory_equal(amoro_entry_document(second, &size), "second", 6);
	amoro_entry_release(first);
	amoro_entry_release(second);
	amoro_entry_release(NULL);
}

static void
test_many_entries_and_a_limit(void **state)
{
	Cache		cache;
	Lease		lease;
	AmoroNodeStatus status = {0};
	const size_t limit = 4 << 20;
	char		document[1000];

	memset(document, 'd', sizeof(document));
	lease_init(&lease, &clock_boottime, NULL, NULL);
	assert_true(cache_init(&cache, limit, 42));
	for (int i = 0; i < 20000; i++)
	{
		char		name[20];
		AmoroKey	key = {"lake", "sales", name};
		bool		absent;
		KeyParts	parts;
		AmoroEntry *entry;

		snprintf(name, sizeof(name), "table_%d", i);
		key_parts(&parts, AMORO_CACHE_TABLE, &key, cache.seed);
		entry = entry_create(AMORO_CACHE_TABLE, &parts, document, sizeof(document), i);
		assert_true(cache_store(&cache, &lease, &parts, entry, 0, 0));
		amoro_entry_release(entry);
		/* one entry that is asked for all the time stays */
		snprintf(name, sizeof(name), "table_%d", 7);
		key_parts(&parts, AMORO_CACHE_TABLE, &key, cache.seed);
		entry = cache_find(&cache, AMORO_CACHE_TABLE, &parts, &absent);
		if (i >= 7)
			assert_non_null(entry);
		amoro_entry_release(entry);
	}
	cache_count(&cache, &status);
	assert_in_range(status.caches[0].bytes, limit / 2, limit);
	assert_int_equal(status.caches[0].entries + status.caches[0].evictions, 20000);
	cache_destroy(&cache);
}

/* a document larger than the limit is answered but not kept */
static void
test_document_larger_than_the_cache(void **state)
{
	static char document[2 << 20];
	Cache		cache;
	Lease		lease;
	KeyParts	parts;
	AmoroEntry *entry;

	memset(document, 'd', sizeof(document));
	lease_init(&lease, &clock_boottime, NULL, NULL);
	assert_true(cache_init(&cache, 1 << 20, 42));
	key_parts(&parts, AMORO_CACHE_TABLE, &(AmoroKey) {"a", "b", "c"}, cache.seed);
	entry = entry_create(AMORO_CACHE_TABLE, &parts, document, sizeof(document), 1);
	assert_false(cache_store(&cache, &lease, &parts, entry, 0, 0));
	assert_int_equal(cache_entry_count(&cache), 0);
	amoro_entry_release(entry);
	cache_destroy(&cache);
}

static void
test_changes_forget(void **state)
{
	World	   *world = active_world();
	KeyParts	orders;
	KeyParts	lines;
	KeyParts	parts;
	KeyParts	other;

	parts_of(world, &orders, "lake", "sales", "orders");
	parts_of(world, &lines, "lake", "sales", "lines");
	parts_of(world, &parts, "lake", "stock", "orders");
	parts_of(world, &other, "pond", "sales", "orders");
	store(world, &orders, "o");
	store(world, &lines, "l");
	store(world, &parts, "p");
	store(world, &other, "x");

	apply(world, 1, "lake", "sales", "orders");
	assert_false(is_cached(world, &orders));
	assert_true(is_cached(world, &lines) && is_cached(world, &parts) && is_cached(world, &other));
	apply(world, 2, "lake", "sales", NULL);
	assert_false(is_cached(world, &lines));
	assert_true(is_cached(world, &parts) && is_cached(world, &other));
	apply(world, 3, "lake", NULL, NULL);
	assert_false(is_cached(world, &parts));
	assert_true(is_cached(world, &other));
	world_destroy(world);
}

/* each kind has its own number of names; one more or one less is a mistake of the caller */
static void
test_names_of_the_kinds(void **state)
{
	static const struct
	{
		AmoroCacheKind kind;
		const char *name;
		int			names;
	}			expected[] = {
		{AMORO_CACHE_TABLE, "table", 3}, {AMORO_CACHE_PARTITION, "partition", 3}, {AMORO_CACHE_DEVICE, "device", 3},
		{AMORO_CACHE_AUTHORITY, "authority", 1}, {AMORO_CACHE_BUCKET, "bucket", 2},
	};
	KeyParts	parts;
	char		text[40];

	assert_int_equal(sizeof(expected) / sizeof(expected[0]), AMORO_CACHE_KIND_COUNT);
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
	{
		AmoroCacheKind kind = expected[i].kind;

		assert_string_equal(amoro_cache_kind_name(kind), expected[i].name);
		assert_int_equal(key_parts(&parts, kind, &(AmoroKey) {"a", NULL, NULL}, 1), expected[i].names == 1);
		assert_int_equal(key_parts(&parts, kind, &(AmoroKey) {"a", "", ""}, 1), expected[i].names == 1);
		assert_int_equal(key_parts(&parts, kind, &(AmoroKey) {"a", "b", NULL}, 1), expected[i].names == 2);
		assert_int_equal(key_parts(&parts, kind, &(AmoroKey) {"a", "b", "c"}, 1), expected[i].names == 3);
	}
	assert_true(key_parts(&parts, AMORO_CACHE_BUCKET, &(AmoroKey) {"refresh", "17", NULL}, 1));
	key_describe(&parts, text, sizeof(text));
	assert_string_equal(text, "\"refresh\".\"17\"");
	key_describe(&parts, text, 5);
	assert_string_equal(text, "\"ref");
}

/* What is in the caches of the next test: the same names in every kind, and others. */
static const struct
{
	AmoroCacheKind kind;
	AmoroKey	key;
}			cached_objects[] = {
	{AMORO_CACHE_TABLE, {"lake", "sales", "7"}},	/* 0 */
	{AMORO_CACHE_TABLE, {"lake", "sales", "8"}},
	{AMORO_CACHE_TABLE, {"lake", "stock", "7"}},
	{AMORO_CACHE_PARTITION, {"lake", "sales", "7"}},
	{AMORO_CACHE_PARTITION, {"lake", "sales", "8"}},	/* 4 */
	{AMORO_CACHE_PARTITION, {"lake", "stock", "7"}},
	{AMORO_CACHE_DEVICE, {"lake", "sales", "7"}},
	{AMORO_CACHE_DEVICE, {"lake", "sales", "8"}},
	{AMORO_CACHE_DEVICE, {"lake", "stock", "7"}},	/* 8 */
	{AMORO_CACHE_AUTHORITY, {"lake", NULL, NULL}},
	{AMORO_CACHE_AUTHORITY, {"pond", NULL, NULL}},
	{AMORO_CACHE_BUCKET, {"lake", "sales", NULL}},
	{AMORO_CACHE_BUCKET, {"lake", "stock", NULL}},	/* 12 */
};

enum
{
	CACHED_OBJECTS = sizeof(cached_objects) / sizeof(cached_objects[0])
};

/* Fills the caches, applies one change; the set of the objects that are not there any more. A ticket goes stale with them. */
static unsigned
forgotten_by(const char *object_kind, const char *catalog, const char *database, const char *object)
{
	World	   *world = active_world();
	MetadataChange change = {1, object_kind, "alter", catalog, database, object};
	AmoroTicket tickets[CACHED_OBJECTS];
	AmoroEntry *entry;
	unsigned	forgotten = 0;

	for (int i = 0; i < CACHED_OBJECTS; i++)
	{
		AmoroCacheKind kind = cached_objects[i].kind;
		Cache	   *cache = &world->node->cache;
		KeyParts	parts;

		assert_true(key_parts(&parts, kind, &cached_objects[i].key, cache->seed));
		entry = entry_create(kind, &parts, "{}", 2, 1);
		assert_true(cache_store(cache, &world->node->lease, &parts, entry, world->node->lease.generation,
								cache_generation(cache, cache_ticket_hash(&parts))));
		amoro_entry_release(entry);
		assert_int_equal(amoro_cache_peek(world->node, kind, &cached_objects[i].key, &entry, &tickets[i]), AMORO_OK);
		amoro_entry_release(entry);
	}
	assert_int_equal(change_feed_apply(world->node, &change, 1, 0, 1), 1);
	for (int i = 0; i < CACHED_OBJECTS; i++)
	{
		AmoroTicket ticket;

		if (amoro_cache_peek(world->node, cached_objects[i].kind, &cached_objects[i].key, &entry, &ticket) == AMORO_MISS)
		{
			forgotten |= 1U << i;
			assert_int_equal(amoro_ticket_check(world->node, &tickets[i]), AMORO_STALE);
		}
		amoro_entry_release(entry);
	}
	world_destroy(world);
	return forgotten;
}

/* the rule of docs/protocol.md, section 5, line by line */
static void
test_what_a_change_reaches(void **state)
{
	enum
	{
		SALES = 0x0db, STOCK = 0x124, THREE_NAMES = 0x1ff
	};

	assert_int_equal(forgotten_by("catalog", "lake", NULL, NULL), THREE_NAMES);
	assert_int_equal(forgotten_by("catalog", "pond", NULL, NULL), 0);
	assert_int_equal(forgotten_by("database", "lake", "sales", NULL), SALES);
	assert_int_equal(forgotten_by("database", "lake", "stock", NULL), STOCK);
	assert_int_equal(forgotten_by("template", "lake", "sales", "turbine"), SALES);
	assert_int_equal(forgotten_by("table", "lake", "sales", "7"), 1 << 0);
	assert_int_equal(forgotten_by("view", "lake", "sales", "8"), 1 << 1);
	assert_int_equal(forgotten_by("partition", "lake", "sales", "7"), 1 << 3);
	assert_int_equal(forgotten_by("partition", "lake", "sales", NULL), 1 << 3 | 1 << 4);
	assert_int_equal(forgotten_by("device", "lake", "sales", "8"), 1 << 7);
	assert_int_equal(forgotten_by("device", "lake", "sales", NULL), 1 << 6 | 1 << 7);
	assert_int_equal(forgotten_by("bucket", "lake", "sales", NULL), 1 << 11);
	assert_int_equal(forgotten_by("bucket", "lake", NULL, NULL), 1 << 11 | 1 << 12);
	assert_int_equal(forgotten_by("authority", "lake", NULL, NULL), 1 << 9);
	assert_int_equal(forgotten_by("authority", "", NULL, NULL), 1 << 9 | 1 << 10);
	/* a kind from the future: by its names, in every kind */
	assert_int_equal(forgotten_by("quota", "lake", "sales", "7"), 1 << 0 | 1 << 3 | 1 << 6 | 1 << 9 | 1 << 11);
	assert_int_equal(forgotten_by("quota", "lake", "sales", NULL), SALES | 1 << 9 | 1 << 11);
	assert_int_equal(forgotten_by("quota", "pond", NULL, NULL), 1 << 10);
}

/* V06: what was applied is not applied again, and what is not published yet waits */
static void
test_changes_apply_once_and_in_order(void **state)
{
	World	   *world = active_world();
	MetadataChange changes[] = {
		{4, "table", "alter", "lake", "sales", "orders"}, {5, "table", "alter", "lake", "sales", "lines"},
		{5, "table", "alter", "lake", "stock", "orders"}, {6, "table", "alter", "lake", "stock", "parts"}
	};
	KeyParts	orders;
	KeyParts	parts;

	parts_of(world, &orders, "lake", "sales", "orders");
	parts_of(world, &parts, "lake", "stock", "parts");
	store(world, &orders, "o");
	store(world, &parts, "p");
	assert_int_equal(change_feed_apply(world->node, changes, 4, 4, 5), 5);
	assert_true(is_cached(world, &orders) && is_cached(world, &parts));
	assert_int_equal(world->node->changes_applied, 2);
	assert_int_equal(change_feed_apply(world->node, changes, 0, 5, 9), 5);
	world_destroy(world);
}

/* a change, a change of the database, or a clear overtakes a load */
static bool
overtaken_load_is_not_stored(void)
{
	bool		holds = true;

	for (int how = 0; how < 4; how++)
	{
		World	   *world = active_world();
		Reader		reader;
		Reader		again;

		holds = reader_begin_load(world, &reader, 0) && holds;
		reader_read(&reader, &world->server);
		if (how == 0)
			apply(world, 1, "lake", "sales", "orders");
		else if (how == 1)
			apply(world, 1, "lake", "sales", NULL);
		else if (how == 2)
			apply(world, 1, "lake", NULL, NULL);
		else
		{
			/* a whole fence and recovery in between */
			world->server.slot.epoch++;
			world_run(world, 300000);
		}
		reader_finish_load(world, &reader);
		holds = reader_peek(world, &again, 0) == AMORO_MISS && holds;
		amoro_entry_release(reader.entry);
		amoro_entry_release(again.entry);
		world_destroy(world);
	}
	return holds;
}

static bool
load_of_another_term_is_refused(void)
{
	World	   *world = active_world();
	Reader		reader;
	bool		holds;

	reader_begin_load(world, &reader, 0);
	reader_read(&reader, &world->server);
	reader.answer.term -= 1;
	holds = reader_finish_load(world, &reader) == LOAD_OTHER_SERVER;
	amoro_entry_release(reader.entry);
	world_destroy(world);
	return holds;
}

static bool
load_older_than_applied_is_refused(void)
{
	World	   *world = active_world();
	Reader		reader;
	bool		holds;

	server_change(world, 1, OBJECT_NORMAL);
	world_run(world, 300000);
	reader_begin_load(world, &reader, 0);
	reader_read(&reader, &world->server);
	reader.answer.metadata_version -= 1;
	holds = reader_finish_load(world, &reader) == LOAD_OTHER_SERVER;
	amoro_entry_release(reader.entry);
	world_destroy(world);
	return holds;
}

/* item 42: what carries a marker is answered as it stands and not kept */
static bool
marked_is_not_cached(void)
{
	World	   *world = active_world();
	Reader		reader;
	bool		holds = true;

	world->server.objects[0].state = OBJECT_PRE_ALTER;
	reader_begin_load(world, &reader, 0);
	reader_read(&reader, &world->server);
	holds = reader_finish_load(world, &reader) == LOAD_ANSWERED && reader.result == AMORO_OK && reader.entry != NULL;
	amoro_entry_release(reader.entry);
	holds = reader_peek(world, &reader, 0) == AMORO_MISS && holds;
	amoro_entry_release(reader.entry);
	world_destroy(world);
	return holds;
}

static void
test_states_of_objects(void **state)
{
	static const struct
	{
		ObjectState state;
		AmoroResult result;
		bool		cached;
	}			expected[] = {
		{OBJECT_NORMAL, AMORO_OK, true},
		{OBJECT_PRE_CREATE, AMORO_IN_TRANSITION, false},
		{OBJECT_PRE_ALTER, AMORO_OK, false},
		{OBJECT_PRE_DROP, AMORO_IN_TRANSITION, false},
		{OBJECT_ABSENT, AMORO_NOT_FOUND, false},
	};

	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
	{
		World	   *world = active_world();
		Reader		reader;

		world->server.objects[0].state = expected[i].state;
		assert_true(reader_begin_load(world, &reader, 0));
		reader_read(&reader, &world->server);
		assert_int_equal(reader_finish_load(world, &reader), LOAD_ANSWERED);
		assert_int_equal(reader.result, expected[i].result);
		assert_int_equal(reader_answer(world, &reader), AMORO_OK);
		assert_int_equal(reader_peek(world, &reader, 0), expected[i].cached ? AMORO_OK : AMORO_MISS);
		amoro_entry_release(reader.entry);
		world_destroy(world);
	}
}

/* A11, L02: a stall between lookup and answer that outlasts the lease, or in which a change is applied */
static bool
ticket_is_checked(void)
{
	World	   *world = active_world();
	Reader		reader;
	bool		holds;

	reader_begin_load(world, &reader, 0);
	reader_read(&reader, &world->server);
	reader_finish_load(world, &reader);
	amoro_entry_release(reader.entry);

	holds = reader_peek(world, &reader, 0) == AMORO_OK;
	world_stop_node(world, 3000000);
	holds = reader_answer(world, &reader) == AMORO_FENCED && holds;

	/* and after it has come back, what was read before is still not answered */
	world_run(world, 500000);
	reader_begin_load(world, &reader, 0);
	reader_read(&reader, &world->server);
	reader_finish_load(world, &reader);
	amoro_entry_release(reader.entry);
	holds = reader_peek(world, &reader, 0) == AMORO_OK && holds;
	world_stop_node(world, 3000000);
	world_run(world, 500000);
	holds = reader_answer(world, &reader) == AMORO_FENCED && holds;

	reader_begin_load(world, &reader, 0);
	reader_read(&reader, &world->server);
	reader_finish_load(world, &reader);
	server_change(world, 0, OBJECT_NORMAL);
	world_run(world, 300000);
	holds = reader_answer(world, &reader) == AMORO_STALE && holds;
	world_destroy(world);
	return holds;
}

/* What was read before a change elsewhere is right after it too, and says so: clients compare versions. */
static void
test_ticket_tells_the_newest_version(void **state)
{
	World	   *world = active_world();
	Reader		reader;

	reader_begin_load(world, &reader, 0);
	reader_read(&reader, &world->server);
	server_change(world, 1, OBJECT_NORMAL);
	world_run(world, 300000);
	assert_int_equal(reader_finish_load(world, &reader), LOAD_ANSWERED);
	assert_true(reader.ticket.metadata_version < world->server.version);
	assert_int_equal(reader_answer(world, &reader), AMORO_OK);
	assert_int_equal(reader.ticket.metadata_version, world->server.version);
	amoro_entry_release(reader.entry);
	world_destroy(world);
}

/* items 34 and 66: a fenced node answers nothing, loads nothing */
static void
test_fenced_refuses_everything(void **state)
{
	World	   *world = active_world();
	AmoroKey	key = object_key(0);
	AmoroEntry *entry;
	AmoroTicket ticket;
	Reader		reader;

	reader_begin_load(world, &reader, 0);
	reader_read(&reader, &world->server);
	reader_finish_load(world, &reader);
	amoro_entry_release(reader.entry);
	world_stop_node(world, 3000000);
	assert_int_equal(amoro_cache_peek(world->node, AMORO_CACHE_TABLE, &key, &entry, &ticket), AMORO_FENCED);
	assert_int_equal(amoro_cache_get(world->node, AMORO_CACHE_TABLE, &key, &entry, &ticket), AMORO_FENCED);
	assert_null(entry);
	assert_false(reader_begin_load(world, &reader, 0));
	world_destroy(world);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_keys_are_never_glued),
		cmocka_unit_test(test_bad_keys),
		cmocka_unit_test(test_entries_outlive_the_cache),
		cmocka_unit_test(test_many_entries_and_a_limit),
		cmocka_unit_test(test_document_larger_than_the_cache),
		cmocka_unit_test(test_changes_forget),
		cmocka_unit_test(test_changes_apply_once_and_in_order),
		cmocka_unit_test(test_names_of_the_kinds),
		cmocka_unit_test(test_what_a_change_reaches),
		SCENARIO("an overtaken load is not stored", overtaken_load_is_not_stored, RULE_LOAD_GENERATION),
		SCENARIO("a load of another term is refused", load_of_another_term_is_refused, RULE_LOAD_TERM),
		SCENARIO("a load older than what was applied is refused", load_older_than_applied_is_refused, RULE_LOAD_VERSION),
		SCENARIO("what carries a marker is not cached", marked_is_not_cached, RULE_MARKED_NOT_CACHED),
		SCENARIO("the ticket is checked before answering", ticket_is_checked, RULE_TICKET),
		cmocka_unit_test(test_ticket_tells_the_newest_version),
		cmocka_unit_test(test_states_of_objects),
		cmocka_unit_test(test_fenced_refuses_everything),
	};

	return cmocka_run_group_tests_name("cache", tests, NULL, NULL);
}
