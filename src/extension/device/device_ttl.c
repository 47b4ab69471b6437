/*
 * device_ttl.c
 *		The time to live that is set for a device: asked for each device that nodes load, so without SQL.
 */
#include "postgres.h"

#include "device/device_path.h"
#include "fmgr.h"
#include "funcapi.h"
#include "own_table.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(amoro_meta_device_ttl_rule);
PG_FUNCTION_INFO_V1(amoro_meta_device_ttl_ms);

/* Of a database with more rules each is looked up. */
#define RULES_KEPT 1000

typedef struct TtlRule
{
	char	   *pattern;
	int64		ttl_ms;
} TtlRule;

/* What a statement that asks for many devices keeps, as long as it asks for one database, by one snapshot. */
typedef struct KeptRules
{
	MemoryContext context;		/* of rules */
	int64		database_id;
	TransactionId xmin;
	TransactionId xmax;
	uint32		xcnt;
	int32		subxcnt;
	CommandId	curcid;
	int64		calls;
	int			count;			/* -1: not read, or too many; 0: most databases have none */
	TtlRule    *rules;			/* in the order of strcmp */
} KeptRules;

static TtlRule
rule_of(OwnTable *table, HeapTuple row)
{
	return (TtlRule) {
		text_to_cstring(DatumGetTextPP(own_column(table, row, "path_pattern"))),
		DatumGetInt64(own_column(table, row, "ttl_ms"))
	};
}

static int
compare_rules(const void *left, const void *right)
{
	return strcmp(((const TtlRule *) left)->pattern, ((const TtlRule *) right)->pattern);
}

/* Reads the rules of the database, if there are at most so many. */
static void
read_rules(KeptRules *kept, int most)
{
	MemoryContext caller = MemoryContextSwitchTo(kept->context);
	OwnTable	table = own_table_open("device_ttl", "device_ttl_pkey", AccessShareLock);
	OwnKey		key = OWN_KEY_BIGINT("database_id", kept->database_id);
	SysScanDesc scan = own_table_scan(&table, GetActiveSnapshot(), 1, &key);
	HeapTuple	row;
	int			count = 0;

	kept->rules = palloc_array(TtlRule, Max(most, 1));
	while ((row = systable_getnext_ordered(scan, ForwardScanDirection)) != NULL && count < most)
		kept->rules[count++] = rule_of(&table, row);
	systable_endscan_ordered(scan);
	own_table_close(&table, AccessShareLock);
	kept->count = row == NULL ? count : -1;
	if (kept->count > 0)
		qsort(kept->rules, kept->count, sizeof(TtlRule), compare_rules);
	MemoryContextSwitchTo(caller);
}

/*
 * Whether what is kept is what the snapshot shows. Of two snapshots with the same bounds the later one has as many
 * transactions in progress only if none of them has ended since: they see the same.
 */
static bool
is_kept(const KeptRules *kept, int64 database_id, Snapshot snapshot)
{
	return kept->calls > 0 && kept->database_id == database_id && kept->xmin == snapshot->xmin && kept->xmax == snapshot->xmax &&
		kept->xcnt == snapshot->xcnt && kept->subxcnt == snapshot->subxcnt && kept->curcid == snapshot->curcid;
}

/* A plan, and with it what is kept, may be used again for another statement, which sees something else. */
static KeptRules *
keep_rules(FmgrInfo *function, int64 database_id)
{
	KeptRules  *kept = function->fn_extra;
	Snapshot	snapshot = GetActiveSnapshot();

	if (kept == NULL)
	{
		kept = function->fn_extra = MemoryContextAllocZero(function->fn_mcxt, sizeof(KeptRules));
		kept->context = AllocSetContextCreate(function->fn_mcxt, "amoro_meta times to live", ALLOCSET_SMALL_SIZES);
	}
	if (!is_kept(kept, database_id, snapshot))
	{
		MemoryContextReset(kept->context);
		kept->database_id = database_id;
		kept->xmin = snapshot->xmin;
		kept->xmax = snapshot->xmax;
		kept->xcnt = snapshot->xcnt;
		kept->subxcnt = snapshot->subxcnt;
		kept->curcid = snapshot->curcid;
		kept->calls = 0;
	}
	/* a lookup asks once, and is not to read all of them */
	if (++kept->calls <= 2 && (kept->calls == 1 || kept->count != 0))
		read_rules(kept, kept->calls == 1 ? 0 : RULES_KEPT);
	return kept;
}

