/*
 * listing_test.c
 *		Listings of a database: read each time, never kept, and overtaken by every change in it.
 */
#include "scenario.h"

#include <unistd.h>

#include "change_feed.h"
#include "scripted_database.h"

static int
begin(void **state)
{
	database_begin(0);
	return 0;
}

static int
end(void **state)
{
	database_end();
	return 0;
}

static void
change_t5(void)
{
	change_device("sales", "t5");
}

static void
change_elsewhere(void)
{
	change_device("stock", "t5");
}

static AmoroResult
list(const char *after, int max_rows, AmoroTicket *ticket)
{
	AmoroKey	key = {"lake", "sales", after};
	AmoroEntry *entry;
	AmoroResult result = amoro_listing_get(node, AMORO_CACHE_DEVICE, &key, max_rows, &entry, ticket);

	assert_true((result == AMORO_OK) == (entry != NULL));
	amoro_entry_release(entry);
	return result;
}

static void
test_listing(void **state)
{
	const AmoroKey unrepresentable = {"lake", "x", NULL};
	AmoroEntry *entry;
	AmoroTicket ticket;

	for (int turn = 1; turn <= 2; turn++)	/* read each time, and never kept */
	{
		assert_int_equal(list(NULL, 100, &ticket), AMORO_OK);
		assert_int_equal(ticket.metadata_version, 10);
		assert_int_equal(database.request_count, turn);
		assert_int_equal(database.requests[turn - 1].kind, REQUEST_LISTING);
	}
	assert_int_equal(list("t7", 10000, &ticket), AMORO_OK);
	assert_string_equal(database.requests[2].first, "t7");
	assert_int_equal(cache_entry_count(&node->cache), 0);
	/* the letters are those of the database here */
	assert_int_equal(list("absent", 1, &ticket), AMORO_NOT_FOUND);
	assert_int_equal(list("dropped", 1, &ticket), AMORO_IN_TRANSITION);
	assert_int_equal(list("marked", 1, &ticket), AMORO_OK);
	assert_int_equal(database.request_count, 6);
	assert_int_equal(list(NULL, 0, &ticket), AMORO_INVALID_ARGUMENT);
	assert_int_equal(list(NULL, 10001, &ticket), AMORO_INVALID_ARGUMENT);
	database.sqlstate = "22P05";
	assert_int_equal(amoro_listing_get(node, AMORO_CACHE_DEVICE, &unrepresentable, 100, &entry, &ticket), AMORO_NOT_FOUND);
	assert_int_equal(amoro_ticket_check(node, &ticket), AMORO_OK);
	/* nothing comes after a name that is none */
	assert_int_equal(list("x", 100, &ticket), AMORO_INVALID_ARGUMENT);
	database.request_count = 6;
	fence();
	assert_int_equal(list(NULL, 100, &ticket), AMORO_FENCED);
	assert_int_equal(database.request_count, 6);
}

/* any change in the database overtakes a listing of it, before it is read and after; one elsewhere does not */
static bool
changes_overtake_listings(void)
{
	static const struct
	{
		const char *kind;
		const char *database_name;
		const char *name;
		bool		touches;
	}			changes[] = {
		{"device", "sales", "new", true},
		{"device", "sales", NULL, true},
		{"template", "sales", NULL, true},
		{"database", "sales", NULL, true},
		{"catalog", NULL, NULL, true},
		{"something new", "sales", "t", true},
		{"device", "stock", "new", false},
		{"database", "stock", NULL, false},
	};
	AmoroTicket ticket;
	bool		holds;

	begin(NULL);
	database.meanwhile = change_elsewhere;
	holds = list(NULL, 100, &ticket) == AMORO_OK && database.request_count == 1 && amoro_ticket_check(node, &ticket) == AMORO_OK &&
		ticket.metadata_version == 11;
	database.meanwhile = change_t5;
	holds = holds && list(NULL, 100, &ticket) == AMORO_OK && database.request_count == 3 && ticket.metadata_version == 12;
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
	{
		MetadataChange change = {database.version + 1, changes[i].kind, "alter", "lake", changes[i].database_name, changes[i].name};

		holds = holds && list(NULL, 100, &ticket) == AMORO_OK;
		database.version = change_feed_apply(node, &change, 1, database.version, database.version + 1);
		holds = holds && amoro_ticket_check(node, &ticket) == (changes[i].touches ? AMORO_STALE : AMORO_OK);
	}
	end(NULL);
	return holds;
}

/* a listing that was read at an older version than the node has applied is not taken */
static bool
old_listing_is_not_taken(void)
{
	AmoroTicket ticket;
	bool		holds;

	begin(NULL);
	node->loader.timeout = 100000;
	database.version = 9;
	holds = list(NULL, 100, &ticket) == AMORO_UNAVAILABLE && database.request_count > 1;
	end(NULL);
	return holds;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_listing, begin, end),
		SCENARIO("changes overtake listings", changes_overtake_listings, RULE_LISTING),
		SCENARIO("an old listing is not taken", old_listing_is_not_taken, RULE_LOAD_VERSION),
	};

	alarm(120);
	return cmocka_run_group_tests_name("listing", tests, NULL, NULL);
}
