/*
 * explorer_etag.c
 *		Answers that are known already, so that a server need not give them again (If-None-Match).
 *
 * In the memory of the process alone: what is lost is asked for once more.
 */
#include "explorer/explorer_etag.h"

#include "common/hashfn.h"
#include "utils/hsearch.h"

/* About 16 MB; then everything is forgotten. */
#define MOST_ANSWERS 100000

static HTAB *answers = NULL;

/* The same URL is another question in another catalog, for another table, or under another filter. */
static uint64
question_of(const Job *job, const char *url)
{
	const char *filter = job->round->table_filter != NULL ? job->round->table_filter : "";
	uint64		hash = DatumGetUInt64(hash_any_extended((const unsigned char *) url, (int) strlen(url), (uint64) job->round->catalog_id));

	hash = hash_combine64(hash, DatumGetUInt64(hash_any_extended((const unsigned char *) filter, (int) strlen(filter), 0)));
	return hash_combine64(hash, (uint64) job->table_id);
}

/* See explorer_etag.h. */
const KnownAnswer *
etag_find(const Job *job, const char *url)
{
	uint64		question = question_of(job, url);

	return answers == NULL ? NULL : hash_search(answers, &question, HASH_FIND, NULL);
}

/* See explorer_etag.h. */
void
etag_note(const Job *job, const char *url, const char *etag, int64 listed, int64 kept)
{
	uint64		question = question_of(job, url);
	KnownAnswer *known;

	if (etag[0] == '\0' || strlen(etag) >= sizeof(known->etag))
	{
		etag_forget(job, url);
		return;
	}
	if (answers != NULL && hash_get_num_entries(answers) >= MOST_ANSWERS)
	{
		hash_destroy(answers);
		answers = NULL;
	}
	if (answers == NULL)
	{
		HASHCTL		control = {.keysize = sizeof(uint64), .entrysize = sizeof(KnownAnswer)};

		answers = hash_create("amoro_meta known answers", 256, &control, HASH_ELEM | HASH_BLOBS);
	}
	known = hash_search(answers, &question, HASH_ENTER, NULL);
	strlcpy(known->etag, etag, sizeof(known->etag));
	known->listed = listed;
	known->kept = kept;
}

/* See explorer_etag.h. */
void
etag_forget(const Job *job, const char *url)
{
	uint64		question = question_of(job, url);

	if (answers != NULL)
		(void) hash_search(answers, &question, HASH_REMOVE, NULL);
}
