/*
 * lookup.c
 *		One lookup: from memory if it is there, else through the loaders and back to the thread of the request.
 *
 * Whatever the answer says of the metadata (a document, "not there", "in transition") leaves only after
 * amoro_ticket_check said so, in the same turn of the event loop and right before the write: a process that was
 * stopped in between must not answer from what it read before.
 */
#include "lookup.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "http_answer.h"
#include "pending_request.h"

enum
{
	MAX_NAME_TEXT = 3 * (255 * 4 + 3) + 1	/* three names of 255 characters, with their quotes and dots */
};

typedef struct PendingLookup
{
	PendingRequest pending;		/* first, so that one is the other */
	const ObjectQuestion *question;	/* in the request's memory */
	int			attempt;
	AmoroResult result;
	AmoroEntry *entry;
	AmoroTicket ticket;
} PendingLookup;

static void lookup_attempt(h2o_req_t *request, const ObjectQuestion *question, int attempt);

void
lookup_answer_fenced(h2o_req_t *request)
{
	h2o_iovec_t body = http_answer_begin_error(request, 503, "MetadataLeaseFencedException",
											   "this node has no valid metadata lease; ask another node or try again");

	http_answer_header(request, "retry-after", h2o_iovec_init(H2O_STRLIT("1")));
	http_answer_send(request, body);
}

void
lookup_answer_unavailable(h2o_req_t *request, const char *reason, const char *retry_after)
{
	h2o_iovec_t body = http_answer_begin_error(request, 503, "ServiceUnavailableException", "%s", reason);

	http_answer_header(request, "retry-after", h2o_iovec_init(retry_after, strlen(retry_after)));
	http_answer_send(request, body);
}

/* The version of the object, and what tells its documents of one version apart. */
static h2o_iovec_t
make_entity_tag(h2o_req_t *request, const AmoroEntry *entry)
{
	const size_t size = sizeof("\"-9223372036854775808-0123456789abcdef\"");
	char	   *tag = h2o_mem_alloc_pool(&request->pool, size);
	int			length = snprintf(tag, size, "\"%" PRId64 "-%016" PRIx64 "\"", amoro_entry_version(entry), amoro_entry_digest(entry));

	return h2o_iovec_init(tag, (size_t) length);
}

/* Does If-None-Match (RFC 9110, 13.1.2) name this document? */
static bool
client_has_document(const h2o_req_t *request, h2o_iovec_t entity_tag)
{
	ssize_t		cursor = -1;

	while ((cursor = h2o_find_header(&request->headers, H2O_TOKEN_IF_NONE_MATCH, cursor)) != -1)
	{
		h2o_iovec_t list = request->headers.entries[cursor].value;
		size_t		length;
		const char *tag;

		while ((tag = h2o_next_token(&list, ',', &length, NULL)) != NULL)
		{
			if (length == 1 && tag[0] == '*')
				return true;
			if (length > 2 && memcmp(tag, "W/", 2) == 0)
			{
				tag += 2;
				length -= 2;
			}
			if (h2o_memis(tag, length, entity_tag.base, entity_tag.len))
				return true;
		}
	}
	return false;
}

static void
release_entry(void *holder)
{
	amoro_entry_release(*(AmoroEntry **) holder);
}

h2o_iovec_t
lookup_hold_document(h2o_req_t *request, AmoroEntry *entry)
{
	AmoroEntry **holder = h2o_mem_alloc_shared(&request->pool, sizeof(*holder), release_entry);
	h2o_iovec_t document;

	*holder = entry;
	document.base = (char *) amoro_entry_document(entry, &document.len);
	return document;
}

static void
begin_json(h2o_req_t *request)
{
	http_answer_begin(request, 200);
	h2o_add_header(&request->pool, &request->res.headers, H2O_TOKEN_CONTENT_TYPE, NULL, H2O_STRLIT("application/json"));
}

static h2o_iovec_t
begin_document(h2o_req_t *request, AmoroEntry *entry)
{
	h2o_iovec_t version = http_answer_quoted_number(request, amoro_entry_version(entry));
	h2o_iovec_t entity_tag = make_entity_tag(request, entry);
	h2o_iovec_t body = lookup_hold_document(request, entry);

	if (client_has_document(request, entity_tag))
	{
		http_answer_begin(request, 304);
		body.len = 0;
	}
	else
		begin_json(request);
	h2o_add_header(&request->pool, &request->res.headers, H2O_TOKEN_ETAG, NULL, entity_tag.base, entity_tag.len);
	http_answer_header(request, "amoro-object-version", h2o_iovec_init(version.base + 1, version.len - 2));
	return body;
}

/* Says of the object, or of the database that is listed, that it does not exist, or is in transition. */
static h2o_iovec_t
begin_absence(h2o_req_t *request, const ObjectQuestion *question, AmoroResult result)
{
	const ObjectKind *kind = question->max_rows > 0 ? object_kind_database() : question->kind;
	AmoroKey	key = question->key;
	char	   *name = h2o_mem_alloc_pool(&request->pool, MAX_NAME_TEXT);

	if (question->max_rows > 0)
		key.object_name = NULL;
	object_kind_describe(&key, name, MAX_NAME_TEXT);
	if (result == AMORO_NOT_FOUND)
		return http_answer_begin_error(request, 404, kind->absent_type, "%s %s does not exist", kind->noun, name);
	return http_answer_begin_error(request, 409, kind->transition_type, "%s %s is being created or dropped",
								   kind->noun, name);
}

