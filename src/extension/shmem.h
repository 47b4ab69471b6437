/*
 * shmem.h
 *		Shared memory of amoro_meta: one entry a database that runs a coordinator,
 *		one slot a node incarnation. All of it may be lost at any moment: a new term
 *		starts then, and every registered node is owed one longest lease (docs/protocol.md, section 3, rule 5).
 *
 * AmoroShared->lock guards everything here. It is held for the time of a few hundred
 * instructions, never over a system call, an allocation or another lightweight lock.
 * Held exclusively it gives everything; held shared, a slot may be read and changed
 * under the slot's own mutex. So heartbeats, of different nodes, do not meet.
 */
#ifndef AMORO_META_SHMEM_H
#define AMORO_META_SHMEM_H

#include "postgres.h"

#include "clock.h"
#include "compat.h"
#include "port/atomics.h"
#include "storage/condition_variable.h"
#include "port/atomics.h"
#include "storage/lwlock.h"
#include "storage/spin.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

/* How many of the newest versions have the moment of their publication kept, for rule 8. */
#define PUBLISH_RING_SIZE 1024
#define SLOT_TEXT_SIZE 64
#define PROBE_QUEUE_SIZE 16
/* Room for the sweeps of sweep.c. */
#define MAX_SWEEPS 16
/* Groups share channels by their hash: who is woken for another group looks, and waits again. */
#define TASK_CHANNELS 64

/* The newest changes, to be carried in the answers of heartbeats: how many versions and bytes are kept, how many each may have. */
#define NEWS_VERSIONS 256
#define NEWS_SIZE 16384
#define NEWS_LARGEST (NEWS_SIZE / 4)

typedef enum NodeState
{
	NODE_SLOT_FREE = 0,
	NODE_JOINING,				/* registered, or told to reload; no grant yet in this epoch */
	NODE_ACTIVE,				/* holds a lease, or held one that nobody has looked at since it ended */
	NODE_FENCED,				/* its lease surely ended; must activate with the new epoch */
	NODE_RELEASED				/* gave its lease back */
} NodeState;

/* The settings that a grant is made of, published together by the coordinator once they are durable (rule 2). */
typedef struct LeaseSettings
{
	int64		lease_us;		/* L */
	int64		owed_us;		/* L * (1 + drift) + margin */
	int64		tick_us;		/* rule 11: how old the newest confirmed tick may be at a grant; 0: none is required */
	int64		grace_us;		/* rule 5: how long a lease may outlive a server that is deposed: owed_us, and with ticks the age of one */
	int32		max_clock_drift_ppm;
	int32		heartbeat_interval_ms;
	int64		ack_timeout_us;
} LeaseSettings;

typedef enum CoordinatorState
{
	COORDINATOR_NONE = 0,		/* never started here */
	COORDINATOR_STARTING,
	COORDINATOR_RUNNING,
	COORDINATOR_BACKOFF,		/* died or could not start; next try at backoff_until */
	COORDINATOR_NOT_ADOPTED,	/* runs, but the data belongs to another database: passive */
	COORDINATOR_HELD,			/* stepped aside for a command on its database */
	COORDINATOR_ABSENT,			/* the database does not have the extension */
	COORDINATOR_OTHER_VERSION	/* runs, but library and SQL are of different versions: passive */
} CoordinatorState;

/* What became of a sweep (sweep.c), for amoro_stat_sweep; all zero before its first run. */
typedef struct SweepStatus
{
	LeaseTime	due_at;
	TimestampTz last_run_at;
	int64		last_duration_us;
	int64		last_rows;
	int64		runs;
	int64		rows;
	int64		errors;
	int64		row_errors;		/* that a run has left behind, and gone on */
	int32		consecutive_failures;
	int32		last_error_code;
	TimestampTz last_error_at;
	char		last_error[256];
} SweepStatus;

/*
 * The changes of the versions first_version to published_version as text, one after the other in the order of their
 * publication; empty when first_version is greater. Bytes are counted from the start of the server: byte i is at
 * i % NEWS_SIZE, if it is one of the last NEWS_SIZE.
 */
