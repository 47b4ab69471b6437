/*
 * lease_test.c
 *		The lease alone: a clock that the test sets, answers that the test makes up.
 */
#include "scenario.h"

#include <string.h>
#include <time.h>

#include "lease.h"

#define L 2000000
#define USABLE 1998000			/* L * (1 - 1000 ppm) */
#define TERM ((INT64_C(1) << 32) | 5)
#define NEXT_TIMELINE ((INT64_C(2) << 32) | 6)

static NodeTime now;
static int	clears;
static int	clears_keeping;
static Lease lease;
static NodeRequest request;

static NodeTime
read_clock(void *argument)
{
	return now;
}

static const NodeClock test_clock = {read_clock, NULL};

static void
count_clear(void *argument, bool keep_loaded)
{
	clears_keeping += keep_loaded;
	clears++;
}

static NodeGrant
grant_of(GrantAnswer answer, int64_t term, int64_t epoch, int64_t version)
{
	return (NodeGrant) {
		.answer = answer, .node_id = 7, .term = term, .lease_epoch = epoch, .lease_ms = L / 1000,
		.max_clock_drift_ppm = 1000, .heartbeat_interval_ms = 200, .metadata_version = version
	};
}

static void
ask(RequestKind kind)
{
	lease_request_begin(&lease, kind, 0, &request);
}

static LeaseOutcome
answer(GrantAnswer what, int64_t term, int64_t epoch, int64_t version)
{
	NodeGrant	grant = grant_of(what, term, epoch, version);

	return lease_answered(&lease, &request, &grant);
}

/* Registered and activated at version 10, lease of L from time 1,000,000. */
static void
begin(void)
{
	now = 1000000;
	clears = 0;
	lease_init(&lease, &test_clock, count_clear, NULL);
	memcpy(lease.incarnation, "one", 4);
	ask(REQUEST_REGISTER);
	answer(GRANT_RELOAD, TERM, 1, 10);
	ask(REQUEST_ACTIVATE);
	answer(GRANT_GRANTED, TERM, 1, 10);
}

static bool
serving(void)
{
	return lease_is_valid(&lease);
}

static void
test_starts_fenced(void **state)
{
	now = 1000000;
	lease_init(&lease, &test_clock, count_clear, NULL);
	assert_false(serving());
	assert_int_equal(lease_next_step(&lease), STEP_REGISTER);
	ask(REQUEST_REGISTER);
	answer(GRANT_RELOAD, TERM, 1, 10);
	assert_false(serving());
	assert_int_equal(lease_next_step(&lease), STEP_ACTIVATE);
	ask(REQUEST_ACTIVATE);
	assert_int_equal(request.version, 10);
	assert_int_equal(lease.state, AMORO_NODE_RECOVERING);
	assert_false(serving());
	answer(GRANT_GRANTED, TERM, 1, 10);
	assert_true(serving());
	assert_int_equal(lease_next_step(&lease), STEP_HEARTBEAT);
}

/* items 1, 2 and 7: valid to the last microsecond, and not at the end itself */
static bool
ends_by_arithmetic(void)
{
	bool		before;

	begin();
	now = 1000000 + USABLE - 1;
	before = serving();
	now++;
	return before && !serving();
}

static bool
allows_for_drift(void)
{
	NodeGrant	grant = grant_of(GRANT_GRANTED, TERM, 1, 10);

	begin();
	now = 1100000;
	ask(REQUEST_HEARTBEAT);
	grant.lease_ms = 2234;
	grant.max_clock_drift_ppm = 567;
	lease_answered(&lease, &request, &grant);
	return lease.end == 1100000 + 2234000 - 1267;	/* 1266.678 us of drift, rounded up */
}

/* A2, A3, item 63: what the network or a stall did with the request is not added to the lease */
static bool
counts_from_sending(void)
{
	begin();
	now = 1100000;
	ask(REQUEST_HEARTBEAT);
	now = 2500000;
	answer(GRANT_GRANTED, TERM, 1, 10);
	return lease.end == 1100000 + USABLE;
}

/* A2: an answer to a request that was given up extends nothing */
static bool
newest_request_only(void)
{
	NodeRequest first;
	NodeGrant	grant = grant_of(GRANT_GRANTED, TERM, 1, 10);

	begin();
	now = 1100000;
	ask(REQUEST_HEARTBEAT);
	first = request;
	now = 1200000;
	ask(REQUEST_HEARTBEAT);
	lease_answered(&lease, &first, &grant);
	return lease.end == 1000000 + USABLE;
}

