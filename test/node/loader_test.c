/*
 * loader_test.c
 *		The pool of loaders: real threads and a real clock, over a database that the test makes slow, mute or wrong.
 */
#include "scenario.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "change_feed.h"
#include "node.h"

#define TIMEOUT_US 300000		/* where a timeout is what the test is about */
#define LONG_TIMEOUT_US 30000000

/* What the database does, and what it saw. */
static struct
{
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int			lookups;		/* begun */
	int			running;
	int			most_running;
	bool		mute;			/* no answer until this is lifted */
	bool		deaf;			/* to deadlines: as a resolver of host names that hangs */
	bool		unreachable;
	const char *sqlstate;		/* of an error; NULL: none */
	int			breaks;			/* so many of the next lookups lose their connection */
	int64_t		term;
	int64_t		version;
	const char *state;
} database;

typedef struct TestTransport
{
	Transport	methods;
	bool		open;
	bool		woken;
} TestTransport;

static AmoroNode *node;
static int	callbacks;
static AmoroResult first_result;
static AmoroResult last_result;
static pthread_t callback_thread;

static TransportStatus
test_open(Transport *transport, NodeTime wait_until, NodeTime deadline, TransportFailure *failure)
{
	snprintf(failure->message, sizeof(failure->message), "nobody there");
	if (database.unreachable)
		return TRANSPORT_BROKEN;
	((TestTransport *) transport)->open = true;
	return TRANSPORT_DONE;
}

static bool
test_is_open(const Transport *transport)
{
	return ((const TestTransport *) transport)->open;
}

static void
test_close(Transport *transport)
{
	((TestTransport *) transport)->open = false;
}

static TransportStatus
test_send(Transport *transport, const NodeRequest *request, const char *detail,
		  const LookupQuestion *question, NodeTime deadline, TransportFailure *failure)
{
	assert_int_equal(request->kind, REQUEST_LOOKUP);
	assert_string_equal(question->kind_name, "table");
	return TRANSPORT_DONE;
}

/* Under the lock: waits while the database is mute. */
static TransportStatus
wait_while_mute(TestTransport *transport, NodeTime deadline)
{
	while (database.mute && !transport->woken)
	{
		NodeTime	left = deadline - clock_now(&clock_boottime);
		struct timespec until;

		if (left <= 0 && !database.deaf)
			return TRANSPORT_TIMED_OUT;
		if (left <= 0)
			left = 10000;
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += (until.tv_nsec + left * 1000) / 1000000000;
		until.tv_nsec = (until.tv_nsec + left * 1000) % 1000000000;
		pthread_cond_timedwait(&database.changed, &database.lock, &until);
	}
	return transport->woken ? TRANSPORT_WOKEN : TRANSPORT_DONE;
}

static TransportStatus
test_receive(Transport *self, const NodeRequest *request, NodeTime deadline,
			 NodeAnswer *answer, TransportFailure *failure)
{
	TransportStatus status;

	pthread_mutex_lock(&database.lock);
	database.lookups++;
	if (++database.running > database.most_running)
		database.most_running = database.running;
	pthread_cond_broadcast(&database.changed);
	answer->lookup = (LookupAnswer) {
		.metadata_version = database.version, .term = database.term, .found = database.state != NULL,
		.state = database.state, .object_version = database.version, .document = "{\"a\":1}", .document_size = 7
	};
	status = wait_while_mute((TestTransport *) self, deadline);
	if (status == TRANSPORT_DONE && database.breaks > 0 && database.breaks--)
	{
		snprintf(failure->message, sizeof(failure->message), "it broke");
		status = TRANSPORT_BROKEN;
	}
	else if (status == TRANSPORT_DONE && database.sqlstate != NULL)
	{
		snprintf(failure->sqlstate, sizeof(failure->sqlstate), "%s", database.sqlstate);
		snprintf(failure->message, sizeof(failure->message), "an error");
		status = TRANSPORT_REFUSED;
	}
	database.running--;
	pthread_mutex_unlock(&database.lock);
	return status;
}

static void
test_answer_release(Transport *transport, NodeAnswer *answer)
{
}

static TransportStatus
test_sleep(Transport *transport, NodeTime until)
{
	usleep(1000);
	return TRANSPORT_TIMED_OUT;
}

