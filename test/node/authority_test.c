/*
 * authority_test.c
 *		What users may do: the table that is made of a document, and the check of a privilege under the lease.
 */
#include "scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "authority_table.h"
#include "change_feed.h"
#include "world.h"

#define SECOND ((NodeTime) 1000000)

#define JSON "{\"user\" : \"ann\"}"

typedef struct Question
{
	AmoroPrivilege privilege;
	AmoroScope	scope;
	bool		allowed;
} Question;

static bool
allows(const void *table, AmoroPrivilege privilege, AmoroScope scope)
{
	return authority_table_allows(table, privilege, &scope);
}

static void *
make_table(const char *document)
{
	size_t		shown;
	size_t		size;
	void	   *table;

	assert_true(authority_table_make(document, strlen(document), &shown, &table, &size));
	assert_int_equal(shown, strcspn(document, "\n"));
	return table;
}

static void
ask_all(const void *table, const Question *questions, size_t count)
{
	for (size_t i = 0; i < count; i++)
	{
		if (allows(table, questions[i].privilege, questions[i].scope) != questions[i].allowed)
			fail_msg("question %zu is not answered with %s", i, questions[i].allowed ? "yes" : "no");
	}
}

/* who has something on a wider scope has it on what is in it, and on nothing else */
static void
test_scopes(void **state)
{
	void	   *table = make_table(JSON "\nsystem\tMAINTAIN,USE_UDF\ncatalog\tlake\tSELECT\ndatabase\tpond\tfish\tINSERT\n"
								   "table\tpond\tfish\tpike\tDROP,ALTER");
	const Question questions[] = {
		{AMORO_PRIVILEGE_MAINTAIN, {0}, true},
		{AMORO_PRIVILEGE_USE_UDF, {0}, true},
		{AMORO_PRIVILEGE_USE_CQ, {0}, false},
		{AMORO_PRIVILEGE_MAINTAIN, {.catalog_name = "x", .database_name = "y", .table_name = "z"}, true},
		{AMORO_PRIVILEGE_SELECT, {0}, false},
		{AMORO_PRIVILEGE_SELECT, {.catalog_name = "lake"}, true},
		{AMORO_PRIVILEGE_SELECT, {.catalog_name = "lake", .database_name = "d"}, true},
		{AMORO_PRIVILEGE_SELECT, {.catalog_name = "lake", .database_name = "d", .table_name = "t"}, true},
		{AMORO_PRIVILEGE_SELECT, {.catalog_name = "lake", .database_name = "d", .path = "root.a"}, true},
		{AMORO_PRIVILEGE_SELECT, {.catalog_name = "lak"}, false},
		{AMORO_PRIVILEGE_SELECT, {.catalog_name = "lakes"}, false},
		{AMORO_PRIVILEGE_SELECT, {.catalog_name = "pond", .database_name = "fish"}, false},
		{AMORO_PRIVILEGE_INSERT, {.catalog_name = "pond"}, false},
		{AMORO_PRIVILEGE_INSERT, {.catalog_name = "pond", .database_name = "fish"}, true},
		{AMORO_PRIVILEGE_INSERT, {.catalog_name = "pond", .database_name = "fish", .table_name = "carp"}, true},
		{AMORO_PRIVILEGE_INSERT, {.catalog_name = "lake", .database_name = "fish"}, false},
		{AMORO_PRIVILEGE_INSERT, {.catalog_name = "pondf", .database_name = "ish"}, false},
		{AMORO_PRIVILEGE_DROP, {.catalog_name = "pond", .database_name = "fish", .table_name = "pike"}, true},
		{AMORO_PRIVILEGE_ALTER, {.catalog_name = "pond", .database_name = "fish", .table_name = "pike"}, true},
		{AMORO_PRIVILEGE_CREATE, {.catalog_name = "pond", .database_name = "fish", .table_name = "pike"}, false},
		{AMORO_PRIVILEGE_DROP, {.catalog_name = "pond", .database_name = "fish", .table_name = "carp"}, false},
		{AMORO_PRIVILEGE_DROP, {.catalog_name = "pond", .database_name = "fish"}, false},
		{AMORO_PRIVILEGE_DROP, {.catalog_name = "pond", .database_name = "fish", .table_name = ""}, false},
	};

	ask_all(table, questions, sizeof(questions) / sizeof(questions[0]));
	free(table);
}

