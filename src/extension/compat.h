/*
 * compat.h
 *		What differs between the server versions that are supported (15 to 18),
 *		spelled as the newest of them spells it. No other file asks PG_VERSION_NUM.
 */
#ifndef AMORO_META_COMPAT_H
#define AMORO_META_COMPAT_H

#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "storage/proc.h"
#include "utils/wait_event.h"

#if PG_VERSION_NUM < 150000
#error "amoro_meta needs PostgreSQL 15 or newer"
#endif

/* 16 moved the varlena macros out of postgres.h */
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/* 16 made one function of the many that ask for an owner */
#include "utils/acl.h"
#if PG_VERSION_NUM >= 160000
#include "catalog/pg_database.h"
#define compat_owns_database(database) object_ownercheck(DatabaseRelationId, database, GetUserId())
#else
#define compat_owns_database(database) pg_database_ownercheck(database, GetUserId())
#endif

/* 16 says which indexes an update is for; the caller sees to all or none. It waits for whoever has the row. */
#include "access/heapam.h"
static inline TM_Result
compat_heap_update(Relation relation, ItemPointer place, HeapTuple row)
{
	TM_FailureData failure;
	LockTupleMode mode;
#if PG_VERSION_NUM >= 160000
	TU_UpdateIndexes indexes;

	return heap_update(relation, place, row, GetCurrentCommandId(true), InvalidSnapshot, true, &failure, &mode, &indexes);
#else
	return heap_update(relation, place, row, GetCurrentCommandId(true), InvalidSnapshot, true, &failure, &mode);
#endif
}

/* 17 renamed pgprocno to a backend's MyProcNumber */
#if PG_VERSION_NUM < 170000
typedef int ProcNumber;
#define INVALID_PROC_NUMBER (-1)
#define MyProcNumber (MyProc->pgprocno)
#endif

/* 17 lets an extension name its own wait events */
#if PG_VERSION_NUM < 170000
#define WaitEventExtensionNew(name) PG_WAIT_EXTENSION
#endif

/* 17 made the flush a parameter; the caller flushes */
#include "replication/message.h"
#if PG_VERSION_NUM >= 170000
#define compat_log_message(prefix) LogLogicalMessage(prefix, "", 0, false, false)
#else
#define compat_log_message(prefix) LogLogicalMessage(prefix, "", 0, false)
#endif

/* 17 brought a limit to the length of a whole transaction */
#if PG_VERSION_NUM >= 170000
#define compat_disable_transaction_timeout() SetConfigOption("transaction_timeout", "0", PGC_SUSET, PGC_S_OVERRIDE)
#else
#define compat_disable_transaction_timeout() ((void) 0)
#endif

/* 17 ties it to a resource owner */
#include "storage/latch.h"
#include "utils/memutils.h"
#if PG_VERSION_NUM >= 170000
#define compat_create_wait_event_set(size) CreateWaitEventSet(NULL, size)
#else
#define compat_create_wait_event_set(size) CreateWaitEventSet(TopMemoryContext, size)
#endif

/* 18 writes it before the function, and took pg_attribute_noreturn() away */
#if PG_VERSION_NUM < 180000
#define pg_noreturn __attribute__((noreturn))
#endif

/* 18 lets a module say its name and version */
#if PG_VERSION_NUM >= 180000
#define AMORO_META_MODULE_MAGIC PG_MODULE_MAGIC_EXT(.name = "amoro_meta", .version = AMORO_META_VERSION)
#else
#define AMORO_META_MODULE_MAGIC PG_MODULE_MAGIC
#endif

/* 19 terminates such workers for CREATE, ALTER and DROP DATABASE by itself */
#ifndef BGWORKER_INTERRUPTIBLE
#define BGWORKER_INTERRUPTIBLE 0
#endif

#endif							/* AMORO_META_COMPAT_H */
