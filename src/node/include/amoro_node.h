/*
 * amoro_node.h
 *		A node of amoro_meta in a process of yours: metadata caches under a lease.
 *
 * A node registers with a database that has the extension amoro_meta, sends heartbeats
 * from a thread of its own, and answers lookups from memory for as long as its lease
 * lasts. It starts fenced; it is fenced again whenever it has heard nothing for the
 * length of the lease; fenced, it answers nothing (docs/protocol.md, sections 3 and 4).
 *
 * Every function may be called from any thread. Needs libpq and pthreads.
 */
#ifndef AMORO_NODE_H
#define AMORO_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AMORO_PUBLIC extern __attribute__((visibility("default")))

typedef struct AmoroNode AmoroNode;
typedef struct AmoroEntry AmoroEntry;

typedef enum AmoroResult
{
	AMORO_OK = 0,
	AMORO_NOT_FOUND,			/* the database says that there is no such object */
	AMORO_FENCED,				/* no valid lease: nothing may be answered */
	AMORO_IN_TRANSITION,		/* the object is being created or dropped */
	AMORO_UNAVAILABLE,			/* not in memory, and the database could not be asked in time */
	AMORO_STALE,				/* amoro_ticket_check: a change overtook the answer; get it again */
	AMORO_MISS,					/* amoro_cache_peek: not in memory; load it */
	AMORO_INVALID_ARGUMENT		/* no such kind, or names that no object of it can have */
} AmoroResult;

/* Kinds of cache, with the names that make up a key of each. */
typedef enum AmoroCacheKind
{
	AMORO_CACHE_TABLE = 0,		/* catalog, database, table */
	AMORO_CACHE_PARTITION,		/* catalog, database, number of the slot */
	AMORO_CACHE_DEVICE,			/* catalog, database, path of the device */
	AMORO_CACHE_AUTHORITY,		/* user */
	AMORO_CACHE_BUCKET,			/* service, number of the bucket */
	AMORO_CACHE_KIND_COUNT
} AmoroCacheKind;

/*
 * The name of an object, in parts that are never glued together; names end at their NUL. A kind takes as many as it
 * has, in this order; those that it has not are NULL or empty.
 */
typedef struct AmoroKey
{
	const char *catalog_name;
	const char *database_name;
	const char *object_name;
} AmoroKey;

/* What users may do; a server may know more. Bits of a mask: they never change. */
typedef enum AmoroPrivilege
{
	/* on the system, a catalog, a database, a table */
	AMORO_PRIVILEGE_SELECT = 0,
	AMORO_PRIVILEGE_INSERT,
	AMORO_PRIVILEGE_DELETE,
	AMORO_PRIVILEGE_CREATE,
	AMORO_PRIVILEGE_ALTER,
	AMORO_PRIVILEGE_DROP,
	/* on the system, a catalog, a database, a path */
	AMORO_PRIVILEGE_READ_DATA,
	AMORO_PRIVILEGE_WRITE_DATA,
	AMORO_PRIVILEGE_READ_SCHEMA,
	AMORO_PRIVILEGE_WRITE_SCHEMA,
	/* on the system, a catalog */
	AMORO_PRIVILEGE_MANAGE_DATABASE,
	/* on the system */
	AMORO_PRIVILEGE_MANAGE_CATALOG,
	AMORO_PRIVILEGE_MANAGE_USER,
	AMORO_PRIVILEGE_MANAGE_ROLE,
	AMORO_PRIVILEGE_MANAGE_OPTIMIZER,
	AMORO_PRIVILEGE_EXTEND_TEMPLATE,
	AMORO_PRIVILEGE_USE_TRIGGER,
	AMORO_PRIVILEGE_USE_UDF,
	AMORO_PRIVILEGE_USE_CQ,
	AMORO_PRIVILEGE_USE_PIPE,
	AMORO_PRIVILEGE_MAINTAIN,
	AMORO_PRIVILEGE_COUNT
} AmoroPrivilege;

/*
 * What a privilege is asked for: a table, a path of devices (canonical, perhaps a pattern), a database, a catalog, or (no name)
 * the system. Names that are not given are NULL or empty.
 */
typedef struct AmoroScope
{
	const char *catalog_name;
	const char *database_name;
	const char *table_name;
	const char *path;
} AmoroScope;

typedef struct AmoroNodeOptions
{
	const char *conninfo;		/* as libpq reads it; target_session_attrs=read-write is added unless given */
	const char *node_name;
	const char *node_kind;		/* NULL: "node" */
	const char *endpoint;		/* shown in node_status; NULL: none */
	int			loader_connections; /* connections for loads; 0: 4 */
	int			load_timeout_ms;	/* 0: 5000 */
	size_t		cache_bytes;		/* memory for entries; 0: no limit */
	unsigned	preload;		/* kinds to load whole before serving, bits 1 << kind; 0: those that every node loads (authority) */
	/* called on every change of state and every noteworthy failure, from the node's own threads; NULL: silent */
	void		(*log)(void *argument, int level, const char *message);
	void	   *log_argument;
} AmoroNodeOptions;

