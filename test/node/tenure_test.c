/*
 * tenure_test.c
 *		Leading a service: a lease and a clock that the test sets, answers that the test makes up.
 */
#include "scenario.h"

#include <string.h>

#include "tenure.h"

#define L 2000000
#define MARGIN 500000
#define TERM ((INT64_C(1) << 32) | 5)

static NodeTime now;
static Lease lease;
static Tenure tenure;
static NodeRequest request;

static NodeTime
read_clock(void *argument)
{
	return now;
}

static const NodeClock test_clock = {read_clock, NULL};

static void
clear_nothing(void *argument, bool keep_loaded)
{
}

static void
grant(RequestKind kind, int64_t term, int64_t epoch)
{
	NodeGrant	answer = {
		.answer = GRANT_GRANTED, .node_id = 7, .term = term, .lease_epoch = epoch, .lease_ms = L / 1000,
		.max_clock_drift_ppm = 0, .heartbeat_interval_ms = 200, .metadata_version = 10
	};
	NodeRequest asked;

	lease_request_begin(&lease, kind, 0, &asked);
	asked.term = term;
	asked.lease_epoch = epoch;
	(void) lease_answered(&lease, &asked, &answer);
}

static void
reload(int64_t term, int64_t epoch)
{
	NodeGrant	answer = {
		.answer = GRANT_RELOAD, .node_id = 7, .term = term, .lease_epoch = epoch, .lease_ms = L / 1000,
		.max_clock_drift_ppm = 0, .heartbeat_interval_ms = 200, .metadata_version = 10
	};
	NodeRequest asked;

	lease_request_begin(&lease, lease.registered ? REQUEST_HEARTBEAT : REQUEST_REGISTER, 0, &asked);
	(void) lease_answered(&lease, &asked, &answer);
}

/* An active node at time 1,000,000, with a lease to 3,000,000. */
static void
begin(void)
{
	now = 1000000;
	lease_init(&lease, &test_clock, clear_nothing, NULL);
	tenure_init(&tenure, &lease);
	reload(TERM, 1);
	grant(REQUEST_ACTIVATE, TERM, 1);
}

static bool
answered(bool leader, int64_t token, int64_t term, int64_t epoch)
{
	LeadershipAnswer answer = {.leader = leader, .token = token, .term = term, .lease_epoch = epoch};

	return tenure_answered(&tenure, &request, &answer, MARGIN);
}

static bool
leads(int64_t expected)
{
	int64_t		token;

	return tenure_holds(&tenure, &token) && token == expected;
}

static void
ask(void)
{
	tenure_request_begin(&tenure, "s", &request);
}

static void
leads_from_the_answer_to_the_margin_before_the_end(void **state)
{
	begin();
	assert_false(leads(0));
	ask();
	assert_int_equal(request.node_id, 7);
	assert_true(answered(true, 40, TERM, 1));
	assert_true(leads(40));
	now = 3000000 - MARGIN - 1;
	assert_true(leads(40));
	grant(REQUEST_HEARTBEAT, TERM, 1);
	now += L - MARGIN - 1;
	assert_true(leads(40));
	tenure_end(&tenure);
	assert_false(leads(40));
}

static void
a_margin_is_at_most_half_a_lease(void **state)
{
	LeadershipAnswer answer = {.leader = true, .token = 40, .term = TERM, .lease_epoch = 1};

	begin();
	ask();
	assert_true(tenure_answered(&tenure, &request, &answer, 10 * L));
	now = 1999999;
	assert_true(leads(40));
	now = 2000000;
	assert_false(leads(40));
}

static void
a_refusal_is_none(void **state)
{
	begin();
	ask();
	assert_false(answered(false, 0, TERM, 1));
	assert_false(answered(true, 0, TERM, 1));
	assert_false(leads(0));
}

static bool
it_stops_by_its_own_clock(void)
{
	begin();
	ask();
	(void) answered(true, 40, TERM, 1);
	now = 3000000 - MARGIN;
	return !leads(40);
}

/* The lease ended and another one began: what was led in the first is not led in the second. */
static bool
it_ends_with_its_lease(void)
{
	begin();
	ask();
	(void) answered(true, 40, TERM, 1);
	now = 3000001;
	lease_expire(&lease);
	reload(TERM, 2);
	grant(REQUEST_ACTIVATE, TERM, 2);
	return lease_is_valid(&lease) && !leads(40);
}

/* The node keeps its caches and its lease over a restart of the server, but not what it leads. */
static bool
it_ends_with_the_term(void)
{
	begin();
	ask();
	(void) answered(true, 40, TERM, 1);
	now += 100;
	reload(TERM + 1, 2);
	return lease_is_valid(&lease) && !leads(40);
}

/* An answer that comes when the lease in which it was asked for is over. */
static bool
a_late_answer_counts_for_nothing(void)
{
	begin();
	ask();
	now = 3000001;
	lease_expire(&lease);
	reload(TERM, 2);
	grant(REQUEST_ACTIVATE, TERM, 2);
	return !answered(true, 40, TERM, 1) && !leads(40);
}

/* The server has fenced the node meanwhile and speaks of the new epoch, of which the node has not heard. */
static bool
an_answer_for_another_epoch_counts_for_nothing(void)
{
	begin();
	ask();
	return !answered(true, 40, TERM, 2) && !leads(40);
}

static void
a_new_tenure_has_its_own_token(void **state)
{
	begin();
	ask();
	assert_true(answered(true, 40, TERM, 1));
	tenure_end(&tenure);
	now = 3000001;
	lease_expire(&lease);
	reload(TERM, 2);
	grant(REQUEST_ACTIVATE, TERM, 2);
	ask();
	assert_true(answered(true, 41, TERM, 2));
	assert_true(leads(41));
	lease_close(&lease);
	assert_false(leads(41));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(leads_from_the_answer_to_the_margin_before_the_end),
		cmocka_unit_test(a_margin_is_at_most_half_a_lease),
		cmocka_unit_test(a_refusal_is_none),
		cmocka_unit_test(a_new_tenure_has_its_own_token),
		SCENARIO("it stops by its own clock", it_stops_by_its_own_clock, RULE_LAPSE_BY_ARITHMETIC),
		SCENARIO("it ends with its lease", it_ends_with_its_lease, RULE_TENURE_OF_ONE_LEASE),
		SCENARIO("it ends with the term", it_ends_with_the_term, RULE_TENURE_OF_ONE_LEASE),
		SCENARIO("a late answer counts for nothing", a_late_answer_counts_for_nothing, RULE_TENURE_OF_ONE_LEASE),
		SCENARIO("an answer for another epoch counts for nothing", an_answer_for_another_epoch_counts_for_nothing, RULE_TENURE_OF_ONE_LEASE),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
