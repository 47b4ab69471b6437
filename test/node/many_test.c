/*
 * many_test.c
 *		Many lookups at once: real threads over a database in the test, which may do something while it is asked.
 */
#include "scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "change_feed.h"
#include "name_array.h"
#include "scripted_database.h"

static AmoroLookup lookups[3 * MANY];
static char names[3 * MANY][32];

static int
begin_with(size_t cache_bytes)
{
	memset(lookups, 0, sizeof(lookups));
	database_begin(cache_bytes);
	return 0;
}

static int
begin(void **state)
{
	return begin_with(0);
}

static void
release_all(void)
{
	for (int i = 0; i < 3 * MANY; i++)
	{
		amoro_entry_release(lookups[i].entry);
		lookups[i].entry = NULL;
	}
}

static int
end(void **state)
{
	release_all();
	database_end();
	return 0;
}

/* Looks up count names, made of a letter and a number from first on. */
static void
get_many(const char *letter, int first, int count)
{
	release_all();
	for (int i = 0; i < count; i++)
	{
		snprintf(names[i], sizeof(names[i]), "%s%d", letter, first + i);
		lookups[i].key = (AmoroKey) {"lake", "sales", names[i]};
	}
	amoro_cache_get_many(node, AMORO_CACHE_DEVICE, lookups, (size_t) count);
}

static int
count_of(int count, AmoroResult result)
{
	int			found = 0;

	for (int i = 0; i < count; i++)
	{
		found += lookups[i].result == result;
		assert_true((lookups[i].result == AMORO_OK) == (lookups[i].entry != NULL));
	}
	return found;
}

static void
change_t5(void)
{
	change_device("sales", "t5");
}

static void
test_misses_are_one_request(void **state)
{
	get_many("t", 0, MANY);
	assert_int_equal(count_of(MANY, AMORO_OK), MANY);
	assert_int_equal(database.request_count, 1);
	assert_int_equal(database.requests[0].kind, REQUEST_LOOKUP_MANY);
	assert_int_equal(database.requests[0].keys, MANY);

	/* now from memory; beside them some that are not there */
	get_many("t", MANY - 10, 20);
	assert_int_equal(count_of(20, AMORO_OK), 20);
	assert_int_equal(database.request_count, 2);
	assert_int_equal(database.requests[1].keys, 10);
	assert_string_equal(database.requests[1].first, "t1000");
	get_many("t", 0, MANY);
	assert_int_equal(database.request_count, 2);
}

static void
test_each_has_its_answer(void **state)
{
	static const char *const kinds[] = {"t1", "absent", "dropped", "marked", "t2", "", "t1"};
	static const AmoroResult results[] = {
		AMORO_OK, AMORO_NOT_FOUND, AMORO_IN_TRANSITION, AMORO_OK, AMORO_OK, AMORO_INVALID_ARGUMENT, AMORO_OK
	};

	for (int turn = 1; turn <= 2; turn++)
	{
		for (int i = 0; i < 7; i++)
			lookups[i].key = (AmoroKey) {"lake", "sales", kinds[i]};
		amoro_cache_get_many(node, AMORO_CACHE_DEVICE, lookups, 7);
		for (int i = 0; i < 7; i++)
		{
			assert_int_equal(lookups[i].result, results[i]);
			if (results[i] != AMORO_INVALID_ARGUMENT)
				assert_int_equal(amoro_ticket_check(node, &lookups[i].ticket), AMORO_OK);
		}
		assert_ptr_equal(lookups[0].entry, lookups[6].entry);
		/* what is not there, or carries a marker, is asked for again; the same name but once */
		assert_int_equal(database.request_count, turn);
		assert_int_equal(database.requests[turn - 1].keys, turn == 1 ? 5 : 3);
		release_all();
	}
	amoro_cache_get_many(node, AMORO_CACHE_DEVICE, lookups, 0);
	amoro_cache_get_many(node, AMORO_CACHE_KIND_COUNT, lookups, 2);
	assert_int_equal(lookups[0].result, AMORO_INVALID_ARGUMENT);
	assert_int_equal(lookups[1].result, AMORO_INVALID_ARGUMENT);
	assert_int_equal(database.request_count, 2);
}

