/*
 * lookup.h
 *		Answers from the caches and from the database, each under a ticket that is checked at the last moment.
 */
#ifndef AMORO_LOOKUP_H
#define AMORO_LOOKUP_H

#include <h2o.h>

#include "amoro_node.h"
#include "object_kind.h"
#include "privilege.h"

/* How often changes may overtake one answer. */
#define LOOKUP_ATTEMPTS 5

#define LOOKUP_OVERTAKEN "the metadata changes faster than it can be read"
#define LOOKUP_UNANSWERED "the metadata is not in memory and the database did not answer in time"

/* What a request asks for; all of it is in the request's memory. */
typedef struct ObjectQuestion
{
	const ObjectKind *kind;
	AmoroKey	key;
	int			max_rows;		/* a page of what is in the database of the key, after its last name; 0: the object */
	const PrivilegeQuestion *privilege; /* not for the object, a user, but for what it may do; NULL: for the object */
} ObjectQuestion;

/* Answers now or, when something has to be loaded, later. */
extern void lookup_object(h2o_req_t *request, const ObjectQuestion *question);

/* What all lookups answer when nothing can be said. */
extern void lookup_answer_fenced(h2o_req_t *request);
extern void lookup_answer_unavailable(h2o_req_t *request, const char *reason, const char *retry_after);
/* The header of that name, of an answer that was begun. */
extern void lookup_answer_version(h2o_req_t *request, int64_t metadata_version);

/*
 * The document of an entry, which the request's memory takes over: that outlives the write, so the document goes out
 * without being copied.
 */
extern h2o_iovec_t lookup_hold_document(h2o_req_t *request, AmoroEntry *entry);

#endif							/* AMORO_LOOKUP_H */
