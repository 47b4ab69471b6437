/*
 * explorer_merge.c
 *		What the answers of a catalog say is merged into the tables, each in a transaction of its own.
 *
 * An answer is parsed in the transaction, by the server's own parser: its errors are errors of the one question.
 */
#include "explorer/explorer_merge.h"

#include "catalog/pg_type.h"
#include "explorer/explorer_record.h"
#include "explorer/explorer_statement.h"
#include "json/json_clean.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"

/* How long a token is used at least, whatever is said of it. */
#define SHORTEST_TOKEN_US INT64CONST(1000000)

/* The levels of a path as an array. */
static Datum
levels_array(const char *path)
{
	char	   *copy = pstrdup(path);
	char	  **levels = palloc((strlen(path) + 1) * sizeof(char *));
	int			count = 0;

	while (*path != '\0' && copy != NULL)
	{
		char	   *end = strchr(copy, LEVEL_SEPARATOR);

		levels[count++] = copy;
		if (end != NULL)
			*end++ = '\0';
		copy = end;
	}
	return statement_text_array(levels, count);
}

typedef struct Merge
{
	Job		   *job;
	HttpAnswer *answer;
	int			seen_before;
	int			missing_before;
} Merge;

static Datum
json_argument(const Merge *merge)
{
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(json_to_server(merge->answer->body, merge->answer->size)));
}

/* Merges an answer once it is fit to be parsed. */
static ErrorData *
merge_answer(CoordinatorWork work, Job *job, HttpAnswer *answer)
{
	Merge		arguments = {job, answer, job->seen_count, job->round->missing_count};
	const char *problem = answer->body == NULL ? "the answer is empty" : json_clean(answer->body, &answer->size);
	ErrorData  *error;

	if (problem == NULL)
		return record_transaction(work, &arguments);
	error = palloc0(sizeof(ErrorData));
	error->sqlerrcode = ERRCODE_DATA_EXCEPTION;
	error->message = pstrdup(problem);
	return error;
}

static void
config_work(void *argument)
{
	static Statement statement = {"SELECT * FROM amoro_meta.read_rest_config($1)", 1, {JSONBOID}};
	Merge	   *arguments = argument;
	Round	   *round = arguments->job->round;
	Datum		values[1];
	char	   *text;

	values[0] = json_argument(arguments);
	statement_run(&statement, values, NULL);
	text = statement_text_to_send(0, 1, round->context);
	if (text != NULL)
		round->rest.prefix = text;
	text = statement_text(0, 2, round->context);
	/* what is no encoded character is refused rather than put into a URL */
	if (text != NULL && strlen(text) == 3 && text[0] == '%' && strspn(text + 1, "0123456789ABCDEFabcdef") == 2)
		round->rest.separator = text;
	else if (text != NULL)
		ereport(ERROR, (errcode(ERRCODE_DATA_EXCEPTION), errmsg("the separator of namespaces is no encoded character")));
	if (!statement_bool(0, 3))
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("the server does not list tables")));
	round->reads_tables = round->reads_tables && statement_bool(0, 4);
}

/* See explorer_merge.h. */
ErrorData *
merge_config(Job *job, HttpAnswer *answer)
{
	return merge_answer(config_work, job, answer);
}

static void
token_work(void *argument)
{
	static Statement statement = {"SELECT * FROM amoro_meta.read_token($1)", 1, {JSONBOID}};
	Merge	   *arguments = argument;
	RestCatalog *rest = &arguments->job->round->rest;
	Datum		values[1];
	bool		isnull;
	Datum		expires;
	char	   *token;

	values[0] = json_argument(arguments);
	statement_run(&statement, values, NULL);
	token = SPI_processed == 1 ? statement_text(0, 1, arguments->job->round->context) : NULL;
	if (token == NULL)
		ereport(ERROR, (errcode(ERRCODE_DATA_EXCEPTION), errmsg("the answer has no bearer token")));
	expires = statement_column(0, 2, &isnull);
	if (rest->token != NULL)
		pfree(rest->token);
	rest->token = token;
	/* a tenth before its end, but something is asked with each */
	rest->token_expires = isnull ? 0 : lease_clock_now() + Max((int64) DatumGetInt32(expires) * 900000, SHORTEST_TOKEN_US);
	rest->token_generation++;
}

