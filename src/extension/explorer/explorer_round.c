/*
 * explorer_round.c
 *		One exploration of one catalog, from the first question to the last row.
 *
 * A catalog is a stranger: whatever it answers ends at a bound (pages, names, levels, time), and costs what was
 * listed before it nothing. What could not be listed stays as it is.
 */
#include "explorer/explorer_round.h"

#include "common/hashfn.h"
#include "explorer/explorer_etag.h"
#include "explorer/explorer_job.h"
#include "explorer/explorer_record.h"
#include "guc.h"
#include "utils/memutils.h"

#define SECOND_US INT64CONST(1000000)
#define LONGEST_ROUND_US (INT64CONST(86400) * SECOND_US)
#define MOST_DATABASES 100000
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

static void
start_job(Round *round, Job *job)
{
	HttpRequest request = {.url = job_url(job), .trust = round->rest.trust, .take = round_take_answer};
	const KnownAnswer *known = job_may_be_known(job) ? etag_find(job, request.url) : NULL;

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
	if (!round->reading_known && (record_tables_to_read(round, /* unread= */ true, READ_AT_ONCE) > 0 || round->failed))
		return;
	/* where all were just read none need be read again */
	if (!round->reading_known && round->done < round->tables)
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
	round->ends_at = round->reported_at + LONGEST_ROUND_US;
}

/* See explorer_round.h. */
bool
round_advance(Round *round)
{
	MemoryContext old = CurrentMemoryContext;

	if (round->reported_at == 0)
		begin_round(round);
	if (lease_clock_now() >= round->ends_at && !round->failed)
		round_fail(round, "the round took longer than a day");
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
