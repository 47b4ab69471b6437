/*
 * scenario.h
 *		A scenario is a test of a rule: it holds, and with the rule switched off it must not hold.
 */
#ifndef SCENARIO_H
#define SCENARIO_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rules.h"

typedef struct Scenario
{
	bool		(*holds) (void);
	unsigned	rule;
} Scenario;

static inline void
scenario_holds(void **state)
{
	const Scenario *scenario = *state;

	amoro_rules_off = 0;
	assert_true(scenario->holds());
}

static inline void
scenario_needs_its_rule(void **state)
{
	const Scenario *scenario = *state;
	bool		holds;

	amoro_rules_off = scenario->rule;
	holds = scenario->holds();
	amoro_rules_off = 0;
	assert_false(holds);
}

/* Two tests of a cmocka group. */
#define SCENARIO(name, function, switched_rule) \
	{name, scenario_holds, NULL, NULL, &(Scenario) {function, switched_rule}}, \
	{name " (fails without the rule)", scenario_needs_its_rule, NULL, NULL, &(Scenario) {function, switched_rule}}

#endif							/* SCENARIO_H */