/* See explorer_merge.h. */
ErrorData *
merge_token(Job *job, HttpAnswer *answer)
{
	return merge_answer(token_work, job, answer);
}

static void
note_skipped(Round *round, int64 count, char *name)
{
	round->skipped += count;
	if (round->skipped_name == NULL)
		round->skipped_name = name;
	else if (name != NULL)
		pfree(name);
}

/* It writes nothing, so that what is put into the round need not be taken back. */
static void
namespaces_work(void *argument)
{
	static Statement statement = {
		"SELECT p.next_page_token, p.names, p.paths, p.listed, p.skipped, p.skipped_name"
		" FROM amoro_meta.read_namespaces_page($1, $2, $3) p", 3, {JSONBOID, TEXTARRAYOID, TEXTOID}
	};
	Merge	   *arguments = argument;
	Job		   *job = arguments->job;
	Round	   *round = job->round;
	Datum		values[3];
	char		nulls[] = "   ";
	Datum	   *names;
	Datum	   *paths;
	Datum	   *listed;
	int			count;
	bool		isnull;
	bool		news = false;

	values[0] = json_argument(arguments);
	values[1] = levels_array(job->path);
	values[2] = statement_text_argument(round->database_filter, &nulls[2]);
	statement_run(&statement, values, nulls);
	deconstruct_array(DatumGetArrayTypeP(statement_column(0, 2, &isnull)), TEXTOID, -1, false, TYPALIGN_INT, &names, NULL, &count);
	deconstruct_array(DatumGetArrayTypeP(statement_column(0, 3, &isnull)), TEXTOID, -1, false, TYPALIGN_INT, &paths, NULL, &count);
	deconstruct_array(DatumGetArrayTypeP(statement_column(0, 4, &isnull)), BOOLOID, 1, true, TYPALIGN_CHAR, &listed, NULL, &count);
	job->page_token = statement_text_to_send(0, 1, round->context);
	note_skipped(round, statement_int64(5), statement_text(0, 6, round->context));
	for (int i = 0; i < count; i++)
	{
		char	   *name = TextDatumGetCString(names[i]);
		char	   *path = TextDatumGetCString(paths[i]);
		bool		wanted = DatumGetBool(listed[i]);

		if (!round_add_database(round, name, wanted))
			continue;
		news = true;
		if (wanted)
			(void) round_add_job(round, JOB_TABLES, path, name);
		(void) round_add_job(round, JOB_NAMESPACES, path, name);
	}
	job->pages_without_news = news ? 0 : job->pages_without_news + 1;
}

/* See explorer_merge.h. */
ErrorData *
merge_namespaces(Job *job, HttpAnswer *answer)
{
	return merge_answer(namespaces_work, job, answer);
}

static int
compare_ids(const void *left, const void *right)
{
	int64		a = *(const int64 *) left;
	int64		b = *(const int64 *) right;

	return a < b ? -1 : a > b;
}

static bool
is_among(const int64 *ids, int count, int64 id)
{
	for (int i = 0; i < count; i++)
	{
		if (ids[i] == id)
			return true;
	}
	return false;
}

/* Whether all of the newest ids were seen before. Mostly the first one says that they were not. */
static bool
all_known(Job *job, int before)
{
	if (!is_among(job->seen, before, job->seen[before]))
		return false;
	qsort(job->seen, before, sizeof(int64), compare_ids);
	for (int i = before; i < job->seen_count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (bsearch(&job->seen[i], job->seen, before, sizeof(int64), compare_ids) == NULL)
			return false;
	}
	return true;
}

static void
missing_work(Job *job)
{
	static Statement statement = {
		"SELECT amoro_meta.missing_tables($1, $2, $3)", 3, {INT8OID, TEXTOID, INT8ARRAYOID}
	};
	Round	   *round = job->round;
	Datum		values[3];
	bool		isnull;

	values[0] = Int64GetDatum(round->catalog_id);
	values[1] = CStringGetTextDatum(job->name);
	values[2] = statement_int64_array(job->seen, job->seen_count);
	statement_run(&statement, values, NULL);
	statement_append_ids(round->context, statement_column(0, 1, &isnull), &round->missing, &round->missing_count, &round->missing_capacity);
}