static void
test_wake(Transport *transport)
{
	pthread_mutex_lock(&database.lock);
	((TestTransport *) transport)->woken = true;
	pthread_cond_broadcast(&database.changed);
	pthread_mutex_unlock(&database.lock);
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
		.open = test_open, .is_open = test_is_open, .close = test_close, .send = test_send, .receive = test_receive,
		.answer_release = test_answer_release, .sleep = test_sleep, .wake = test_wake, .destroy = test_destroy
	};
	return &transport->methods;
}

/* A node that holds a long lease, over so many loaders. */
static int
begin(void **state)
{
	int			connections = 2;

	memset(&database, 0, sizeof(database));
	pthread_mutex_init(&database.lock, NULL);
	pthread_cond_init(&database.changed, NULL);
	database.term = 5;
	database.version = 10;
	database.state = "normal";
	callbacks = 0;
	node = node_create(&clock_boottime, make_transport(), 0, LONG_TIMEOUT_US, 0);
	node->lease.state = AMORO_NODE_ACTIVE;
	node->lease.term = 5;
	node->lease.applied_version = 10;
	node->lease.end = clock_now(&clock_boottime) + 3600000000;
	for (int i = 0; i < connections; i++)
		loader_add_worker(&node->loader, node, make_transport());
	return 0;
}

static void
set_mute(bool mute)
{
	pthread_mutex_lock(&database.lock);
	database.mute = mute;
	pthread_cond_broadcast(&database.changed);
	pthread_mutex_unlock(&database.lock);
}

static int
end(void **state)
{
	if (node != NULL)
		amoro_node_close(node);
	node = NULL;
	return 0;
}

static AmoroResult
get(const char *table)
{
	AmoroKey	key = {"lake", "sales", table};
	AmoroEntry *entry;
	AmoroTicket ticket;
	AmoroResult result = amoro_cache_get(node, AMORO_CACHE_TABLE, &key, &entry, &ticket);
	size_t		size;

	assert_true((result == AMORO_OK) == (entry != NULL));
	if (entry != NULL)
		assert_memory_equal(amoro_entry_document(entry, &size), "{\"a\":1}", 7);
	amoro_entry_release(entry);
	return result;
}

static void
count_callback(void *argument, AmoroResult result, AmoroEntry *entry, AmoroTicket ticket)
{
	pthread_mutex_lock(&database.lock);
	if (callbacks++ == 0)
		first_result = result;
	last_result = result;
	callback_thread = pthread_self();
	pthread_cond_broadcast(&database.changed);
	pthread_mutex_unlock(&database.lock);
	amoro_entry_release(entry);
}

static void
load(const char *table)
{
	AmoroKey	key = {"lake", "sales", table};

	amoro_cache_load(node, AMORO_CACHE_TABLE, &key, count_callback, NULL);
}

/* Waits until the number is reached; a test that waits in vain hangs, and is ended by its alarm. */
static void
wait_until_at_least(const int *number, int least)
{
	pthread_mutex_lock(&database.lock);
	while (*number < least)
		pthread_cond_wait(&database.changed, &database.lock);
	pthread_mutex_unlock(&database.lock);
}

static void
test_loads_once_then_answers_from_memory(void **state)
{
	assert_int_equal(get("orders"), AMORO_OK);
	assert_int_equal(get("orders"), AMORO_OK);
	assert_int_equal(database.lookups, 1);
	database.state = NULL;
	assert_int_equal(get("nothing"), AMORO_NOT_FOUND);
	assert_int_equal(get("nothing"), AMORO_NOT_FOUND);
	assert_int_equal(database.lookups, 3);	/* what is not there is asked for each time */
}

static void
test_one_load_for_many_callers(void **state)
{
	set_mute(true);
	for (int i = 0; i < 100; i++)
		load("orders");
	wait_until_at_least(&database.lookups, 1);
	set_mute(false);
	wait_until_at_least(&callbacks, 100);
	assert_int_equal(last_result, AMORO_OK);
	assert_int_equal(database.lookups, 1);
}

static void
test_no_more_loads_than_connections(void **state)
{
	char		name[20];

	set_mute(true);
	for (int i = 0; i < 50; i++)
	{
		snprintf(name, sizeof(name), "table_%d", i);
		load(name);
	}
	wait_until_at_least(&database.lookups, 2);
	set_mute(false);
	wait_until_at_least(&callbacks, 50);
	assert_int_equal(database.most_running, 2);
	assert_int_equal(database.lookups, 50);
}

