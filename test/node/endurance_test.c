/*
 * endurance_test.c
 *		A hundred thousand heartbeats of the real library against the model server, with changes, loads and lookups
 *		between them: what is allocated after them is what was allocated before.
 */
#include "scenario.h"

#include <malloc.h>

#include "heartbeat.h"
#include "world.h"

#define SECOND 1000000
#define HEARTBEATS 100000

static void
no_log(void *argument, int level, const char *message)
{
}

static int64_t
heartbeats(World *world)
{
	AmoroNodeStatus status;

	amoro_node_status(world->node, &status);
	assert_true(status.serving);
	return status.heartbeats;
}

/* Each object is looked up, and loaded where a change has taken it out of the cache. */
static void
look_up_everything(World *world)
{
	for (int object = 0; object < OBJECT_COUNT; object++)
	{
		Reader		reader;

		if (reader_peek(world, &reader, object) == AMORO_MISS)
		{
			assert_true(reader_begin_load(world, &reader, object));
			reader_read(&reader, &world->server);
			reader_finish_load(world, &reader);
		}
		amoro_entry_release(reader.entry);
	}
}

/* A second of life: a change, an answer that carries it or does not, the lookups after it. */
static void
live(World *world, int turn)
{
	server_change(world, turn % OBJECT_COUNT, OBJECT_NORMAL);
	world->server.carries_permille = turn % 2 == 0 ? 1000 : 0;
	world_run(world, SECOND);
	look_up_everything(world);
}

static void
test_heartbeats_take_no_memory(void **state)
{
	World	   *world = world_create(1);
	int			turn = 0;
	size_t		in_use;

	world_add_node(world);
	world->node->log = no_log;
	world->pooled = true;		/* heartbeats do not wait: the interval sets their pace */
	world->server.interval_us = 10000;
	world_run(world, SECOND);
	while (turn < 20)
		live(world, turn++);
	in_use = mallinfo2().uordblks;
	while (heartbeats(world) < HEARTBEATS)
	{
		assert_in_range(turn, 0, MAX_CHANGES - 1);
		live(world, turn++);
	}
	/* an entry more or less; a leak of eight bytes in each heartbeat is a hundred times as much */
	assert_in_range(mallinfo2().uordblks, 0, in_use + 8192);
	world_destroy(world);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_heartbeats_take_no_memory),
	};

	mallopt(M_ARENA_MAX, 1);	/* mallinfo2 counts one arena, that of the first thread */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
