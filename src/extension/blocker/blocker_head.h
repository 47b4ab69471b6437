/*
 * blocker_head.h
 *		Heads of table blockers: who holds which operation of a table, one row a table.
 *
 * A head is changed only if its row still is the version that was read, and each
 * change counts its version up.
 */
#ifndef AMORO_META_BLOCKER_HEAD_H
#define AMORO_META_BLOCKER_HEAD_H

#include "postgres.h"

#include "access/htup.h"
#include "datatype/timestamp.h"

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

/* A write of a head that took longer has waited for another transaction, and the clock is read anew. */
#define BLOCKER_WRITE_WITHOUT_WAIT_US 500

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
	HeapTuple	row;			/* what was read, or written since */
} BlockerHead;

/*
 * Reads a head as it is committed by now; false when there is none. to_change: nothing follows from what is read unless
 * the head is written, too, so that SERIALIZABLE need not hold the reading against others.
 */
extern bool blocker_head_read(const TableName *table, bool to_change, BlockerHead *head);
extern bool blocker_head_read_by_id(int64 head_id, bool to_change, BlockerHead *head);
/* Makes a head for a table that has none and returns its id; 0 when another transaction was faster. */
extern int64 blocker_head_create(const TableName *table);
/*
 * Writes what is in *head if the row still is what was read; false when it is not, and then the caller reads again.
 * Raises 40001 in a transaction whose snapshot does not show what was read.
 */
extern bool blocker_head_write(BlockerHead *head, TimestampTz now);
/* Keeps a head as it is, for the next try of a caller that will not want the record of any blocker. */
extern void blocker_head_lock(const BlockerHead *head);
/* Whether any of the operations is held at that moment. */
extern bool blocker_head_is_held(const BlockerHead *head, BlockerOperationSet operations, TimestampTz now);
/* The same of a table now, as it is committed by now; takes no lock. */
extern bool blocker_table_is_blocked(const TableName *table, BlockerOperationSet operations);
/* The operations of a blocker. */
extern BlockerOperationSet blocker_head_operations(const BlockerHead *head, int64 blocker_id);
/* Until when a blocker holds; DT_NOBEGIN when it holds nothing. */
extern TimestampTz blocker_head_expiry(const BlockerHead *head, int64 blocker_id);
/* Until when a blocker holds that was given, or renewed, for so long at that moment. */
static inline TimestampTz
blocker_expiry(TimestampTz moment, int64 timeout_ms)
{
	return moment + timeout_ms * 1000;
}

/* What the blocker has is held until then. */
extern void blocker_head_set_expiry(BlockerHead *head, int64 blocker_id, TimestampTz expires_at);
/* Takes what the blocker has; the operations are nobody's then. */
extern void blocker_head_clear(BlockerHead *head, int64 blocker_id);

/* Waits of this call end after amoro_meta.blocker_lock_timeout: nobody waits for an idle transaction for long. */
extern void blocker_limit_waits(void);

#endif							/* AMORO_META_BLOCKER_HEAD_H */