/* L15: a mute server costs each caller its timeout, not more, however many wait */
static void
test_mute_server(void **state)
{
	NodeTime	before = clock_now(&clock_boottime);
	NodeTime	took;
	char		name[20];

	node->loader.timeout = TIMEOUT_US;
	set_mute(true);
	for (int i = 0; i < 50; i++)
	{
		snprintf(name, sizeof(name), "table_%d", i);
		load(name);
	}
	assert_int_equal(get("orders"), AMORO_UNAVAILABLE);
	wait_until_at_least(&callbacks, 50);
	took = clock_now(&clock_boottime) - before;
	assert_int_equal(last_result, AMORO_UNAVAILABLE);
	assert_true(took >= TIMEOUT_US && took < 20 * TIMEOUT_US);
	set_mute(false);
	node->loader.timeout = LONG_TIMEOUT_US;
	assert_int_equal(get("orders"), AMORO_OK);
}

/* a loader that hangs beyond every deadline does not keep its caller, who has gone when it comes back */
static void
test_hanging_loader(void **state)
{
	node->loader.timeout = TIMEOUT_US;
	database.deaf = true;
	set_mute(true);
	assert_int_equal(get("orders"), AMORO_UNAVAILABLE);
	set_mute(false);
	database.deaf = false;
	node->loader.timeout = LONG_TIMEOUT_US;
	assert_int_equal(get("orders"), AMORO_OK);
}

static void
test_bad_key(void **state)
{
	load("");
	assert_int_equal(callbacks, 1);
	assert_int_equal(last_result, AMORO_INVALID_ARGUMENT);
}

/* who joins a load late still gets his own time */
static void
test_late_joiner_has_its_own_time(void **state)
{
	node->loader.timeout = 5 * TIMEOUT_US;
	set_mute(true);
	load("orders");
	usleep(TIMEOUT_US * 3);
	load("orders");
	wait_until_at_least(&callbacks, 1);
	assert_int_equal(last_result, AMORO_UNAVAILABLE);
	set_mute(false);
	wait_until_at_least(&callbacks, 2);
	assert_int_equal(last_result, AMORO_OK);
}

static void
test_queue_is_bounded(void **state)
{
	set_mute(true);
	for (int i = 0; i < LOADER_MAX_WAITERS; i++)
		load("orders");
	assert_int_equal(callbacks, 0);
	load("orders");
	assert_int_equal(callbacks, 1);
	assert_int_equal(last_result, AMORO_UNAVAILABLE);
	assert_true(pthread_equal(callback_thread, pthread_self()));
	set_mute(false);
	wait_until_at_least(&callbacks, LOADER_MAX_WAITERS + 1);
}

/* a change that overtakes a load makes it read again; the caller gets the new */
static void
test_overtaken_load_reads_again(void **state)
{
	MetadataChange change = {11, "table", "alter", "lake", "sales", "orders"};
	AmoroNodeStatus status;

	set_mute(true);
	load("orders");
	wait_until_at_least(&database.lookups, 1);
	change_feed_apply(node, &change, 1, 10, 11);
	set_mute(false);
	wait_until_at_least(&callbacks, 1);
	assert_int_equal(last_result, AMORO_OK);
	assert_int_equal(database.lookups, 2);
	amoro_node_status(node, &status);
	assert_int_equal(status.caches[0].loads_refused, 1);
}

/*
 * An object with a marker is read through the database: whoever asks after a step has committed must not be told what a
 * load that began before it has read. The marker is gone by then; nothing was ever stored.
 */
static bool
late_question_is_read_again(void)
{
	bool		holds;

	begin(NULL);
	database.state = "pre_drop";
	set_mute(true);
	load("orders");
	wait_until_at_least(&database.lookups, 1);
	pthread_mutex_lock(&database.lock);
	database.state = NULL;		/* the drop has committed */
	pthread_mutex_unlock(&database.lock);
	load("orders");
	set_mute(false);
	wait_until_at_least(&callbacks, 2);
	/* another thread may run the second load, and call back first */
	holds = database.lookups == 2 &&
		((first_result == AMORO_IN_TRANSITION && last_result == AMORO_NOT_FOUND) ||
		 (first_result == AMORO_NOT_FOUND && last_result == AMORO_IN_TRANSITION));
	end(NULL);
	return holds;
}

