/*
 * main.c
 *		amoro-node: a node of amoro_meta that answers over HTTP.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "amoro_node.h"
#include "exit_code.h"
#include "http_server.h"
#include "listener.h"
#include "log.h"
#include "options.h"
#include "service.h"

enum
{
	STATE_CHECK_MS = 200,		/* how long a node that ended for good goes on answering 503 */
	RESERVED_DESCRIPTORS = 64	/* beside the loaders: the heartbeat, files of libpq and of the resolver */
};

/* What the process has to exit with because of the node's state, or -1 to go on. */
static int
exit_code_of(const AmoroNodeStatus *status)
{
	switch (status->state)
	{
		case AMORO_NODE_SUPERSEDED:
			return EXIT_CODE_SUPERSEDED;
		case AMORO_NODE_REMOVED:
			return EXIT_CODE_REMOVED;
		case AMORO_NODE_REFUSED:
			/* One that has served was configured right: it stays, fenced, for the case that its privilege comes back. */
			return status->recoveries == 0 ? EXIT_CODE_REFUSED : -1;
		default:
			return -1;
	}
}

/* Blocks the signals that end us, in this thread and in those it will make. */
static void
block_signals(sigset_t *ending)
{
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(ending);
	sigaddset(ending, SIGTERM);
	sigaddset(ending, SIGINT);
	sigaddset(ending, SIGHUP);
	pthread_sigmask(SIG_BLOCK, ending, NULL);
}

/* Until a signal, or until the node cannot serve any more, ever. */
static ExitCode
wait_for_end(AmoroNode *node, Service *service, const sigset_t *ending)
{
	const struct timespec interval = {.tv_nsec = STATE_CHECK_MS * 1000000L};
	AmoroNodeStatus status;
	int			code;

	for (;;)
	{
		int			signal_number = sigtimedwait(ending, NULL, &interval);

		if (signal_number > 0)
		{
			log_write(AMORO_LOG_INFO, "stopping: %s", strsignal(signal_number));
			return EXIT_CODE_STOPPED;
		}
		if (service_is_broken(service))
		{
			log_write(AMORO_LOG_ERROR, "ending: the process that keeps the hooks is gone or stuck");
			return EXIT_CODE_FAILED;
		}
		amoro_node_status(node, &status);
		if ((code = exit_code_of(&status)) >= 0)
		{
			log_write(AMORO_LOG_ERROR, "ending for good: node is %s: %s",
					  amoro_node_state_name(status.state), status.reason);
			return (ExitCode) code;
		}
	}
}

static ExitCode
serve(const DaemonOptions *options, Service *service, int listener, const char *bound, const sigset_t *ending)
{
	AmoroNodeOptions node_options = {
		.conninfo = options->conninfo,
		.node_name = options->node_name,
		.node_kind = options->node_kind,
		.endpoint = options->endpoint,
		.loader_connections = options->loader_connections,
		.load_timeout_ms = options->load_timeout_ms,
		.cache_bytes = options->cache_bytes,
		.preload = options->preload,
		.log = log_node_message,
	};
	char		error[256];
	AmoroNode  *node;
	HttpServer *server;
	ExitCode	code;

	if (amoro_node_open(&node_options, &node, error, sizeof(error)) != AMORO_OK)
	{
		log_write(AMORO_LOG_ERROR, "cannot start: %s", error);
		return EXIT_CODE_USAGE;
	}
	if (service != NULL && !service_start(service, node))
	{
		amoro_node_close(node);
		return EXIT_CODE_FAILED;
	}
	server = http_server_start(node, service, options, listener, RESERVED_DESCRIPTORS + options->loader_connections);
	log_write(AMORO_LOG_INFO, "listening on %s", bound);
	code = wait_for_end(node, service, ending);
	http_server_stop(server);
	service_stop(service);
	amoro_node_close(node);
	http_server_free(server);
	log_write(AMORO_LOG_INFO, "stopped");
	return code;
}

int
main(int argc, char **argv)
{
	DaemonOptions options;
	sigset_t	ending;
	char		bound[300];
	char		error[512];
	int			listener;
	Service    *service = NULL;

	switch (options_parse(argc, argv, &options))
	{
		case OPTIONS_DONE:
			return fflush(stdout) == 0 ? EXIT_CODE_STOPPED : EXIT_CODE_FAILED;
		case OPTIONS_WRONG:
			return EXIT_CODE_USAGE;
		case OPTIONS_RUN:
			break;
	}
	log_open(options.log_level, options.node_name);
	/* before signals are blocked, files open and threads there, which a process of its own would inherit */
	if (options.service != NULL && (service = service_prepare(&options)) == NULL)
		return EXIT_CODE_FAILED;
	block_signals(&ending);
	listener = listener_open(options.listen_address, options.client_timeout_ms, bound, sizeof(bound),
							 error, sizeof(error));
	if (listener < 0)
	{
		log_write(AMORO_LOG_ERROR, "%s", error);
		return EXIT_CODE_CANNOT_LISTEN;
	}
	return serve(&options, service, listener, bound, &ending);
}