static void
test_paths(void **state)
{
	void	   *table = make_table(JSON "\npath\tlake\tplant\troot.site1.**\tREAD_DATA\n"
								   "path\tlake\tplant\troot.site2.`a.b`\tWRITE_DATA\n"
								   "path\tlake\tplant\troot.`x.y`.**\tWRITE_SCHEMA\n"
								   "path\tlake\tlab\troot.**\tREAD_SCHEMA");
	struct
	{
		AmoroPrivilege privilege;
		const char *database;
		const char *path;
		bool		allowed;
	}			questions[] = {
		{AMORO_PRIVILEGE_READ_DATA, "plant", "root.site1.t", true},
		{AMORO_PRIVILEGE_READ_DATA, "plant", "root.site1.t.u.v", true},
		{AMORO_PRIVILEGE_READ_DATA, "plant", "root.site1", false},
		{AMORO_PRIVILEGE_READ_DATA, "plant", "root", false},
		{AMORO_PRIVILEGE_READ_DATA, "plant", "root.site11.t", false},
		{AMORO_PRIVILEGE_READ_DATA, "plant", "root.site1.**", true},
		{AMORO_PRIVILEGE_READ_DATA, "plant", "root.site1.*.u", true},
		{AMORO_PRIVILEGE_READ_DATA, "plant", "root.**", false},
		{AMORO_PRIVILEGE_READ_DATA, "plant", "root.*.t", false},
		{AMORO_PRIVILEGE_READ_DATA, "lab", "root.site1.t", false},
		{AMORO_PRIVILEGE_READ_DATA, "plant", "root.site2.site1.t", false},
		{AMORO_PRIVILEGE_WRITE_DATA, "plant", "root.site2.`a.b`", true},
		{AMORO_PRIVILEGE_WRITE_DATA, "plant", "root.site2.`a.b`.c", false},
		{AMORO_PRIVILEGE_WRITE_DATA, "plant", "root.site2.`a", false},
		{AMORO_PRIVILEGE_WRITE_SCHEMA, "plant", "root.`x.y`.z", true},
		{AMORO_PRIVILEGE_WRITE_SCHEMA, "plant", "root.`x.y`", false},
		{AMORO_PRIVILEGE_WRITE_SCHEMA, "plant", "root.`x.y``.z`.z", false},
		{AMORO_PRIVILEGE_READ_SCHEMA, "lab", "root.a", true},
		{AMORO_PRIVILEGE_READ_SCHEMA, "lab", "root", false},
	};

	for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++)
	{
		AmoroScope	scope = {"lake", questions[i].database, NULL, questions[i].path};

		if (allows(table, questions[i].privilege, scope) != questions[i].allowed)
			fail_msg("%s is not answered with %s", questions[i].path, questions[i].allowed ? "yes" : "no");
	}
	free(table);
}

/* names with tabs and backslashes, and what a newer server may say */
static void
test_what_lines_may_hold(void **state)
{
	void	   *table = make_table(JSON "\ncatalog\ta\\\\b\tSELECT\ncatalog\ta\\\tb\tSELECT,FLY,INSERT\nplanet\tmars\tSELECT\nsystem\tFLY\n");

	assert_true(allows(table, AMORO_PRIVILEGE_SELECT, (AmoroScope) {.catalog_name = "a\\b"}));
	assert_true(allows(table, AMORO_PRIVILEGE_INSERT, (AmoroScope) {.catalog_name = "a\tb"}));
	assert_false(allows(table, AMORO_PRIVILEGE_INSERT, (AmoroScope) {.catalog_name = "a\\b"}));
	assert_false(allows(table, AMORO_PRIVILEGE_SELECT, (AmoroScope) {.catalog_name = "mars"}));
	for (int privilege = 0; privilege < AMORO_PRIVILEGE_COUNT; privilege++)
		assert_false(allows(table, (AmoroPrivilege) privilege, (AmoroScope) {0}));
	free(table);
}

