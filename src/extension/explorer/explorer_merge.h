/*
 * explorer_merge.h
 *		What the answers of a catalog say is merged into the tables, each in a transaction of its own.
 */
#ifndef AMORO_META_EXPLORER_MERGE_H
#define AMORO_META_EXPLORER_MERGE_H

#include "postgres.h"

#include "explorer/explorer_round.h"

/* Each returns NULL, or the error; nothing is merged then. Where the next page begins is left in the job. */
extern ErrorData *merge_config(Job *job, HttpAnswer *answer);
extern ErrorData *merge_token(Job *job, HttpAnswer *answer);
extern ErrorData *merge_namespaces(Job *job, HttpAnswer *answer);
extern ErrorData *merge_tables(Job *job, HttpAnswer *answer);
extern ErrorData *merge_table(Job *job, HttpAnswer *answer);
/* Whether the database of the job has as many tables as that, none of which is missing. */
extern bool merge_unchanged(Job *job, int64 kept);

#endif							/* AMORO_META_EXPLORER_MERGE_H */
