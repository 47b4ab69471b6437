/*
 * blocker_record.h
 *		Records of table blockers: what does not change about one, a row a blocker.
 *
 * Order of the locks: the record of a blocker, then the head of its table. To end a
 * blocker its record is deleted first, so that an assertion, which holds the record,
 * keeps everybody from ending it.
 */
#ifndef AMORO_META_BLOCKER_RECORD_H
#define AMORO_META_BLOCKER_RECORD_H

#include "postgres.h"

#include "blocker/blocker_head.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

typedef struct BlockerRecord
{
	int64		blocker_id;
	int64		prev_blocker_id;
	int64		head_id;
	Oid			acquired_by;
	bool		has_request_id;
	pg_uuid_t	request_id;
	int64		timeout_ms;
	TimestampTz created_at;
	Jsonb	   *properties;
} BlockerRecord;

/* Whether a role has that many blockers. */
extern bool blocker_role_has(Oid role, int64 count);
/* Reads a record as it is committed by now; false when there is none. */
extern bool blocker_record_read(int64 blocker_id, BlockerRecord *record);
/* Holds a record to the end of the transaction against blocker_record_delete; false when there is none. */
extern bool blocker_record_lock(int64 blocker_id, BlockerRecord *record);
/* Locks a record for blocker_record_delete if nobody else has it. */
extern bool blocker_record_try_lock(int64 blocker_id);
/* Deletes a record, after waiting for those who hold it; false when there is none. */
extern bool blocker_record_delete(int64 blocker_id, BlockerRecord *record);
/* Inserts a record and gives it an id, which is larger than all that were given for the table before. */
extern void blocker_record_insert(BlockerRecord *record, const BlockerHead *head, TimestampTz expires_at);
/* Writes created_at of a record that this transaction has inserted. */
extern void blocker_record_date(const BlockerRecord *record, TimestampTz expires_at);

#endif							/* AMORO_META_BLOCKER_RECORD_H */