/* those who come late and are many share the next load, or what the one before has stored */
static void
test_late_questions_share(void **state)
{
	database.state = NULL;
	set_mute(true);
	load("orders");
	wait_until_at_least(&database.lookups, 1);
	for (int i = 0; i < 100; i++)
		load("orders");
	set_mute(false);
	wait_until_at_least(&callbacks, 101);
	assert_int_equal(database.lookups, 2);

	database.state = "normal";
	set_mute(true);
	load("orders");
	wait_until_at_least(&database.lookups, 3);
	for (int i = 0; i < 100; i++)
		load("orders");
	set_mute(false);
	wait_until_at_least(&callbacks, 202);
	assert_int_equal(database.lookups, 3);
	assert_int_equal(last_result, AMORO_OK);
}

/* a server in another term, or behind: asked again until the time is over, and nothing is kept */
static void
test_other_server(void **state)
{
	node->loader.timeout = TIMEOUT_US;
	database.term = 4;
	assert_int_equal(get("orders"), AMORO_UNAVAILABLE);
	assert_true(database.lookups > 2);
	database.term = 5;
	database.version = 9;
	assert_int_equal(get("orders"), AMORO_UNAVAILABLE);
	database.version = 10;
	node->loader.timeout = LONG_TIMEOUT_US;
	assert_int_equal(get("orders"), AMORO_OK);
}

/* the lease ends while the load is under way */
static void
test_fenced_meanwhile(void **state)
{
	set_mute(true);
	load("orders");
	wait_until_at_least(&database.lookups, 1);
	pthread_mutex_lock(&node->lease_lock);
	lease_fence(&node->lease, AMORO_NODE_FENCED, "by the test");
	pthread_mutex_unlock(&node->lease_lock);
	set_mute(false);
	wait_until_at_least(&callbacks, 1);
	assert_int_equal(last_result, AMORO_FENCED);
	assert_int_equal(cache_entry_count(&node->cache), 0);
	load("orders");
	assert_int_equal(callbacks, 2);	/* at once, and nobody is asked */
	assert_int_equal(last_result, AMORO_FENCED);
	assert_int_equal(database.lookups, 1);
}

/* a fence does not wait for the database: everybody is told, those of a load under way, those who came later, those in the queue */
static void
test_fence_wakes_waiters(void **state)
{
	set_mute(true);
	load("orders");
	wait_until_at_least(&database.lookups, 1);
	load("orders");
	for (int i = 0; i < 20; i++)
	{
		char		name[16];

		snprintf(name, sizeof(name), "t%d", i);
		load(name);
		load(name);
	}
	wait_until_at_least(&database.lookups, node->loader.worker_count);
	assert_int_equal(callbacks, 0);
	pthread_mutex_lock(&node->lease_lock);
	lease_fence(&node->lease, AMORO_NODE_FENCED, "by the test");
	pthread_mutex_unlock(&node->lease_lock);
	loader_fence(node);
	assert_int_equal(callbacks, 42);
	assert_int_equal(first_result, AMORO_FENCED);
	assert_int_equal(last_result, AMORO_FENCED);
	assert_int_equal(node->loader.waiter_count, 0);

	/* recovered, a question is answered by a read of its own; what nobody waits for is not read any more */
	pthread_mutex_lock(&node->lease_lock);
	node->lease.state = AMORO_NODE_ACTIVE;
	atomic_store(&node->lease.end, NODE_TIME_NEVER);
	pthread_mutex_unlock(&node->lease_lock);
	load("orders");
	set_mute(false);
	wait_until_at_least(&callbacks, 43);
	assert_int_equal(last_result, AMORO_OK);
	assert_int_equal(database.lookups, node->loader.worker_count + 1);
}