static void
test_more_than_one_request_holds(void **state)
{
	get_many("t", 0, 2 * MANY + 1);
	assert_int_equal(count_of(2 * MANY + 1, AMORO_OK), 2 * MANY + 1);
	assert_int_equal(database.request_count, 3);
	assert_int_equal(database.requests[2].keys, 1);
	assert_int_equal(database.requests[2].kind, REQUEST_LOOKUP);
}

/* a change that overtakes one of many makes that one be read again, and no other */
static bool
overtaken_one_is_read_again(void)
{
	bool		holds;

	begin(NULL);
	database.meanwhile = change_t5;
	get_many("t", 0, MANY);
	holds = count_of(MANY, AMORO_OK) == MANY && database.request_count == 2 && database.requests[1].keys == 1 &&
		strcmp(database.requests[1].first, "t5") == 0 && amoro_entry_version(lookups[5].entry) == 11;
	for (int i = 0; i < MANY; i++)
		holds = holds && amoro_ticket_check(node, &lookups[i].ticket) == AMORO_OK;
	end(NULL);
	return holds;
}

/* each ticket is of its own key */
static bool
later_change_makes_one_stale(void)
{
	int			stale = 0;
	bool		holds;

	begin(NULL);
	get_many("t", 0, 10);
	change_t5();
	holds = amoro_ticket_check(node, &lookups[5].ticket) == AMORO_STALE;
	for (int i = 0; i < 10; i++)
		stale += amoro_ticket_check(node, &lookups[i].ticket) == AMORO_STALE;
	holds = holds && stale == 1;
	fence();
	for (int i = 0; i < 10; i++)
		holds = holds && amoro_ticket_check(node, &lookups[i].ticket) == AMORO_FENCED;
	end(NULL);
	return holds;
}

static bool
fence_meanwhile_keeps_nothing(void)
{
	bool		holds;

	begin(NULL);
	database.meanwhile = fence;
	get_many("t", 0, MANY);
	holds = count_of(MANY, AMORO_FENCED) == MANY && cache_entry_count(&node->cache) == 0;
	get_many("t", 0, MANY);
	holds = holds && count_of(MANY, AMORO_FENCED) == MANY && database.request_count == 1;
	end(NULL);
	return holds;
}

/* an entry that was evicted is refilled under the same rule: what a change has overtaken is not kept */
static bool
evicted_and_refilled(void)
{
	AmoroTicket before;
	AmoroEntry *entry;
	AmoroTicket ticket;
	AmoroNodeStatus status;
	bool		holds;

	begin_with(1 << 20);
	database.document_size = LARGEST_DOCUMENT;
	get_many("t", 5, 1);
	before = lookups[0].ticket;
	get_many("t", 1000, MANY);
	amoro_node_status(node, &status);
	holds = status.caches[AMORO_CACHE_DEVICE].evictions > 0 &&
		amoro_cache_peek(node, AMORO_CACHE_DEVICE, &(AmoroKey) {"lake", "sales", "t5"}, &entry, &ticket) == AMORO_MISS &&
		amoro_ticket_check(node, &before) == AMORO_OK;
	database.meanwhile = change_t5;
	get_many("t", 4, 3);
	holds = holds && count_of(3, AMORO_OK) == 3 && amoro_entry_version(lookups[1].entry) == 11 &&
		amoro_ticket_check(node, &before) == AMORO_STALE;
	get_many("t", 5, 1);
	holds = holds && lookups[0].result == AMORO_OK && amoro_entry_version(lookups[0].entry) == 11;
	end(NULL);
	return holds;
}

/* one name that the server cannot have costs the others a few requests, not their answers */
static void
test_refused_name_is_found(void **state)
{
	database.sqlstate = "22021";
	get_many("t", 0, MANY);
	release_all();
	cache_clear(&node->cache, CACHE_ALL_KINDS);
	database.request_count = 0;
	for (int i = 0; i < MANY; i++)
		lookups[i].key = (AmoroKey) {"lake", "sales", i == 700 ? "x" : names[i]};
	amoro_cache_get_many(node, AMORO_CACHE_DEVICE, lookups, MANY);
	assert_int_equal(lookups[700].result, AMORO_INVALID_ARGUMENT);
	assert_int_equal(count_of(MANY, AMORO_OK), MANY - 1);
	assert_in_range(database.request_count, 2, 40);
}

