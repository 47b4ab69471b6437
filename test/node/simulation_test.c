/*
 * simulation_test.c
 *		Thousands of random histories: two clocks that drift apart, a network that delays, loses and cuts one way, a
 *		process that stops, servers that restart and fail over, changes, leases of changing length, and readers that
 *		stall in the middle. In none of them may the promise break; with a rule switched off, it must.
 *
 *		NODE_SIMULATION_SEEDS sets how many histories (default 5000), NODE_SIMULATION_FIRST where to begin.
 */
#include "scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

#define SECOND_US 1000000
#define HISTORY_US (20 * SECOND_US)

/* An event that comes again and again, and the reader that it drives. */
typedef struct Actor
{
	Reader		reader;
	int			step;
	bool		from_zombie;
} Actor;

static NodeTime
between(World *world, NodeTime low, NodeTime high)
{
	return random_between(&world->random, low, high);
}

static bool
chance(World *world, int permille)
{
	return between(world, 0, 1000) < permille;
}

/* A stall: short mostly, and now and then longer than a lease. */
static NodeTime
stall(World *world)
{
	return chance(world, 15) ? between(world, 0, 4000000) : between(world, 0, 3000);
}

static void
act(World *world, void *argument)
{
	Actor	   *actor = argument;
	Reader	   *reader = &actor->reader;
	NodeTime	pause = between(world, 1000, 60000);

	/* a stopped process does nothing, and goes on where it was */
	if (world->now < world->paused_until)
	{
		world_at(world, world->paused_until, act, actor);
		return;
	}
	switch (actor->step)
	{
		case 0:					/* look it up */
			reader_peek(world, reader, (int) between(world, 0, OBJECT_COUNT));
			if (reader->answered)
				actor->step = 3;
			else if (reader->result == AMORO_MISS && reader_begin_load(world, reader, reader->object))
				actor->step = 1;
			break;
		case 1:					/* the database reads */
			actor->from_zombie = world->zombie.term != 0 && chance(world, 200);
			actor->step = world->server.up || actor->from_zombie ? 2 : 0;
			reader_read(reader, actor->from_zombie ? &world->zombie : &world->server);
			break;
		case 2:					/* the answer is here */
			actor->step = reader_finish_load(world, reader) == LOAD_ANSWERED ? 3 : 0;
			break;
		case 3:					/* it leaves */
			reader_answer(world, reader);
			actor->step = 0;
			break;
	}
	world_at(world, world->now + (actor->step == 0 ? pause : stall(world)), act, actor);
}

/* The coordinator: a change, then the next step once the verdict allows it. */
static void
change(World *world, void *argument)
{
	ModelServer *server = &world->server;

	if (server->up && server->waited_version == 0 && server->change_count < MAX_CHANGES - 8)
	{
		int			object = (int) between(world, 0, OBJECT_COUNT);

		if (chance(world, 100))
			server_change_database(world, (int) between(world, 0, 2));
		else
			server_change(world, object, (ObjectState) between(world, 0, OBJECT_ABSENT + 1));
		if (chance(world, 800))
			server->waited_version = server->version;
		if (chance(world, 30))
			server->pruned = server->version - 1;
	}
	world_at(world, world->now + between(world, 1000, 400000), change, NULL);
}

static void
tick(World *world, void *argument)
{
	server_tick(world);
	world_at(world, world->now + between(world, 1000, 30000), tick, NULL);
}

static void
start_server(World *world, void *argument)
{
	bool		failover = chance(world, 400);

	server_restart(world, failover, failover ? between(world, 0, 3) : 0);
}

static void
heal(World *world, void *argument)
{
	world->cut_to_node = world->cut_to_server = false;
	world->loss_permille = chance(world, 300) ? 100 : 0;
}

