/*
 * explorer_etag.h
 *		Answers that are known already, so that a server need not give them again (If-None-Match).
 */
#ifndef AMORO_META_EXPLORER_ETAG_H
#define AMORO_META_EXPLORER_ETAG_H

#include "postgres.h"

#include "explorer/explorer_round.h"

typedef struct KnownAnswer
{
	uint64		question;		/* hash of what was asked, by whom */
	char		etag[128];
	int64		listed;			/* entries that the answer had */
	int64		kept;			/* and how many of them are tables of ours */
} KnownAnswer;

/* What is known of the answer to the job's question; NULL: nothing. */
extern const KnownAnswer *etag_find(const Job *job, const char *url);
/* Notes an answer that was taken in whole, when the server has marked it. */
extern void etag_note(const Job *job, const char *url, const char *etag, int64 listed, int64 kept);
extern void etag_forget(const Job *job, const char *url);

#endif							/* AMORO_META_EXPLORER_ETAG_H */
