/*
 * explorer_answer.c
 *		What becomes of the answer to a question: a page, news that there are none, a refusal.
 *
 * Whatever a catalog answers ends at a bound (pages, levels, tries), and costs what was listed before it nothing. What could not
 * be listed stays as it is.
 */
#include "explorer/explorer_etag.h"
#include "explorer/explorer_job.h"
#include "explorer/explorer_merge.h"

#define SECOND_US INT64CONST(1000000)
#define MOST_PAGES 10000
#define MOST_PAGES_WITHOUT_NEWS 10
#define MOST_TOKEN_BYTES 8192
#define MOST_LEVELS 16
#define MOST_TABLES 1000000
#define MOST_TRIES 3
#define MOST_PAUSES 5
#define LONGEST_PAUSE 60
#define MOST_FAILURES_IN_ROW 5

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
	job_free(job);
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
	job_free(job);
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
	bool		knowable = job_may_be_known(job);
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

/* A question has one new token had for it; it goes on with those that were had for others. */
static bool
token_may_be_over(const Job *job, int status)
{
	return (status == 401 || status == 403 || status == 419 || status == 501) && job->kind != JOB_TOKEN &&
		job->round->rest.credential != NULL && (!job->renewed || job->token_generation != job->round->rest.token_generation);
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
		if (job->token_generation == round->rest.token_generation)
		{
			if (round->rest.token != NULL)
				pfree(round->rest.token);
			round->rest.token = NULL;
			job->renewed = true;
		}
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
		else if (answer->status == 304 && job_may_be_known(job))
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
