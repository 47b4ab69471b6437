/*
 * status.c
 *		The node's own view of itself; none of this reads a cache.
 */
#include "status.h"

#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "amoro_node.h"
#include "http_answer.h"
#include "http_server.h"

void
status_answer_health(h2o_req_t *request)
{
	AmoroNodeStatus status;
	char	   *text = h2o_mem_alloc_pool(&request->pool, 512);
	int			length;

	amoro_node_status(http_thread_of(request)->server->node, &status);
	if (status.serving)
		length = snprintf(text, 512, "ok\n");
	else
		length = snprintf(text, 512, "%s%s%s\n", amoro_node_state_name(status.state),
						  status.reason[0] != '\0' ? ": " : "", status.reason);
	http_answer_begin(request, status.serving ? 200 : 503);
	h2o_add_header(&request->pool, &request->res.headers, H2O_TOKEN_CONTENT_TYPE, NULL,
				   H2O_STRLIT("text/plain; charset=utf-8"));
	http_answer_send(request, h2o_iovec_init(text, (size_t) length));
}

static void
set_number(json_t *object, const char *name, int64_t value)
{
	json_object_set_new(object, name, json_integer(value));
}

static json_t *
cache_status(const AmoroNodeStatus *status, AmoroCacheKind kind)
{
	json_t	   *object = json_object();

	set_number(object, "entries", status->caches[kind].entries);
	set_number(object, "bytes", status->caches[kind].bytes);
	set_number(object, "hits", status->caches[kind].hits);
	set_number(object, "misses", status->caches[kind].misses);
	set_number(object, "loads", status->caches[kind].loads);
	set_number(object, "load_failures", status->caches[kind].load_failures);
	set_number(object, "loads_refused", status->caches[kind].loads_refused);
	set_number(object, "evictions", status->caches[kind].evictions);
	set_number(object, "invalidations", status->caches[kind].invalidations);
	set_number(object, "clears", status->caches[kind].clears);
	set_number(object, "reloads", status->caches[kind].reloads);
	set_number(object, "last_reload_ms", status->caches[kind].last_reload_ms);
	json_object_set_new(object, "whole", json_boolean(status->caches[kind].whole));
	return object;
}

/* Messages of others, or cut off at the size of their buffer, need not be UTF-8: what is not ASCII in those is shown as ?. */
static json_t *
text_value(const char *text)
{
	json_t	   *value = json_string(text);
	char		ascii[1024];
	size_t		length = 0;

	if (value != NULL || text == NULL)
		return value;
	for (; text[length] != '\0' && length < sizeof(ascii) - 1; length++)
		ascii[length] = (unsigned char) text[length] < 0x80 ? text[length] : '?';
	ascii[length] = '\0';
	return json_string(ascii);
}

static json_t *
node_identity(const HttpServer *server, const AmoroNodeStatus *status)
{
	return json_pack("{s:s,s:o*,s:o*,s:I,s:s,s:s,s:s,s:b,s:o*}",
					 "node_name", server->options->node_name,
					 "node_kind", text_value(server->options->node_kind),
					 "endpoint", text_value(server->options->endpoint),
					 "node_id", (json_int_t) status->node_id,
					 "incarnation", status->incarnation,
					 "library_version", amoro_node_library_version(),
					 "state", amoro_node_state_name(status->state),
					 "serving", (int) status->serving,
					 "reason", text_value(status->reason));
}

/* Of the service that the node campaigns for; NULL: none. */
static json_t *
leadership_status(const HttpServer *server)
{
	AmoroLeadershipStatus status;
	json_t	   *object;

	if (!service_status(server->service, &status))
		return NULL;
	object = json_pack("{s:o*,s:b,s:o*,s:o*}", "service", text_value(server->options->service), "leading", (int) status.leading,
					   "leader_name", text_value(status.leader_name), "reason", text_value(status.reason));
	set_number(object, "token", status.token);
	set_number(object, "remaining_ms", status.remaining_ms);
	set_number(object, "gains", status.gains);
	set_number(object, "losses", status.losses);
	return object;
}

void
status_answer(h2o_req_t *request)
{
	const HttpServer *server = http_thread_of(request)->server;
	AmoroNodeStatus status;
	json_t	   *object;
	json_t	   *caches = json_object();

	amoro_node_status(server->node, &status);
	object = node_identity(server, &status);
	set_number(object, "term", status.term);
	set_number(object, "lease_epoch", status.lease_epoch);
	set_number(object, "lease_remaining_ms", status.lease_remaining_ms);
	set_number(object, "applied_version", status.applied_version);
	set_number(object, "metadata_version", status.metadata_version);
	set_number(object, "heartbeat_age_ms", status.heartbeat_age_ms);
	set_number(object, "heartbeats", status.heartbeats);
	set_number(object, "heartbeat_failures", status.heartbeat_failures);
	set_number(object, "fences", status.fences);
	set_number(object, "clears", status.clears);
	set_number(object, "recoveries", status.recoveries);
	set_number(object, "last_recovery_ms", status.last_recovery_ms);
	set_number(object, "changes_applied", status.changes_applied);
	set_number(object, "http_connections", atomic_load(&server->connections));
	if (server->service != NULL)
		json_object_set_new(object, "leadership", leadership_status(server));
	for (int kind = 0; kind < AMORO_CACHE_KIND_COUNT; kind++)
		json_object_set_new(caches, amoro_cache_kind_name(kind), cache_status(&status, kind));
	json_object_set_new(object, "caches", caches);
	http_answer_send(request, http_answer_begin_json(request, 200, object));
}
