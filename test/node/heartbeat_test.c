/*
 * heartbeat_test.c
 *		The heartbeat thread's steps against the model server, in a world where time passes only while the node waits.
 */
#include "scenario.h"

#include <stdio.h>
#include <string.h>

#include "heartbeat.h"
#include "world.h"

#define SECOND 1000000

static int	log_lines;
static char last_line[1024];

static void
keep_line(void *argument, int level, const char *message)
{
	if (level == AMORO_LOG_DEBUG)
		return;
	log_lines++;
	snprintf(last_line, sizeof(last_line), "%s", message);
}

static World *
begin(void)
{
	World	   *world = world_create(1);

	log_lines = 0;
	world_add_node(world);
	world->node->log = keep_line;
	return world;
}

static World *
begin_active(void)
{
	World	   *world = begin();

	world_run(world, 100000);
	return world;
}

static void
test_starts_and_serves(void **state)
{
	World	   *world = begin();
	AmoroNodeStatus status = world_status(world);

	assert_int_equal(status.state, AMORO_NODE_CONNECTING);
	assert_false(status.serving);
	assert_int_equal(status.heartbeat_age_ms, -1);
	assert_int_equal(world_peek(world, 0), AMORO_FENCED);
	world_run(world, 100000);
	status = world_status(world);
	assert_int_equal(status.state, AMORO_NODE_ACTIVE);
	assert_true(status.serving);
	assert_in_range(status.lease_remaining_ms, 1800, 1998);
	assert_int_equal(status.clears, 0);
	assert_int_equal(world_peek(world, 0), AMORO_MISS);
	assert_int_equal(log_lines, 1);
	world_destroy(world);
}

/* A6, "process start with CN down": nothing is served before the first grant */
static void
test_start_without_server(void **state)
{
	World	   *world = begin();

	world->server.up = false;
	world_run(world, 5 * SECOND);
	assert_int_equal(world_status(world).state, AMORO_NODE_CONNECTING);
	assert_int_equal(world_peek(world, 0), AMORO_FENCED);
	assert_string_equal(world_status(world).reason, "connection refused");
	assert_int_equal(log_lines, 1);	/* not one a try */
	assert_in_range(world->opens, 5, 40);
	world->server.up = true;
	world_run(world, SECOND);
	assert_true(world_status(world).serving);
	world_destroy(world);
}

/* item 4: how old the last word of the server is */
static void
test_age_of_the_last_heartbeat(void **state)
{
	World	   *world = begin();

	world->pooled = true;		/* heartbeats do not wait, so they end at known moments */
	world->server.interval_us = 500000;
	world_run(world, 100000);
	assert_int_equal(world_status(world).state, AMORO_NODE_ACTIVE);
	world->cut_to_node = true;
	world_run(world, SECOND + 234000);
	assert_in_range(world_status(world).heartbeat_age_ms, 1234, 1334);
	world_destroy(world);
}

/* items 1, 2, 8 and 66: cut off, the node serves to the end of its lease, and again after it has recovered */
static void
test_cut_off_and_healed(void **state)
{
	World	   *world = begin_active();
	NodeTime	end;

	assert_true(world_fill(world, 0));
	world->cut_to_node = world->cut_to_server = true;
	world_run(world, 300000);
	end = world->node->lease.end;
	world_run(world, end - world_node_time(world) - 1);
	assert_int_equal(world_peek(world, 0), AMORO_OK);
	assert_int_equal(world_status(world).state, AMORO_NODE_ACTIVE);
	world_run(world, 1);
	assert_int_equal(world_peek(world, 0), AMORO_FENCED);
	assert_int_equal(world_status(world).state, AMORO_NODE_FENCED);
	world_run(world, SECOND);
	assert_int_equal(world_status(world).fences, 1);
	assert_int_equal(world_status(world).caches[0].entries, 0);
	world->cut_to_node = world->cut_to_server = false;
	world_run(world, SECOND);
	assert_true(world_status(world).serving);
	assert_int_equal(world_status(world).recoveries, 2);
	assert_int_equal(world_status(world).clears, 1);
	assert_int_equal(world_peek(world, 0), AMORO_MISS);
	world_destroy(world);
}