typedef struct NewsRing
{
	int64		first_version;
	uint64		written;
	uint64		starts[NEWS_VERSIONS];	/* of version v at v % NEWS_VERSIONS */
	char		bytes[NEWS_SIZE];
} NewsRing;

/* What happened to table blockers, in the order of the columns of amoro_stat_blocker. */
typedef enum BlockerCount
{
	BLOCKER_ACQUIRED,
	BLOCKER_REPEATED,			/* acquired again with the same request id */
	BLOCKER_CONFLICT,
	BLOCKER_TAKEN_OVER,			/* expired, and in the way of another one */
	BLOCKER_RENEWED,
	BLOCKER_ASSERTED,
	BLOCKER_NOT_HELD,			/* AM102 */
	BLOCKER_RELEASED,
	BLOCKER_COUNTS
} BlockerCount;

/* A process of the extension that a database has at most one of (worker_place.c). */
typedef struct WorkerPlace
{
	pid_t		pid;			/* 0: none */
	ProcNumber	proc;			/* whose latch wakes it; INVALID_PROC_NUMBER when not running */
	uint64		wakes;			/* how often it was woken by worker_place_wake */
} WorkerPlace;

typedef struct DatabaseEntry
{
	Oid			database;		/* InvalidOid: entry is free */
	CoordinatorState state;
	WorkerPlace coordinator;
	WorkerPlace explorer;

	bool		recheck;		/* extension or identity may have changed: the next cycle looks again */
	bool		healthy;		/* the coordinator has come to run, or completed a cycle, since it started */

	/* 0 until the first coordinator of this server start has begun the term, and while the data is not adopted */
	int64		term;
	int64		highest_term;	/* no later term may be smaller, whatever a restored dump says */
	int64		first_term;		/* of the extension that is there: ids from before may name other nodes now */
	LeaseTime	term_start;
	LeaseTime	term_owed_until;	/* until when a node unseen in this term may hold a lease of an older one */
	LeaseSettings settings;

	int64		published_version;	/* newest committed metadata version */
	int64		ring_oldest_version;	/* oldest version whose moment is in the ring */
	LeaseTime	publish_times[PUBLISH_RING_SIZE];	/* of version v at v % PUBLISH_RING_SIZE */
	int64		awaited_version;	/* smallest version a procedure waits for; 0 = none */
	pg_atomic_uint32 awaited_laggards;	/* nodes that hold it back; the coordinator is woken when the last one gives way */
	bool		unseen_owed;	/* nodes without a slot may hold leases until term_owed_until */
	int64		procedure_events;	/* grows with every step, wakes those who wait for procedures */

	LeaseTime	tick_confirmed; /* before the newest confirmed tick was written; 0: none since the settings were published */
	LeaseTime	tick_required_since;
	TimestampTz last_tick_at;	/* as tick_confirmed, for people */
	TimestampTz tick_pending_since; /* when the oldest tick was written that is not confirmed; 0: none */

	NewsRing	news;

	pg_atomic_uint64 blocker_counts[BLOCKER_COUNTS];

	/* for amoro_stat_coordinator */
	TimestampTz started_at;
	TimestampTz last_cycle_at;
	TimestampTz backoff_until;
	TimestampTz stats_reset;
	int64		starts;
	int64		cycles;
	int64		steps;
	int64		errors;
	int32		consecutive_failures;
	int32		last_error_code;
	char		last_error[256];
	char		stopped_at[NAMEDATALEN];	/* the stop point where it stands, for debug_stop_at */
	SweepStatus sweeps[MAX_SWEEPS];	/* in the order of the table in sweep.c */
} DatabaseEntry;