/* What goes wrong next. */
static void
trouble(World *world, void *argument)
{
	ModelServer *server = &world->server;

	switch (between(world, 0, 9))
	{
		case 0:
			world->cut_to_node = true;
			world_at(world, world->now + between(world, 1000, 4000000), heal, NULL);
			break;
		case 1:
			world->cut_to_server = true;
			world_at(world, world->now + between(world, 1000, 4000000), heal, NULL);
			break;
		case 2:
			world->paused_until = world->now + between(world, 1000, 4000000);
			break;
		case 3:
			world->pause_before_send = between(world, 1000, 3000000);
			break;
		case 4:
			if (server->up)
			{
				server_crash(world);
				world_at(world, world->now + between(world, 1000, 4000000), start_server, NULL);
			}
			break;
		case 5:
			/* made durable before it is granted */
			server->lease_us = between(world, 4, 13) * 250000;
			server->interval_us = server->lease_us / between(world, 4, 9);
			if (server->lease_us > server->longest_lease_us)
				server->longest_lease_us = server->lease_us;
			break;
		case 6:
			world->most_delay = world->least_delay + between(world, 0, chance(world, 300) ? 1500000 : 20000);
			break;
		case 7:
			/* another registration took the slot's place, or an operator fenced it */
			if (server->slot.state == SLOT_ACTIVE && world_server_time(world) > server->slot.owed_until)
			{
				server->slot.state = SLOT_FENCED;
				server->slot.epoch++;
			}
			break;
		case 8:
			world->pooled = !world->pooled;
			break;
	}
	world_at(world, world->now + between(world, 10000, 2500000), trouble, NULL);
}

typedef struct Totals
{
	int			histories;
	int			broken;
	int64_t		answers;
	int64_t		cached;
	int64_t		absent;			/* of these, that there is no such object */
	int64_t		refused;
	int64_t		fences;
	int64_t		recoveries;
	int64_t		changes;
	char		example[320];
} Totals;

/* How many of the nodes load all tables before they serve. */
static int	preload_permille = 500;

/* In some histories the server does not remember whom it fenced: the node's own rules must do. */
static bool server_forgets_fences;

static void
run_history(uint64_t seed, Totals *totals)
{
	Actor		actors[4];
	World	   *world = world_create(seed);

	memset(actors, 0, sizeof(actors));
	/* each clock within its bound of true time */
	world->node_rate = 1.0 + (double) between(world, -1000, 1001) / 1e6;
	world->server_rate = 1.0 + (double) between(world, -1000, 1001) / 1e6;
	world->node_offset = between(world, 0, INT64_C(1000000000000));
	world->least_delay = between(world, 100, 2000);
	world->most_delay = world->least_delay + between(world, 0, 20000);
	world->server.drift_ppm = 1000;
	world->server.margin_us = 0;	/* no more than the rules need */
	world->server.forgets_fences = server_forgets_fences;
	world->server.carries_permille = (int) between(world, 0, 3) * 500;
	world->preload = chance(world, preload_permille) ? 1U << AMORO_CACHE_TABLE : 0;
	world->server.chunk_rows = (int) between(world, 1, OBJECT_COUNT + 1);
	world_add_node(world);
	for (int i = 0; i < 4; i++)
		world_at(world, world->now + i, act, &actors[i]);
	world_at(world, world->now, change, NULL);
	world_at(world, world->now, tick, NULL);
	world_at(world, world->now + SECOND_US, trouble, NULL);
	world_run(world, HISTORY_US);

	totals->histories++;
	totals->answers += world->answers;
	totals->cached += world->cached_answers;
	totals->absent += world->absent_answers;
	totals->refused += world->refused_answers;
	totals->fences += world->node->lease.fences;
	totals->recoveries += world->node->lease.recoveries;
	totals->changes += world->server.change_count;
	if (world->violations > 0 && totals->broken++ == 0)
		snprintf(totals->example, sizeof(totals->example), "seed %llu: %s", (unsigned long long) seed, world->violation);
	for (int i = 0; i < 4; i++)
		amoro_entry_release(actors[i].reader.entry);
	world_destroy(world);
}

static int64_t
setting(const char *name, int64_t otherwise)
{
	const char *value = getenv(name);

	return value != NULL ? strtoll(value, NULL, 10) : otherwise;
}

