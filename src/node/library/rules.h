/*
 * rules.h
 *		Switches for the rules that keep the promise. In a build for tests (AMORO_RULE_SWITCHES) each rule can be
 *		switched off, and a test must then fail; in any other build RULE() is the constant true.
 */
#ifndef AMORO_RULES_H
#define AMORO_RULES_H

#include <stdbool.h>

enum
{
	RULE_MEASURE_FROM_SEND = 1 << 0,	/* a lease counts from the sending of the request that brought it */
	RULE_NEWEST_REQUEST = 1 << 1,	/* only the newest outstanding request extends the lease */
	RULE_NEVER_BACKWARDS = 1 << 2,	/* an answer never shortens the lease */
	RULE_ALLOW_FOR_DRIFT = 1 << 3,	/* L * (1 - drift), rounded down */
	RULE_LAPSE_BY_ARITHMETIC = 1 << 4,	/* every access compares the clock with the end */
	RULE_LAPSED_IS_NOT_EXTENDED = 1 << 5,	/* a lease that ended is never revived: clear, then activate */
	RULE_CLEAR_ON_FENCE = 1 << 6,
	RULE_REFUSE_OLD_TERM = 1 << 7,
	RULE_CLEAR_ON_NEW_TIMELINE = 1 << 8,
	RULE_EPOCH = 1 << 9,		/* told to reload in the same term: clear */
	RULE_LOAD_GENERATION = 1 << 10, /* a load that a change or a clear overtook is not stored */
	RULE_TICKET = 1 << 11,		/* the ticket is tested right before answering */
	RULE_APPLY_BEFORE_ACK = 1 << 12,	/* the caches forget before the version is reported */
	RULE_MARKED_NOT_CACHED = 1 << 13,	/* an entry with a marker is never cached */
	RULE_LOAD_TERM = 1 << 14,	/* a load from another term is refused */
	RULE_LOAD_VERSION = 1 << 15,	/* a load that is older than what was applied is refused */
	RULE_LOAD_AFTER_QUESTION = 1 << 16,	/* a load answers nobody who asked after it began */
	RULE_TENURE_OF_ONE_LEASE = 1 << 17,	/* a tenure ends with the lease in which it was asked for */
	RULE_MARK_FORGOTTEN = 1 << 18,	/* in a kind that is whole, what is forgotten leaves a mark that it has to be asked */
	RULE_CATCH_UP = 1 << 19,	/* what was loaded in chunks, or kept, is brought up to date before it is served */
	RULE_ONE_HISTORY = 1 << 20, /* what was loaded from another timeline is dropped */
	RULE_LISTING = 1 << 21,		/* a change in a database makes what is listed of it stale */
	RULE_APPLY_RELATION = 1 << 22,	/* what a change of a kind touches is forgotten */
	RULE_APPLY_DEVICE = 1 << 23,
	RULE_APPLY_TEMPLATE = 1 << 24,
	RULE_APPLY_PARTITION = 1 << 25,
	RULE_APPLY_BUCKET = 1 << 26,
	RULE_APPLY_AUTHORITY = 1 << 27
};

#if defined(AMORO_WITHOUT_RULES)
/* A whole node without some rules, for test/chaos/teeth: make CFLAGS=-DAMORO_WITHOUT_RULES=RULE_TICKET */
#define RULE(rule) (((AMORO_WITHOUT_RULES) & (rule)) == 0)
#elif defined(AMORO_RULE_SWITCHES)
extern unsigned amoro_rules_off;
#define RULE(rule) ((amoro_rules_off & (rule)) == 0)
#else
#define RULE(rule) true
#endif

#endif							/* AMORO_RULES_H */