/* one that the encoding of the database cannot represent is not there, nor is anything in a database of that name */
static void
test_unrepresentable_name_is_absent(void **state)
{
	database.sqlstate = "22P05";
	get_many("t", 0, MANY);
	release_all();
	cache_clear(&node->cache, CACHE_ALL_KINDS);
	database.request_count = 0;
	for (int i = 0; i < MANY; i++)
		lookups[i].key = (AmoroKey) {"lake", "sales", i == 200 ? "x1" : i == 700 ? "x2" : names[i]};
	amoro_cache_get_many(node, AMORO_CACHE_DEVICE, lookups, MANY);
	for (int i = 200; i < MANY; i += 500)
	{
		assert_int_equal(lookups[i].result, AMORO_NOT_FOUND);
		assert_int_equal(lookups[i].ticket.metadata_version, 10);
		assert_int_equal(amoro_ticket_check(node, &lookups[i].ticket), AMORO_OK);
	}
	assert_int_equal(count_of(MANY, AMORO_OK), MANY - 2);
	assert_in_range(database.request_count, 2, 80);
	release_all();

	/* a fence counts here, too */
	cache_clear(&node->cache, CACHE_ALL_KINDS);
	database.meanwhile = fence;
	get_many("x", 0, 1);
	assert_int_equal(lookups[0].result, AMORO_FENCED);
}

static void
test_failures(void **state)
{
	AmoroNodeStatus status;

	database.sqlstate = "42501";
	get_many("x", 0, 10);
	assert_int_equal(count_of(10, AMORO_UNAVAILABLE), 10);
	assert_int_equal(database.request_count, 1);
	amoro_node_status(node, &status);
	assert_int_equal(status.caches[AMORO_CACHE_DEVICE].load_failures, 10);
	database.sqlstate = NULL;
	database.loses_rows = true;
	get_many("t", 0, 10);
	assert_int_equal(count_of(10, AMORO_UNAVAILABLE), 10);
	database.loses_rows = false;
	node->loader.timeout = 100000;
	database.silent = true;
	get_many("t", 0, 10);
	assert_int_equal(count_of(10, AMORO_UNAVAILABLE), 10);
	database.silent = false;
	node->loader.timeout = 30000000;
	get_many("t", 0, 10);
	assert_int_equal(count_of(10, AMORO_OK), 10);
	get_many("t", 0, 3 * MANY);
	assert_int_equal(count_of(3 * MANY, AMORO_OK), 3 * MANY);
}

/* closing in the middle answers everybody */
static void
close_node(void)
{
	node_begin_close(node);
}

static void
test_close_meanwhile(void **state)
{
	database.meanwhile = close_node;
	get_many("t", 0, 2 * MANY);
	assert_int_equal(count_of(2 * MANY, AMORO_OK), 0);
	assert_int_equal(count_of(2 * MANY, AMORO_FENCED) + count_of(2 * MANY, AMORO_UNAVAILABLE), 2 * MANY);
}

/* readers of many, of one and of listings, changes and fences at once, for the sanitizers; nothing old passes its ticket */
typedef struct Crowd
{
	_Atomic bool stop;
	_Atomic int64_t needed[64];	/* of each name: nothing older than that may be answered any more; read it before asking */
	_Atomic int	old;
	_Atomic int	answers;
} Crowd;

static void
check_answer(Crowd *crowd, int64_t needed, const AmoroLookup *lookup)
{
	AmoroTicket ticket = lookup->ticket;

	if (lookup->result != AMORO_OK || amoro_ticket_check(node, &ticket) != AMORO_OK)
		return;
	crowd->answers++;
	crowd->old += amoro_entry_version(lookup->entry) < needed;
}

