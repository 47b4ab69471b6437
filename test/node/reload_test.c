/*
 * reload_test.c
 *		Loading whole kinds before serving: in chunks, once, up to date, and nothing of it seen before.
 */
#include "scenario.h"

#include <stdio.h>
#include <string.h>

#include "world.h"

#define TABLES (1U << AMORO_CACHE_TABLE)

/* A node that loads all tables, in chunks of one; object 2 is not there. */
static World *
loading_world(void)
{
	World	   *world = world_create(1);

	world->preload = TABLES;
	world->server.chunk_rows = 1;
	world->server.objects[2].state = OBJECT_ABSENT;
	world_add_node(world);
	return world;
}

static AmoroResult
peek(World *world, int object)
{
	Reader		reader;
	AmoroResult result = reader_peek(world, &reader, object);

	if (reader.answered)
		assert_int_equal(reader_answer(world, &reader), AMORO_OK);
	assert_int_equal(world->violations, 0);
	return result;
}

/* what is there is there, what is not is not, and nobody is asked */
static void
test_loads_everything_first(void **state)
{
	World	   *world = loading_world();

	/* each chunk takes a millisecond, and before the last one nothing is seen */
	world_run(world, 3000);
	for (int i = 0; i < OBJECT_COUNT; i++)
		assert_int_equal(peek(world, i), AMORO_FENCED);
	assert_int_equal(world->sends[REQUEST_ACTIVATE], 0);
	world_run(world, 100000);
	assert_int_equal(peek(world, 0), AMORO_OK);
	assert_int_equal(peek(world, 1), AMORO_OK);
	assert_int_equal(peek(world, 2), AMORO_NOT_FOUND);
	assert_int_equal(peek(world, 3), AMORO_OK);
	assert_int_equal(world->sends[REQUEST_SNAPSHOT], 3);
	assert_int_equal(world_status(world).caches[AMORO_CACHE_TABLE].reloads, 1);
	assert_int_equal(world_status(world).caches[AMORO_CACHE_TABLE].entries, 3);
	assert_int_equal(world_status(world).caches[AMORO_CACHE_TABLE].hits, 4);
	assert_true(world_status(world).caches[AMORO_CACHE_TABLE].whole);
	world_destroy(world);
}

/* an object with a marker is asked for */
static void
test_marked_objects_are_asked(void **state)
{
	World	   *world = loading_world();

	world->server.objects[0].state = OBJECT_PRE_DROP;
	world->server.objects[1].state = OBJECT_PRE_ALTER;
	world_run(world, 100000);
	assert_int_equal(peek(world, 0), AMORO_MISS);
	assert_int_equal(peek(world, 1), AMORO_MISS);
	assert_int_equal(peek(world, 2), AMORO_NOT_FOUND);
	assert_int_equal(peek(world, 3), AMORO_OK);
	world_destroy(world);
}

/* a change makes its name one to be asked, whether it was there or not, until it has been asked; another one stays as it is */
static void
test_changes_leave_marks(void **state)
{
	World	   *world = loading_world();
	Reader		reader;

	world_run(world, 100000);
	server_change(world, 0, OBJECT_ABSENT);
	server_change(world, 2, OBJECT_NORMAL);
	world_run(world, 100000);
	assert_int_equal(peek(world, 0), AMORO_MISS);
	assert_int_equal(peek(world, 2), AMORO_MISS);
	assert_int_equal(peek(world, 3), AMORO_OK);
	for (int i = 0; i < 4; i += 2)
	{
		assert_true(reader_begin_load(world, &reader, i));
		reader_read(&reader, &world->server);
		assert_int_equal(reader_finish_load(world, &reader), LOAD_ANSWERED);
		amoro_entry_release(reader.entry);
	}
	assert_int_equal(peek(world, 0), AMORO_NOT_FOUND);
	assert_int_equal(peek(world, 2), AMORO_OK);
	/* the names of a whole database cannot be marked: every miss asks from now on */
	server_change_database(world, 0);
	world_run(world, 100000);
	assert_int_equal(peek(world, 0), AMORO_MISS);
	assert_int_equal(peek(world, 1), AMORO_MISS);
	assert_int_equal(peek(world, 2), AMORO_OK);
	assert_false(world_status(world).caches[AMORO_CACHE_TABLE].whole);
	world_destroy(world);
}