/* A4, A5: a shorter lease is granted; what was granted before keeps its own end */
static bool
never_backwards(void)
{
	NodeGrant	grant = grant_of(GRANT_GRANTED, TERM, 1, 10);

	begin();
	now = 1100000;
	ask(REQUEST_HEARTBEAT);
	grant.lease_ms = 400;
	grant.heartbeat_interval_ms = 50;
	lease_answered(&lease, &request, &grant);
	return lease.end == 1000000 + USABLE && lease.lease_us == 400000;
}

/* A10, items 3, 5 and 8: a grant that comes after the end does not bring the caches back */
static bool
lapsed_is_not_extended(void)
{
	uint64_t	generation;

	begin();
	generation = lease.generation;
	now = 2900000;
	ask(REQUEST_HEARTBEAT);
	now = 3100000;				/* the lease ended at 2,998,000 */
	answer(GRANT_GRANTED, TERM, 1, 10);
	if (serving() || clears != 1 || lease.generation == generation)
		return false;
	ask(REQUEST_ACTIVATE);
	answer(GRANT_GRANTED, TERM, 1, 10);
	return serving() && clears == 1 && lease.fences == 1 && lease.recoveries == 2;
}

/* item 6 */
static void
test_heartbeats_clear_nothing(void **state)
{
	begin();
	for (int i = 0; i < 3; i++)
	{
		now += 1000000;
		ask(REQUEST_HEARTBEAT);
		assert_int_equal(answer(GRANT_GRANTED, TERM, 1, 10), LEASE_WAIT);
	}
	assert_int_equal(clears, 0);
	assert_true(serving());
}

/* an activation that was asked for before the clear does not vouch for the caches after it */
static void
test_activation_of_cleared_caches(void **state)
{
	begin();
	ask(REQUEST_HEARTBEAT);
	answer(GRANT_RELOAD, TERM + 1, 1, 10);
	assert_true(lease.carrying);
	now = 2900000;
	ask(REQUEST_ACTIVATE);
	now = 3100000;
	answer(GRANT_GRANTED, TERM + 1, 1, 10);
	assert_false(serving());
	assert_int_equal(clears, 1);
	assert_int_equal(lease_next_step(&lease), STEP_ACTIVATE);
}

/* a grant whose time is over when it arrives begins nothing */
static void
test_late_activation(void **state)
{
	now = 1000000;
	lease_init(&lease, &test_clock, count_clear, NULL);
	ask(REQUEST_REGISTER);
	answer(GRANT_RELOAD, TERM, 1, 10);
	ask(REQUEST_ACTIVATE);
	now += USABLE;
	answer(GRANT_GRANTED, TERM, 1, 10);
	assert_false(serving());
	assert_int_equal(lease_next_step(&lease), STEP_ACTIVATE);
}

/* item 64: an answer of an older term is not listened to */
static bool
old_term_is_refused(void)
{
	begin();
	ask(REQUEST_HEARTBEAT);
	answer(GRANT_RELOAD, NEXT_TIMELINE, 1, 10);
	ask(REQUEST_ACTIVATE);
	now += 1000;
	return answer(GRANT_RELOAD, TERM, 1, 12) == LEASE_DISCONNECT && lease.term == NEXT_TIMELINE &&
		lease.newest_version == 10;
}

static bool
reload_in_one_term_clears(void)
{
	begin();
	ask(REQUEST_HEARTBEAT);
	answer(GRANT_RELOAD, TERM, 2, 10);
	return !serving() && clears == 1 && lease.lease_epoch == 2;
}

static bool
other_timeline_clears(void)
{
	begin();
	ask(REQUEST_HEARTBEAT);
	answer(GRANT_RELOAD, NEXT_TIMELINE, 1, INT64_C(1) << 41);
	return !serving() && clears == 1;
}

static bool
fence_clears(void)
{
	begin();
	ask(REQUEST_HEARTBEAT);
	answer(GRANT_RELOAD, TERM, 2, 10);
	return clears == 1 && lease.generation == 1;
}

/* rule 6, last sentence */
static void
test_restart_keeps_caches(void **state)
{
	begin();
	now = 1500000;
	ask(REQUEST_HEARTBEAT);
	answer(GRANT_RELOAD, TERM + 1, 1, 12);
	assert_true(serving());
	assert_int_equal(lease.end, 1000000 + USABLE);	/* still the old lease */
	assert_int_equal(lease_next_step(&lease), STEP_CHANGES);
	ask(REQUEST_CHANGES);
	assert_int_equal(request.version, 10);
	lease_changes_applied(&lease, &request, 12);
	assert_int_equal(lease_next_step(&lease), STEP_ACTIVATE);
	ask(REQUEST_ACTIVATE);
	assert_int_equal(request.version, 12);
	assert_int_equal(request.term, TERM + 1);
	assert_int_equal(lease.state, AMORO_NODE_ACTIVE);
	answer(GRANT_GRANTED, TERM + 1, 1, 12);
	assert_int_equal(lease.end, 1500000 + USABLE);
	assert_int_equal(clears, 0);
	assert_int_equal(lease_next_step(&lease), STEP_HEARTBEAT);
}

