/*
 * lookup_many.c
 *		Many lookups in one request. Each has a ticket of its own; the answer leaves when all of them check, one after the
 *		other, right before the write. What a change has overtaken until then is looked up again.
 */
#include "lookup_many.h"

#include <string.h>

#include <jansson.h>

#include "http_answer.h"
#include "lookup.h"
#include "object_name.h"
#include "pending_request.h"

enum
{
	MOST_NAMES = 1000
};

typedef struct ManyLookups
{
	PendingRequest pending;		/* first, so that one is the other */
	const ObjectKind *kind;
	int			attempt;
	size_t		count;
	AmoroLookup lookups[];		/* their names are in the request's memory */
} ManyLookups;

static void
free_lookups(ManyLookups *many)
{
	for (size_t i = 0; i < many->count; i++)
		amoro_entry_release(many->lookups[i].entry);
	free(many);
}

static void
refuse(h2o_req_t *request, int status, const char *type, const char *problem)
{
	http_answer_send(request, http_answer_begin_error(request, status, type, "%s", problem));
}

/* Parses the body; NULL: it has been answered, because it is no array of 1 to 1000 values. */
static json_t *
read_names(h2o_req_t *request)
{
	json_error_t error;
	json_t	   *names = json_loadb(request->entity.base != NULL ? request->entity.base : "", request->entity.len,
								   JSON_REJECT_DUPLICATES, &error);

	if (names == NULL)
		http_answer_send(request, http_answer_begin_error(request, 400, "BadRequestException",
														  "the body is not JSON: byte %d: %s", error.position, error.text));
	else if (!json_is_array(names) || json_array_size(names) == 0)
		refuse(request, 400, "BadRequestException", "the body is not an array of names");
	else if (json_array_size(names) > MOST_NAMES)
		refuse(request, 413, "PayloadTooLargeException", "the body has more than 1000 names");
	else
		return names;
	json_decref(names);
	return NULL;
}

/* Takes the names over into lookups; NULL: it has been answered, because one is none. */
static ManyLookups *
make_lookups(h2o_req_t *request, const ObjectKind *kind, const AmoroKey *database, json_t *names)
{
	size_t		count = json_array_size(names);
	ManyLookups *many = h2o_mem_alloc(sizeof(*many) + count * sizeof(AmoroLookup));

	memset(many, 0, sizeof(*many) + count * sizeof(AmoroLookup));
	many->kind = kind;
	many->count = count;
	for (size_t i = 0; i < count; i++)
	{
		const json_t *value = json_array_get(names, i);
		size_t		length = json_string_length(value);
		const char *problem = json_is_string(value) ? object_name_check(json_string_value(value), length) : "is not a text";

		if (problem != NULL)
		{
			http_answer_send(request, http_answer_begin_error(request, 400, "BadRequestException",
															  "the name of the %s at %zu %s", kind->noun, i, problem));
			free(many);
			return NULL;
		}
		many->lookups[i].key = *database;
		many->lookups[i].key.object_name = h2o_strdup(&request->pool, json_string_value(value), length).base;
		many->lookups[i].result = AMORO_MISS;
	}
	return many;
}

static const char *
state_of(AmoroResult result)
{
	switch (result)
	{
		case AMORO_OK:
			return "found";
		case AMORO_NOT_FOUND:
			return "absent";
		case AMORO_IN_TRANSITION:
			return "in_transition";
		default:
			return "unavailable";
	}
}

/* What stands before and between the documents, and where in it each of those has its place. */
typedef struct Frame
{
	char	   *text;
	size_t		length;
	size_t		documents;		/* how many there are */
	size_t		places[MOST_NAMES];
} Frame;