typedef struct NodeSlot
{
	Oid			database;
	uint8		state;			/* NodeState */
	bool		held;			/* rule 8: refused further leases while it is behind */
	bool		superseded;		/* a newer incarnation has registered, or its registration is gone */
	bool		forgotten;		/* the latter: nothing is known against its process */
	bool		removing;		/* remove_node waits for its lease to end */
	bool		pending;		/* its registration is not committed yet: no grant */
	slock_t		mutex;			/* for who holds AmoroShared->lock in shared mode */
	int64		node_id;
	pg_uuid_t	incarnation;
	Oid			role;			/* the only one that may speak for the node */
	ProcNumber	waiter;			/* backend whose heartbeat waits for news; INVALID_PROC_NUMBER = none */
	int32		next_in_bucket; /* index of the next slot with the same hash, -1 ends */
	int64		registration;	/* order in which incarnations of a node registered; 0: before this term */
	int64		lease_epoch;
	int64		applied_version;
	LeaseTime	last_heard;
	LeaseTime	last_grant;		/* 0: never in this term */
	LeaseTime	owed_until;		/* 0: nothing owed */
	LeaseTime	behind_since;	/* 0: not behind */
	LeaseTime	kept_out_since; /* rule 8: fenced while it was held; 0: not so */
	int64		heartbeats;
	int64		fences;
	char		detail[SLOT_TEXT_SIZE];	/* what the node says of itself */
} NodeSlot;

StaticAssertDecl(sizeof(NodeSlot) <= 256, "a slot is at most 256 bytes (see docs/performance.md)");

/* Where optimizers of a group wait for tasks (task_activity.c). Nothing depends on it but how soon they look again. */
typedef struct TaskChannel
{
	pg_atomic_uint64 announcements;
	ConditionVariable waiters;
} TaskChannel;

/* What amoro_stat_task counts. */
typedef enum TaskEvent
{
	TASK_POLL = 0,
	TASK_EMPTY_POLL,
	TASK_CLAIM,
	TASK_OVER_QUOTA,
	TASK_ACK,
	TASK_STALE_ACK,
	TASK_SUCCESS,
	TASK_FAILURE,
	TASK_RETRY,
	TASK_RESET,
	TASK_LATE_COMPLETION,
	TASK_CANCELLED_COMPLETION,
	TASK_EXPIRED_OPTIMIZER
} TaskEvent;

#define TASK_EVENTS (TASK_EXPIRED_OPTIMIZER + 1)

/* Of one database, without a lock: a place is taken once and for all. */
typedef struct TaskCounters
{
	pg_atomic_uint32 database;	/* InvalidOid: free */
	pg_atomic_uint64 events[TASK_EVENTS];
} TaskCounters;

#define TASK_COUNTER_PLACES 64

/* Where in the line of a process the next claim begins (task_cursor.c). Processes share a place by their hash. */
typedef struct TaskCursor
{
	pg_atomic_uint64 process_id;
	pg_atomic_uint64 position;
} TaskCursor;

#define TASK_CURSORS 256

typedef struct AmoroSharedState
{
	LWLock	   *lock;
	int32		max_databases;
	int32		max_nodes;
	ProcNumber	launcher_proc;	/* INVALID_PROC_NUMBER when not running */
	pid_t		launcher_pid;
	bool		rescan;			/* the launcher is to look at all databases again */
	int32		probe_count;	/* databases in which the extension came or went; rescan when there are too many */
	Oid			probe_queue[PROBE_QUEUE_SIZE];
	int32		first_free_slot;	/* free slots are chained through next_in_bucket */
	ConditionVariable procedure_ended;	/* in some database; who waits for one of its own looks again */
	ConditionVariable call_ended;	/* a call to a leader, in some database */
	int32		slots_end;		/* no slot at or beyond this index was ever used */
	int64		registrations;	/* how many there were in this server start */
	TaskChannel task_channels[TASK_CHANNELS];
	TaskCounters task_counters[TASK_COUNTER_PLACES];
	TaskCursor	task_cursors[TASK_CURSORS];
	/* after this struct: databases, then slots, then hash buckets */
} AmoroSharedState;

/* NULL when the library was not preloaded. */
extern AmoroSharedState *AmoroShared;
extern DatabaseEntry *AmoroDatabases;	/* [AmoroShared->max_databases] */
extern NodeSlot *AmoroNodeSlots;		/* [AmoroShared->max_nodes] */
extern int32 *AmoroNodeBuckets;			/* [AmoroShared->max_nodes], index of the first slot or -1 */

extern void shmem_install_hooks(void);
extern DatabaseEntry *database_entry_find(Oid database);
extern DatabaseEntry *database_entry_claim(Oid database);
extern void database_entry_set_latch(ProcNumber proc);
extern void launcher_wake(Oid probe);

#endif							/* AMORO_META_SHMEM_H */