/* who may do nothing may do nothing */
static void
test_nothing(void **state)
{
	static const char *const documents[] = {"", JSON, JSON "\n"};

	for (size_t i = 0; i < sizeof(documents) / sizeof(documents[0]); i++)
	{
		void	   *table = make_table(documents[i]);

		for (int privilege = 0; privilege < AMORO_PRIVILEGE_COUNT; privilege++)
			assert_false(allows(table, (AmoroPrivilege) privilege, (AmoroScope) {"lake", "d", "t", NULL}));
		free(table);
	}
}

/* nothing is decided by lines that are not what they should be */
static void
test_broken_lines(void **state)
{
	static const char *const lines[] = {
		"system", "catalog\tlake", "catalog\t\tSELECT", "database\tlake\tSELECT", "table\tlake\td\tt", "system\tSELECT\tINSERT",
		"catalog\tlake\tSELECT\ncatalog", "catalog\tlake\td\tSELECT",
	};
	AmoroKey	key = {.catalog_name = "ann"};
	KeyParts	parts;

	assert_true(key_parts(&parts, AMORO_CACHE_AUTHORITY, &key, 1));
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
	{
		char		document[200];

		snprintf(document, sizeof(document), JSON "\n%s", lines[i]);
		if (entry_create(AMORO_CACHE_AUTHORITY, &parts, document, strlen(document), 1) != NULL)
			fail_msg("an entry was made of \"%s\"", lines[i]);
	}
}

/* many scopes, each found, none of their neighbours */
static void
test_many_scopes(void **state)
{
	const int	count = 20000;
	const size_t room = (size_t) count * 64;
	char	   *document = malloc(room);
	size_t		length = (size_t) snprintf(document, room, JSON);
	void	   *table;

	for (int i = 0; i < count; i++)
		length += (size_t) snprintf(document + length, room - length, "\ntable\tlake\td%d\tt%d\t%s", i / 100, i, i % 2 ? "SELECT" : "INSERT");
	table = make_table(document);
	for (int i = 0; i < count; i++)
	{
		char		database[20];
		char		name[20];

		snprintf(database, sizeof(database), "d%d", i / 100);
		snprintf(name, sizeof(name), "t%d", i);
		assert_int_equal(allows(table, AMORO_PRIVILEGE_SELECT, (AmoroScope) {"lake", database, name, NULL}), i % 2);
		assert_int_equal(allows(table, AMORO_PRIVILEGE_INSERT, (AmoroScope) {"lake", database, name, NULL}), 1 - i % 2);
	}
	assert_false(allows(table, AMORO_PRIVILEGE_SELECT, (AmoroScope) {"lake", "d0", "t101", NULL}));
	free(table);
	free(document);
}

static void
test_names_of_privileges(void **state)
{
	AmoroPrivilege privilege;

	for (int i = 0; i < AMORO_PRIVILEGE_COUNT; i++)
	{
		assert_non_null(amoro_privilege_name((AmoroPrivilege) i));
		assert_true(amoro_privilege_parse(amoro_privilege_name((AmoroPrivilege) i), &privilege));
		assert_int_equal(privilege, i);
	}
	assert_true(amoro_privilege_parse("read_Data", &privilege));
	assert_int_equal(privilege, AMORO_PRIVILEGE_READ_DATA);
	assert_false(amoro_privilege_parse("", &privilege));
	assert_false(amoro_privilege_parse("SELEC", &privilege));
	assert_string_equal(amoro_privilege_name(AMORO_PRIVILEGE_COUNT), "unknown");
}

