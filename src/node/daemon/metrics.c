/*
 * metrics.c
 *		The node's status as metrics. Names are stable: dashboards are built on them.
 */
#include "metrics.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "amoro_node.h"
#include "http_answer.h"
#include "http_server.h"
#include "log.h"

typedef struct Metric
{
	const char *name;			/* without the prefix amoro_node_; ends with _total when it is a counter */
	bool		counter;
	double		unit;			/* what one of the status' numbers is worth in the metric */
	size_t		offset;			/* in AmoroNodeStatus, or in one of its caches */
	const char *help;
} Metric;

#define NODE(member) offsetof(AmoroNodeStatus, member)
#define CACHE(member) offsetof(AmoroNodeStatus, caches[0].member) - offsetof(AmoroNodeStatus, caches[0])

static const Metric node_metrics[] = {
	{"lease_remaining_seconds", false, 0.001, NODE(lease_remaining_ms), "Time for which the node may still answer."},
	{"lease_term", false, 1, NODE(term), "Term of the coordinator that granted the lease."},
	{"lease_epoch", false, 1, NODE(lease_epoch), "Lease epoch; grows each time the server fences the node."},
	{"applied_version", false, 1, NODE(applied_version), "Newest metadata version that the node has applied."},
	{"metadata_version", false, 1, NODE(metadata_version), "Newest metadata version that the server spoke of."},
	{"heartbeat_age_seconds", false, 0.001, NODE(heartbeat_age_ms), "Time since the server last answered; negative: never yet."},
	{"heartbeats_total", true, 1, NODE(heartbeats), "Heartbeats that were answered."},
	{"heartbeat_failures_total", true, 1, NODE(heartbeat_failures), "Heartbeats that failed."},
	{"fences_total", true, 1, NODE(fences), "Times the node stopped serving."},
	{"recoveries_total", true, 1, NODE(recoveries), "Times the node began to serve again."},
	{"last_recovery_seconds", false, 0.001, NODE(last_recovery_ms), "How long the last recovery took; negative: none yet."},
	{"changes_applied_total", true, 1, NODE(changes_applied), "Metadata changes applied to the caches."},
};

static const Metric cache_metrics[] = {
	{"cache_entries", false, 1, CACHE(entries), "Entries in the cache."},
	{"cache_bytes", false, 1, CACHE(bytes), "Memory that the entries take."},
	{"cache_hits_total", true, 1, CACHE(hits), "Lookups answered from memory."},
	{"cache_misses_total", true, 1, CACHE(misses), "Lookups that had to ask the database."},
	{"cache_loads_total", true, 1, CACHE(loads), "Loads from the database."},
	{"cache_load_failures_total", true, 1, CACHE(load_failures), "Loads that failed."},
	{"cache_loads_refused_total", true, 1, CACHE(loads_refused), "Loads not kept because a change overtook them."},
	{"cache_evictions_total", true, 1, CACHE(evictions), "Entries dropped for lack of memory."},
	{"cache_clears_total", true, 1, CACHE(clears), "Times the cache was emptied."},
	{"cache_reloads_total", true, 1, CACHE(reloads), "Times all of the cache was loaded before serving."},
	{"cache_last_reload_seconds", false, 0.001, CACHE(last_reload_ms), "How long the last such load took; negative: none yet."},
	{"cache_whole", false, 1, CACHE(whole), "1 when all objects are in memory, so that what is not there does not exist."},
	{"cache_invalidations_total", true, 1, CACHE(invalidations), "Entries dropped because of a change."},
};

static void
write_head(FILE *out, const char *name, bool counter, const char *help)
{
	fprintf(out, "# HELP amoro_node_%s %s\n# TYPE amoro_node_%s %s\n", name, help, name, counter ? "counter" : "gauge");
}

static void
write_value(FILE *out, const Metric *metric, const void *base)
{
	int64_t		value = *(const int64_t *) ((const char *) base + metric->offset);

	if (metric->unit == 1)
		fprintf(out, " %" PRId64 "\n", value);
	else
		fprintf(out, " %.3f\n", (double) value * metric->unit);
}

