/*
 * refusal_test.c
 *		A node that is held back, refused, replaced, unknown or removed, in a world where time passes only while it waits.
 */
#include "scenario.h"

#include <stdio.h>
#include <string.h>

#include "world.h"

#define SECOND 1000000

/* rule 8: held back, the node catches up; nothing is extended meanwhile */
static void
test_held(void **state)
{
	World	   *world = world_create_active();

	world->server.refuse_with = NULL;
	server_change(world, 0, OBJECT_NORMAL);
	world->server.slot.behind_since = world_server_time(world) - 2 * SECOND;
	world_run(world, 500000);
	assert_int_equal(world->server.slot.applied, world->server.version);
	assert_true(world_status(world).serving);
	world_destroy(world);
}

/* L14: refused, the node serves to the end of its lease, says why, and comes back when it may */
static void
test_refused(void **state)
{
	World	   *world = world_create_active();

	world->server.refuse_with = "42501";
	world_run(world, 1500000);
	assert_true(world_status(world).serving);
	world_run(world, SECOND);
	assert_false(world_status(world).serving);
	assert_int_equal(world_status(world).state, AMORO_NODE_REFUSED);
	assert_non_null(strstr(world_status(world).reason, "refused by the test"));
	world->server.refuse_with = NULL;
	world_run(world, 2 * SECOND);
	assert_true(world_status(world).serving);
	world_destroy(world);
}

static void
test_superseded(void **state)
{
	World	   *world = world_create_active();
	int			sends;

	memcpy(world->server.slot.incarnation, "another", 8);
	world_run(world, 300000);
	assert_int_equal(world_status(world).state, AMORO_NODE_SUPERSEDED);
	assert_int_equal(world_peek(world, 0), AMORO_FENCED);
	sends = world->sends[REQUEST_HEARTBEAT] + world->sends[REQUEST_REGISTER];
	world_run(world, 10 * SECOND);
	assert_int_equal(world->sends[REQUEST_HEARTBEAT] + world->sends[REQUEST_REGISTER], sends);
	world_destroy(world);
}

static void
test_unknown(void **state)
{
	World	   *world = world_create_active();
	char		incarnation[INCARNATION_SIZE];

	snprintf(incarnation, sizeof(incarnation), "%s", world->server.slot.incarnation);
	world->server.slot.state = SLOT_UNKNOWN;
	world_run(world, SECOND);
	assert_true(world_status(world).serving);
	assert_string_equal(world->server.slot.incarnation, incarnation);
	world_destroy(world);
}

static void
test_removed(void **state)
{
	World	   *world = world_create_active();

	world->server.leaving = true;
	world_run(world, 500000);
	assert_int_equal(world_status(world).state, AMORO_NODE_REMOVED);
	assert_int_equal(world->server.slot.state, SLOT_RELEASED);
	assert_int_equal(world->sends[REQUEST_RELEASE], 1);
	world_destroy(world);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_held),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_superseded),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_removed),
	};

	return cmocka_run_group_tests_name("refusal", tests, NULL, NULL);
}