static void *
read_many_all_the_time(void *argument)
{
	Crowd	   *crowd = argument;
	AmoroLookup own[64];
	char		own_names[64][8];

	for (int i = 0; i < 64; i++)
		snprintf(own_names[i], sizeof(own_names[i]), "%c%d", i % 8 == 0 ? 'a' : 't', i);
	while (!crowd->stop)
	{
		int64_t		needed[64];
		AmoroLookup listing = {.result = AMORO_MISS};

		for (int i = 0; i < 64; i++)
		{
			needed[i] = crowd->needed[i];
			own[i].key = (AmoroKey) {"lake", "sales", own_names[i]};
		}
		amoro_cache_get_many(node, AMORO_CACHE_DEVICE, own, 64);
		for (int i = 0; i < 64; i++)
		{
			check_answer(crowd, needed[i], &own[i]);
			amoro_entry_release(own[i].entry);
		}
		/* touched by every change: what any name needed before is what the listing needs */
		needed[0] = 0;
		for (int i = 0; i < 64; i++)
			needed[0] = needed[0] > crowd->needed[i] ? needed[0] : crowd->needed[i];
		listing.result = amoro_listing_get(node, AMORO_CACHE_DEVICE, &(AmoroKey) {"lake", "sales", NULL}, 10, &listing.entry, &listing.ticket);
		check_answer(crowd, needed[0], &listing);
		amoro_entry_release(listing.entry);
	}
	return NULL;
}

static void
test_everything_at_once(void **state)
{
	pthread_t	threads[3];
	Crowd		crowd = {0};

	database_add_loader();
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, read_many_all_the_time, &crowd);
	for (int i = 1; i < 400 || crowd.answers < 1000; i++)
	{
		char		name[8];

		snprintf(name, sizeof(name), "t%d", i % 64);
		change_device("sales", i % 5 == 0 ? NULL : name);
		for (int j = 0; j < 64; j++)
		{
			if (i % 5 == 0 || j == i % 64)
				crowd.needed[j] = database.version;
		}
		if (i % 50 == 0)
		{
			fence();
			loader_fence(node);
			pthread_mutex_lock(&node->lease_lock);
			node->lease.state = AMORO_NODE_ACTIVE;
			node->lease.end = clock_now(&clock_boottime) + 3600000000;
			pthread_mutex_unlock(&node->lease_lock);
		}
		usleep(200);
	}
	crowd.stop = true;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(crowd.old, 0);
}

static void
test_array_of_names(void **state)
{
	AmoroKey	keys[] = {{"a", "b", "plain"}, {"a", "b", "with \"quotes\", \\ and {braces}"}, {"a", "b", "null"}};
	char	   *array = name_array(keys, 3, 2);

	assert_string_equal(array, "{\"plain\",\"with \\\"quotes\\\", \\\\ and {braces}\",\"null\"}");
	free(array);
	assert_null(name_of_key(&(AmoroKey) {"a", NULL, NULL}, 1));
}

int
main(void)
{
#define MANY_TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)
	const struct CMUnitTest tests[] = {
		MANY_TEST(test_misses_are_one_request),
		MANY_TEST(test_each_has_its_answer),
		MANY_TEST(test_more_than_one_request_holds),
		SCENARIO("an overtaken one of many is read again", overtaken_one_is_read_again, RULE_LOAD_GENERATION),
		SCENARIO("a change makes one of many stale", later_change_makes_one_stale, RULE_TICKET),
		SCENARIO("a fence meanwhile keeps nothing", fence_meanwhile_keeps_nothing, RULE_LOAD_GENERATION),
		SCENARIO("evicted and refilled", evicted_and_refilled, RULE_LOAD_GENERATION),
		MANY_TEST(test_refused_name_is_found),
		MANY_TEST(test_unrepresentable_name_is_absent),
		MANY_TEST(test_failures),
		MANY_TEST(test_close_meanwhile),
		MANY_TEST(test_everything_at_once),
		cmocka_unit_test(test_array_of_names),
	};

	alarm(120);
	return cmocka_run_group_tests_name("many", tests, NULL, NULL);
}