/* a load of "not there" that a change overtook does not take its mark away */
static void
test_overtaken_absence(void **state)
{
	World	   *world = loading_world();
	Reader		reader;

	world_run(world, 100000);
	server_change(world, 0, OBJECT_ABSENT);
	world_run(world, 100000);
	assert_true(reader_begin_load(world, &reader, 0));
	reader_read(&reader, &world->server);
	server_change(world, 0, OBJECT_NORMAL);
	world_run(world, 100000);
	assert_int_equal(reader_finish_load(world, &reader), LOAD_OVERTAKEN);
	assert_int_equal(peek(world, 0), AMORO_MISS);
	world_destroy(world);
}

/* what changes while chunks come in is made good before the node serves */
static void
test_changes_while_loading(void **state)
{
	World	   *world = loading_world();

	while (world->sends[REQUEST_SNAPSHOT] < 2)
		world_run(world, 100);
	server_change(world, 0, OBJECT_ABSENT);
	server_change(world, 2, OBJECT_NORMAL);
	world_run(world, 100000);
	assert_int_equal(world_status(world).serving, 1);
	assert_int_equal(peek(world, 0), AMORO_MISS);
	assert_int_equal(peek(world, 2), AMORO_MISS);
	assert_int_equal(peek(world, 1), AMORO_OK);
	assert_int_equal(world_status(world).applied_version, world->server.version);
	world_destroy(world);
}

/* a connection that is lost costs one chunk, not the reload; what changed meanwhile is not missed */
static void
test_resumes_after_a_lost_connection(void **state)
{
	World	   *world = loading_world();

	while (world->sends[REQUEST_SNAPSHOT] < 2)
		world_run(world, 100);
	server_crash(world);
	world_run(world, 100000);
	server_change(world, 1, OBJECT_PRE_ALTER);
	server_restart(world, false, 0);
	world_run(world, 2000000);
	assert_int_equal(world_status(world).serving, 1);
	/* of three, the second again */
	assert_int_equal(world->sends[REQUEST_SNAPSHOT], 4);
	assert_int_equal(peek(world, 0), AMORO_OK);
	assert_int_equal(peek(world, 1), AMORO_MISS);
	assert_int_equal(peek(world, 2), AMORO_NOT_FOUND);
	assert_int_equal(peek(world, 3), AMORO_OK);
	world_destroy(world);
}

/* another timeline is another history: from the beginning */
static bool
begins_anew_on_another_timeline(void)
{
	World	   *world = loading_world();
	bool		holds;

	server_change(world, 3, OBJECT_NORMAL);
	while (world->sends[REQUEST_SNAPSHOT] < 2)
		world_run(world, 100);
	server_crash(world);
	world_run(world, 100000);
	server_restart(world, true, 1);
	world_run(world, 2000000);
	holds = world_status(world).serving && world->sends[REQUEST_SNAPSHOT] >= 5;
	world_destroy(world);
	return holds;
}

/* items 50 and 51: what fails is no empty result: fenced, with the reason here and at the server; and again, from where it was */
static void
test_failure_keeps_it_fenced(void **state)
{
	World	   *world = loading_world();
	AmoroNodeStatus status;

	world->server.refuse_snapshots_with = "57014";
	world_run(world, 3000000);
	status = world_status(world);
	assert_false(status.serving);
	assert_string_equal(status.reason, "refused by the test");
	assert_string_equal(world->last_detail, "reload failed: refused by the test");
	assert_true(world->sends[REQUEST_SNAPSHOT] >= 2);
	assert_int_equal(world->sends[REQUEST_ACTIVATE], 0);
	world->server.refuse_snapshots_with = NULL;
	world_run(world, 3000000);
	status = world_status(world);
	assert_true(status.serving);
	assert_string_equal(status.reason, "");
	assert_string_equal(world->last_detail, "3 entries");
	assert_int_equal(peek(world, 2), AMORO_NOT_FOUND);
	world_destroy(world);
}

