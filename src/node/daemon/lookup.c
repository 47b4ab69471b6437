/*
 * lookup.c
 *		One lookup: from memory if it is there, else through the loaders and back to the thread of the request.
 *
 * Whatever the answer says of the metadata (a document, "not there", "in transition") leaves only after
 * amoro_ticket_check said so, in the same turn of the event loop and right before the write: a process that was
 * stopped in between must not answer from what it read before.
 */
#include "lookup.h"

#include <string.h>

#include "http_answer.h"

enum
{
	MAX_ATTEMPTS = 5,			/* how often changes may overtake one answer */
	MAX_NAME_TEXT = 3 * (255 * 4 + 3) + 1	/* three names of 255 characters, with their quotes and dots */
};

/* A lookup that waits for the database. It lives until the loader is done, the request perhaps not so long. */
typedef struct PendingLookup
{
	h2o_multithread_message_t message;
	HttpThread *thread;
	h2o_req_t  *request;		/* NULL: the request is gone */
	struct PendingLookup **request_link;	/* in the request's memory; how the request finds us when it goes */
	int			attempt;
	const ObjectKind *kind;
	const PrivilegeQuestion *question;	/* in the request's memory; NULL: none */
	AmoroKey	key;			/* points to names[] */
	AmoroResult result;
	AmoroEntry *entry;
	AmoroTicket ticket;
	char		names[];
} PendingLookup;

static void lookup_attempt(h2o_req_t *request, const ObjectKind *kind, const AmoroKey *key, const PrivilegeQuestion *question,
						   int attempt);

static void
answer_fenced(h2o_req_t *request)
{
	h2o_iovec_t body = http_answer_begin_error(request, 503, "MetadataLeaseFencedException",
											   "this node has no valid metadata lease; ask another node or try again");

	http_answer_header(request, "retry-after", h2o_iovec_init(H2O_STRLIT("1")));
	http_answer_send(request, body);
}

static void
answer_unavailable(h2o_req_t *request, const char *reason, const char *retry_after)
{
	h2o_iovec_t body = http_answer_begin_error(request, 503, "ServiceUnavailableException", "%s", reason);

	http_answer_header(request, "retry-after", h2o_iovec_init(retry_after, strlen(retry_after)));
	http_answer_send(request, body);
}

/* Does If-None-Match (RFC 9110, 13.1.2) name this version? */
static bool
client_has_version(const h2o_req_t *request, h2o_iovec_t entity_tag)
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

/* The request's memory, which outlives the write, gives the entry back: the document goes out without being copied. */
static h2o_iovec_t
begin_document(h2o_req_t *request, AmoroEntry *entry)
{
	AmoroEntry **holder = h2o_mem_alloc_shared(&request->pool, sizeof(*holder), release_entry);
	h2o_iovec_t entity_tag = http_answer_quoted_number(request, amoro_entry_version(entry));
	h2o_iovec_t body;

	*holder = entry;
	body.base = (char *) amoro_entry_document(entry, &body.len);
	if (client_has_version(request, entity_tag))
	{
		http_answer_begin(request, 304);
		body.len = 0;
	}
	else
	{
		http_answer_begin(request, 200);
		h2o_add_header(&request->pool, &request->res.headers, H2O_TOKEN_CONTENT_TYPE, NULL,
					   H2O_STRLIT("application/json"));
	}
	h2o_add_header(&request->pool, &request->res.headers, H2O_TOKEN_ETAG, NULL, entity_tag.base, entity_tag.len);
	http_answer_header(request, "amoro-object-version", h2o_iovec_init(entity_tag.base + 1, entity_tag.len - 2));
	return body;
}

static h2o_iovec_t
begin_answer(h2o_req_t *request, const ObjectKind *kind, const AmoroKey *key, const PrivilegeQuestion *question,
			 AmoroResult result, AmoroEntry *entry)
{
	char	   *name;

	if (question != NULL)
	{
		/* a user who is not there may do nothing */
		h2o_iovec_t body = privilege_begin_answer(request, question, entry);

		amoro_entry_release(entry);
		return body;
	}
	if (result == AMORO_OK)
		return begin_document(request, entry);
	name = h2o_mem_alloc_pool(&request->pool, MAX_NAME_TEXT);
	object_kind_describe(key, name, MAX_NAME_TEXT);
	if (result == AMORO_NOT_FOUND)
		return http_answer_begin_error(request, 404, kind->absent_type, "%s %s does not exist", kind->noun, name);
	return http_answer_begin_error(request, 409, kind->transition_type, "%s %s is being created or dropped",
								   kind->noun, name);
}