/* An active node that knows ann. */
static World *
world_with_ann(const char *lines)
{
	World	   *world = world_create(1);
	AmoroKey	key = {.catalog_name = "ann"};
	Cache	   *cache;
	char		document[200];
	KeyParts	parts;
	AmoroEntry *entry;

	world_add_node(world);
	world_run(world, 100000);
	cache = &world->node->cache;
	snprintf(document, sizeof(document), JSON "\n%s", lines);
	assert_true(key_parts(&parts, AMORO_CACHE_AUTHORITY, &key, cache->seed));
	entry = entry_create(AMORO_CACHE_AUTHORITY, &parts, document, strlen(document), 1);
	assert_non_null(entry);
	assert_true(cache_store(cache, &world->node->lease, &parts, entry, world->node->lease.generation,
							cache_generation(cache, cache_ticket_hash(&parts))));
	amoro_entry_release(entry);
	return world;
}

static AmoroResult
check(World *world, const char *user, AmoroPrivilege privilege, AmoroScope scope, AmoroTicket *ticket)
{
	return amoro_privilege_check(world->node, user, privilege, &scope, ticket);
}

static int64_t
users_in_memory(World *world)
{
	AmoroNodeStatus status;

	amoro_node_status(world->node, &status);
	return status.caches[AMORO_CACHE_AUTHORITY].entries;
}

static void
test_check(void **state)
{
	World	   *world = world_with_ann("catalog\tlake\tSELECT");
	AmoroKey	key = {.catalog_name = "ann"};
	AmoroScope	lake = {.catalog_name = "lake"};
	AmoroTicket ticket;
	AmoroEntry *entry;
	size_t		size;

	assert_int_equal(check(world, "ann", AMORO_PRIVILEGE_SELECT, lake, &ticket), AMORO_OK);
	assert_int_equal(amoro_ticket_check(world->node, &ticket), AMORO_OK);
	assert_int_equal(check(world, "ann", AMORO_PRIVILEGE_INSERT, lake, &ticket), AMORO_NOT_FOUND);
	assert_int_equal(amoro_ticket_check(world->node, &ticket), AMORO_OK);
	assert_int_equal(check(world, "", AMORO_PRIVILEGE_SELECT, lake, &ticket), AMORO_INVALID_ARGUMENT);
	assert_int_equal(check(world, NULL, AMORO_PRIVILEGE_SELECT, lake, &ticket), AMORO_INVALID_ARGUMENT);
	assert_int_equal(check(world, "ann", AMORO_PRIVILEGE_COUNT, lake, &ticket), AMORO_INVALID_ARGUMENT);
	assert_int_equal(check(world, "ann", AMORO_PRIVILEGE_MAINTAIN, lake, &ticket), AMORO_INVALID_ARGUMENT);
	assert_int_equal(check(world, "ann", AMORO_PRIVILEGE_SELECT, (AmoroScope) {"lake", "d", NULL, "root.a"}, &ticket), AMORO_INVALID_ARGUMENT);
	assert_int_equal(check(world, "ann", -1, lake, &ticket), AMORO_INVALID_ARGUMENT);
	assert_int_equal(check(world, "ann", AMORO_PRIVILEGE_SELECT, (AmoroScope) {.database_name = "d"}, &ticket), AMORO_INVALID_ARGUMENT);
	assert_int_equal(check(world, "ann", AMORO_PRIVILEGE_SELECT, (AmoroScope) {.catalog_name = "lake", .table_name = "t"}, &ticket),
					 AMORO_INVALID_ARGUMENT);
	assert_int_equal(check(world, "ann", AMORO_PRIVILEGE_SELECT, (AmoroScope) {"lake", "d", "t", "root.a"}, &ticket), AMORO_INVALID_ARGUMENT);
	assert_int_equal(check(world, "ann", AMORO_PRIVILEGE_SELECT, (AmoroScope) {"lake", "d", NULL, "site1.a"}, &ticket), AMORO_INVALID_ARGUMENT);
	/* what is shown of a user is the JSON alone */
	assert_int_equal(amoro_cache_peek(world->node, AMORO_CACHE_AUTHORITY, &key, &entry, &ticket), AMORO_OK);
	assert_memory_equal(amoro_entry_document(entry, &size), JSON, strlen(JSON));
	assert_int_equal(size, strlen(JSON));
	amoro_entry_release(entry);
	world_destroy(world);
}