static void
test_failures(void **state)
{
	database.breaks = 1;		/* a connection that was dead already: once more over a new one */
	assert_int_equal(get("orders"), AMORO_OK);
	database.breaks = 2;
	assert_int_equal(get("lines"), AMORO_UNAVAILABLE);
	database.sqlstate = "22021";
	assert_int_equal(get("parts"), AMORO_INVALID_ARGUMENT);
	database.sqlstate = "22P05";	/* whatever is asked: it is said once */
	database.lookups = 0;
	assert_int_equal(get("parts"), AMORO_INVALID_ARGUMENT);
	assert_int_equal(database.lookups, 2);
	database.sqlstate = "22023";	/* a server that does not know the kind yet */
	assert_int_equal(get("parts"), AMORO_UNAVAILABLE);
	database.sqlstate = "42501";
	assert_int_equal(get("parts"), AMORO_UNAVAILABLE);
	database.sqlstate = "25006";
	assert_int_equal(get("parts"), AMORO_UNAVAILABLE);
	database.sqlstate = NULL;
	assert_int_equal(get("parts"), AMORO_OK);
}

static void
test_unreachable(void **state)
{
	AmoroNodeStatus status;

	database.unreachable = true;
	assert_int_equal(get("orders"), AMORO_UNAVAILABLE);
	amoro_node_status(node, &status);
	assert_int_equal(status.caches[0].load_failures, 1);
}

/* item 37, in our shape: closing in the middle answers everybody and leaks nothing */
static void
test_close_answers_everybody(void **state)
{
	char		name[20];

	set_mute(true);
	for (int i = 0; i < 50; i++)
	{
		snprintf(name, sizeof(name), "table_%d", i);
		load(name);
	}
	wait_until_at_least(&database.lookups, 2);
	amoro_node_close(node);
	node = NULL;
	assert_int_equal(callbacks, 50);
	assert_int_equal(last_result, AMORO_UNAVAILABLE);
}

/* readers, loaders, changes and fences at once, for the sanitizers */
static void *
read_all_the_time(void *argument)
{
	_Atomic bool *stop = argument;

	while (!*stop)
	{
		static const char *const names[] = {"a", "b", "c", "d"};

		for (int i = 0; i < 4; i++)
			get(names[i]);
	}
	return NULL;
}

static void
test_everything_at_once(void **state)
{
	pthread_t	threads[3];
	_Atomic bool stop = false;
	int			lookups = 0;
	int64_t		version = 10;

	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, read_all_the_time, &stop);
	while (version < 1000 || lookups < 500)
	{
		MetadataChange change = {version + 1, "table", "alter", "lake", version % 3 ? "sales" : NULL, version % 7 ? "a" : NULL};
		AmoroNodeStatus status;

		version = change_feed_apply(node, &change, 1, version, version + 1);
		amoro_node_status(node, &status);
		pthread_mutex_lock(&node->lease_lock);
		if (version % 50 == 0)
			lease_fence(&node->lease, AMORO_NODE_FENCED, "by the test");
		node->lease.state = AMORO_NODE_ACTIVE;
		node->lease.end = clock_now(&clock_boottime) + 3600000000;
		pthread_mutex_unlock(&node->lease_lock);
		if (version % 50 == 0)
			loader_fence(node);
		usleep(100);
		pthread_mutex_lock(&database.lock);
		lookups = database.lookups;
		pthread_mutex_unlock(&database.lock);
	}
	stop = true;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(get("a"), AMORO_OK);
}

int
main(void)
{
#define LOADER_TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)
	const struct CMUnitTest tests[] = {
		LOADER_TEST(test_loads_once_then_answers_from_memory),
		LOADER_TEST(test_one_load_for_many_callers),
		LOADER_TEST(test_no_more_loads_than_connections),
		LOADER_TEST(test_mute_server),
		LOADER_TEST(test_hanging_loader),
		LOADER_TEST(test_bad_key),
		LOADER_TEST(test_late_joiner_has_its_own_time),
		LOADER_TEST(test_queue_is_bounded),
		LOADER_TEST(test_overtaken_load_reads_again),
		SCENARIO("a late question is read again", late_question_is_read_again, RULE_LOAD_AFTER_QUESTION),
		LOADER_TEST(test_late_questions_share),
		LOADER_TEST(test_other_server),
		LOADER_TEST(test_fenced_meanwhile),
		LOADER_TEST(test_fence_wakes_waiters),
		LOADER_TEST(test_failures),
		LOADER_TEST(test_unreachable),
		LOADER_TEST(test_close_answers_everybody),
		LOADER_TEST(test_everything_at_once),
	};

	alarm(120);
	return cmocka_run_group_tests_name("loader", tests, NULL, NULL);
}