/* A1: one way cut, either way */
static bool
one_way_cut_fences_in_time(void)
{
	bool		holds = true;

	for (int way = 0; way < 2; way++)
	{
		World	   *world = begin_active();

		world_fill(world, 0);
		world->cut_to_node = way == 0;
		world->cut_to_server = way == 1;
		server_change(world, 0, OBJECT_NORMAL);
		world->server.waited_version = world->server.version;
		for (int i = 0; i < 1000 && world->server.waited_version != 0; i++)
		{
			Reader		reader;

			world_run(world, 10000);
			if (reader_peek(world, &reader, 0) == AMORO_OK)
				reader_answer(world, &reader);
			server_tick(world);
		}
		holds = world->server.needed_done == world->server.version && world_peek(world, 0) == AMORO_FENCED &&
			world->violations == 0 && holds;
		world_destroy(world);
	}
	return holds;
}

/* V15: the slowest clock that is allowed on the node, the fastest on the server, and no margin */
static bool
slow_clock_fences_in_time(void)
{
	World	   *world = begin();
	bool		holds;

	world->least_delay = world->most_delay = 0;
	world->node_rate = 0.999;
	world->server_rate = 1.001;
	world->server.margin_us = 0;
	world->server.lease_us = world->server.longest_lease_us = 20 * SECOND;
	world_run(world, 100000);
	holds = world_fill(world, 0);
	world->cut_to_node = world->cut_to_server = true;
	server_change(world, 0, OBJECT_NORMAL);
	world->server.waited_version = world->server.version;
	while (world->server.waited_version != 0)
	{
		world_run(world, 1000);
		server_tick(world);
	}
	holds = world_peek(world, 0) == AMORO_FENCED && holds;
	world_destroy(world);
	return holds;
}

/* L01: a stopped process answers nothing when it goes on, before anything else has run in it */
static bool
woken_process_is_fenced(void)
{
	World	   *world = begin_active();
	bool		holds = world_fill(world, 0);

	server_change(world, 0, OBJECT_NORMAL);
	world->paused_until = world->now + 10 * SECOND;
	world_stop_node(world, 10 * SECOND);
	holds = world_peek(world, 0) == AMORO_FENCED && holds;
	world_run(world, SECOND);
	holds = world_status(world).serving && world_peek(world, 0) == AMORO_MISS && holds;
	world_destroy(world);
	return holds;
}

/* the thread stalls between noting the time and sending (A2, item 63, L06) */
static bool
stall_before_sending_is_not_lease(void)
{
	World	   *world = begin_active();
	int			sends = world->sends[REQUEST_HEARTBEAT];
	NodeTime	sent;
	NodeTime	end;
	bool		holds;

	world->pause_before_send = 400000;
	while (world->sends[REQUEST_HEARTBEAT] == sends)
		world_run(world, 1000);
	sent = world->last[REQUEST_HEARTBEAT].sent;
	end = world->node->lease.end;
	while (world->node->lease.end == end)
		world_run(world, 1000);
	holds = world->node->lease.end == sent + 1998000;
	world_destroy(world);
	return holds;
}

/* rule 4: what the node has not applied it does not report, and what it reports it has applied */
static bool
applies_before_it_acknowledges(void)
{
	World	   *world = begin_active();
	int64_t		before = world->node->lease.applied_version;
	bool		holds = world_fill(world, 0) && world_fill(world, 1) && before == 0;

	server_change(world, 0, OBJECT_NORMAL);
	while (world->server.slot.applied < world->server.version && world->now < 10 * SECOND)
		world_run(world, 100);
	holds = world_peek(world, 0) == AMORO_MISS && world_peek(world, 1) == AMORO_OK && holds;
	world_destroy(world);
	return holds;
}

