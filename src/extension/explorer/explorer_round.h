/*
 * explorer_round.h
 *		One exploration of one catalog, from the first question to the last row.
 */
#ifndef AMORO_META_EXPLORER_ROUND_H
#define AMORO_META_EXPLORER_ROUND_H

#include "postgres.h"

#include "clock.h"
#include "explorer/explorer_rest.h"
#include "lib/ilist.h"
#include "utils/hsearch.h"

/* How many questions one catalog is asked at the same time. */
#define ROUND_TRANSFERS 4

typedef enum JobKind
{
	JOB_CONFIG,
	JOB_TOKEN,
	JOB_NAMESPACES,				/* those right below one, or at the top */
	JOB_TABLES,
	JOB_TABLE
} JobKind;

typedef struct Round Round;

/* One thing to ask, page after page. */
typedef struct Job
{
	dlist_node	node;
	Round	   *round;
	JobKind		kind;
	char	   *path;			/* of the namespace, its levels separated; empty: the top */
	char	   *name;			/* under which the database is kept; of a table: its name */
	char	   *sent_path;		/* both in UTF-8 */
	char	   *sent_name;
	int64		table_id;
	char	   *page_token;		/* NULL: first page */
	int			pages;
	int			pages_without_news;
	int			tries;
	bool		renewed;		/* a new token was asked for on its behalf */
	bool		unconditional;	/* what is known of the answer does not fit what we have */
	int			token_generation;
	int64	   *seen;			/* ids of the tables that its pages had */
	int			seen_count;
	int			seen_capacity;
	HttpTransfer *transfer;
} Job;

typedef enum RoundPhase
{
	ROUND_CONFIG,
	ROUND_NAMESPACES,
	ROUND_TABLES,
	ROUND_PROPERTIES
} RoundPhase;

struct Round
{
	dlist_node	node;
	MemoryContext context;
	int64		catalog_id;
	char	   *catalog_name;
	RestCatalog rest;
	char	   *database_filter;
	char	   *table_filter;
	bool		reads_tables;
	RoundPhase	phase;

	dlist_head	queue;			/* jobs that wait */
	dlist_head	active;			/* jobs whose question is under way */
	int			active_count;
	bool		token_wanted;	/* the question for one is under way; the others wait */
	LeaseTime	resume_at;		/* the server wants to be left alone until then */
	int			pauses;

	HTAB	   *databases;		/* hashes of the names of those seen */
	char	  **listed;			/* names of those whose tables are wanted */
	int			listed_count;
	int			listed_capacity;
	bool		namespaces_complete;
	int64	   *missing;		/* ids of tables that were there and are no longer listed */
	int			missing_count;
	int			missing_capacity;

	int64		done;
	int64		tables;
	int64		added;
	int64		changed;
	int64		removed;
	int64		skipped;
	char	   *skipped_name;
	int64		read_after;		/* id of the last table whose properties were asked for */
	bool		reading_known;	/* the tables not read yet are done, some of the others follow */
	LeaseTime	read_until;
	LeaseTime	reported_at;
	LeaseTime	ends_at;		/* however much there may be to ask still */

	int			failures_in_row;
	int			errors;
	char	   *error;			/* the first one; NULL: none */
	bool		failed;
	bool		over;
	LeaseTime	over_at;		/* when its end is to be recorded, where that was not possible yet */
	int			retry_after;	/* seconds */
};

/* Notes a database that a listing had; false when it was noted before. */
extern bool round_add_database(Round *round, const char *name, bool wanted);
/* Starts what can be started; true when the round is over. */
extern bool round_advance(Round *round);
/* Takes in what came of a question; the transfer is released. */
extern void round_take_answer(HttpTransfer *transfer);
/* When there is something to do without an answer; 0: never. */
extern LeaseTime round_next(const Round *round);
/* Gives up everything that is under way and frees the round. */
extern void round_free(Round *round);
/* Ends the round without a result. */
extern void round_fail(Round *round, const char *error);
/* Notes an error; only the first is kept, the others are counted. */
extern void round_note_error(Round *round, const char *where, const char *error);
/* In a transaction, unless path and name are ASCII. */
extern Job *round_add_job(Round *round, JobKind kind, const char *path, const char *name);

#endif							/* AMORO_META_EXPLORER_ROUND_H */