enum
{
	AMORO_LOG_ERROR = 0,
	AMORO_LOG_WARNING,
	AMORO_LOG_INFO,
	AMORO_LOG_DEBUG
};

typedef enum AmoroNodeState
{
	AMORO_NODE_CONNECTING = 0,	/* fenced: not registered yet, or no server reached */
	AMORO_NODE_FENCED,			/* fenced: the lease ended, or the server said so */
	AMORO_NODE_RECOVERING,		/* fenced: caches cleared, loading or activating */
	AMORO_NODE_ACTIVE,			/* serves while the lease lasts */
	AMORO_NODE_SUPERSEDED,		/* for good: a newer process has registered under this name */
	AMORO_NODE_REMOVED,			/* for good: the node was removed by an operator */
	AMORO_NODE_REFUSED,			/* fenced: an operator has to act (privilege, protocol version, settings, slots); tried again slowly */
	AMORO_NODE_CLOSED
} AmoroNodeState;

/* A snapshot for people and metrics; times are milliseconds, counters grow from the start of the node. */
typedef struct AmoroNodeStatus
{
	AmoroNodeState state;
	bool		serving;		/* a lookup begun now could be answered: active, and the lease has not ended */
	int64_t		node_id;
	char		incarnation[37];
	int64_t		term;
	int64_t		lease_epoch;
	int64_t		lease_remaining_ms; /* 0 when not serving */
	int64_t		applied_version;
	int64_t		metadata_version;	/* newest that the server spoke of */
	int64_t		heartbeat_age_ms;	/* since the last answer of the server; -1: none yet */
	int64_t		heartbeats;
	int64_t		heartbeat_failures;
	int64_t		fences;
	int64_t		clears;
	int64_t		recoveries;
	int64_t		last_recovery_ms;	/* how long the last recovery took; -1: none yet */
	int64_t		changes_applied;
	struct
	{
		int64_t		entries;
		int64_t		bytes;
		int64_t		hits;
		int64_t		misses;
		int64_t		loads;
		int64_t		load_failures;
		int64_t		loads_refused;	/* a change or a clear overtook the load (generation rule) */
		int64_t		evictions;
		int64_t		invalidations;
		int64_t		clears;			/* times the cache was emptied */
		int64_t		reloads;		/* times all of it was loaded before serving */
		int64_t		last_reload_ms; /* how long that took the last time; -1: not yet */
		int64_t		whole;			/* 1: all of it is in memory, and what is not there does not exist */
	}			caches[AMORO_CACHE_KIND_COUNT];
	char		reason[256];	/* why it is not serving, or the last failure; empty: nothing to say */
} AmoroNodeStatus;

/*
 * What an answer was read under. Take it with the entry, and check it at the last moment before the answer leaves the
 * process: a process that was stopped in between must not answer from what it read before (rule 7).
 */
typedef struct AmoroTicket
{
	uint64_t	lease_generation;
	uint64_t	key_generation;
	uint64_t	key_hash;
	int64_t		metadata_version;	/* the version the answer belongs to, for people and for headers */
} AmoroTicket;

/*
 * Starts a node: checks the options, starts its threads, returns at once; the node is fenced until its first grant.
 * Returns AMORO_OK, or AMORO_INVALID_ARGUMENT with a message in error (never longer than error_size).
 */
AMORO_PUBLIC AmoroResult amoro_node_open(const AmoroNodeOptions *options, AmoroNode **node, char *error, size_t error_size);
AMORO_PUBLIC void amoro_node_status(AmoroNode *node, AmoroNodeStatus *status);
/*
 * Stops serving at once, releases the lease at the server within two seconds (so that nobody waits for it), ends the
 * threads, frees the node. Entries live on until they are released. No other call may use the node any more.
 */
AMORO_PUBLIC void amoro_node_close(AmoroNode *node);

/*
 * Looks a key up: from memory, else from the database within load_timeout_ms. On AMORO_OK *entry is a reference that
 * the caller gives back with amoro_entry_release. AMORO_NOT_FOUND and AMORO_IN_TRANSITION are answers too and need
 * the ticket checked as well. A thread that may not block uses amoro_cache_peek and amoro_cache_load.
 */
AMORO_PUBLIC AmoroResult amoro_cache_get(AmoroNode *node, AmoroCacheKind kind, const AmoroKey *key,
								   AmoroEntry **entry, AmoroTicket *ticket);