static void
test_restart_that_lost_changes_clears(void **state)
{
	begin();
	ask(REQUEST_HEARTBEAT);
	answer(GRANT_RELOAD, TERM + 1, 1, 9);
	assert_false(serving());
	assert_int_equal(clears, 1);
}

static void
test_restart_during_a_carry(void **state)
{
	begin();
	ask(REQUEST_HEARTBEAT);
	answer(GRANT_RELOAD, TERM + 1, 1, 10);
	ask(REQUEST_ACTIVATE);
	answer(GRANT_RELOAD, TERM + 2, 1, 10);
	assert_true(serving());
	ask(REQUEST_ACTIVATE);
	answer(GRANT_RELOAD, TERM + 2, 2, 10);	/* fenced meanwhile: now everything goes */
	assert_false(serving());
	assert_int_equal(clears, 1);
}

/* rule 8 */
static void
test_held_extends_nothing(void **state)
{
	begin();
	now = 1500000;
	ask(REQUEST_HEARTBEAT);
	assert_int_equal(answer(GRANT_HELD, TERM, 1, 11), LEASE_GO_ON);
	assert_int_equal(lease.end, 1000000 + USABLE);
	assert_int_equal(lease_next_step(&lease), STEP_CHANGES);
	assert_non_null(strstr(lease.reason, "holds the lease back"));
}

/* held back though nothing is missing: now and then another server is tried, which may be the primary */
static void
test_held_by_a_server_that_grants_nothing(void **state)
{
	int			disconnects = 0;

	begin();
	for (int i = 0; i < 12; i++)
	{
		LeaseOutcome outcome;

		ask(REQUEST_HEARTBEAT);
		outcome = answer(GRANT_HELD, TERM, 1, 10);
		assert_true(outcome == LEASE_RETRY || outcome == LEASE_DISCONNECT);
		disconnects += outcome == LEASE_DISCONNECT;
	}
	assert_in_range(disconnects, 1, 6);
	assert_int_equal(lease.end, 1000000 + USABLE);
}

/* told that it is behind, in a new term, by a server that knows of no newer change: nothing can be caught up with */
static void
test_behind_without_changes(void **state)
{
	begin();
	ask(REQUEST_HEARTBEAT);
	answer(GRANT_RELOAD, TERM + 1, 1, 10);
	ask(REQUEST_ACTIVATE);
	answer(GRANT_BEHIND, TERM + 1, 1, 10);
	assert_false(serving());
	assert_int_equal(clears, 1);

	/* and with one: it fetches, and activates again */
	begin();
	ask(REQUEST_HEARTBEAT);
	answer(GRANT_RELOAD, TERM + 1, 1, 10);
	ask(REQUEST_ACTIVATE);
	answer(GRANT_BEHIND, TERM + 1, 1, 11);
	assert_true(serving());
	assert_int_equal(lease_next_step(&lease), STEP_CHANGES);
}

/* what people are shown does not wait for the heartbeat thread to notice */
static void
test_state_by_arithmetic(void **state)
{
	begin();
	assert_int_equal(lease_state(&lease), AMORO_NODE_ACTIVE);
	now = 1000000 + USABLE;
	assert_int_equal(lease.state, AMORO_NODE_ACTIVE);
	assert_int_equal(lease_state(&lease), AMORO_NODE_FENCED);
}

/* an answer to changes, or an error, for a node that was closed meanwhile */
static void
test_closed_meanwhile(void **state)
{
	begin();
	ask(REQUEST_HEARTBEAT);
	answer(GRANT_GRANTED, TERM, 1, 12);
	ask(REQUEST_CHANGES);
	lease_close(&lease);
	lease_changes_applied(&lease, &request, 12);
	assert_int_equal(lease.applied_version, 10);
	lease_refused(&lease, &request, "AM002", "unknown");
	assert_true(lease.registered);
	assert_string_equal(lease.incarnation, "one");
	assert_false(serving());
}

