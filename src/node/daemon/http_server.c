/*
 * http_server.c
 *		Event loops, connections and their limits.
 */
#include "http_server.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include <h2o/http1.h>

#include "log.h"
#include "pending_request.h"
#include "route.h"

enum
{
	ACCEPTS_A_TURN = 64,		/* then the clients that are already here get their turn */
	ACCEPT_PAUSE_MS = 100,		/* after the process or the system ran out of descriptors */
	STOP_TIMEOUT_MS = 5000,		/* for answers that are due when the server stops */
	MAX_REQUEST_BODY = 1024 * 1024 + 16 * 1024	/* 1000 names of 255 characters; what is not a list of names is read and ignored */
};

static int64_t
monotonic_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

HttpThread *
http_thread_of(const h2o_req_t *request)
{
	return H2O_STRUCT_FROM_MEMBER(HttpThread, context, request->conn->ctx);
}

static void on_accept(h2o_socket_t *listener, const char *error);

/* At its limit a thread leaves new clients to the queue of the kernel, instead of taking descriptors from the node. */
static void
update_accepting(HttpThread *thread, bool exhausted)
{
	bool		accept = !exhausted && thread->connections < thread->server->max_connections;

	if (thread->listener == NULL || accept == thread->accepting)
		return;
	thread->accepting = accept;
	if (accept)
		h2o_socket_read_start(thread->listener, on_accept);
	else
		h2o_socket_read_stop(thread->listener);
}

static void
on_connection_closed(void *data)
{
	HttpThread *thread = data;

	thread->connections--;
	atomic_fetch_sub(&thread->server->connections, 1);
	update_accepting(thread, false);
}

static void
on_accept(h2o_socket_t *listener, const char *error)
{
	HttpThread *thread = listener->data;
	h2o_socket_t *connection;

	if (error != NULL)
		return;
	for (int i = 0; i < ACCEPTS_A_TURN && thread->accepting; i++)
	{
		connection = h2o_evloop_socket_accept(listener);
		if (connection == NULL)
		{
			if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
				update_accepting(thread, true);
			return;
		}
		thread->connections++;
		atomic_fetch_add(&thread->server->connections, 1);
		connection->on_close.cb = on_connection_closed;
		connection->on_close.data = thread;
		update_accepting(thread, false);
		h2o_accept(&thread->accept_context, connection);
	}
}

/* Nothing more will be read from this client: if it is idle it goes, if an answer is due it goes after that. */
static int
end_reading(h2o_req_t *request, void *data)
{
	h2o_socket_t *socket = request->conn->callbacks->get_socket(request->conn);

	shutdown(h2o_socket_get_fd(socket), SHUT_RD);
	return 0;
}

static void
begin_stop(HttpThread *thread)
{
	h2o_socket_t *listener = thread->listener;

	thread->listener = NULL;
	h2o_socket_close(listener);
	thread->context.shutdown_requested = 1; /* the library's function for this would start a timer of HTTP/2 */
	thread->server->configuration.http1.callbacks.foreach_request(&thread->context, end_reading, NULL);
}

static void
open_thread(HttpThread *thread)
{
	HttpServer *server = thread->server;

	h2o_context_init(&thread->context, h2o_evloop_create(), &server->configuration);
	thread->accept_context = (h2o_accept_ctx_t) {.ctx = &thread->context, .hosts = server->configuration.hosts};
	pending_request_attach(thread);
	thread->listener = h2o_evloop_socket_create(thread->context.loop, dup(server->listener), H2O_SOCKET_FLAG_DONT_READ);
	thread->listener->data = thread;
	update_accepting(thread, false);
}