/* As amoro_cache_get, from memory only: AMORO_OK, AMORO_FENCED or AMORO_MISS. */
AMORO_PUBLIC AmoroResult amoro_cache_peek(AmoroNode *node, AmoroCacheKind kind, const AmoroKey *key,
									AmoroEntry **entry, AmoroTicket *ticket);
typedef void (*AmoroLoadCallback) (void *argument, AmoroResult result, AmoroEntry *entry, AmoroTicket ticket);
/*
 * Asks the database for a key and calls back with what amoro_cache_get would have returned; the callback owns the
 * entry, and may not block. It comes from a loader thread; with AMORO_FENCED, when the lease is lost meanwhile, from the
 * heartbeat thread; or, when the node is fenced already or the queue is full, from the caller's own.
 */
AMORO_PUBLIC void amoro_cache_load(AmoroNode *node, AmoroCacheKind kind, const AmoroKey *key,
							 AmoroLoadCallback callback, void *argument);

/* One of many lookups: the key is asked for, the rest is the answer, as amoro_cache_get gives it. */
typedef struct AmoroLookup
{
	AmoroKey	key;
	AmoroResult result;
	AmoroEntry *entry;
	AmoroTicket ticket;
} AmoroLookup;

/*
 * Looks many keys of one kind up; what is not in memory is asked for by one request (for each 1000 of them). Each lookup gets
 * its own result, entry and ticket, to be checked each; they are not of one version of the metadata.
 */
AMORO_PUBLIC void amoro_cache_get_many(AmoroNode *node, AmoroCacheKind kind, AmoroLookup *lookups, size_t count);
/* As amoro_cache_get_many, from memory only, and only those whose result is AMORO_MISS; returns of how many it still is. */
AMORO_PUBLIC size_t amoro_cache_peek_many(AmoroNode *node, AmoroCacheKind kind, AmoroLookup *lookups, size_t count);
/*
 * Asks the database for those of the lookups whose result is AMORO_MISS, and calls back once, as amoro_cache_load does, when
 * all have their answers. The lookups must stay until then; their names need not.
 */
AMORO_PUBLIC void amoro_cache_load_many(AmoroNode *node, AmoroCacheKind kind, AmoroLookup *lookups, size_t count,
										void (*callback) (void *argument), void *argument);

/*
 * What is in a database, of a kind with three names: a page of at most max_rows (1 to 10000) of them, in their order after
 * key->object_name (NULL: from the first), as the document that metadata_listing() makes. It is read from the database each
 * time, and its ticket gets stale with any change in the database. AMORO_NOT_FOUND and AMORO_IN_TRANSITION are said of
 * the database.
 */
AMORO_PUBLIC AmoroResult amoro_listing_get(AmoroNode *node, AmoroCacheKind kind, const AmoroKey *key, int max_rows,
										   AmoroEntry **entry, AmoroTicket *ticket);
/* The same with a call back, as amoro_cache_load. */
AMORO_PUBLIC void amoro_listing_load(AmoroNode *node, AmoroCacheKind kind, const AmoroKey *key, int max_rows,
									 AmoroLoadCallback callback, void *argument);

/*
 * AMORO_OK: the answer may leave, and the ticket's metadata_version is the newest as of which it is known to be right;
 * AMORO_FENCED: it may not; AMORO_STALE: a change overtook it, get it again.
 */
AMORO_PUBLIC AmoroResult amoro_ticket_check(AmoroNode *node, AmoroTicket *ticket);

/*
 * Whether a user may do something, directly or through a role, there or on a wider scope: AMORO_OK; AMORO_NOT_FOUND: no, or
 * there is no such user. Both need the ticket checked. Otherwise as amoro_cache_get; AMORO_INVALID_ARGUMENT also when the
 * names make no scope, or none on which that privilege can be had. A user who is not in memory is loaded.
 */
AMORO_PUBLIC AmoroResult amoro_privilege_check(AmoroNode *node, const char *user_name, AmoroPrivilege privilege,
											   const AmoroScope *scope, AmoroTicket *ticket);
/* The same of an entry of kind AMORO_CACHE_AUTHORITY, for threads that may not block; the ticket is that of the entry. */
AMORO_PUBLIC AmoroResult amoro_privilege_allowed(const AmoroEntry *entry, AmoroPrivilege privilege, const AmoroScope *scope);
/* Whether the names make a scope: each with those above it, a table or a path but not both, a path that begins with root. */
AMORO_PUBLIC bool amoro_scope_is_valid(const AmoroScope *scope);
/* Whether a valid scope is one on which the privilege can be had: there is no WRITE_SCHEMA on a table, no MAINTAIN on a catalog. */
AMORO_PUBLIC bool amoro_privilege_fits(AmoroPrivilege privilege, const AmoroScope *scope);
/* "SELECT", … */
AMORO_PUBLIC const char *amoro_privilege_name(AmoroPrivilege privilege);
/* In upper or lower case; false when there is none of that name. */
AMORO_PUBLIC bool amoro_privilege_parse(const char *name, AmoroPrivilege *privilege);
/*
 * Does this process own a bucket of a service (create_service_buckets)? AMORO_OK: it does, AMORO_NOT_FOUND: it does not,
 * or there is no such bucket; or as amoro_cache_get. Whoever works on a bucket asks for each piece of the work, and
 * checks the ticket at its end: the bucket is given to another process once this one has applied the change that takes it
 * away, or surely is fenced. What is written into the database is safe with assert_bucket() in the same transaction.
 */
