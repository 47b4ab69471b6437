/*
 * node.c
 *		A node from open to close.
 */
#include "node.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "campaign.h"
#include "heartbeat.h"
#include "key.h"
#include "server_transport.h"

#define DEFAULT_CONNECTIONS 4
#define DEFAULT_LOAD_TIMEOUT_MS 5000
#define LONGEST_LOAD_TIMEOUT_MS 600000

void
node_log(AmoroNode *node, int level, const char *format,...)
{
	char		message[1024];
	va_list		arguments;

	if (node->log == NULL)
		return;
	va_start(arguments, format);
	vsnprintf(message, sizeof(message), format, arguments);
	va_end(arguments);
	node->log(node->log_argument, level, message);
}

static void
clear_caches(void *argument, bool keep_loaded)
{
	reload_clear(argument, keep_loaded);
}

/* What every node loads before it serves, and what this one was told to load beside it. */
static void
want_reload(AmoroNode *node, unsigned preload)
{
	for (int kind = 0; kind < AMORO_CACHE_KIND_COUNT; kind++)
	{
		if (node->kinds[kind]->loaded_before_serving || (preload & 1U << kind) != 0)
			node->reload.wanted |= 1U << kind;
		atomic_init(&node->counters[kind].last_reload_us, -1);
	}
	node->reload.left = node->reload.wanted;
}

AmoroNode *
node_create(const NodeClock *clock, Transport *transport, size_t cache_bytes, NodeTime load_timeout, unsigned preload)
{
	AmoroNode  *node = calloc(1, sizeof(AmoroNode));

	if (node == NULL)
		return NULL;
	random_seed(&node->heartbeat.random);
	if (!cache_init(&node->cache, cache_bytes, random_next(&node->heartbeat.random)))
	{
		free(node);
		return NULL;
	}
	node->clock = *clock;
	pthread_mutex_init(&node->lease_lock, NULL);
	pthread_mutex_init(&node->campaigns_lock, NULL);
	lease_init(&node->lease, &node->clock, clear_caches, node);
	random_incarnation(node->lease.incarnation);
	node->kinds = cache_kinds;
	want_reload(node, preload);
	node->heartbeat.transport = transport;
	loader_init(&node->loader, load_timeout);
	return node;
}

void
node_destroy(AmoroNode *node)
{
	node->heartbeat.transport->destroy(node->heartbeat.transport);
	loader_destroy(&node->loader);
	cache_destroy(&node->cache);
	pthread_mutex_destroy(&node->lease_lock);
	pthread_mutex_destroy(&node->campaigns_lock);
	free(node->registration);
	free(node);
}

void
node_begin_close(AmoroNode *node)
{
	pthread_mutex_lock(&node->lease_lock);
	node->release_wanted = node->lease.registered && node->lease.state != AMORO_NODE_SUPERSEDED &&
		node->lease.state != AMORO_NODE_REMOVED;
	lease_close(&node->lease);
	pthread_mutex_unlock(&node->lease_lock);
	atomic_store_explicit(&node->closing, true, memory_order_release);
	node->heartbeat.transport->wake(node->heartbeat.transport);
}

void
amoro_node_close(AmoroNode *node)
{
	if (node == NULL)
		return;
	/* while the lease is good: who leads stops in an orderly way */
	campaigns_close(node);
	node_begin_close(node);
	loader_stop(node);
	if (node->heartbeat.started)
		pthread_join(node->heartbeat.thread, NULL);
	node_destroy(node);
}

static bool
is_name(const char *text)
{
	return text != NULL && text[0] != '\0' && strnlen(text, KEY_PART_LIMIT + 1) <= KEY_PART_LIMIT;
}