/* a long poll brings news at once; behind a pooler they come with the next heartbeat (V08) */
static void
test_news_travel(void **state)
{
	for (int pooled = 0; pooled < 2; pooled++)
	{
		World	   *world = begin();
		NodeTime	changed;

		world->pooled = pooled;
		world_run(world, 300000);
		server_change(world, 0, OBJECT_NORMAL);
		changed = world->now;
		while (world->server.slot.applied < world->server.version)
			world_run(world, 1000);
		assert_in_range(world->now - changed, 1000, pooled ? 210000 : 20000);
		assert_int_equal(world->last[REQUEST_HEARTBEAT].wait_ms, pooled ? 0 : 200);
		world_destroy(world);
	}
}

/* changes that come with the answer are applied without asking, and acknowledged by the next heartbeat */
static void
test_carried_changes(void **state)
{
	for (int pooled = 0; pooled < 2; pooled++)
	{
		World	   *world = begin_active();
		int			acknowledged = 0;

		world->pooled = pooled;
		world->server.carries_permille = 1000;
		assert_true(world_fill(world, 0));
		assert_true(world_fill(world, 1));
		for (int i = 0; i < 5; i++)
		{
			server_change(world, 0, OBJECT_NORMAL);
			while (world->server.slot.applied < world->server.version && acknowledged++ < 1000)
				world_run(world, 1000);
			assert_int_equal(world_peek(world, 0), AMORO_MISS);
			assert_int_equal(world_peek(world, 1), AMORO_OK);
			assert_true(world_fill(world, 0));
		}
		assert_int_equal(world->server.slot.applied, world->server.version);
		assert_int_equal(world_status(world).changes_applied, 5);
		assert_int_equal(world->sends[REQUEST_CHANGES], 0);
		/* a database too */
		server_change_database(world, 0);
		world_run(world, 300000);
		assert_int_equal(world_peek(world, 1), AMORO_MISS);
		assert_int_equal(world->sends[REQUEST_CHANGES], 0);
		/* and what does not come is asked for */
		world->server.carries_permille = 0;
		server_change(world, 0, OBJECT_NORMAL);
		world_run(world, 300000);
		assert_int_equal(world->server.slot.applied, world->server.version);
		assert_int_equal(world->sends[REQUEST_CHANGES], 1);
		world_destroy(world);
	}
}

static int	fenced_callbacks;

static void
count_fenced(void *argument, AmoroResult result, AmoroEntry *entry, AmoroTicket ticket)
{
	if (result == AMORO_FENCED && entry == NULL)
		fenced_callbacks++;
}

/* a lookup that waits for a database that is silent is answered when the lease ends, and when the server ends it */
static void
test_fence_answers_lookups(void **state)
{
	AmoroKey	key = {"lake", "sales", "orders"};

	for (int by_server = 0; by_server < 2; by_server++)
	{
		World	   *world = begin_active();

		fenced_callbacks = 0;
		amoro_cache_load(world->node, AMORO_CACHE_TABLE, &key, count_fenced, NULL);
		if (by_server)
			world->server.slot.epoch++;
		else
			world->cut_to_server = true;
		world_run(world, by_server ? 300000 : 1500000);
		if (!by_server)
		{
			assert_int_equal(fenced_callbacks, 0);
			world_run(world, 600000);
		}
		assert_int_equal(world_status(world).fences, 1);
		assert_int_equal(fenced_callbacks, 1);
		world_destroy(world);
	}
}

/* heartbeats keep their pace, with and without waiting at the server */
static void
test_pace(void **state)
{
	for (int pooled = 0; pooled < 2; pooled++)
	{
		World	   *world = begin();

		world->pooled = pooled;
		world_run(world, 10 * SECOND);
		assert_in_range(world->sends[REQUEST_HEARTBEAT], 45, 51);
		assert_int_equal(world->opens, 1);
		world_destroy(world);
	}
}