static void
test_leave(void **state)
{
	begin();
	ask(REQUEST_HEARTBEAT);
	answer(GRANT_LEAVE, TERM, 1, 10);
	assert_false(serving());
	assert_int_equal(clears, 1);
	assert_int_equal(lease.state, AMORO_NODE_REMOVED);
	assert_int_equal(lease_next_step(&lease), STEP_RELEASE);
	ask(REQUEST_RELEASE);
	lease_request_lost(&lease, &request, "no answer");
	assert_int_equal(lease_next_step(&lease), STEP_STOP);
	assert_int_equal(lease.state, AMORO_NODE_REMOVED);
}

static LeaseOutcome
refuse(RequestKind kind, const char *sqlstate)
{
	ask(kind);
	return lease_refused(&lease, &request, sqlstate, "a message");
}

/* L12: the older process fences at once, for good */
static void
test_superseded(void **state)
{
	begin();
	refuse(REQUEST_HEARTBEAT, "AM003");
	assert_false(serving());
	assert_int_equal(clears, 1);
	assert_int_equal(lease.state, AMORO_NODE_SUPERSEDED);
	assert_int_equal(lease_next_step(&lease), STEP_STOP);
}

/* L14: the same process, which the server may remember as one that had to give way */
static void
test_unknown_node_registers_again(void **state)
{
	begin();
	refuse(REQUEST_HEARTBEAT, "AM002");
	assert_false(serving());
	assert_int_equal(lease_next_step(&lease), STEP_REGISTER);
	assert_string_equal(lease.incarnation, "one");
	/* but a name that is being removed is not asked for in a hurry */
	assert_int_equal(refuse(REQUEST_REGISTER, "AM002"), LEASE_RETRY);
}

/* L14: whatever the error, the lease runs to its end and no further */
static void
test_errors_leave_the_lease_alone(void **state)
{
	static const char *const sqlstates[] = {"42501", "AM005", "AM004", "25006", "53300", "XX000", "57P01", "0A000"};

	for (size_t i = 0; i < sizeof(sqlstates) / sizeof(sqlstates[0]); i++)
	{
		begin();
		now = 2000000;
		refuse(REQUEST_HEARTBEAT, sqlstates[i]);
		assert_int_equal(lease.end, 1000000 + USABLE);
		assert_true(serving());
		now = 1000000 + USABLE;
		assert_false(serving());
		lease_expire(&lease);
		assert_int_equal(clears, 1);
		assert_int_equal(lease.state, strcmp(sqlstates[i], "42501") == 0 ? AMORO_NODE_REFUSED : AMORO_NODE_FENCED);
		assert_non_null(strstr(lease.reason, "a message"));
	}
}

static void
test_refusals(void **state)
{
	begin();
	assert_int_equal(refuse(REQUEST_HEARTBEAT, "AM004"), LEASE_DISCONNECT);
	assert_int_equal(refuse(REQUEST_HEARTBEAT, "25006"), LEASE_DISCONNECT);
	assert_int_equal(refuse(REQUEST_HEARTBEAT, "AM005"), LEASE_RETRY);
	lease_init(&lease, &test_clock, count_clear, NULL);
	assert_int_equal(refuse(REQUEST_REGISTER, "0A000"), LEASE_RETRY_SLOWLY);
	assert_int_equal(lease.state, AMORO_NODE_REFUSED);
	assert_string_equal(lease.reason, "a message");
	ask(REQUEST_REGISTER);
	answer(GRANT_RELOAD, TERM, 1, 10);
	ask(REQUEST_ACTIVATE);
	answer(GRANT_GRANTED, TERM, 1, 10);
	assert_true(serving());
	assert_string_equal(lease.reason, "");
}

static void
test_pruned_history_clears(void **state)
{
	begin();
	ask(REQUEST_HEARTBEAT);
	answer(GRANT_GRANTED, TERM, 1, 20);
	assert_int_equal(refuse(REQUEST_CHANGES, "AM006"), LEASE_GO_ON);
	assert_false(serving());
	assert_int_equal(clears, 1);
	ask(REQUEST_ACTIVATE);
	assert_int_equal(request.version, 20);
	answer(GRANT_GRANTED, TERM, 1, 20);
	assert_true(serving());
	assert_int_equal(lease.applied_version, 20);
}

static void
test_hole_in_the_changes_clears(void **state)
{
	begin();
	ask(REQUEST_HEARTBEAT);
	answer(GRANT_GRANTED, TERM, 1, 11);
	ask(REQUEST_CHANGES);
	lease_changes_applied(&lease, &request, 10);
	assert_false(serving());
	assert_int_equal(clears, 1);
}

