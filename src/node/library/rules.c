/*
 * rules.c
 *		The switches of rules.h, in a build for tests.
 */
#include "rules.h"

#ifdef AMORO_RULE_SWITCHES
unsigned	amoro_rules_off = 0;
#endif