static void
test_promise_holds(void **state)
{
	int64_t		seeds = setting("NODE_SIMULATION_SEEDS", 5000);
	int64_t		first = setting("NODE_SIMULATION_FIRST", 1);
	Totals		totals = {0};

	for (int64_t seed = first; seed < first + seeds && totals.broken == 0; seed++)
		run_history((uint64_t) seed, &totals);
	print_message("%d histories: %lld answers (%lld from memory, %lld of these that it is not there), %lld refused, %lld changes, %lld fences, %lld recoveries\n",
				  totals.histories, (long long) totals.answers, (long long) totals.cached, (long long) totals.absent, (long long) totals.refused,
				  (long long) totals.changes, (long long) totals.fences, (long long) totals.recoveries);
	if (totals.broken > 0)
		fail_msg("%s", totals.example);
	/* and the histories are not empty of what they are about */
	assert_true(totals.cached > seeds * 50);
	assert_true(totals.absent > seeds);
	assert_true(totals.fences > seeds);
	assert_true(totals.recoveries > totals.fences);
	assert_true(totals.changes > seeds * 20);
}

/* Switches a rule off and looks for a history in which the promise breaks. */
static void
test_promise_breaks_without(void **state)
{
	unsigned	rules = *(const unsigned *) *state;
	Totals		totals = {0};

	amoro_rules_off = rules;
	for (uint64_t seed = 1; seed <= 3000 && totals.broken == 0; seed++)
		run_history(seed, &totals);
	amoro_rules_off = 0;
	print_message("after %d histories: %s\n", totals.histories, totals.example);
	assert_int_equal(totals.broken, 1);
}

/*
 * The epoch, on the server's side, and the clearing of a lapsed lease, on the node's, guard against the same history:
 * without the one the other holds, without both the promise breaks.
 */
static void
test_server_that_forgets_fences(void **state)
{
	Totals		totals = {0};

	server_forgets_fences = true;
	for (uint64_t seed = 1; seed <= 500 && totals.broken == 0; seed++)
		run_history(seed, &totals);
	if (totals.broken == 0)
	{
		amoro_rules_off = RULE_LAPSED_IS_NOT_EXTENDED;
		for (uint64_t seed = 1; seed <= 500 && totals.broken == 0; seed++)
			run_history(seed, &totals);
		amoro_rules_off = 0;
		server_forgets_fences = false;
		print_message("after %d histories: %s\n", totals.histories, totals.example);
		assert_int_equal(totals.broken, 1);
		return;
	}
	server_forgets_fences = false;
	fail_msg("%s", totals.example);
}

/* The same of rules that are about nodes that load before they serve. */
static void
test_promise_breaks_for_loaded_without(void **state)
{
	preload_permille = 1000;
	test_promise_breaks_without(state);
	preload_permille = 500;
}

#define WITHOUT_FOR_LOADED(name, rules) \
	{"the promise breaks without: " name, test_promise_breaks_for_loaded_without, NULL, NULL, &(unsigned) {rules}}
#define WITHOUT(name, rules) \
	{"the promise breaks without: " name, test_promise_breaks_without, NULL, NULL, &(unsigned) {rules}}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_promise_holds),
		WITHOUT("measuring from the sending", RULE_MEASURE_FROM_SEND),
		WITHOUT("the test of the lease at every access", RULE_LAPSE_BY_ARITHMETIC),
		WITHOUT("clearing when fenced", RULE_CLEAR_ON_FENCE),
		WITHOUT("clearing on a new timeline", RULE_CLEAR_ON_NEW_TIMELINE),
		WITHOUT("the generations of loads", RULE_LOAD_GENERATION),
		WITHOUT("the ticket", RULE_TICKET),
		WITHOUT("applying before acknowledging", RULE_APPLY_BEFORE_ACK),
		WITHOUT("reading marked objects through", RULE_MARKED_NOT_CACHED | RULE_APPLY_BEFORE_ACK),
		WITHOUT("refusing loads of another term", RULE_LOAD_TERM | RULE_LOAD_VERSION),
		WITHOUT_FOR_LOADED("marks of what is forgotten", RULE_MARK_FORGOTTEN),
		WITHOUT_FOR_LOADED("catching up with what was loaded", RULE_CATCH_UP),
		WITHOUT_FOR_LOADED("dropping what is of another history", RULE_ONE_HISTORY),
		cmocka_unit_test(test_server_that_forgets_fences),
	};

	return cmocka_run_group_tests_name("simulation", tests, NULL, NULL);
}
