/*
 * many_test.c
 *		Many lookups at once, and listings: real threads over a database in the test, which may do something while it is
 *		asked.
 */
#include "scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "change_feed.h"
#include "name_array.h"
#include "node.h"

#define MANY 1000
#define MOST_REQUESTS 4000

/* What was asked, in order, and what the database does. */
static struct
{
	pthread_mutex_t lock;		/* of requests: what else is here changes while nobody asks */
	struct
	{
		RequestKind kind;
		int			keys;
		char		first[32];	/* last name of the first key */
	}			requests[MOST_REQUESTS];
	int			request_count;
	void		(*meanwhile) (void);	/* called once, while a request is answered */
	const char *sqlstate;
	bool		loses_rows;
	bool		silent;			/* until the deadline */
	_Atomic int64_t version;
	size_t		document_size;
} database;

static AmoroNode *node;
static AmoroLookup lookups[3 * MANY];
static char names[3 * MANY][32];
static char document[8192];

static TransportStatus
test_open(Transport *transport, NodeTime wait_until, NodeTime deadline, TransportFailure *failure)
{
	return TRANSPORT_DONE;
}

static bool
test_is_open(const Transport *transport)
{
	return true;
}

static void
test_nothing(Transport *transport)
{
}

typedef struct TestTransport
{
	Transport	methods;
	char		asked[MANY][32];
	int			asked_count;
} TestTransport;

static TransportStatus
test_send(Transport *self, const NodeRequest *request, const char *detail, const LookupQuestion *question, NodeTime deadline,
		  TransportFailure *failure)
{
	TestTransport *transport = (TestTransport *) self;
	int			count = request->kind == REQUEST_LOOKUP_MANY ? question->key_count : 1;

	assert_in_range(count, 1, MANY);
	transport->asked_count = count;
	for (int i = 0; i < count; i++)
		snprintf(transport->asked[i], sizeof(transport->asked[i]), "%s", question->key[i].object_name ? question->key[i].object_name : "");
	pthread_mutex_lock(&database.lock);
	if (database.request_count < MOST_REQUESTS)
	{
		database.requests[database.request_count].kind = request->kind;
		database.requests[database.request_count].keys = count;
		memcpy(database.requests[database.request_count].first, transport->asked[0], sizeof(transport->asked[0]));
	}
	database.request_count++;
	pthread_mutex_unlock(&database.lock);
	return TRANSPORT_DONE;
}

/* By their first letter: absent, dropped (in transition), marked; every other name is there. */
static LookupAnswer
answer_for(const char *name)
{
	const char *state = name[0] == 'a' ? NULL : name[0] == 'd' ? "pre_drop" : name[0] == 'm' ? "pre_alter" : "normal";

	return (LookupAnswer) {
		.metadata_version = database.version, .term = 5, .found = state != NULL, .state = state,
		.object_version = database.version, .document = document, .document_size = database.document_size
	};
}

static TransportStatus
test_receive(Transport *self, const NodeRequest *request, NodeTime deadline, NodeAnswer *answer, TransportFailure *failure)
{
	TestTransport *transport = (TestTransport *) self;
	void		(*meanwhile) (void);

	pthread_mutex_lock(&database.lock);
	meanwhile = database.meanwhile;
	database.meanwhile = NULL;
	pthread_mutex_unlock(&database.lock);
	if (database.silent)
	{
		while (clock_now(&clock_boottime) < deadline)
			usleep(1000);
		return TRANSPORT_TIMED_OUT;
	}
	for (int i = 0; i < transport->asked_count; i++)
	{
		if (database.sqlstate != NULL && transport->asked[i][0] == 'x')
		{
			snprintf(failure->sqlstate, sizeof(failure->sqlstate), "%s", database.sqlstate);
			return TRANSPORT_REFUSED;
		}
	}
	answer->lookup = answer_for(transport->asked[0]);
	answer->rows = calloc((size_t) transport->asked_count, sizeof(ObjectRow));
	answer->row_count = transport->asked_count - database.loses_rows;
	for (int i = 0; i < transport->asked_count; i++)
		answer->rows[i].answer = answer_for(transport->asked[i]);
	if (meanwhile != NULL)
		meanwhile();
	return TRANSPORT_DONE;
}

static void
test_answer_release(Transport *transport, NodeAnswer *answer)
{
	free(answer->rows);
	answer->rows = NULL;
}

static TransportStatus
test_sleep(Transport *transport, NodeTime until)
{
	usleep(1000);
	return TRANSPORT_TIMED_OUT;
}

static void
test_destroy(Transport *transport)
{
	free(transport);
}

static Transport *
make_transport(void)
{
	TestTransport *transport = calloc(1, sizeof(TestTransport));

	transport->methods = (Transport) {
		.open = test_open, .is_open = test_is_open, .close = test_nothing, .send = test_send, .receive = test_receive,
		.answer_release = test_answer_release, .sleep = test_sleep, .wake = test_nothing, .destroy = test_destroy
	};
	return &transport->methods;
}

/* A node that holds a long lease, with one loader, so that requests have an order. */
static int
begin_with(size_t cache_bytes)
{
	memset(&database, 0, sizeof(database));
	pthread_mutex_init(&database.lock, NULL);
	memset(lookups, 0, sizeof(lookups));
	database.version = 10;
	database.document_size = 2;
	memset(document, ' ', sizeof(document));
	memcpy(document, "{}", 2);
	node = node_create(&clock_boottime, make_transport(), cache_bytes, 30000000, 0);
	node->cache.seed = 42;		/* names that share a generation would be stale together: the same ones, or none, each time */
	node->lease.state = AMORO_NODE_ACTIVE;
	node->lease.term = 5;
	node->lease.applied_version = 10;
	node->lease.end = clock_now(&clock_boottime) + 3600000000;
	loader_add_worker(&node->loader, node, make_transport());
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
	if (node != NULL)
		amoro_node_close(node);
	node = NULL;
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
change_device(const char *database_name, const char *name)
{
	MetadataChange change = {++database.version, "device", "alter", "lake", database_name, name};
	int64_t		applied = change_feed_apply(node, &change, 1, database.version - 1, database.version);

	atomic_store(&node->lease.applied_version, applied);
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

static void
fence(void)
{
	pthread_mutex_lock(&node->lease_lock);
	lease_fence(&node->lease, AMORO_NODE_FENCED, "by the test");
	pthread_mutex_unlock(&node->lease_lock);
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
	database.document_size = sizeof(document);
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

	loader_add_worker(&node->loader, node, make_transport());
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
		MANY_TEST(test_failures),
		MANY_TEST(test_close_meanwhile),
		MANY_TEST(test_everything_at_once),
		cmocka_unit_test(test_array_of_names),
		MANY_TEST(test_listing),
		SCENARIO("changes overtake listings", changes_overtake_listings, RULE_LISTING),
		SCENARIO("an old listing is not taken", old_listing_is_not_taken, RULE_LOAD_VERSION),
	};

	alarm(120);
	return cmocka_run_group_tests_name("many", tests, NULL, NULL);
}
