/*
 * explorer_round.c
 *		One exploration of one catalog, from the first question to the last row.
 *
 * A catalog is a stranger: whatever it answers ends at a bound (pages, names, levels, time), and costs what was
 * listed before it nothing. What could not be listed stays as it is.
 */
#include "explorer_round.h"

#include "common/hashfn.h"
#include "explorer_etag.h"
#include "explorer_merge.h"
#include "explorer_record.h"
#include "guc.h"
#include "utils/memutils.h"

#define SECOND_US INT64CONST(1000000)
#define MOST_PAGES 10000
#define MOST_PAGES_WITHOUT_NEWS 10
#define MOST_TOKEN_BYTES 8192
#define MOST_LEVELS 16
#define MOST_DATABASES 100000
#define MOST_TABLES 1000000
#define MOST_TRIES 3
#define MOST_PAUSES 5
#define LONGEST_PAUSE 60
#define MOST_FAILURES_IN_ROW 5
#define READ_AT_ONCE 100
/* Tables whose properties are known are read again, so many in each round. */
#define READ_AGAIN 1000

typedef struct DatabaseHash
{
	uint64		hash;
} DatabaseHash;

/* See explorer_round.h. */
void
round_note_error(Round *round, const char *where, const char *error)
{
	round->errors++;
	if (round->error == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(round->context);

		round->error = where == NULL ? pstrdup(error) : psprintf("%s: %s", where, error);
		MemoryContextSwitchTo(old);
	}
}

/* See explorer_round.h. */
void
round_fail(Round *round, const char *error)
{
	if (error != NULL)
	{
		/* what ends the round matters more than what it began with */
		round->error = NULL;
		round_note_error(round, NULL, error);
	}
	round->failed = true;
}

