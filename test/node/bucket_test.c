/*
 * bucket_test.c
 *		Who owns a bucket: what a process concludes from the document that the server wrote, and for how long.
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

/* Keeps a document of bucket 7 of a service in memory. */
static void
remember(World *world, const char *service, const char *document)
{
	AmoroKey	key = {service, "7", NULL};
	Cache	   *cache = &world->node->cache;
	KeyParts	parts;
	AmoroEntry *entry;

	assert_true(key_parts(&parts, AMORO_CACHE_BUCKET, &key, cache->seed));
	entry = entry_create(AMORO_CACHE_BUCKET, &parts, document, strlen(document), 1);
	assert_true(cache_store(cache, &world->node->lease, &parts, entry, world->node->lease.generation,
							cache_generation(cache, cache_ticket_hash(&parts))));
	amoro_entry_release(entry);
}

static void
remember_owner(World *world, const char *service, const char *incarnation)
{
	char		document[256];

	snprintf(document, sizeof(document), "{\"owner_incarnation\" : \"%s\", \"service\" : \"s\", \"bucket\" : 7}", incarnation);
	remember(world, service, document);
}

static bool
is_cached(World *world, const char *service)
{
	AmoroKey	key = {service, "7", NULL};
	KeyParts	parts;
	AmoroEntry *entry;
	bool		absent;

	assert_true(key_parts(&parts, AMORO_CACHE_BUCKET, &key, world->node->cache.seed));
	entry = cache_find(&world->node->cache, AMORO_CACHE_BUCKET, &parts, &absent);
	amoro_entry_release(entry);
	return entry != NULL;
}

static AmoroResult
owned(World *world, const char *service)
{
	AmoroTicket ticket;

	return amoro_bucket_owned(world->node, service, 7, &ticket);
}

static void
test_the_owner_is_a_process(void **state)
{
	World	   *world = active_world();
	const char *own = world->node->lease.incarnation;
	char		other[INCARNATION_SIZE];
	char		document[256];

	remember_owner(world, "own", own);
	assert_int_equal(owned(world, "own"), AMORO_OK);

	/* the last digit makes another process, were it of the same node */
	memcpy(other, own, sizeof(other));
	other[INCARNATION_SIZE - 2] ^= 1;
	remember_owner(world, "other", other);
	assert_int_equal(owned(world, "other"), AMORO_NOT_FOUND);
	remember(world, "nobody", "{\"owner_incarnation\" : null, \"service\" : \"s\", \"bucket\" : 7}");
	assert_int_equal(owned(world, "nobody"), AMORO_NOT_FOUND);

	/* neither what stands elsewhere, nor half a document */
	snprintf(document, sizeof(document), "{\"owner_incarnation\" : null, \"next\" : \"%s\"}", own);
	remember(world, "next", document);
	assert_int_equal(owned(world, "next"), AMORO_NOT_FOUND);
	snprintf(document, sizeof(document), "{\"owner_incarnation\" : \"%s", own);
	remember(world, "cut off", document);
	assert_int_equal(owned(world, "cut off"), AMORO_NOT_FOUND);
	remember(world, "empty", "");
	assert_int_equal(owned(world, "empty"), AMORO_NOT_FOUND);
	world_destroy(world);
}

static void
test_no_bucket_without_a_lease(void **state)
{
	World	   *world = active_world();
	AmoroTicket ticket;

	remember_owner(world, "s", world->node->lease.incarnation);
	assert_int_equal(amoro_bucket_owned(world->node, "s", 7, &ticket), AMORO_OK);
	assert_int_equal(amoro_ticket_check(world->node, &ticket), AMORO_OK);

	/* stopped for longer than the lease, in the middle of the work */
	world_stop_node(world, world->server.lease_us + 1000000);
	assert_int_equal(amoro_ticket_check(world->node, &ticket), AMORO_FENCED);
	assert_int_equal(owned(world, "s"), AMORO_FENCED);
	world_destroy(world);
}

/* Taken away while the work was going on: the ticket says so, by the time the change is acknowledged. */
static void
test_a_change_takes_the_bucket_away(void **state)
{
	static const char *const buckets[] = {"7", NULL};

	for (int i = 0; i < 2; i++)
	{
		World	   *world = active_world();
		AmoroTicket ticket;
		MetadataChange change = {5, "bucket", "release", "s", buckets[i], NULL};

		remember_owner(world, "s", world->node->lease.incarnation);
		remember_owner(world, "another", world->node->lease.incarnation);
		assert_int_equal(amoro_bucket_owned(world->node, "s", 7, &ticket), AMORO_OK);
		assert_true(is_cached(world, "another"));
		assert_int_equal(change_feed_apply(world->node, &change, 1, 4, 5), 5);
		assert_int_equal(amoro_ticket_check(world->node, &ticket), AMORO_STALE);
		/* a change without a bucket stands for all of all services */
		assert_false(is_cached(world, "s"));
		assert_true(is_cached(world, "another") == (buckets[i] != NULL));
		world_destroy(world);
	}
}