static const char *
wrong_option(const AmoroNodeOptions *options)
{
	if (options->conninfo == NULL)
		return "a connection string is required";
	if (!is_name(options->node_name))
		return "a node name of 1 to 255 characters is required";
	if (options->node_kind != NULL && !is_name(options->node_kind))
		return "the kind of node must have 1 to 255 characters";
	if (options->loader_connections < 0 || options->loader_connections > LOADER_MAX_CONNECTIONS)
		return "the number of connections for loads must be between 0 and 64";
	if (options->load_timeout_ms < 0 || options->load_timeout_ms > LONGEST_LOAD_TIMEOUT_MS)
		return "the timeout of a load must be between 0 and 600000 ms";
	if (options->preload >> AMORO_CACHE_KIND_COUNT != 0)
		return "there is no such kind of cache to load before serving";
	return NULL;
}

/* A copy of what the transports refer to; NULL when memory is short. */
static Registration *
copy_registration(const AmoroNodeOptions *options)
{
	const char *kind = options->node_kind ? options->node_kind : "node";
	size_t		name_size = strlen(options->node_name) + 1;
	size_t		kind_size = strlen(kind) + 1;
	size_t		endpoint_size = options->endpoint ? strlen(options->endpoint) + 1 : 0;
	Registration *copy = malloc(sizeof(Registration) + name_size + kind_size + endpoint_size);
	char	   *string;

	if (copy == NULL)
		return NULL;
	string = (char *) (copy + 1);
	copy->node_name = memcpy(string, options->node_name, name_size);
	string += name_size;
	copy->node_kind = memcpy(string, kind, kind_size);
	string += kind_size;
	copy->endpoint = endpoint_size > 0 ? memcpy(string, options->endpoint, endpoint_size) : NULL;
	return copy;
}

/* Threads that leave every signal to the program. */
static bool
start_threads(AmoroNode *node, const AmoroNodeOptions *options, char *error, size_t error_size)
{
	int			connections = options->loader_connections > 0 ? options->loader_connections : DEFAULT_CONNECTIONS;
	sigset_t	all;
	sigset_t	before;
	bool		started = true;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (int i = 0; i < connections && started; i++)
	{
		Transport  *transport = server_transport_create(options->conninfo, node->registration, &node->clock,
														error, error_size);

		started = transport != NULL && loader_add_worker(&node->loader, node, transport);
	}
	if (started)
		started = node->heartbeat.started =
			pthread_create(&node->heartbeat.thread, NULL, heartbeat_main, node) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return started;
}

static AmoroResult
fail(char *error, size_t error_size, const char *message)
{
	if (error_size > 0)
		snprintf(error, error_size, "%s", message);
	return AMORO_INVALID_ARGUMENT;
}

AmoroResult
amoro_node_open(const AmoroNodeOptions *options, AmoroNode **result, char *error, size_t error_size)
{
	const char *wrong = wrong_option(options);
	int			timeout_ms = options->load_timeout_ms > 0 ? options->load_timeout_ms : DEFAULT_LOAD_TIMEOUT_MS;
	Registration *registration;
	Transport  *transport;
	AmoroNode  *node;

	*result = NULL;
	if (wrong != NULL)
		return fail(error, error_size, wrong);
	fail(error, error_size, "out of memory or threads");
	registration = copy_registration(options);
	if (registration == NULL)
		return AMORO_INVALID_ARGUMENT;
	transport = server_transport_create(options->conninfo, registration, &clock_boottime, error, error_size);
	node = transport ? node_create(&clock_boottime, transport, options->cache_bytes, (NodeTime) timeout_ms * 1000,
												 options->preload)
		: NULL;
	if (node == NULL)
	{
		if (transport != NULL)
			transport->destroy(transport);
		free(registration);
		return AMORO_INVALID_ARGUMENT;
	}
	node->registration = registration;
	node->conninfo = options->conninfo;
	node->log = options->log;
	node->log_argument = options->log_argument;
	if (!start_threads(node, options, error, error_size))
	{
		amoro_node_close(node);
		return AMORO_INVALID_ARGUMENT;
	}
	if (error_size > 0)
		error[0] = '\0';
	*result = node;
	return AMORO_OK;
}