/* See explorer_round.h. */
bool
round_add_database(Round *round, const char *name, bool wanted)
{
	uint64		hash = DatumGetUInt64(hash_any_extended((const unsigned char *) name, (int) strlen(name), 0));
	bool		found;

	if (round->databases == NULL)
	{
		HASHCTL		control = {.keysize = sizeof(uint64), .entrysize = sizeof(DatabaseHash), .hcxt = round->context};

		round->databases = hash_create("amoro_meta databases of a catalog", 1024, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	if (hash_get_num_entries(round->databases) >= MOST_DATABASES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("the catalog has more than %d namespaces", MOST_DATABASES)));
	(void) hash_search(round->databases, &hash, HASH_ENTER, &found);
	if (found)
		return false;
	if (!wanted)
		return true;
	if (round->listed_count == round->listed_capacity)
	{
		round->listed_capacity = Max(64, round->listed_capacity * 2);
		round->listed = round->listed == NULL ? MemoryContextAlloc(round->context, round->listed_capacity * sizeof(char *)) :
			repalloc(round->listed, round->listed_capacity * sizeof(char *));
	}
	round->listed[round->listed_count++] = MemoryContextStrdup(round->context, name);
	return true;
}

/* See explorer_round.h. */
Job *
round_add_job(Round *round, JobKind kind, const char *path, const char *name)
{
	Job		   *job = MemoryContextAllocZero(round->context, sizeof(Job));

	job->round = round;
	job->kind = kind;
	job->path = MemoryContextStrdup(round->context, path);
	job->name = MemoryContextStrdup(round->context, name);
	dlist_push_tail(&round->queue, &job->node);
	return job;
}

static void
free_job(Job *job)
{
	pfree(job->path);
	pfree(job->name);
	if (job->page_token != NULL)
		pfree(job->page_token);
	if (job->seen != NULL)
		pfree(job->seen);
	pfree(job);
}

static const char *
job_place(const Job *job)
{
	switch (job->kind)
	{
		case JOB_CONFIG:
			return "configuration";
		case JOB_TOKEN:
			return "token";
		case JOB_NAMESPACES:
			return job->path[0] == '\0' ? "namespaces" : psprintf("namespaces in \"%s\"", job->name);
		case JOB_TABLES:
			return psprintf("tables of \"%s\"", job->name);
		case JOB_TABLE:
			return psprintf("table \"%s\"", job->name);
	}
	return "";
}

static char *
job_url(const Job *job)
{
	const RestCatalog *rest = &job->round->rest;

	switch (job->kind)
	{
		case JOB_CONFIG:
			return rest_config_url(rest);
		case JOB_TOKEN:
			return rest->token_uri != NULL ? pstrdup(rest->token_uri) : psprintf("%s/v1/oauth/tokens", rest->uri);
		case JOB_NAMESPACES:
			return rest_namespaces_url(rest, job->path, job->page_token);
		case JOB_TABLES:
			return rest_tables_url(rest, job->path, job->page_token);
		case JOB_TABLE:
			return rest_table_url(rest, job->path, job->name);
	}
	return NULL;
}

/* Only an answer that is one page can be known as a whole. */
static bool
may_be_known(const Job *job)
{
	return (job->kind == JOB_TABLES || job->kind == JOB_TABLE) && job->pages == 0 && !job->unconditional;
}

static void
start_job(Round *round, Job *job)
{
	HttpRequest request = {.url = job_url(job), .trust = round->rest.trust, .take = round_take_answer};
	const KnownAnswer *known = may_be_known(job) ? etag_find(job, request.url) : NULL;

	if (known != NULL)
		request.if_none_match = known->etag;
	if (job->kind == JOB_TOKEN)
		request.form = rest_token_form(&round->rest);
	else if (round->rest.token != NULL)
		request.authorization = psprintf("Authorization: Bearer %s", round->rest.token);
	job->token_generation = round->rest.token_generation;
	job->transfer = http_start(&request, job);
	dlist_push_tail(&round->active, &job->node);
	round->active_count++;
}

static void
start_jobs(Round *round)
{
	while (round->active_count < ROUND_TRANSFERS && !round->token_wanted && !dlist_is_empty(&round->queue) &&
		   lease_clock_now() >= round->resume_at)
	{
		Job		   *job = dlist_head_element(Job, node, &round->queue);

		if (job->kind != JOB_TOKEN && rest_needs_token(&round->rest))
		{
			job = round_add_job(round, JOB_TOKEN, "", "");
			dlist_delete(&job->node);
			dlist_push_head(&round->queue, &job->node);
		}
		round->token_wanted = job->kind == JOB_TOKEN;
		dlist_delete(&job->node);
		start_job(round, job);
	}
}

static void
ask_again(Job *job)
{
	dlist_push_head(&job->round->queue, &job->node);
}

/* The job comes to nothing. What it was to list is not complete. */
static void
fail_job(Job *job, const char *error)
{
	Round	   *round = job->round;
	bool		essential = job->kind == JOB_CONFIG || job->kind == JOB_TOKEN || (job->kind == JOB_NAMESPACES && job->path[0] == '\0');

	if (job->kind == JOB_NAMESPACES)
		round->namespaces_complete = false;
	if (job->kind == JOB_TABLE)
	{
		round_note_error(round, job_place(job), error);
		/* everything is listed; the next round goes on with the reading */
		round->over = ++round->failures_in_row >= MOST_FAILURES_IN_ROW;
	}
	else if (essential || ++round->failures_in_row >= MOST_FAILURES_IN_ROW)
		round_fail(round, psprintf("%s: %s", job_place(job), error));
	else
		round_note_error(round, job_place(job), error);
	free_job(job);
}

/* Why the next page is not asked for; NULL: it is. */
static const char *
page_problem(const Job *job, const char *previous_token)
{
	if (previous_token != NULL && strcmp(previous_token, job->page_token) == 0)
		return "the token of the next page is that of this page";
	if (strlen(job->page_token) > MOST_TOKEN_BYTES)
		return "the token of the next page is too long";
	if (job->pages >= MOST_PAGES)
		return "there are too many pages";
	if (job->pages_without_news >= MOST_PAGES_WITHOUT_NEWS)
		return "the pages bring nothing new";
	return NULL;
}

static int
count_levels(const char *path)
{
	int			levels = path[0] != '\0';

	for (; *path != '\0'; path++)
		levels += *path == LEVEL_SEPARATOR;
	return levels;
}

/* A job has had all it asked for. */
static void
complete_job(Job *job)
{
	Round	   *round = job->round;

	switch (job->kind)
	{
		case JOB_CONFIG:
			round->phase = ROUND_NAMESPACES;
			(void) round_add_job(round, JOB_NAMESPACES, "", "");
			break;
		case JOB_NAMESPACES:
			if (job->path[0] == '\0')
				round->phase = ROUND_TABLES;
			break;
		case JOB_TABLES:
		case JOB_TABLE:
			round->done++;
			break;
		case JOB_TOKEN:
			break;
	}
	free_job(job);
}

static ErrorData *
merge_page(Job *job, HttpAnswer *answer)
{
	switch (job->kind)
	{
		case JOB_CONFIG:
			return merge_config(job, answer);
		case JOB_TOKEN:
			return merge_token(job, answer);
		case JOB_NAMESPACES:
			return merge_namespaces(job, answer);
		case JOB_TABLES:
			return merge_tables(job, answer);
		case JOB_TABLE:
			return merge_table(job, answer);
	}
	return NULL;
}

/* The answer is the one that we know, and so the tables should be those that it left. */
static void
take_unchanged(Job *job)
{
	Round	   *round = job->round;
	char	   *url = job_url(job);
	const KnownAnswer *known = etag_find(job, url);

	round->failures_in_row = 0;
	if (job->kind == JOB_TABLES && known != NULL && merge_unchanged(job, known->kept))
		round->tables += known->listed;
	else if (job->kind == JOB_TABLES)
	{
		/* some were removed or filtered since */
		job->unconditional = true;
		ask_again(job);
		return;
	}
	complete_job(job);
}

/* An answer with status 200. */
static void
take_page(Job *job, HttpAnswer *answer)
{
	Round	   *round = job->round;
	char	   *previous_token = job->page_token;
	bool		knowable = may_be_known(job);
	char	   *url = knowable ? job_url(job) : NULL;
	int64		tables_before = round->tables;
	int			missing_before = round->missing_count;
	const char *problem;
	ErrorData  *error;

	job->page_token = NULL;
	error = merge_page(job, answer);
	if (error != NULL)
	{
		fail_job(job, error->message != NULL ? error->message : "unknown error");
		return;
	}
	if (knowable && job->page_token == NULL && round->missing_count == missing_before)
		etag_note(job, url, answer->etag, round->tables - tables_before, job->seen_count);
	round->failures_in_row = 0;
	round->pauses = 0;
	job->pages++;
	job->tries = 0;
	job->renewed = false;
	if (round->tables > MOST_TABLES)
		round_fail(round, psprintf("the catalog has more than %d tables", MOST_TABLES));
	if (job->kind == JOB_NAMESPACES && count_levels(job->path) > MOST_LEVELS)
		round_fail(round, psprintf("namespaces are nested more than %d levels deep", MOST_LEVELS));
	problem = job->page_token == NULL ? NULL : page_problem(job, previous_token);
	if (problem != NULL)
		fail_job(job, problem);
	else if (job->page_token != NULL)
		ask_again(job);
	else
		complete_job(job);
	if (previous_token != NULL)
		pfree(previous_token);
}

/* The server wants to be left alone for a while (429, 503). */
static void
pause_round(Job *job, const HttpAnswer *answer)
{
	Round	   *round = job->round;
	int			seconds = answer->retry_after >= 0 ? answer->retry_after : 1 << round->pauses;

	if (++round->pauses > MOST_PAUSES || seconds > LONGEST_PAUSE)
	{
		round->retry_after = seconds;
		round_fail(round, psprintf("%s: the server answers %d", job_place(job), answer->status));
	}
	round->resume_at = lease_clock_now() + seconds * SECOND_US;
	ask_again(job);
}

static bool
token_may_be_over(const Job *job, int status)
{
	return (status == 401 || status == 403 || status == 419 || status == 501) && job->kind != JOB_TOKEN &&
		job->round->rest.credential != NULL && !job->renewed;
}

static void
take_refusal(Job *job, const HttpAnswer *answer)
{
	Round	   *round = job->round;

	if (answer->status == 429 || answer->status == 503)
		pause_round(job, answer);
	else if (token_may_be_over(job, answer->status))
	{
		/* another question may have had it renewed already */
		if (job->token_generation == round->rest.token_generation && round->rest.token != NULL)
		{
			pfree(round->rest.token);
			round->rest.token = NULL;
		}
		job->renewed = true;
		ask_again(job);
	}
	else if ((answer->status == 0 || answer->status >= 500) && job->kind != JOB_TABLE && ++job->tries < MOST_TRIES)
	{
		round->resume_at = lease_clock_now() + (SECOND_US / 5 << job->tries);
		ask_again(job);
	}
	else if (job->kind == JOB_TABLE && answer->status == 404)
		complete_job(job);		/* gone since it was listed */
	else
		fail_job(job, answer->status == 0 ? answer->error : psprintf("the server answers %d", answer->status));
}

/* See explorer_round.h. */
void
round_take_answer(HttpTransfer *transfer)
{
	Job		   *job = http_owner(transfer);
	Round	   *round = job->round;
	HttpAnswer *answer = http_answer(transfer);

	dlist_delete(&job->node);
	round->active_count--;
	job->transfer = NULL;
	if (job->kind == JOB_TOKEN)
		round->token_wanted = false;
	PG_TRY();
	{
		if (answer->status == 200)
			take_page(job, answer);
		else if (answer->status == 304 && may_be_known(job))
			take_unchanged(job);
		else
			take_refusal(job, answer);
	}
	PG_FINALLY();
	{
		http_release(transfer);
	}
	PG_END_TRY();
}

/* Where the reading of known tables goes on, by catalog; lost with the process, which costs nothing. */
typedef struct ReadPosition
{
	int64		catalog_id;
	int64		after;
} ReadPosition;

static ReadPosition *
read_position(int64 catalog_id)
{
	static HTAB *positions = NULL;
	ReadPosition *position;
	bool		found;

	if (positions == NULL)
	{
		HASHCTL		control = {.keysize = sizeof(int64), .entrysize = sizeof(ReadPosition)};

		positions = hash_create("amoro_meta positions of reading", 64, &control, HASH_ELEM | HASH_BLOBS);
	}
	position = hash_search(positions, &catalog_id, HASH_ENTER, &found);
	if (!found)
		position->after = 0;
	return position;
}

/* Properties are read of tables new to us first, then again of some of the others; no longer than an interval. */
static void
read_more(Round *round)
{
	if (lease_clock_now() >= round->read_until)
	{
		round->over = true;
		return;
	}
	if (!round->reading_known && record_tables_to_read(round, /* unread= */ true, READ_AT_ONCE) > 0)
		return;
	/* those that were just read need not be read again */
	if (!round->reading_known && round->done == 0)
	{
		ReadPosition *position = read_position(round->catalog_id);

		round->reading_known = true;
		round->read_after = position->after;
		if (record_tables_to_read(round, /* unread= */ false, READ_AGAIN) == 0)
		{
			round->read_after = 0;
			(void) record_tables_to_read(round, /* unread= */ false, READ_AGAIN);
		}
		position->after = round->read_after;
		if (!dlist_is_empty(&round->queue))
			return;
	}
	round->over = true;
}

/* Everything that there was to ask has been answered. */
static void
enter_next_phase(Round *round)
{
	ErrorData  *error;

	if (round->phase == ROUND_PROPERTIES)
	{
		read_more(round);
		return;
	}
	error = record_settle(round);
	if (error != NULL)
		round_fail(round, error->message);
	else if (!round->reads_tables)
		round->over = true;
	else
	{
		round->phase = ROUND_PROPERTIES;
		round->done = 0;
		round->read_until = lease_clock_now() + (LeaseTime) guc_explore_interval * 1000;
		read_more(round);
	}
}

static void
begin_round(Round *round)
{
	const char *token = round->rest.token;

	round->retry_after = 0;
	if (round->rest.uri == NULL || round->rest.uri[0] == '\0')
		round_fail(round, "the catalog has no property uri");
	else if (token != NULL && strspn(token, " ") + strcspn(token, "\r\n") != strlen(token))
		round_fail(round, "the token has a character that cannot be sent");
	else
		(void) round_add_job(round, JOB_CONFIG, "", "");
	round->reported_at = lease_clock_now();
}

/* See explorer_round.h. */
bool
round_advance(Round *round)
{
	MemoryContext old = CurrentMemoryContext;

	if (round->reported_at == 0)
		begin_round(round);
	while (!round->failed && !round->over)
	{
		start_jobs(round);
		if (round->active_count > 0 || !dlist_is_empty(&round->queue))
			break;
		enter_next_phase(round);
	}
	MemoryContextSwitchTo(old);
	if (round->failed || round->over)
		return true;
	if (lease_clock_now() - round->reported_at >= SECOND_US)
	{
		round->reported_at = lease_clock_now();
		record_progress(round);
	}
	return false;
}

/* See explorer_round.h. */
LeaseTime
round_next(const Round *round)
{
	if (!dlist_is_empty(unconstify(dlist_head *, &round->queue)) && round->resume_at > lease_clock_now())
		return round->resume_at;
	return 0;
}

/* See explorer_round.h. */
void
round_free(Round *round)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &round->active)
	{
		Job		   *job = dlist_container(Job, node, iter.cur);

		if (job->transfer != NULL)
			http_release(job->transfer);
	}
	dlist_delete(&round->node);
	MemoryContextDelete(round->context);
}
