/*
 * reload.h
 *		What a node loads before it serves: whole kinds, in chunks, while it is fenced (docs/protocol.md, section 4).
 *
 * What was loaded is right as of one version: that of the first chunk, until the changes since then are applied. A fence
 * that only ends the lease leaves it as it is, unread, and the next recovery applies what has changed since; any other
 * fence, another timeline, or a log that does not reach back, forgets it. All of this happens in the heartbeat thread.
 */
#ifndef AMORO_RELOAD_H
#define AMORO_RELOAD_H

#include "cache.h"
#include "transport.h"

typedef struct Reload
{
	CacheKindSet wanted;		/* what is to be loaded */
	CacheKindSet left;			/* of these, what is not loaded yet */
	CacheKindSet unsupported;	/* what the server does not know */
	bool		has_version;	/* something is loaded */
	int64_t		version;		/* as of which it is right, once the changes up to newer versions are applied */
	int64_t		timeline;		/* of the server that it came from */
	bool		in_kind;		/* the kind that is being loaded has a chunk already; after it comes the next one: */
	int64_t		after_object_id;
	char		after[3][KEY_PART_LIMIT + 1];
	AmoroKey	after_key;		/* points into after */
	int			max_rows;		/* of the next chunk */
	int			change_failures;	/* in a row */
	bool		delayed;		/* the pause before a reload has been made */
	NodeTime	began;			/* 0: not loading */
	NodeTime	kind_began;
	NodeTime	last_duration;	/* of the last whole reload */
	NodeTime	reported;		/* when the server was last told how far it is */
	int64_t		entries;		/* loaded since it began */
	char		failure[REASON_SIZE];	/* of the last attempt; empty: none */
} Reload;

/* What is asked for by STEP_SNAPSHOT. */
extern LookupQuestion reload_question(AmoroNode *node);
/*
 * What a fenced, registered node does next: STEP_SNAPSHOT or STEP_CHANGES to complete what it has; STEP_HEARTBEAT to tell
 * the server how far it is; STEP_ACTIVATE, with the loaded version set; STEP_STOP: nothing before heartbeat.due.
 */
extern LeaseStep reload_next_step(AmoroNode *node);
/* Answers to these. */
extern LeaseOutcome reload_take_chunk(AmoroNode *node, const NodeAnswer *answer);
extern LeaseOutcome reload_take_changes(AmoroNode *node, const NodeRequest *request, const NodeAnswer *answer);
/* An error of the server; true when it was only that it does not know the kind, and the reload goes on. */
extern bool reload_refused(AmoroNode *node, const NodeRequest *request, const TransportFailure *failure);
/* No answer, or an error. */
extern void reload_failed(AmoroNode *node, RequestKind kind, bool timed_out, const char *reason);
/* The lease is lost: forgets everything, or keeps what stays right. */
extern void reload_clear(AmoroNode *node, bool keep_loaded);
/* What a node that does not serve says of itself in a heartbeat. */
extern void reload_describe(AmoroNode *node, char *text, size_t size);

#endif							/* AMORO_RELOAD_H */