static AmoroResult called_back;

static void
note_result(void *argument, AmoroResult result, AmoroEntry *entry, AmoroTicket ticket)
{
	called_back = result;
	amoro_entry_release(entry);
}

/* Fenced, a slot or a bucket is told on no way in: from memory, by loading, by a load that was under way, by an old ticket. */
static void
test_no_way_in_without_a_lease(void **state)
{
	static const AmoroCacheKind kinds[] = {AMORO_CACHE_PARTITION, AMORO_CACHE_BUCKET};

	for (int i = 0; i < 2; i++)
	{
		AmoroKey	key = {"c", "7", kinds[i] == AMORO_CACHE_PARTITION ? "7" : NULL};
		LookupAnswer answer = {.found = true, .state = "normal", .document = "{}", .document_size = 2};
		World	   *world = active_world();
		AmoroNode  *node = world->node;
		AmoroEntry *entry;
		AmoroTicket ticket;
		AmoroTicket late;
		AmoroResult result;
		KeyParts	parts;
		LoadNote	note;

		assert_true(key_parts(&parts, kinds[i], &key, node->cache.seed));
		entry = entry_create(kinds[i], &parts, "{}", 2, 1);
		assert_true(cache_store(&node->cache, &node->lease, &parts, entry, node->lease.generation,
								cache_generation(&node->cache, cache_ticket_hash(&parts))));
		amoro_entry_release(entry);
		assert_int_equal(amoro_cache_peek(node, kinds[i], &key, &entry, &ticket), AMORO_OK);
		amoro_entry_release(entry);
		assert_true(load_begin(&node->lease, &node->cache, &parts, &note));

		world_stop_node(world, world->server.lease_us + 1000000);
		assert_int_equal(amoro_cache_peek(node, kinds[i], &key, &entry, &late), AMORO_FENCED);
		assert_null(entry);
		assert_int_equal(amoro_cache_get(node, kinds[i], &key, &entry, &late), AMORO_FENCED);
		assert_null(entry);
		called_back = AMORO_OK;
		amoro_cache_load(node, kinds[i], &key, note_result, NULL);
		assert_int_equal(called_back, AMORO_FENCED);
		assert_int_equal(amoro_ticket_check(node, &ticket), AMORO_FENCED);
		answer.term = node->lease.term;
		answer.metadata_version = node->lease.applied_version;
		assert_int_equal(load_finish(&node->lease, &node->cache, kinds[i], &parts, &note, &answer, &result, &entry, &late),
						 LOAD_ANSWERED);
		assert_int_equal(result, AMORO_FENCED);
		assert_null(entry);
		assert_int_equal(amoro_bucket_owned(node, "c", 7, &late), AMORO_FENCED);

		/* back, it has forgotten what it knew, and the ticket of before is worth nothing */
		world_run(world, 3000000);
		assert_int_equal(amoro_cache_peek(node, kinds[i], &key, &entry, &late), AMORO_MISS);
		assert_int_equal(amoro_ticket_check(node, &ticket), AMORO_FENCED);
		world_destroy(world);
	}
}

static void
test_no_such_bucket(void **state)
{
	World	   *world = active_world();
	AmoroTicket ticket;
	char		name[2000];

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(amoro_bucket_owned(world->node, "s", 0, &ticket), AMORO_INVALID_ARGUMENT);
	assert_int_equal(amoro_bucket_owned(world->node, "s", -1, &ticket), AMORO_INVALID_ARGUMENT);
	assert_int_equal(amoro_bucket_owned(world->node, "", 1, &ticket), AMORO_INVALID_ARGUMENT);
	assert_int_equal(amoro_bucket_owned(world->node, name, 1, &ticket), AMORO_INVALID_ARGUMENT);
	world_destroy(world);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_owner_is_a_process),
		cmocka_unit_test(test_no_bucket_without_a_lease),
		cmocka_unit_test(test_a_change_takes_the_bucket_away),
		cmocka_unit_test(test_no_way_in_without_a_lease),
		cmocka_unit_test(test_no_such_bucket),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
