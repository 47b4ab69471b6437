/*
 * transport.h
 *		How requests get to the server and answers back: libpq (server_transport.c), or a script in a test. A transport
 *		belongs to one thread; only wake may be called by others. Every wait ends at its deadline.
 */
#ifndef AMORO_TRANSPORT_H
#define AMORO_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "amoro_node.h"
#include "lease.h"

typedef enum TransportStatus
{
	TRANSPORT_DONE,
	TRANSPORT_TIMED_OUT,		/* nothing is lost: call again with a later deadline, or close */
	TRANSPORT_WOKEN,			/* somebody called wake */
	TRANSPORT_REFUSED,			/* the server raised an error; the connection is good */
	TRANSPORT_BROKEN			/* the connection is gone, or is of no use */
} TransportStatus;

typedef struct TransportFailure
{
	char		sqlstate[SQLSTATE_SIZE];	/* empty when the server raised no error */
	char		message[REASON_SIZE];
} TransportFailure;

/* One row of metadata_changes; names may be NULL. */
typedef struct MetadataChange
{
	int64_t		version;
	const char *object_kind;
	const char *operation;
	const char *catalog_name;
	const char *database_name;
	const char *object_name;
} MetadataChange;

typedef struct LookupAnswer
{
	int64_t		metadata_version;
	int64_t		term;
	bool		found;
	const char *state;			/* NULL when there is no such object */
	int64_t		object_version;
	const char *document;		/* NULL when there is none */
	size_t		document_size;
} LookupAnswer;

/* Whether the node leads a service; else who does, and when to ask again. Texts may be NULL. */
typedef struct LeadershipAnswer
{
	bool		leader;
	int64_t		token;
	int64_t		term;
	int64_t		lease_epoch;
	int64_t		retry_after_us; /* 0: not said */
	const char *leader_name;
	const char *reason;
} LeadershipAnswer;

/* One object of many. */
typedef struct ObjectRow
{
	int64_t		object_id;
	AmoroKey	key;
	LookupAnswer answer;
} ObjectRow;

/*
 * The answer to a request of the kind that was sent. A heartbeat's may carry changes beside the grant: all of those
 * after the version of the request up to the version of the grant.
 */
typedef struct NodeAnswer
{
	NodeGrant	grant;
	bool		released;
	MetadataChange *changes;
	int			change_count;
	LookupAnswer lookup;
	LeadershipAnswer leadership;
	ObjectRow  *rows;			/* REQUEST_LOOKUP_MANY: one for each key, in their order, with nothing but the answer */
	int			row_count;
	bool		last;			/* REQUEST_SNAPSHOT: no more rows of this kind after these; lookup has the version and the term */
	void	   *storage;		/* what changes, lookup, rows and leadership point into, until answer_release */
} NodeAnswer;

/* What a lookup, a listing or a snapshot asks for; a registration is asked for with what the transport was made with. */
typedef struct LookupQuestion
{
	const char *kind_name;
	const AmoroKey *key;		/* of a snapshot: names of the last object before, NULL at the beginning; of many: the first */
	int			key_count;		/* REQUEST_LOOKUP_MANY */
	int64_t		after_object_id;	/* its id */
	int			max_rows;
} LookupQuestion;

typedef struct Transport Transport;

struct Transport
{
	/* Connects until the deadline, trying every host; waits no longer than wait_until, and goes on when called again. */
	TransportStatus (*open) (Transport *transport, NodeTime wait_until, NodeTime deadline, TransportFailure *failure);
	bool		(*is_open) (const Transport *transport);
	void		(*close) (Transport *transport);
	/*
	 * Leaves a connection on which an answer is still to come; open then makes another. close ends both, and gives that
	 * answer a moment to come, lest the server should find its client gone while it speaks.
	 */
	void		(*set_aside) (Transport *transport);
	/* Whether a heartbeat may wait at the server for news. */
	bool		(*can_wait) (const Transport *transport);
	/*
	 * Sends a request; detail is what the node says of itself (heartbeats), question is for lookups. After TRANSPORT_WOKEN it goes on
	 * when called again with the same.
	 */
	TransportStatus (*send) (Transport *transport, const NodeRequest *request, const char *detail,
							 const LookupQuestion *question, NodeTime deadline, TransportFailure *failure);
	/* Waits for the answer to it. */
	TransportStatus (*receive) (Transport *transport, const NodeRequest *request, NodeTime deadline,
								NodeAnswer *answer, TransportFailure *failure);
	void		(*answer_release) (Transport *transport, NodeAnswer *answer);
	/* Sleeps: TRANSPORT_TIMED_OUT or TRANSPORT_WOKEN. */
	TransportStatus (*sleep) (Transport *transport, NodeTime until);
	/* From any thread: what waits, and whatever waits next, returns TRANSPORT_WOKEN until wake_reset. */
	void		(*wake) (Transport *transport);
	void		(*wake_reset) (Transport *transport);
	void		(*destroy) (Transport *transport);
};

#endif							/* AMORO_TRANSPORT_H */