/* an older server: the kind is asked for, as if it were not wanted */
static void
test_kind_that_the_server_does_not_know(void **state)
{
	World	   *world = loading_world();

	world->server.refuse_snapshots_with = "22023";
	world_run(world, 500000);
	assert_int_equal(world->sends[REQUEST_SNAPSHOT], 1);
	assert_int_equal(world_status(world).serving, 1);
	assert_int_equal(peek(world, 2), AMORO_MISS);
	world_destroy(world);
}

/* each chunk takes longer than the lease, and the server is told now and then that the node lives */
static void
test_reload_longer_than_the_lease(void **state)
{
	World	   *world = loading_world();

	world->server.lease_us = world->server.longest_lease_us = 400000;
	world->server.interval_us = 100000;
	world->server.ack_timeout_us = 200000;
	world->chunk_time = 600000;
	world_run(world, 1500000);
	assert_int_equal(world_status(world).serving, 0);
	assert_int_equal(world_status(world).state, AMORO_NODE_RECOVERING);
	assert_string_equal(world->last_detail, "reloading table: 2 entries");
	world_run(world, 1000000);
	assert_int_equal(world_status(world).serving, 1);
	assert_int_equal(peek(world, 3), AMORO_OK);
	world_destroy(world);
}

/* A node that was fenced because its lease was over, and nothing else. */
static World *
lapsed_world(void)
{
	World	   *world = loading_world();

	world_run(world, 300000);
	world_stop_node(world, 3000000);
	assert_int_equal(peek(world, 0), AMORO_FENCED);
	return world;
}

/* unchanged since then: nothing is loaded, and the first question after the fence is that for the lease */
static void
test_kept_when_nothing_changed(void **state)
{
	World	   *world = lapsed_world();

	world_run(world, 300000);
	assert_int_equal(world_status(world).fences, 1);
	assert_int_equal(world->sends[REQUEST_SNAPSHOT], 3);
	assert_int_equal(world->sends[REQUEST_CHANGES], 0);
	assert_int_equal(peek(world, 0), AMORO_OK);
	assert_int_equal(peek(world, 2), AMORO_NOT_FOUND);
	world_destroy(world);
}

static bool
kept_and_brought_up_to_date(void)
{
	World	   *world = lapsed_world();
	Reader		reader;
	bool		holds;

	server_change(world, 0, OBJECT_ABSENT);
	server_change(world, 2, OBJECT_NORMAL);
	world_run(world, 300000);
	holds = world->sends[REQUEST_SNAPSHOT] == 3 && world->sends[REQUEST_CHANGES] == 1;
	for (int i = 0; i < OBJECT_COUNT; i++)
	{
		holds = reader_peek(world, &reader, i) == (i % 2 == 0 ? AMORO_MISS : AMORO_OK) && holds;
		amoro_entry_release(reader.entry);
	}
	world_destroy(world);
	return holds;
}

/* what was asked for one by one is not kept: only of what was loaded whole is every change known */
static void
test_only_what_was_loaded_is_kept(void **state)
{
	World	   *world = loading_world();
	Reader		reader;

	world->node->reload.wanted = world->node->reload.left = 1U << AMORO_CACHE_DEVICE;
	world->server.refuse_snapshots_with = "22023";
	world_run(world, 300000);
	reader_begin_load(world, &reader, 0);
	reader_read(&reader, &world->server);
	reader_finish_load(world, &reader);
	amoro_entry_release(reader.entry);
	assert_int_equal(peek(world, 0), AMORO_OK);
	world_stop_node(world, 3000000);
	world_run(world, 300000);
	assert_int_equal(peek(world, 0), AMORO_MISS);
	world_destroy(world);
}

