/*
 * shmem.c
 *		Asks for, lays out and finds things in the shared memory of amoro_meta.
 */
#include "postgres.h"

#include "compat.h"
#include "guc.h"
#include "miscadmin.h"
#include "shmem.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/shmem.h"

AmoroSharedState *AmoroShared = NULL;
DatabaseEntry *AmoroDatabases = NULL;
NodeSlot   *AmoroNodeSlots = NULL;
int32	   *AmoroNodeBuckets = NULL;

static shmem_request_hook_type previous_shmem_request_hook = NULL;
static shmem_startup_hook_type previous_shmem_startup_hook = NULL;

/* A coordinator is a background worker, so there are never more databases at work than workers. */
static int
max_databases(void)
{
	return Max(max_worker_processes, 8);
}

static Size
databases_offset(void)
{
	return MAXALIGN(sizeof(AmoroSharedState));
}

static Size
slots_offset(void)
{
	return add_size(databases_offset(), MAXALIGN(mul_size(max_databases(), sizeof(DatabaseEntry))));
}

static Size
buckets_offset(void)
{
	return add_size(slots_offset(), MAXALIGN(mul_size(guc_max_nodes, sizeof(NodeSlot))));
}

static Size
shared_memory_size(void)
{
	return add_size(buckets_offset(), MAXALIGN(mul_size(guc_max_nodes, sizeof(int32))));
}

static void
request_shared_memory(void)
{
	if (previous_shmem_request_hook)
		previous_shmem_request_hook();
	RequestAddinShmemSpace(shared_memory_size());
	RequestNamedLWLockTranche("amoro_meta", 1);
}

static void
initialize_shared_memory(void)
{
	memset(AmoroShared, 0, shared_memory_size());
	AmoroShared->lock = &GetNamedLWLockTranche("amoro_meta")[0].lock;
	AmoroShared->max_databases = max_databases();
	AmoroShared->max_nodes = guc_max_nodes;
	AmoroShared->launcher_proc = INVALID_PROC_NUMBER;
	for (int i = 0; i < AmoroShared->max_databases; i++)
	{
		AmoroDatabases[i].database = InvalidOid;
		AmoroDatabases[i].coordinator.proc = INVALID_PROC_NUMBER;
		AmoroDatabases[i].explorer.proc = INVALID_PROC_NUMBER;
	}
	for (int i = 0; i < AmoroShared->max_nodes; i++)
	{
		AmoroNodeSlots[i].waiter = INVALID_PROC_NUMBER;
		AmoroNodeSlots[i].next_in_bucket = i + 1 < AmoroShared->max_nodes ? i + 1 : -1;
		AmoroNodeBuckets[i] = -1;
	}
	AmoroShared->first_free_slot = 0;
	ConditionVariableInit(&AmoroShared->procedure_ended);
	ConditionVariableInit(&AmoroShared->call_ended);
	for (int i = 0; i < TASK_CHANNELS; i++)
	{
		pg_atomic_init_u64(&AmoroShared->task_channels[i].announcements, 0);
		ConditionVariableInit(&AmoroShared->task_channels[i].waiters);
	}
	for (int i = 0; i < TASK_COUNTER_PLACES; i++)
	{
		pg_atomic_init_u32(&AmoroShared->task_counters[i].database, InvalidOid);
		for (int event = 0; event < TASK_EVENTS; event++)
			pg_atomic_init_u64(&AmoroShared->task_counters[i].events[event], 0);
	}
	for (int i = 0; i < TASK_CURSORS; i++)
	{
		pg_atomic_init_u64(&AmoroShared->task_cursors[i].process_id, 0);
		pg_atomic_init_u64(&AmoroShared->task_cursors[i].position, 0);
	}
}

static void
attach_shared_memory(void)
{
	bool		found;
	char	   *base;

	if (previous_shmem_startup_hook)
		previous_shmem_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	base = ShmemInitStruct("amoro_meta", shared_memory_size(), &found);
	AmoroShared = (AmoroSharedState *) base;
	AmoroDatabases = (DatabaseEntry *) (base + databases_offset());
	AmoroNodeSlots = (NodeSlot *) (base + slots_offset());
	AmoroNodeBuckets = (int32 *) (base + buckets_offset());
	if (!found)
		initialize_shared_memory();
	LWLockRelease(AddinShmemInitLock);
}

/*
 * shmem_install_hooks arranges for the shared memory. To be called while the
 * postmaster loads its preloaded libraries.
 */
void
shmem_install_hooks(void)
{
	previous_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = request_shared_memory;
	previous_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = attach_shared_memory;
}

/*
 * database_entry_find returns the entry of a database, or NULL. The caller holds
 * AmoroShared->lock in any mode.
 */
DatabaseEntry *
database_entry_find(Oid database)
{
	for (int i = 0; i < AmoroShared->max_databases; i++)
	{
		if (AmoroDatabases[i].database == database)
			return &AmoroDatabases[i];
	}
	return NULL;
}

/*
 * database_entry_claim returns the entry of a database, taking a free one if it
 * has none; NULL when all are taken. The caller holds AmoroShared->lock exclusively.
 */
DatabaseEntry *
database_entry_claim(Oid database)
{
	DatabaseEntry *entry = database_entry_find(database);

	if (entry != NULL)
		return entry;
	entry = database_entry_find(InvalidOid);
	if (entry == NULL)
		return NULL;
	memset(entry, 0, sizeof(*entry));
	pg_atomic_init_u32(&entry->awaited_laggards, 0);
	for (int i = 0; i < BLOCKER_COUNTS; i++)
		pg_atomic_init_u64(&entry->blocker_counts[i], 0);
	entry->database = database;
	entry->coordinator.proc = INVALID_PROC_NUMBER;
	entry->explorer.proc = INVALID_PROC_NUMBER;
	return entry;
}

/*
 * database_entry_set_latch wakes the process with that number, if any. A number
 * that has meanwhile passed to another process wakes that one for nothing, which
 * every latch loop bears.
 */
void
database_entry_set_latch(ProcNumber proc)
{
	if (proc != INVALID_PROC_NUMBER)
		SetLatch(&ProcGlobal->allProcs[proc].procLatch);
}

/*
 * launcher_wake wakes the launcher, from any process. It looks again at the given database in particular; InvalidOid:
 * only at what pg_database says. The caller does not hold AmoroShared->lock.
 */
void
launcher_wake(Oid probe)
{
	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	if (OidIsValid(probe))
	{
		if (AmoroShared->probe_count < PROBE_QUEUE_SIZE)
			AmoroShared->probe_queue[AmoroShared->probe_count++] = probe;
		else
			AmoroShared->rescan = true;
	}
	database_entry_set_latch(AmoroShared->launcher_proc);
	LWLockRelease(AmoroShared->lock);
}
