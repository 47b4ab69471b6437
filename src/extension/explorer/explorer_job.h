/*
 * explorer_job.h
 *		What one question of a round is about.
 */
#ifndef AMORO_META_EXPLORER_JOB_H
#define AMORO_META_EXPLORER_JOB_H

#include "explorer/explorer_round.h"

extern void job_free(Job *job);
/* For messages. */
extern const char *job_place(const Job *job);
/* What is asked next. */
extern char *job_url(const Job *job);
/* Only an answer that is one page can be known as a whole. */
extern bool job_may_be_known(const Job *job);

#endif							/* AMORO_META_EXPLORER_JOB_H */