/* Answers, and takes the entry over; false when a change has overtaken what was read, so that nothing was sent. */
static bool
answer(h2o_req_t *request, const ObjectKind *kind, const AmoroKey *key, const PrivilegeQuestion *question,
	   AmoroResult result, AmoroEntry *entry, AmoroTicket *ticket)
{
	HttpServer *server = http_thread_of(request)->server;
	h2o_iovec_t body;
	h2o_iovec_t version;
	AmoroResult verdict;

	if (result == AMORO_FENCED)
	{
		answer_fenced(request);
		return true;
	}
	if (result == AMORO_STALE)
		return false;
	if (result != AMORO_OK && result != AMORO_NOT_FOUND && result != AMORO_IN_TRANSITION)
	{
		answer_unavailable(request, "the metadata is not in memory and the database did not answer in time", "1");
		return true;
	}

	body = begin_answer(request, kind, key, question, result, entry);
	http_answer_header(request, "amoro-node", server->node_name);
	verdict = amoro_ticket_check(server->node, ticket);
	if (verdict == AMORO_OK)
	{
		/* the check has found out as of which version the answer is right */
		version = http_answer_quoted_number(request, ticket->metadata_version);
		http_answer_header(request, "amoro-metadata-version", h2o_iovec_init(version.base + 1, version.len - 2));
		http_answer_send(request, body);
		return true;
	}
	http_answer_abandon(request);
	if (verdict == AMORO_STALE)
		return false;
	answer_fenced(request);
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
	h2o_multithread_send_message(&lookup->thread->finished_loads, &lookup->message);
}

static void
request_gone(void *link)
{
	PendingLookup *lookup = *(PendingLookup **) link;

	if (lookup != NULL)
		lookup->request = NULL;
}

static size_t
name_size(const char *name)
{
	return name != NULL ? strlen(name) + 1 : 0;
}

static const char *
copy_name(char **target, const char *name)
{
	const char *copy = *target;

	if (name == NULL)
		return NULL;
	*target = stpcpy(*target, name) + 1;
	return copy;
}

static void
lookup_load(h2o_req_t *request, const ObjectKind *kind, const AmoroKey *key, const PrivilegeQuestion *question, int attempt)
{
	size_t		names_size = name_size(key->catalog_name) + name_size(key->database_name) + name_size(key->object_name);
	PendingLookup *lookup = h2o_mem_alloc(sizeof(*lookup) + names_size);
	char	   *names = lookup->names;

	memset(lookup, 0, sizeof(*lookup));
	lookup->thread = http_thread_of(request);
	lookup->request = request;
	lookup->request_link = h2o_mem_alloc_shared(&request->pool, sizeof(*lookup->request_link), request_gone);
	*lookup->request_link = lookup;
	lookup->attempt = attempt;
	lookup->kind = kind;
	lookup->question = question;
	lookup->key.catalog_name = copy_name(&names, key->catalog_name);
	lookup->key.database_name = copy_name(&names, key->database_name);
	lookup->key.object_name = copy_name(&names, key->object_name);
	lookup->thread->pending_lookups++;
	amoro_cache_load(lookup->thread->server->node, kind->cache, &lookup->key, load_finished, lookup);
}

static void
lookup_resume(PendingLookup *lookup)
{
	h2o_req_t  *request = lookup->request;

	lookup->thread->pending_lookups--;
	if (request == NULL)
	{
		if (lookup->entry != NULL)
			amoro_entry_release(lookup->entry);
	}
	else
	{
		*lookup->request_link = NULL;
		if (!answer(request, lookup->kind, &lookup->key, lookup->question, lookup->result, lookup->entry, &lookup->ticket))
			lookup_attempt(request, lookup->kind, &lookup->key, lookup->question, lookup->attempt + 1);
	}
	free(lookup);
}

static void
on_finished_loads(h2o_multithread_receiver_t *receiver, h2o_linklist_t *messages)
{
	while (!h2o_linklist_is_empty(messages))
	{
		PendingLookup *lookup = H2O_STRUCT_FROM_MEMBER(PendingLookup, message.link, messages->next);

		h2o_linklist_unlink(&lookup->message.link);
		lookup_resume(lookup);
	}
}

static void
lookup_attempt(h2o_req_t *request, const ObjectKind *kind, const AmoroKey *key, const PrivilegeQuestion *question, int attempt)
{
	AmoroNode  *node = http_thread_of(request)->server->node;

	for (; attempt < MAX_ATTEMPTS; attempt++)
	{
		AmoroEntry *entry = NULL;
		AmoroTicket ticket;
		AmoroResult result = amoro_cache_peek(node, kind->cache, key, &entry, &ticket);

		if (result == AMORO_MISS)
		{
			lookup_load(request, kind, key, question, attempt);
			return;
		}
		if (answer(request, kind, key, question, result, entry, &ticket))
			return;
	}
	answer_unavailable(request, "the metadata changes faster than it can be read", "0");
}

void
lookup_object(h2o_req_t *request, const ObjectKind *kind, const AmoroKey *key, const PrivilegeQuestion *question)
{
	lookup_attempt(request, kind, key, question, 0);
}

void
lookup_attach(HttpThread *thread)
{
	h2o_multithread_register_receiver(thread->context.queue, &thread->finished_loads, on_finished_loads);
}

void
lookup_detach(HttpThread *thread)
{
	h2o_multithread_unregister_receiver(thread->context.queue, &thread->finished_loads);
}