/* an answer that a change overtook does not leave, whether it was yes or no */
static void
test_change_overtakes_a_check(void **state)
{
	World	   *world = world_with_ann("catalog\tlake\tSELECT");
	MetadataChange change = {world->server.version + 1, "authority", "revoke", "ann", NULL, NULL};
	AmoroTicket yes;
	AmoroTicket no;

	assert_int_equal(check(world, "ann", AMORO_PRIVILEGE_SELECT, (AmoroScope) {.catalog_name = "lake"}, &yes), AMORO_OK);
	assert_int_equal(check(world, "ann", AMORO_PRIVILEGE_DROP, (AmoroScope) {.catalog_name = "lake"}, &no), AMORO_NOT_FOUND);
	change_feed_apply(world->node, &change, 1, change.version - 1, change.version);
	assert_int_equal(amoro_ticket_check(world->node, &yes), AMORO_STALE);
	assert_int_equal(amoro_ticket_check(world->node, &no), AMORO_STALE);
	assert_int_equal(users_in_memory(world), 0);
	world_destroy(world);
}

/* a fenced node says neither yes nor no, and has forgotten its users when it is back */
static void
test_fenced_drops_users(void **state)
{
	World	   *world = world_with_ann("catalog\tlake\tSELECT");
	AmoroScope	lake = {.catalog_name = "lake"};
	AmoroTicket yes;
	AmoroTicket ticket;

	assert_int_equal(check(world, "ann", AMORO_PRIVILEGE_SELECT, lake, &yes), AMORO_OK);
	world->cut_to_node = world->cut_to_server = true;
	world_run(world, 300000);
	world_run(world, world->node->lease.end - world_node_time(world) - 1);
	assert_int_equal(check(world, "ann", AMORO_PRIVILEGE_SELECT, lake, &ticket), AMORO_OK);
	world_run(world, 1);
	assert_int_equal(check(world, "ann", AMORO_PRIVILEGE_SELECT, lake, &ticket), AMORO_FENCED);
	assert_int_equal(check(world, "ann", AMORO_PRIVILEGE_DROP, lake, &ticket), AMORO_FENCED);
	assert_int_equal(amoro_ticket_check(world->node, &yes), AMORO_FENCED);
	world_run(world, SECOND);
	assert_int_equal(users_in_memory(world), 0);
	world->cut_to_node = world->cut_to_server = false;
	world_run(world, SECOND);
	assert_int_equal(users_in_memory(world), 0);
	assert_int_equal(amoro_ticket_check(world->node, &yes), AMORO_FENCED);
	world_destroy(world);
}

/* a node that hears from the server keeps its users */
static void
test_heartbeats_keep_users(void **state)
{
	World	   *world = world_with_ann("catalog\tlake\tSELECT");
	AmoroTicket ticket;

	world_run(world, 60 * SECOND);
	assert_int_equal(users_in_memory(world), 1);
	assert_int_equal(check(world, "ann", AMORO_PRIVILEGE_SELECT, (AmoroScope) {.catalog_name = "lake"}, &ticket), AMORO_OK);
	assert_int_equal(amoro_ticket_check(world->node, &ticket), AMORO_OK);
	world_destroy(world);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scopes),
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_what_lines_may_hold),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_broken_lines),
		cmocka_unit_test(test_many_scopes),
		cmocka_unit_test(test_names_of_privileges),
		cmocka_unit_test(test_check),
		cmocka_unit_test(test_change_overtakes_a_check),
		cmocka_unit_test(test_fenced_drops_users),
		cmocka_unit_test(test_heartbeats_keep_users),
	};

	return cmocka_run_group_tests_name("authority", tests, NULL, NULL);
}
