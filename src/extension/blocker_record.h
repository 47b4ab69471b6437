/*
 * blocker_record.h
 *		The rows of table blockers: one head a table, one record a blocker.
 *
 * Order of the locks: the record of a blocker, then the head of its table. To end a
 * blocker its record is deleted first, so that an assertion, which holds the record,
 * keeps everybody from ending it. A head is changed only if its version still is the
 * one that was read (blocker_head_write).
 */
#ifndef AMORO_META_BLOCKER_RECORD_H
#define AMORO_META_BLOCKER_RECORD_H

#include "postgres.h"

#include "utils/jsonb.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

/* Operations that can be blocked, as Apache Amoro has them; the order is that of the columns of the head. */
typedef enum BlockerOperation
{
	BLOCKER_OPTIMIZE = 0,
	BLOCKER_BATCH_WRITE,
	BLOCKER_OPERATIONS
} BlockerOperation;

extern const char *const blocker_operation_names[BLOCKER_OPERATIONS];

/* A set of operations: bit 1 << BlockerOperation. */
typedef uint32 BlockerOperationSet;

typedef struct TableName
{
	char	   *catalog_name;
	char	   *database_name;
	char	   *table_name;
} TableName;

typedef struct BlockerHead
{
	int64		head_id;
	TableName	table;
	int64		version;
	int64		newest_blocker_id;
	int64		holders[BLOCKER_OPERATIONS];	/* 0: nobody */
	TimestampTz expires_at[BLOCKER_OPERATIONS];
} BlockerHead;

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

/* Reads a head as it is committed by now; false when there is none. */
extern bool blocker_head_read(const TableName *table, BlockerHead *head);
extern bool blocker_head_read_by_id(int64 head_id, BlockerHead *head);
/* Makes a head for a table that has none and returns its id; 0 when another transaction was faster. */
extern int64 blocker_head_create(const TableName *table);
/*
 * Writes what is in *head if the version in the row is still that of *head, and counts it up in both; false when it is
 * not, and then the caller reads again; it may have the row locked by then, though. Raises 40001 in a transaction whose snapshot does not show that version.
 */
extern bool blocker_head_write(BlockerHead *head, TimestampTz now);
/* Keeps a head as it is, for the next try of a caller that will not want the record of any blocker. */
extern void blocker_head_lock(const BlockerHead *head);
/* The operations of a blocker. */
extern BlockerOperationSet blocker_head_operations(const BlockerHead *head, int64 blocker_id);
/* Until when a blocker holds; DT_NOBEGIN when it holds nothing. */
extern TimestampTz blocker_head_expiry(const BlockerHead *head, int64 blocker_id);
/* Takes what the blocker has; the operations are nobody's then. */
extern void blocker_head_clear(BlockerHead *head, int64 blocker_id);

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