/* the log does not reach back to what was kept */
static void
test_pruned_history_loads_anew(void **state)
{
	World	   *world = lapsed_world();

	server_change(world, 0, OBJECT_ABSENT);
	server_change(world, 1, OBJECT_NORMAL);
	world->server.pruned = world->server.version - 1;
	world_run(world, 1000000);
	assert_int_equal(world_status(world).serving, 1);
	assert_int_equal(world->sends[REQUEST_SNAPSHOT], 5);
	assert_int_equal(peek(world, 0), AMORO_NOT_FOUND);
	assert_int_equal(peek(world, 1), AMORO_OK);
	world_destroy(world);
}

/* rule 8: a node that cannot apply changes, but can load, comes back by loading */
static void
test_changes_that_cannot_be_fetched(void **state)
{
	World	   *world = lapsed_world();

	server_change(world, 0, OBJECT_ABSENT);
	world->server.refuse_changes_with = "XX000";
	world_run(world, 3000000);
	assert_int_equal(world_status(world).serving, 1);
	assert_int_equal(world->sends[REQUEST_CHANGES], 2);
	assert_int_equal(peek(world, 0), AMORO_NOT_FOUND);
	world_destroy(world);
}

/* a server that has lost what was loaded from it */
static void
test_kept_by_a_server_that_went_back(void **state)
{
	World	   *world = loading_world();

	server_change(world, 0, OBJECT_NORMAL);
	server_change(world, 0, OBJECT_NORMAL);
	world_run(world, 300000);
	server_crash(world);
	world_run(world, 3000000);
	server_restart(world, true, 2);
	world_run(world, 3000000);
	assert_int_equal(world_status(world).serving, 1);
	assert_int_equal(world->sends[REQUEST_SNAPSHOT], 6);
	world_destroy(world);
}

/* nodes that were fenced together do not load together: a pause of up to four times what it took last time */
static void
test_pauses_are_drawn(void **state)
{
	NodeTime	least = NODE_TIME_NEVER;
	NodeTime	most = 0;

	for (uint64_t seed = 1; seed <= 40; seed++)
	{
		World	   *world = world_create(seed);
		NodeTime	began;

		world->preload = TABLES;
		world_add_node(world);
		world_run(world, 300000);
		assert_int_equal(world_status(world).serving, 1);
		assert_true(world->node->reload.last_duration > 0);
		world->node->reload.last_duration = 100000;
		/* a fence that keeps nothing */
		world->server.slot.state = SLOT_UNKNOWN;
		began = world->now;
		while (world->sends[REQUEST_SNAPSHOT] < 4 && world->now < began + 3000000)
			world_run(world, 1000);
		assert_int_equal(world->sends[REQUEST_SNAPSHOT], 4);
		if (world->now - began < least)
			least = world->now - began;
		if (world->now - began > most)
			most = world->now - began;
		world_destroy(world);
	}
	assert_true(most - least > 200000);
	assert_true(most - least < 900000);
}

