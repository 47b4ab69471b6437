/*
 * answer_text_test.c
 *		What the library reads of a heartbeat's answer in one value, and what it does not.
 */
#include "scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer_text.h"

#define GRANT "(granted,7,4294967297,3,20000,1000,1000,12,)"
#define LINE(version, ordinal, name) "\n" version "\t" ordinal "\ttable\talter\tlake\tsales\t" name "\t9\t{}"

static NodeAnswer answer;

static int
release(void **state)
{
	free(answer.changes);
	answer.changes = NULL;
	return 0;
}

static bool
reads(const char *text)
{
	release(NULL);
	memset(&answer, 0, sizeof(answer));
	return answer_text_read(text, 10, &answer);
}

static void
test_grant(void **state)
{
	assert_true(reads(GRANT));
	assert_int_equal(answer.grant.answer, GRANT_GRANTED);
	assert_int_equal(answer.grant.node_id, 7);
	assert_int_equal(answer.grant.term, INT64_C(4294967297));
	assert_int_equal(answer.grant.lease_epoch, 3);
	assert_int_equal(answer.grant.lease_ms, 20000);
	assert_int_equal(answer.grant.max_clock_drift_ppm, 1000);
	assert_int_equal(answer.grant.heartbeat_interval_ms, 1000);
	assert_int_equal(answer.grant.metadata_version, 12);
	assert_string_equal(answer.grant.reason, "");
	assert_int_equal(answer.change_count, 0);
	assert_true(reads("(held,7,1,3,20000,1000,1000,9223372036854775807,\"one, two: three\")"));
	assert_int_equal(answer.grant.answer, GRANT_HELD);
	assert_int_equal(answer.grant.metadata_version, INT64_MAX);
	assert_string_equal(answer.grant.reason, "one, two: three");
}

static void
test_no_grant(void **state)
{
	static const char *const texts[] = {
		"", "(", "()", "granted", "(granted)", "(granted,7,1,3,20000,1000,1000,12)", "(granted,7,1,3,20000,1000,1000,12,",
		"(grante,7,1,3,20000,1000,1000,12,)", "(grantedd,7,1,3,20000,1000,1000,12,)", " (granted,7,1,3,20000,1000,1000,12,)",
		"(,7,1,3,20000,1000,1000,12,)", "(granted,,1,3,20000,1000,1000,12,)", "(granted,7,1,3,20000,1000,1000,,)",
		"(granted,7,1,3,20000,1000,1000,-12,)", "(granted,7,1,3,20000,1000,1000, 12,)", "(granted,7,1,3,20000,1000,1000,+12,)",
		"(granted,7,1,3,20000,1000,1000,12x,)", "(granted,7,1,3,20000,1000,1000,9223372036854775808,)",
		"(granted,7,1,3,20000,1000,1000,12,reason)", "(granted,7,1,3,20000,1000,1000,12,\"reason)",
		"(granted,7,1,3,20000,1000,1000,12,\"rea\"son\")", "(granted,7,1,3,20000,1000,1000,12,\"rea\\\"son\")",
		"(granted,7,1,3,20000,1000,1000,12,) ", "(granted,7,1,3,20000,1000,1000,12,)x", "(granted,7,1,3,20000,1000,1000,12,0,)",
	};
	char		long_reason[600];

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
	{
		if (reads(texts[i]))
			fail_msg("was read: %s", texts[i]);
	}
	snprintf(long_reason, sizeof(long_reason), "(held,7,1,3,20000,1000,1000,12,\"%0*d\")", REASON_SIZE, 1);
	assert_false(reads(long_reason));
}

static void
test_changes(void **state)
{
	assert_true(reads(GRANT LINE("11", "0", "a") LINE("11", "1", "b\\tc\\\\\\n\\r") LINE("12", "0", "\\N")));
	assert_int_equal(answer.change_count, 3);
	assert_int_equal(answer.changes[0].version, 11);
	assert_string_equal(answer.changes[0].object_kind, "table");
	assert_string_equal(answer.changes[0].operation, "alter");
	assert_string_equal(answer.changes[0].catalog_name, "lake");
	assert_string_equal(answer.changes[0].database_name, "sales");
	assert_string_equal(answer.changes[0].object_name, "a");
	assert_int_equal(answer.changes[1].version, 11);
	assert_string_equal(answer.changes[1].object_name, "b\tc\\\n\r");
	assert_int_equal(answer.changes[2].version, 12);
	assert_null(answer.changes[2].object_name);
}

/* Each would have the node acknowledge what it has not been told. */
static void
test_no_changes(void **state)
{
	static const char *const texts[] = {
		GRANT "\n", GRANT LINE("12", "0", "a"), GRANT LINE("11", "0", "a"), GRANT LINE("10", "0", "a") LINE("11", "0", "a") LINE("12", "0", "a"),
		GRANT LINE("11", "0", "a") LINE("13", "0", "a"), GRANT LINE("12", "0", "a") LINE("11", "0", "a"),
		GRANT LINE("11", "0", "a") LINE("12", "0", "a") LINE("13", "0", "a"), GRANT LINE("11", "1", "a") LINE("12", "0", "a"),
		GRANT LINE("11", "0", "a") LINE("11", "0", "a") LINE("12", "0", "a"), GRANT LINE("11", "0", "a") LINE("12", "1", "a"),
		GRANT LINE("11", "0", "a") LINE("11", "2", "a") LINE("12", "0", "a"), GRANT LINE("11", "0", "a") LINE("12", "0", "a") "\n",
		GRANT LINE("11", "0", "a\tb") LINE("12", "0", "a"), GRANT LINE("11", "0", "a\\x") LINE("12", "0", "a"),
		GRANT LINE("11", "0", "a\\") LINE("12", "0", "a"), GRANT LINE("11", "0", "a") "\n12\t0\ttable\talter\tlake\tsales\ta\t9",
		GRANT LINE("11", "0", "a") LINE("\\N", "0", "a"), GRANT LINE("11", "0", "a") LINE("12 ", "0", "a"),
		GRANT LINE("11", "0", "a") "\n12\t0\t\\N\talter\tlake\tsales\ta\t9\t{}",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
	{
		if (reads(texts[i]))
			fail_msg("was read: %s", texts[i]);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_grant, release),
		cmocka_unit_test_teardown(test_no_grant, release),
		cmocka_unit_test_teardown(test_changes, release),
		cmocka_unit_test_teardown(test_no_changes, release),
	};

	return cmocka_run_group_tests_name("answer_text", tests, NULL, NULL);
}