/* A9: a change between registration and activation is not missed */
static void
test_change_during_recovery(void **state)
{
	World	   *world = begin();

	while (world->sends[REQUEST_ACTIVATE] == 0)
		world_run(world, 100);
	server_change(world, 0, OBJECT_NORMAL);
	world_run(world, 100000);
	assert_true(world_status(world).serving);
	assert_int_equal(world->node->lease.applied_version, world->server.version);
	assert_in_range(world->sends[REQUEST_ACTIVATE], 2, 3);
	world_destroy(world);
}

static void
test_pruned_history(void **state)
{
	World	   *world = begin_active();

	assert_true(world_fill(world, 0));
	world->paused_until = world->now + 500000;
	world_stop_node(world, 500000);
	for (int i = 0; i < 10; i++)
		server_change(world, 1, OBJECT_NORMAL);
	world->server.pruned = world->server.version;
	world_run(world, SECOND);
	assert_true(world_status(world).serving);
	assert_int_equal(world_status(world).clears, 1);
	assert_int_equal(world_peek(world, 0), AMORO_MISS);
	world_destroy(world);
}

/* rule 6: a restart of the server costs a node that holds its lease nothing */
static void
test_server_restart_keeps_caches(void **state)
{
	World	   *world = begin_active();

	assert_true(world_fill(world, 0));
	assert_true(world_fill(world, 1));
	server_crash(world);
	world_run(world, 700000);
	assert_int_equal(world_peek(world, 0), AMORO_OK);
	server_restart(world, false, 0);
	server_change(world, 1, OBJECT_NORMAL);
	world_run(world, 1200000);
	assert_int_equal(world_peek(world, 0), AMORO_OK);
	assert_int_equal(world_peek(world, 1), AMORO_MISS);
	assert_int_equal(world_status(world).fences, 0);
	assert_int_equal(world_status(world).term, world->server.term);
	assert_int_equal(world->server.slot.state, SLOT_ACTIVE);
	world_destroy(world);
}

static bool
failover_clears(void)
{
	World	   *world = begin_active();
	bool		holds = world_fill(world, 0);

	server_crash(world);
	world_run(world, 200000);
	server_restart(world, true, 0);
	world_run(world, SECOND);
	holds = world_peek(world, 0) == AMORO_MISS && world_status(world).fences == 1 && holds;
	world_destroy(world);
	return holds;
}

/* a restart that takes longer than the lease */
static void
test_long_restart(void **state)
{
	World	   *world = begin_active();

	assert_true(world_fill(world, 0));
	server_crash(world);
	world_run(world, 5 * SECOND);
	assert_int_equal(world_status(world).state, AMORO_NODE_FENCED);
	server_restart(world, false, 0);
	world_run(world, 2 * SECOND);
	assert_true(world_status(world).serving);
	assert_int_equal(world_peek(world, 0), AMORO_MISS);
	world_destroy(world);
}

/* a grant that would extend a lease which ended while it was on its way (A10) */
static bool
late_grant_extends_nothing(void)
{
	World	   *world = begin_active();
	bool		holds = world_fill(world, 0);
	int			sends;

	/* the last heartbeat before the end goes out, and the process is stopped until the end is over */
	world->cut_to_node = true;
	while (world->node->lease.end - world_node_time(world) > 300000)
		world_run(world, 1000);
	world->cut_to_node = false;
	sends = world->sends[REQUEST_HEARTBEAT];
	while (world->sends[REQUEST_HEARTBEAT] == sends)
		world_run(world, 1000);
	server_change(world, 0, OBJECT_NORMAL);
	world->paused_until = world->now + 500000;
	world_run(world, 501000);
	holds = world_status(world).fences == 1 && world_peek(world, 0) != AMORO_OK && holds;
	world_destroy(world);
	return holds;
}