static void
test_nonsense_is_refused(void **state)
{
	NodeGrant	wrong[6];

	for (int i = 0; i < 6; i++)
		wrong[i] = grant_of(GRANT_GRANTED, TERM, 1, 10);
	wrong[0].term = 0;
	wrong[1].lease_ms = -1;
	wrong[2].lease_ms = INT64_MAX / 2;
	wrong[3].max_clock_drift_ppm = 1000000;
	wrong[4].heartbeat_interval_ms = 0;
	wrong[5].lease_epoch = 9;
	for (int i = 0; i < 6; i++)
	{
		begin();
		now = 1500000;
		ask(REQUEST_HEARTBEAT);
		assert_int_equal(lease_answered(&lease, &request, &wrong[i]), LEASE_DISCONNECT);
		assert_int_equal(lease.end, 1000000 + USABLE);
	}
}

/* more answers in a row that are no grant than recovery takes: slow down */
static void
test_fruitless_answers_slow_down(void **state)
{
	int			at_once = 0;

	begin();
	for (int i = 0; i < 20; i++)
	{
		ask(lease_next_step(&lease) == STEP_ACTIVATE ? REQUEST_ACTIVATE : REQUEST_HEARTBEAT);
		at_once += answer(GRANT_RELOAD, TERM, 2 + i, 10) == LEASE_GO_ON;
	}
	assert_in_range(at_once, 2, 4);
}

static void
test_close(void **state)
{
	begin();
	ask(REQUEST_HEARTBEAT);
	lease_close(&lease);
	assert_false(serving());
	answer(GRANT_GRANTED, TERM, 1, 10);
	assert_false(serving());
	assert_int_equal(lease.generation, 1);
}

/* A17: the clock must go on while the machine sleeps; the wall clock plays no role (L08) */
static void
test_clock_is_boottime(void **state)
{
	struct timespec before;
	struct timespec after;
	NodeTime	reading;

	clock_gettime(CLOCK_BOOTTIME, &before);
	reading = clock_now(&clock_boottime);
	clock_gettime(CLOCK_BOOTTIME, &after);
	assert_true(reading >= (NodeTime) before.tv_sec * 1000000 + before.tv_nsec / 1000);
	assert_true(reading <= (NodeTime) after.tv_sec * 1000000 + after.tv_nsec / 1000);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_starts_fenced),
		SCENARIO("the lease ends by arithmetic", ends_by_arithmetic, RULE_LAPSE_BY_ARITHMETIC),
		SCENARIO("the lease allows for drift, rounded down", allows_for_drift, RULE_ALLOW_FOR_DRIFT),
		SCENARIO("the lease counts from sending", counts_from_sending, RULE_MEASURE_FROM_SEND),
		SCENARIO("only the newest request extends", newest_request_only, RULE_NEWEST_REQUEST),
		SCENARIO("never backwards", never_backwards, RULE_NEVER_BACKWARDS),
		SCENARIO("a lapsed lease is not extended", lapsed_is_not_extended, RULE_LAPSED_IS_NOT_EXTENDED),
		SCENARIO("an old term is refused", old_term_is_refused, RULE_REFUSE_OLD_TERM),
		SCENARIO("told to reload in the same term, clears", reload_in_one_term_clears, RULE_EPOCH),
		SCENARIO("another timeline clears", other_timeline_clears, RULE_CLEAR_ON_NEW_TIMELINE),
		SCENARIO("fencing clears", fence_clears, RULE_CLEAR_ON_FENCE),
		cmocka_unit_test(test_heartbeats_clear_nothing),
		cmocka_unit_test(test_activation_of_cleared_caches),
		cmocka_unit_test(test_late_activation),
		cmocka_unit_test(test_restart_keeps_caches),
		cmocka_unit_test(test_restart_that_lost_changes_clears),
		cmocka_unit_test(test_restart_during_a_carry),
		cmocka_unit_test(test_held_extends_nothing),
		cmocka_unit_test(test_held_by_a_server_that_grants_nothing),
		cmocka_unit_test(test_behind_without_changes),
		cmocka_unit_test(test_state_by_arithmetic),
		cmocka_unit_test(test_closed_meanwhile),
		cmocka_unit_test(test_leave),
		cmocka_unit_test(test_superseded),
		cmocka_unit_test(test_unknown_node_registers_again),
		cmocka_unit_test(test_errors_leave_the_lease_alone),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_pruned_history_clears),
		cmocka_unit_test(test_hole_in_the_changes_clears),
		cmocka_unit_test(test_nonsense_is_refused),
		cmocka_unit_test(test_fruitless_answers_slow_down),
		cmocka_unit_test(test_close),
		cmocka_unit_test(test_clock_is_boottime),
	};

	return cmocka_run_group_tests_name("lease", tests, NULL, NULL);
}