/* {"name":…,"state":…} and, of what was found, "version" and "document", the value of which is left out. */
static void
write_lookup(FILE *out, const AmoroLookup *lookup, Frame *frame)
{
	json_t	   *name = json_string(lookup->key.object_name);

	fputs("{\"name\":", out);
	json_dumpf(name, out, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
	json_decref(name);
	fprintf(out, ",\"state\":\"%s\"", state_of(lookup->result));
	if (lookup->result == AMORO_OK)
	{
		fprintf(out, ",\"version\":%lld,\"document\":", (long long) amoro_entry_version(lookup->entry));
		frame->places[frame->documents++] = (size_t) ftell(out);
	}
	fputc('}', out);
}

/* The text is in memory that goes with the request, and NULL when memory is short. */
static void
write_frame(h2o_req_t *request, const ManyLookups *many, Frame *frame)
{
	char	   *text = NULL;
	size_t		length = 0;
	FILE	   *out = open_memstream(&text, &length);
	bool		failed;

	frame->text = NULL;
	frame->length = frame->documents = 0;
	if (out == NULL)
		return;
	fprintf(out, "{\"%s\":[", many->kind->plural);
	for (size_t i = 0; i < many->count; i++)
	{
		if (i > 0)
			fputc(',', out);
		write_lookup(out, &many->lookups[i], frame);
	}
	fputs("]}", out);
	failed = ferror(out) != 0;
	if (fclose(out) == 0 && !failed)
	{
		frame->text = h2o_strdup(&request->pool, text, length).base;
		frame->length = length;
	}
	free(text);
}

/* Sends the frame with the documents in their places. They are not copied: one may be asked for a thousand times. */
static void
send_body(h2o_req_t *request, ManyLookups *many, const Frame *frame)
{
	h2o_iovec_t pieces[2 * MOST_NAMES + 1];
	size_t		count = 0;
	size_t		written = 0;

	for (size_t i = 0; i < many->count; i++)
	{
		AmoroLookup *lookup = &many->lookups[i];
		size_t		place;

		if (lookup->result != AMORO_OK)
			continue;
		place = frame->places[count / 2];
		pieces[count++] = h2o_iovec_init(frame->text + written, place - written);
		pieces[count++] = lookup_hold_document(request, lookup->entry);
		lookup->entry = NULL;
		written = place;
	}
	pieces[count++] = h2o_iovec_init(frame->text + written, frame->length - written);
	http_answer_send_pieces(request, pieces, count);
}

/*
 * Checks all tickets; AMORO_STALE: those that a change has overtaken are misses now. *version: no answer is older than
 * that.
 */
static AmoroResult
check_tickets(AmoroNode *node, ManyLookups *many, int64_t *version)
{
	AmoroResult verdict = AMORO_OK;

	*version = INT64_MAX;
	for (size_t i = 0; i < many->count; i++)
	{
		AmoroLookup *lookup = &many->lookups[i];
		AmoroResult checked;

		if (lookup->result == AMORO_FENCED)
			return AMORO_FENCED;
		if (lookup->result != AMORO_OK && lookup->result != AMORO_NOT_FOUND && lookup->result != AMORO_IN_TRANSITION)
			continue;
		checked = amoro_ticket_check(node, &lookup->ticket);
		if (checked == AMORO_FENCED)
			return AMORO_FENCED;
		if (checked == AMORO_STALE)
		{
			amoro_entry_release(lookup->entry);
			lookup->entry = NULL;
			lookup->result = AMORO_MISS;
			verdict = AMORO_STALE;
		}
		else if (lookup->ticket.metadata_version < *version)
			*version = lookup->ticket.metadata_version;
	}
	return verdict;
}

/* Answers; false when a change has overtaken something, so that nothing was sent. */
static bool
answer(h2o_req_t *request, ManyLookups *many)
{
	HttpServer *server = http_thread_of(request)->server;
	Frame		frame;
	int64_t		version;
	AmoroResult verdict;

	write_frame(request, many, &frame);
	verdict = check_tickets(server->node, many, &version);
	if (verdict == AMORO_STALE)
		return false;
	if (verdict == AMORO_FENCED)
		lookup_answer_fenced(request);
	else if (version == INT64_MAX)
		lookup_answer_unavailable(request, LOOKUP_UNANSWERED, "1");
	else if (frame.text == NULL)
		refuse(request, 500, "InternalException", "out of memory");
	else
	{
		http_answer_begin(request, 200);
		h2o_add_header(&request->pool, &request->res.headers, H2O_TOKEN_CONTENT_TYPE, NULL, H2O_STRLIT("application/json"));
		http_answer_header(request, "amoro-node", server->node_name);
		lookup_answer_version(request, version);
		send_body(request, many, &frame);
	}
	return true;
}

/* Called by whichever thread has the last answer, perhaps our own. */
static void
loads_finished(void *argument)
{
	pending_request_post(&((ManyLookups *) argument)->pending);
}

static void attempt_all(h2o_req_t *request, ManyLookups *many);

static void
resume(PendingRequest *pending, h2o_req_t *request)
{
	ManyLookups *many = (ManyLookups *) pending;

	if (request == NULL || answer(request, many))
		free_lookups(many);
	else
		attempt_all(request, many);
}

/* From memory, else from the database; again when a change has overtaken some. */
static void
attempt_all(h2o_req_t *request, ManyLookups *many)
{
	AmoroNode  *node = http_thread_of(request)->server->node;
	AmoroCacheKind cache = many->kind->cache;

	while (many->attempt++ < LOOKUP_ATTEMPTS)
	{
		if (amoro_cache_peek_many(node, cache, many->lookups, many->count) > 0)
		{
			pending_request_begin(&many->pending, request, resume);
			amoro_cache_load_many(node, cache, many->lookups, many->count, loads_finished, many);
			return;
		}
		if (answer(request, many))
		{
			free_lookups(many);
			return;
		}
	}
	lookup_answer_unavailable(request, LOOKUP_OVERTAKEN, "0");
	free_lookups(many);
}

void
lookup_many(h2o_req_t *request, const ObjectKind *kind, const AmoroKey *database)
{
	json_t	   *names = read_names(request);
	ManyLookups *many = names != NULL ? make_lookups(request, kind, database, names) : NULL;

	json_decref(names);
	if (many != NULL)
		attempt_all(request, many);
}