/* memory that is too small for all of it: what is evicted is asked for */
static void
test_eviction_ends_wholeness(void **state)
{
	Cache		cache;
	Lease		lease;
	AmoroNodeStatus status = {0};
	char		document[1000];
	bool		absent;

	memset(document, 'd', sizeof(document));
	lease_init(&lease, &clock_boottime, NULL, NULL);
	assert_true(cache_init(&cache, 1 << 20, 42));
	cache_begin_whole(&cache, AMORO_CACHE_TABLE);
	cache_begin_whole(&cache, AMORO_CACHE_DEVICE);
	for (int i = 0; i < 2000; i++)
	{
		char		name[20];
		KeyParts	parts;
		AmoroEntry *entry;

		snprintf(name, sizeof(name), "table_%d", i);
		key_parts(&parts, AMORO_CACHE_TABLE, &(AmoroKey) {"lake", "sales", name}, cache.seed);
		entry = entry_create(AMORO_CACHE_TABLE, &parts, document, sizeof(document), i);
		assert_true(cache_store(&cache, &lease, &parts, entry, 0, 0));
		amoro_entry_release(entry);
		cache_count(&cache, &status);
		assert_int_equal(cache_is_whole(&cache, AMORO_CACHE_TABLE), status.caches[AMORO_CACHE_TABLE].evictions == 0);
		assert_null(cache_find(&cache, AMORO_CACHE_TABLE, &(KeyParts) {{"a", "b", "c"}, {1, 1, 1}, 5, 5}, &absent));
		assert_int_equal(absent, cache_is_whole(&cache, AMORO_CACHE_TABLE));
		memset(&status, 0, sizeof(status));
	}
	assert_false(cache_is_whole(&cache, AMORO_CACHE_TABLE));
	assert_true(cache_is_whole(&cache, AMORO_CACHE_DEVICE));
	cache_destroy(&cache);
}

/* marks do not grow without bound */
static void
test_too_many_marks(void **state)
{
	Cache		cache;
	AmoroNodeStatus status = {0};
	int			marks = 0;

	assert_true(cache_init(&cache, 0, 42));
	cache_begin_whole(&cache, AMORO_CACHE_TABLE);
	while (cache_is_whole(&cache, AMORO_CACHE_TABLE) && marks < 1000000)
	{
		char		name[20];
		KeyParts	parts;

		snprintf(name, sizeof(name), "table_%d", marks++);
		key_parts(&parts, AMORO_CACHE_TABLE, &(AmoroKey) {"lake", "sales", name}, cache.seed);
		cache_forget(&cache, AMORO_CACHE_TABLE, &parts);
		/* the same again takes no more room */
		cache_forget(&cache, AMORO_CACHE_TABLE, &parts);
	}
	assert_in_range(marks, CACHE_MAX_UNKNOWN, CACHE_MAX_UNKNOWN * CACHE_MAX_SHARDS);
	cache_count(&cache, &status);
	assert_int_equal(status.caches[AMORO_CACHE_TABLE].entries, 0);
	assert_int_equal(cache_entry_count(&cache), 0);
	cache_clear(&cache, CACHE_ALL_KINDS);
	memset(&status, 0, sizeof(status));
	cache_count(&cache, &status);
	assert_int_equal(status.caches[AMORO_CACHE_TABLE].bytes, 0);
	cache_destroy(&cache);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_loads_everything_first),
		cmocka_unit_test(test_marked_objects_are_asked),
		cmocka_unit_test(test_changes_leave_marks),
		cmocka_unit_test(test_overtaken_absence),
		cmocka_unit_test(test_changes_while_loading),
		cmocka_unit_test(test_resumes_after_a_lost_connection),
		SCENARIO("another timeline begins anew", begins_anew_on_another_timeline, RULE_ONE_HISTORY),
		cmocka_unit_test(test_failure_keeps_it_fenced),
		cmocka_unit_test(test_kind_that_the_server_does_not_know),
		cmocka_unit_test(test_reload_longer_than_the_lease),
		cmocka_unit_test(test_kept_when_nothing_changed),
		SCENARIO("what is kept is brought up to date", kept_and_brought_up_to_date, RULE_CATCH_UP),
		cmocka_unit_test(test_only_what_was_loaded_is_kept),
		cmocka_unit_test(test_pruned_history_loads_anew),
		cmocka_unit_test(test_changes_that_cannot_be_fetched),
		cmocka_unit_test(test_kept_by_a_server_that_went_back),
		cmocka_unit_test(test_pauses_are_drawn),
		cmocka_unit_test(test_eviction_ends_wholeness),
		cmocka_unit_test(test_too_many_marks),
	};

	return cmocka_run_group_tests_name("reload", tests, NULL, NULL);
}