/* a close in the middle of a long poll: fenced at once, released at once, over a connection of its own */
static void
test_close(void **state)
{
	World	   *world = begin_active();

	assert_true(world_fill(world, 0));
	node_begin_close(world->node);
	assert_int_equal(world_peek(world, 0), AMORO_FENCED);
	world_run(world, 10000);
	assert_int_equal(world->server.slot.state, SLOT_RELEASED);
	assert_int_equal(world->opens, 2);
	assert_int_equal(world_status(world).state, AMORO_NODE_CLOSED);
	world_destroy(world);
}

/* the same with a server that is gone: bounded */
static void
test_close_without_server(void **state)
{
	World	   *world = begin_active();

	world->cut_to_node = true;
	node_begin_close(world->node);
	assert_false(world->thread_ended);
	world_run(world, 2 * SECOND);
	assert_true(world->thread_ended);
	world_destroy(world);
}

/* L05: heartbeats of a fenced node go on */
static void
test_fenced_node_recovers_within_two_heartbeats(void **state)
{
	World	   *world = begin_active();

	world->server.slot.epoch++;
	world->server.slot.state = SLOT_FENCED;
	world_run(world, 410000);
	assert_true(world_status(world).serving);
	assert_int_equal(world_status(world).fences, 1);
	world_destroy(world);
}

/* Z04: nodes that lost one server do not come back in one moment */
static void
test_herd(void **state)
{
	NodeTime	first[20];
	int			same = 0;

	for (int i = 0; i < 20; i++)
	{
		World	   *world = world_create((uint64_t) i + 1);
		int			opens;

		world_add_node(world);
		world_run(world, 100000);
		server_crash(world);
		world_run(world, 500);
		world->server.up = true;
		opens = world->opens;
		while (world->opens == opens)
			world_run(world, 1000);
		first[i] = world->now / 1000;
		for (int j = 0; j < i; j++)
			same += first[i] == first[j];
		world_destroy(world);
	}
	assert_in_range(same, 0, 15);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_starts_and_serves),
		cmocka_unit_test(test_start_without_server),
		cmocka_unit_test(test_age_of_the_last_heartbeat),
		cmocka_unit_test(test_cut_off_and_healed),
		SCENARIO("cut off one way, fences in time", one_way_cut_fences_in_time,
				 RULE_LAPSE_BY_ARITHMETIC | RULE_LAPSED_IS_NOT_EXTENDED),
		SCENARIO("a slow clock fences in time", slow_clock_fences_in_time, RULE_ALLOW_FOR_DRIFT),
		SCENARIO("a woken process is fenced", woken_process_is_fenced, RULE_LAPSE_BY_ARITHMETIC),
		SCENARIO("a stall before sending is no lease", stall_before_sending_is_not_lease, RULE_MEASURE_FROM_SEND),
		SCENARIO("applies before it acknowledges", applies_before_it_acknowledges, RULE_APPLY_BEFORE_ACK),
		SCENARIO("a failover clears", failover_clears, RULE_CLEAR_ON_NEW_TIMELINE),
		SCENARIO("a late grant extends nothing", late_grant_extends_nothing, RULE_LAPSED_IS_NOT_EXTENDED),
		cmocka_unit_test(test_news_travel),
		cmocka_unit_test(test_pace),
		cmocka_unit_test(test_carried_changes),
		cmocka_unit_test(test_fence_answers_lookups),
		cmocka_unit_test(test_change_during_recovery),
		cmocka_unit_test(test_pruned_history),
		cmocka_unit_test(test_server_restart_keeps_caches),
		cmocka_unit_test(test_long_restart),
		cmocka_unit_test(test_close),
		cmocka_unit_test(test_close_without_server),
		cmocka_unit_test(test_fenced_node_recovers_within_two_heartbeats),
		cmocka_unit_test(test_herd),
	};

	return cmocka_run_group_tests_name("heartbeat", tests, NULL, NULL);
}
