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
	AmoroEntry *entry = cache_find(&world->node->cache, AMORO_CACHE_TABLE, parts);

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
		const char *document;
		size_t		size;

		parts_of(world, &parts, names[i][0], names[i][1], names[i][2]);
		entry = cache_find(&world->node->cache, AMORO_CACHE_TABLE, &parts);
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

	parts_of(world, &parts, "a", "b", "c");
	store(world, &parts, "first");
	first = cache_find(&world->node->cache, AMORO_CACHE_TABLE, &parts);
	store(world, &parts, "second");
	second = cache_find(&world->node->cache, AMORO_CACHE_TABLE, &parts);
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
		entry = cache_find(&cache, AMORO_CACHE_TABLE, &parts);
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

/* a kind of which everything is loaded before serving: what is not there does not exist */
static bool load_fails;
static int	loads_before_serving;

static bool
load_everything(AmoroNode *node, int64_t *version, char *reason, size_t reason_size)
{
	loads_before_serving++;
	*version = node->lease.newest_version;
	if (load_fails)
		snprintf(reason, reason_size, "half of it was missing");
	return !load_fails;
}

/* items 9, 10, 50 and 51: a failed load keeps the node fenced, and is tried again without another clear */
static void
test_kind_that_loads_before_serving(void **state)
{
	static const CacheKind registry = {"table", true, load_everything};
	static const CacheKind *const kinds[] = {&registry};
	World	   *world = world_create(1);
	AmoroNodeStatus status;
	AmoroKey	key = object_key(0);
	AmoroEntry *entry;
	AmoroTicket ticket;

	world_add_node(world);
	world->node->kinds = kinds;
	load_fails = true;
	loads_before_serving = 0;
	world_run(world, 45000);
	amoro_node_status(world->node, &status);
	assert_false(status.serving);
	assert_string_equal(status.reason, "half of it was missing");
	assert_int_equal(loads_before_serving, 1);
	load_fails = false;
	world_run(world, 1000000);
	amoro_node_status(world->node, &status);
	assert_true(status.serving);
	assert_int_equal(status.clears, 0);
	assert_int_equal(loads_before_serving, 2);
	assert_int_equal(amoro_cache_peek(world->node, AMORO_CACHE_TABLE, &key, &entry, &ticket), AMORO_NOT_FOUND);
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
		SCENARIO("an overtaken load is not stored", overtaken_load_is_not_stored, RULE_LOAD_GENERATION),
		SCENARIO("a load of another term is refused", load_of_another_term_is_refused, RULE_LOAD_TERM),
		SCENARIO("a load older than what was applied is refused", load_older_than_applied_is_refused, RULE_LOAD_VERSION),
		SCENARIO("what carries a marker is not cached", marked_is_not_cached, RULE_MARKED_NOT_CACHED),
		SCENARIO("the ticket is checked before answering", ticket_is_checked, RULE_TICKET),
		cmocka_unit_test(test_ticket_tells_the_newest_version),
		cmocka_unit_test(test_states_of_objects),
		cmocka_unit_test(test_fenced_refuses_everything),
		cmocka_unit_test(test_kind_that_loads_before_serving),
	};

	return cmocka_run_group_tests_name("cache", tests, NULL, NULL);
}