static void *
run_thread(void *argument)
{
	HttpThread *thread = argument;
	HttpServer *server = thread->server;
	int64_t		deadline = INT64_MAX;

	open_thread(thread);
	pthread_barrier_wait(&server->started);
	for (;;)
	{
		bool		waiting = thread->listener == NULL || !thread->accepting;

		if (h2o_evloop_run(thread->context.loop, waiting ? ACCEPT_PAUSE_MS : INT32_MAX) != 0 && errno != EINTR)
		{
			log_write(AMORO_LOG_ERROR, "event loop failed: %s", strerror(errno));
			break;
		}
		if (thread->listener != NULL && atomic_load(&server->stopping))
		{
			begin_stop(thread);
			deadline = monotonic_ms() + STOP_TIMEOUT_MS;
		}
		update_accepting(thread, false);
		thread->clean = thread->listener == NULL && thread->connections == 0 && thread->pending_lookups == 0;
		if (thread->clean || monotonic_ms() > deadline)
			break;
	}
	if (thread->clean)
	{
		h2o_evloop_t *loop = thread->context.loop;

		pending_request_detach(thread);
		h2o_context_dispose(&thread->context);
		h2o_evloop_run(loop, 0);	/* frees the sockets that were closed */
		h2o_evloop_destroy(loop);
	}
	return NULL;
}

static void
configure(HttpServer *server)
{
	h2o_globalconf_t *configuration = &server->configuration;
	h2o_hostconf_t *host;
	h2o_handler_t *handler;

	h2o_config_init(configuration);
	configuration->server_name = h2o_iovec_init(NULL, 0);	/* no header of that name: it says nothing to anybody */
	configuration->max_request_entity_size = MAX_REQUEST_BODY;
	configuration->http1.req_timeout = (uint64_t) server->options->client_timeout_ms;
	/* HTTP/2 answers wait in a queue of the library: a ticket would be checked before its answer leaves. */
	configuration->http1.upgrade_to_http2 = 0;
	host = h2o_config_register_host(configuration, h2o_iovec_init(H2O_STRLIT("default")), 65535);
	handler = h2o_create_handler(h2o_config_register_path(host, "/", 0), sizeof(*handler));
	handler->on_req = route_request;
}

/* Each client takes a descriptor; the rest of the process must always find one. */
static int
connection_limit(int reserved_descriptors, int thread_count)
{
	struct rlimit limit;
	rlim_t		available = 1024;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
	{
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
		if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
			available = limit.rlim_cur;
	}
	if (available > 1000000)
		available = 1000000;
	if ((int) available <= reserved_descriptors + thread_count)
		return 1;
	return ((int) available - reserved_descriptors) / thread_count;
}

HttpServer *
http_server_start(AmoroNode *node, Service *service, const DaemonOptions *options, int listener, int reserved_descriptors)
{
	int			thread_count = options->http_threads;
	HttpServer *server = h2o_mem_alloc(sizeof(*server) + sizeof(HttpThread) * (size_t) thread_count);

	memset(server, 0, sizeof(*server) + sizeof(HttpThread) * (size_t) thread_count);
	server->node = node;
	server->service = service;
	server->options = options;
	server->node_name = h2o_iovec_init(options->node_name, strlen(options->node_name));
	server->listener = listener;
	server->thread_count = thread_count;
	/* an event loop has an epoll instance, a pipe and its own copy of the listening socket */
	server->max_connections = connection_limit(reserved_descriptors + 4 * thread_count, thread_count);
	configure(server);
	pthread_barrier_init(&server->started, NULL, (unsigned int) thread_count + 1);
	for (int i = 0; i < thread_count; i++)
	{
		server->threads[i].server = server;
		h2o_multithread_create_thread(&server->threads[i].thread, NULL, run_thread, &server->threads[i]);
	}
	pthread_barrier_wait(&server->started);
	return server;
}

void
http_server_stop(HttpServer *server)
{
	atomic_store(&server->stopping, true);
	for (int i = 0; i < server->thread_count; i++)
		h2o_multithread_send_message(&server->threads[i].finished_loads, NULL);
	for (int i = 0; i < server->thread_count; i++)
		pthread_join(server->threads[i].thread, NULL);
	close(server->listener);
}

void
http_server_free(HttpServer *server)
{
	/* A thread that had to cut its clients off leaves its memory to the end of the process. */
	for (int i = 0; i < server->thread_count; i++)
		if (!server->threads[i].clean)
			return;
	h2o_config_dispose(&server->configuration);
	pthread_barrier_destroy(&server->started);
	free(server);
}
