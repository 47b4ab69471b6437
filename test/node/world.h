/*
 * world.h
 *		A small world for tests: true time, a node and a server with clocks of their own, a network between them that
 *		delays and loses, and a model of the server's side of the rules. The node in it is the real library over a
 *		transport that lets time pass while the node waits.
 */
#ifndef WORLD_H
#define WORLD_H

#include "load.h"
#include "node.h"

#define OBJECT_COUNT 4			/* two databases with two tables each */
#define MAX_CHANGES 4096

typedef enum ObjectState
{
	OBJECT_NORMAL,
	OBJECT_PRE_CREATE,
	OBJECT_PRE_ALTER,
	OBJECT_PRE_DROP,
	OBJECT_ABSENT
} ObjectState;

typedef struct ModelObject
{
	ObjectState state;
	int64_t		version;		/* of the newest change that touched it */
} ModelObject;

typedef struct ModelChange
{
	int64_t		version;
	int			object;			/* or -1 - database */
} ModelChange;

typedef enum SlotState
{
	SLOT_UNKNOWN,
	SLOT_JOINING,
	SLOT_ACTIVE,
	SLOT_FENCED,
	SLOT_RELEASED
} SlotState;

typedef struct ModelSlot
{
	SlotState	state;
	char		incarnation[INCARNATION_SIZE];
	int64_t		epoch;
	int64_t		applied;
	NodeTime	owed_until;		/* on the server's clock */
	NodeTime	behind_since;	/* 0: not behind */
} ModelSlot;

typedef struct ModelServer
{
	bool		up;
	int			boot;			/* grows with every start */
	int64_t		term;
	int64_t		version;
	int64_t		pruned;			/* newest version without changes */
	int64_t		needed_done;	/* the step that needed this version everywhere has committed */
	int64_t		waited_version; /* a step waits for it; 0: none */
	int64_t		lease_us;
	int64_t		longest_lease_us;	/* ever granted */
	int64_t		drift_ppm;
	int64_t		interval_us;
	int64_t		margin_us;
	int64_t		ack_timeout_us;
	int			carries_permille;	/* how many answers to heartbeats carry the changes */
	bool		leaving;		/* answers leave */
	bool		forgets_fences; /* a mutant: fences without a new epoch, and grants to whom it has fenced */
	const char *refuse_with;	/* SQLSTATE of every answer; NULL: none */
	const char *refuse_snapshots_with;	/* of every chunk */
	const char *refuse_changes_with;
	int			chunk_rows;		/* objects in a chunk */
	ModelSlot	slot;
	ModelObject objects[OBJECT_COUNT];
	ModelChange changes[MAX_CHANGES];
	int			change_count;
} ModelServer;

typedef struct World World;
typedef struct WorldEvent WorldEvent;
typedef void (*WorldFunction) (World *world, void *argument);

struct World
{
	NodeTime	now;			/* true time */
	NodeTime	end;			/* the test goes on then */
	double		node_rate;		/* of its clock against true time */
	NodeTime	node_offset;
	double		server_rate;
	Random		random;
	WorldEvent *events;			/* by time */
	uint64_t	event_count;

	NodeTime	least_delay;	/* of one way */
	NodeTime	most_delay;
	int			loss_permille;
	bool		cut_to_server;	/* what is sent there is lost */
	bool		cut_to_node;
	bool		deliver_strays; /* answers to requests that were given up still come */
	bool		pooled;			/* heartbeats cannot wait */
	CacheKindSet preload;		/* what the node loads before it serves */
	NodeTime	chunk_time;		/* that the server takes for a chunk */
	NodeTime	pause_before_send;	/* the node stalls between noting the time and sending */
	NodeTime	paused_until;	/* the node's process does not run */

	ModelServer server;
	ModelServer zombie;			/* what a failover left behind: answers loads with what it knew */
	AmoroNode  *node;
	pthread_t	thread;			/* of the node */
	pthread_mutex_t baton;
	pthread_cond_t passed;
	bool		node_runs;		/* whose turn it is */
	bool		thread_started;
	bool		thread_ended;

	/* what happened */
	int			sends[REQUEST_KIND_COUNT];
	NodeRequest last[REQUEST_KIND_COUNT];
	char		last_detail[64];	/* what the node said of itself in its last heartbeat */
	int64_t		absent_since[OBJECT_COUNT]; /* version as of which the node may know from memory that there is no such object */
	int			opens;
	int64_t		answers;		/* that left the node */
	int64_t		cached_answers;
	int64_t		absent_answers; /* from memory: there is no such object */
	int64_t		refused_answers;
	int			violations;
	char		violation[256];
};

extern World *world_create(uint64_t seed);
extern void world_destroy(World *world);
/* A node in it, which has not begun. */
extern void world_add_node(World *world);
/* A world with a node that serves. */
extern World *world_create_active(void);
extern void world_at(World *world, NodeTime time, WorldFunction function, void *argument);
/* Lets the node run for that long. */
extern void world_run(World *world, NodeTime duration);
/* Lets time pass without the node: its process is stopped. */
extern void world_stop_node(World *world, NodeTime duration);
extern NodeTime world_node_time(const World *world);
extern NodeTime world_server_time(const World *world);

/* The server's side. */
extern void server_change(World *world, int object, ObjectState state);
extern void server_change_database(World *world, int database);
/* Lets the step proceed that waits for waited_version, if the verdict is PROCEED. */
extern void server_tick(World *world);
/* The server goes down; the node's connection breaks, or, in a cut network, just goes silent. */
extern void server_crash(World *world);
extern void server_restart(World *world, bool new_timeline, int64_t lost_versions);

/* The reader's side: a lookup of an object as a caller makes it, in steps that time can pass between. */
typedef struct Reader
{
	int			object;
	KeyParts	key;
	AmoroKey	names;
	AmoroResult result;
	AmoroEntry *entry;
	AmoroTicket ticket;
	LoadNote	note;
	LookupAnswer answer;
	bool		answered;
	bool		from_memory;
} Reader;

extern AmoroKey object_key(int object);
/* From memory: AMORO_OK, AMORO_FENCED or AMORO_MISS. */
extern AmoroResult reader_peek(World *world, Reader *reader, int object);
/* What the node does on a miss; reading may be anywhere between beginning and finishing. */
extern bool reader_begin_load(World *world, Reader *reader, int object);
extern void reader_read(Reader *reader, const ModelServer *server);
extern LoadVerdict reader_finish_load(World *world, Reader *reader);
/* The end: checks the ticket; an answer that leaves is held against the promise. Releases the entry. */
extern AmoroResult reader_answer(World *world, Reader *reader);

/* All of a reader's steps at once. Puts an object into the cache; true if it is there. */
extern bool world_fill(World *world, int object);
/* From memory, as reader_peek. */
extern AmoroResult world_peek(World *world, int object);
extern AmoroNodeStatus world_status(World *world);

#endif							/* WORLD_H */