static void
tables_work(void *argument)
{
	static Statement statement = {
		"SELECT p.next_page_token, p.listed, p.seen, p.added, p.changed, p.skipped, p.skipped_name"
		" FROM amoro_meta.merge_tables_page($1, $2, $3, $4) p", 4, {INT8OID, TEXTOID, JSONBOID, TEXTOID}
	};
	Merge	   *arguments = argument;
	Job		   *job = arguments->job;
	Round	   *round = job->round;
	Datum		values[4];
	char		nulls[] = "    ";
	bool		isnull;
	int64		listed;
	int			before = arguments->seen_before;
	int64		added;
	int64		changed;
	int64		skipped;
	char	   *skipped_name;

	/* an attempt before this one may have come further */
	job->seen_count = before;
	round->missing_count = arguments->missing_before;
	values[0] = Int64GetDatum(round->catalog_id);
	values[1] = CStringGetTextDatum(job->name);
	values[2] = json_argument(arguments);
	values[3] = statement_text_argument(round->table_filter, &nulls[3]);
	statement_run(&statement, values, nulls);
	listed = statement_int64(2);
	statement_append_ids(round->context, statement_column(0, 3, &isnull), &job->seen, &job->seen_count, &job->seen_capacity);
	job->page_token = statement_text_to_send(0, 1, round->context);
	if (listed == 0 || (job->seen_count > before && all_known(job, before)))
		job->pages_without_news++;
	else
		job->pages_without_news = 0;
	added = statement_int64(4);
	changed = statement_int64(5);
	skipped = statement_int64(6);
	skipped_name = statement_text(0, 7, round->context);
	if (job->page_token == NULL)
		missing_work(job);
	round->tables += listed;
	round->added += added;
	round->changed += changed;
	note_skipped(round, skipped, skipped_name);
}

/* See explorer_merge.h. */
ErrorData *
merge_tables(Job *job, HttpAnswer *answer)
{
	int			seen_before = job->seen_count;
	int			missing_before = job->round->missing_count;
	ErrorData  *error = merge_answer(tables_work, job, answer);

	if (error != NULL)
	{
		job->seen_count = seen_before;
		job->round->missing_count = missing_before;
	}
	return error;
}

static void
table_work(void *argument)
{
	static Statement statement = {"SELECT amoro_meta.merge_table($1, $2)", 2, {INT8OID, JSONBOID}};
	Merge	   *arguments = argument;
	Datum		values[2];

	values[0] = Int64GetDatum(arguments->job->table_id);
	values[1] = json_argument(arguments);
	statement_run(&statement, values, NULL);
	arguments->job->round->changed += statement_bool(0, 1);
}

/* See explorer_merge.h. */
ErrorData *
merge_table(Job *job, HttpAnswer *answer)
{
	return merge_answer(table_work, job, answer);
}

typedef struct Unchanged
{
	Job		   *job;
	int64		kept;
	bool		fits;
} Unchanged;

static void
unchanged_work(void *argument)
{
	static Statement statement = {
		"SELECT count(*) = $3 AND count(t.missing_since) = 0 FROM amoro_meta.listed_table t"
		" WHERE t.catalog_id = $1 AND t.database_name = $2", 3, {INT8OID, TEXTOID, INT8OID}
	};
	Unchanged  *unchanged = argument;
	Datum		values[3];

	values[0] = Int64GetDatum(unchanged->job->round->catalog_id);
	values[1] = CStringGetTextDatum(unchanged->job->name);
	values[2] = Int64GetDatum(unchanged->kept);
	statement_run(&statement, values, NULL);
	unchanged->fits = statement_bool(0, 1);
}

/* See explorer_merge.h. */
bool
merge_unchanged(Job *job, int64 kept)
{
	Unchanged	unchanged = {job, kept};

	return record_transaction(unchanged_work, &unchanged) == NULL && unchanged.fits;
}