static bool
find_rule(const KeptRules *kept, OwnTable *table, const char *pattern, TtlRule *found)
{
	OwnKey		keys[] = {OWN_KEY_BIGINT("database_id", kept->database_id), OWN_KEY_TEXT("path_pattern", pattern)};
	SysScanDesc scan = own_table_scan(table, GetActiveSnapshot(), lengthof(keys), keys);
	HeapTuple	row = systable_getnext_ordered(scan, ForwardScanDirection);
	bool		is_there = row != NULL;

	if (is_there)
		*found = rule_of(table, row);
	systable_endscan_ordered(scan);
	return is_there;
}

static bool
find_kept_rule(const KeptRules *kept, OwnTable *table, const char *pattern, TtlRule *found)
{
	TtlRule		wanted = {(char *) pattern};
	TtlRule    *rule;

	if (kept->count < 0)
		return find_rule(kept, table, pattern, found);
	rule = bsearch(&wanted, kept->rules, kept->count, sizeof(TtlRule), compare_rules);
	if (rule != NULL)
		*found = *rule;
	return rule != NULL;
}

/*
 * For the path itself, else for what stands before its last dot with ** behind, and so on. A dot within backticks
 * gives what is no pattern, so nothing is set on it.
 */
static bool
find_longest_match(const KeptRules *kept, OwnTable *table, const char *path, TtlRule *found)
{
	int			room = strlen(path) + sizeof(".**");
	char	   *pattern = palloc(room);
	char	   *dot;

	strlcpy(pattern, path, room);
	if (find_kept_rule(kept, table, pattern, found))
		return true;
	while ((dot = strrchr(pattern, '.')) != NULL)
	{
		strlcpy(dot, ".**", pattern + room - dot);
		if (find_kept_rule(kept, table, pattern, found))
			return true;
		*dot = '\0';
	}
	return false;
}

/* The rule of a device; false: there is none. */
static bool
find_rule_of_device(const KeptRules *kept, text *path, TtlRule *found)
{
	OwnTable	table = {0};
	bool		is_there;

	if (kept->count == 0)
		return false;
	if (kept->count < 0)
		table = own_table_open("device_ttl", "device_ttl_pkey", AccessShareLock);
	is_there = find_longest_match(kept, &table, text_to_cstring(path), found);
	if (kept->count < 0)
		own_table_close(&table, AccessShareLock);
	return is_there;
}

/*
 * amoro_meta.device_ttl_rule(database_id, device_path, OUT path_pattern, OUT ttl_ms); null: nothing is set.
 */
Datum
amoro_meta_device_ttl_rule(PG_FUNCTION_ARGS)
{
	KeptRules  *kept = keep_rules(fcinfo->flinfo, PG_GETARG_INT64(0));
	Datum		values[2];
	bool		nulls[2] = {false, false};
	TtlRule		rule;
	TupleDesc	descriptor;

	if (!find_rule_of_device(kept, PG_GETARG_TEXT_PP(1), &rule))
		PG_RETURN_NULL();
	if (get_call_result_type(fcinfo, NULL, &descriptor) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "device_ttl_rule does not return a row");
	values[0] = CStringGetTextDatum(rule.pattern);
	values[1] = Int64GetDatum(rule.ttl_ms);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), values, nulls)));
}

/*
 * amoro_meta.device_ttl_ms(database_id, device_path): ttl_ms of its rule; null: nothing is set.
 */
Datum
amoro_meta_device_ttl_ms(PG_FUNCTION_ARGS)
{
	KeptRules  *kept = keep_rules(fcinfo->flinfo, PG_GETARG_INT64(0));
	TtlRule		rule;

	if (!find_rule_of_device(kept, PG_GETARG_TEXT_PP(1), &rule))
		PG_RETURN_NULL();
	PG_RETURN_INT64(rule.ttl_ms);
}