static void
write_node(FILE *out, const AmoroNodeStatus *status)
{
	write_head(out, "info", false, "Always 1; the labels say what runs.");
	fprintf(out, "amoro_node_info{library_version=\"%s\",incarnation=\"%s\"} 1\n",
			amoro_node_library_version(), status->incarnation);
	write_head(out, "serving", false, "1 when a lookup could be answered now.");
	fprintf(out, "amoro_node_serving %d\n", (int) status->serving);
	write_head(out, "fenced", false, "1 when the node has no valid lease and answers nothing.");
	fprintf(out, "amoro_node_fenced %d\n", (int) !status->serving);
	write_head(out, "state", false, "1 for the state that the node is in.");
	for (int state = AMORO_NODE_CONNECTING; state <= AMORO_NODE_CLOSED; state++)
		fprintf(out, "amoro_node_state{state=\"%s\"} %d\n", amoro_node_state_name(state),
				(int) status->state == state);
	for (size_t i = 0; i < sizeof(node_metrics) / sizeof(node_metrics[0]); i++)
	{
		write_head(out, node_metrics[i].name, node_metrics[i].counter, node_metrics[i].help);
		fprintf(out, "amoro_node_%s", node_metrics[i].name);
		write_value(out, &node_metrics[i], status);
	}
}

static void
write_caches(FILE *out, const AmoroNodeStatus *status)
{
	for (size_t i = 0; i < sizeof(cache_metrics) / sizeof(cache_metrics[0]); i++)
	{
		write_head(out, cache_metrics[i].name, cache_metrics[i].counter, cache_metrics[i].help);
		for (int kind = 0; kind < AMORO_CACHE_KIND_COUNT; kind++)
		{
			fprintf(out, "amoro_node_%s{cache=\"%s\"}", cache_metrics[i].name, amoro_cache_kind_name(kind));
			write_value(out, &cache_metrics[i], &status->caches[kind]);
		}
	}
}

static void
write_leadership(FILE *out, const HttpServer *server)
{
	AmoroLeadershipStatus status;

	if (!service_status(server->service, &status))
		return;
	write_head(out, "leading", false, "1 while the node leads the service it campaigns for.");
	fprintf(out, "amoro_node_leading %d\n", (int) status.leading);
	write_head(out, "leadership_gains_total", true, "Times the node has come to lead the service.");
	fprintf(out, "amoro_node_leadership_gains_total %" PRId64 "\n", status.gains);
	write_head(out, "leadership_losses_total", true, "Times it has stopped to lead it.");
	fprintf(out, "amoro_node_leadership_losses_total %" PRId64 "\n", status.losses);
}

static void
write_http(FILE *out, const HttpServer *server)
{
	HttpAnswerCount counts[32];
	int			count = http_answer_counts(counts, 32);

	write_head(out, "http_connections", false, "Open connections of clients.");
	fprintf(out, "amoro_node_http_connections %d\n", atomic_load(&server->connections));
	write_head(out, "http_responses_total", true, "Answers sent, by status.");
	for (int i = 0; i < count; i++)
		fprintf(out, "amoro_node_http_responses_total{code=\"%d\"} %" PRId64 "\n", counts[i].status, counts[i].count);
	write_head(out, "log_messages_lost_total", true, "Log lines dropped because nobody read stderr.");
	fprintf(out, "amoro_node_log_messages_lost_total %" PRId64 "\n", log_lost_count());
}

void
metrics_answer(h2o_req_t *request)
{
	const HttpServer *server = http_thread_of(request)->server;
	AmoroNodeStatus status;
	char	   *text = NULL;
	size_t		length = 0;
	FILE	   *out = open_memstream(&text, &length);

	if (out == NULL)
	{
		http_answer_send(request, http_answer_begin_error(request, 500, "InternalException", "out of memory"));
		return;
	}
	amoro_node_status(server->node, &status);
	write_node(out, &status);
	write_caches(out, &status);
	write_leadership(out, server);
	write_http(out, server);
	fclose(out);
	http_answer_begin(request, 200);
	h2o_add_header(&request->pool, &request->res.headers, H2O_TOKEN_CONTENT_TYPE, NULL,
				   H2O_STRLIT("text/plain; version=0.0.4; charset=utf-8"));
	http_answer_send(request, h2o_strdup(&request->pool, text, length));
	free(text);
}
