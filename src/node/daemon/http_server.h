/*
 * http_server.h
 *		The threads that answer HTTP, each with an event loop of libh2o.
 */
#ifndef AMORO_HTTP_SERVER_H
#define AMORO_HTTP_SERVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <h2o.h>

#include "amoro_node.h"
#include "options.h"
#include "service.h"

typedef struct HttpServer HttpServer;

typedef struct HttpThread
{
	HttpServer *server;
	pthread_t	thread;
	h2o_context_t context;		/* libh2o's state of this thread */
	h2o_accept_ctx_t accept_context;
	h2o_socket_t *listener;
	h2o_multithread_receiver_t finished_loads;	/* lookups that a loader thread is done with */
	int			pending_lookups;	/* lookups that wait for the database */
	int			connections;
	bool		accepting;
	bool		clean;			/* it stopped with no connection and no lookup left */
} HttpThread;

struct HttpServer
{
	AmoroNode  *node;
	Service    *service;		/* NULL: none */
	const DaemonOptions *options;
	h2o_iovec_t node_name;
	h2o_globalconf_t configuration;
	int			listener;
	int			max_connections;	/* of one thread */
	atomic_int	connections;
	atomic_bool stopping;
	pthread_barrier_t started;
	int			thread_count;
	HttpThread	threads[];
};

/* Starts the threads; takes the listening socket over. File descriptors beyond reserved_descriptors are for clients. */
extern HttpServer *http_server_start(AmoroNode *node, Service *service, const DaemonOptions *options, int listener,
									 int reserved_descriptors);
/* Accepts nothing any more, finishes the answers that are due (for a few seconds at most), ends the threads. */
extern void http_server_stop(HttpServer *server);
/* To be called after amoro_node_close, which may still hand back lookups. */
extern void http_server_free(HttpServer *server);

extern HttpThread *http_thread_of(const h2o_req_t *request);

#endif							/* AMORO_HTTP_SERVER_H */