AMORO_PUBLIC AmoroResult amoro_bucket_owned(AmoroNode *node, const char *service, int bucket, AmoroTicket *ticket);

/*
 * Leading a service: of all nodes that campaign for it one leads, for as long as its lease lasts; another one comes to lead
 * only when that is surely over. Tokens grow with every tenure: pass them to what you write to.
 */
typedef struct AmoroLeadership AmoroLeadership;

typedef struct AmoroLeadershipOptions
{
	const char *service;
	/*
	 * How long before the end of the lease the node stops to lead (at most half a lease): the time that on_loss has until
	 * another node may lead. 0: none, for who calls amoro_leadership_check before every act.
	 */
	int			stop_margin_ms;
	/*
	 * Called from a thread of the leadership's own; any may be NULL. The node stops to lead at stop_us, and its lease ends at
	 * end_us (CLOCK_BOOTTIME, microseconds), unless on_extended says otherwise before. on_loss may block until what on_gain has
	 * started has stopped: only when it has returned is the service given to others before the lease ends.
	 */
	void		(*on_gain) (void *argument, int64_t token, int64_t stop_us, int64_t end_us);
	void		(*on_extended) (void *argument, int64_t token, int64_t stop_us, int64_t end_us);
	void		(*on_loss) (void *argument, int64_t token, const char *reason);
	void	   *argument;
} AmoroLeadershipOptions;

typedef struct AmoroLeadershipStatus
{
	bool		leading;
	int64_t		token;			/* 0 when not leading */
	int64_t		remaining_ms;	/* until it stops to lead, if no heartbeat succeeds any more */
	int64_t		gains;
	int64_t		losses;
	char		leader_name[256];	/* who leads, as the server said last; empty: nobody, or not known */
	char		reason[256];	/* why this node does not lead; empty when it does */
} AmoroLeadershipStatus;

/* Begins to campaign. AMORO_OK, or AMORO_INVALID_ARGUMENT with a message in error. The options' service is copied. */
AMORO_PUBLIC AmoroResult amoro_leadership_open(AmoroNode *node, const AmoroLeadershipOptions *options,
											   AmoroLeadership **leadership, char *error, size_t error_size);
/* AMORO_OK and the token while the node leads, else AMORO_FENCED: arithmetic, as a ticket, and as cheap. */
AMORO_PUBLIC AmoroResult amoro_leadership_check(AmoroLeadership *leadership, int64_t *token);
AMORO_PUBLIC void amoro_leadership_status(AmoroLeadership *leadership, AmoroLeadershipStatus *status);
/* Gives the tenure with that token up, as if it were lost, and is no candidate for pause_ms. Returns at once. */
AMORO_PUBLIC void amoro_leadership_resign(AmoroLeadership *leadership, int64_t token, int pause_ms);
/* Stops to lead (on_loss), gives the service to others, ends. amoro_node_close does so with those that are left. */
AMORO_PUBLIC void amoro_leadership_close(AmoroLeadership *leadership);

/* The JSON document of an entry, as the server wrote it; not ended by a NUL byte. Valid until the entry is released. */
AMORO_PUBLIC const char *amoro_entry_document(const AmoroEntry *entry, size_t *size);
/* The version of the metadata at which the object was last changed. */
AMORO_PUBLIC int64_t amoro_entry_version(const AmoroEntry *entry);
/*
 * A number that is another one when the document is, and the same on all nodes. What a document says may change under one version:
 * who owns a bucket that is being released, a time to live that is inherited.
 */
AMORO_PUBLIC uint64_t amoro_entry_digest(const AmoroEntry *entry);
AMORO_PUBLIC void amoro_entry_release(AmoroEntry *entry);

AMORO_PUBLIC const char *amoro_cache_kind_name(AmoroCacheKind kind);
AMORO_PUBLIC const char *amoro_node_state_name(AmoroNodeState state);
AMORO_PUBLIC const char *amoro_result_name(AmoroResult result);
AMORO_PUBLIC const char *amoro_node_library_version(void);

#ifdef __cplusplus
}
#endif

#endif							/* AMORO_NODE_H */