static h2o_iovec_t
begin_answer(h2o_req_t *request, const ObjectQuestion *question, AmoroResult result, AmoroEntry *entry)
{
	if (question->privilege != NULL)
	{
		/* a user who is not there may do nothing */
		h2o_iovec_t body = privilege_begin_answer(request, question->privilege, entry);

		amoro_entry_release(entry);
		return body;
	}
	if (result != AMORO_OK)
		return begin_absence(request, question, result);
	if (question->max_rows == 0)
		return begin_document(request, entry);
	begin_json(request);
	return lookup_hold_document(request, entry);
}

void
lookup_answer_version(h2o_req_t *request, int64_t metadata_version)
{
	h2o_iovec_t version = http_answer_quoted_number(request, metadata_version);

	http_answer_header(request, "amoro-metadata-version", h2o_iovec_init(version.base + 1, version.len - 2));
}

/* Answers, and takes the entry over; false when a change has overtaken what was read, so that nothing was sent. */
static bool
answer(h2o_req_t *request, const ObjectQuestion *question, AmoroResult result, AmoroEntry *entry, AmoroTicket *ticket)
{
	HttpServer *server = http_thread_of(request)->server;
	h2o_iovec_t body;
	AmoroResult verdict;

	if (result == AMORO_FENCED)
	{
		lookup_answer_fenced(request);
		return true;
	}
	if (result == AMORO_STALE)
		return false;
	if (result == AMORO_INVALID_ARGUMENT)
	{
		http_answer_send(request, http_answer_begin_error(request, 400, "BadRequestException", "the database cannot have a name of the request"));
		return true;
	}
	if (result != AMORO_OK && result != AMORO_NOT_FOUND && result != AMORO_IN_TRANSITION)
	{
		lookup_answer_unavailable(request, LOOKUP_UNANSWERED, "1");
		return true;
	}

	body = begin_answer(request, question, result, entry);
	http_answer_header(request, "amoro-node", server->node_name);
	verdict = amoro_ticket_check(server->node, ticket);
	if (verdict == AMORO_OK)
	{
		/* the check has found out as of which version the answer is right */
		lookup_answer_version(request, ticket->metadata_version);
		http_answer_send(request, body);
		return true;
	}
	http_answer_abandon(request);
	if (verdict == AMORO_STALE)
		return false;
	lookup_answer_fenced(request);
	return true;
}

/* Called by a loader thread, or by our own from within amoro_cache_load. */
static void
load_finished(void *argument, AmoroResult result, AmoroEntry *entry, AmoroTicket ticket)
{
	PendingLookup *lookup = argument;

	lookup->result = result;
	lookup->entry = entry;
	lookup->ticket = ticket;
	pending_request_post(&lookup->pending);
}

static void
lookup_resume(PendingRequest *pending, h2o_req_t *request)
{
	PendingLookup *lookup = (PendingLookup *) pending;

	if (request == NULL)
		amoro_entry_release(lookup->entry);
	else if (!answer(request, lookup->question, lookup->result, lookup->entry, &lookup->ticket))
		lookup_attempt(request, lookup->question, lookup->attempt + 1);
	free(lookup);
}

static void
lookup_load(h2o_req_t *request, const ObjectQuestion *question, int attempt)
{
	PendingLookup *lookup = h2o_mem_alloc(sizeof(*lookup));
	AmoroNode  *node = http_thread_of(request)->server->node;
	AmoroCacheKind cache = question->kind->cache;

	memset(lookup, 0, sizeof(*lookup));
	lookup->question = question;
	lookup->attempt = attempt;
	pending_request_begin(&lookup->pending, request, lookup_resume);
	if (question->max_rows > 0)
		amoro_listing_load(node, cache, &question->key, question->max_rows, load_finished, lookup);
	else
		amoro_cache_load(node, cache, &question->key, load_finished, lookup);
}

static void
lookup_attempt(h2o_req_t *request, const ObjectQuestion *question, int attempt)
{
	AmoroNode  *node = http_thread_of(request)->server->node;

	for (; attempt < LOOKUP_ATTEMPTS; attempt++)
	{
		AmoroEntry *entry = NULL;
		AmoroTicket ticket;
		AmoroResult result = AMORO_MISS;

		if (question->max_rows == 0)
			result = amoro_cache_peek(node, question->kind->cache, &question->key, &entry, &ticket);
		if (result == AMORO_MISS)
		{
			lookup_load(request, question, attempt);
			return;
		}
		if (answer(request, question, result, entry, &ticket))
			return;
	}
	lookup_answer_unavailable(request, LOOKUP_OVERTAKEN, "0");
}

void
lookup_object(h2o_req_t *request, const ObjectQuestion *question)
{
	lookup_attempt(request, question, 0);
}
