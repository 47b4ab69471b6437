/*
 * blocker_answer.h
 *		Blockers as SQL sees them: table_blocker, and the refusal of an acquire.
 */
#ifndef AMORO_META_BLOCKER_ANSWER_H
#define AMORO_META_BLOCKER_ANSWER_H

#include "postgres.h"

#include "blocker/blocker_record.h"
#include "compat.h"
#include "fmgr.h"

/* The row that an API function returns; SPI is connected, the row is in the caller's memory. */
extern Datum blocker_answer(FunctionCallInfo fcinfo, const BlockerHead *head, const BlockerRecord *record);
/* Raises AM101: who holds which of the operations until when. */
extern pg_noreturn void blocker_raise_conflict(const BlockerHead *head, BlockerOperationSet operations, TimestampTz now);

#endif							/* AMORO_META_BLOCKER_ANSWER_H */
