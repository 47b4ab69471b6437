/*
 * http.c
 *		libFuzzer against the HTTP side of amoro-node: whatever bytes a client sends, the answer, if there is one, is
 *		HTTP, and JSON where it says so, and no answer comes from a cache: the node has no server, so it is fenced.
 *
 * The server of the daemon runs in this process, on a socket of its own. See test/fuzz/run.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <jansson.h>

#include "http_server.h"
#include "listener.h"
#include "log.h"
#include "object_name.h"
#include "options.h"

extern int	LLVMFuzzerInitialize(int *argc, char ***argv);
extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct sockaddr_in address;

static void
violated(const char *rule, const char *answer)
{
	fprintf(stderr, "violated: %s\n%s\n", rule, answer);
	abort();
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static char *arguments[] = {"amoro-node", "--name", "fuzzed", "--conninfo", "host=/nonexistent", "--listen",
	"127.0.0.1:0", "--http-threads", "1", NULL};
	static DaemonOptions options;
	AmoroNodeOptions node_options = {.conninfo = "host=/nonexistent", .node_name = "fuzzed"};
	AmoroNode  *node;
	socklen_t	length = sizeof(address);
	char		bound[300];
	char		error[512];
	int			listener;

	if (options_parse(9, arguments, &options) != OPTIONS_RUN)
		abort();
	log_open(AMORO_LOG_ERROR, "fuzzed");
	listener = listener_open(options.listen_address, options.client_timeout_ms, bound, sizeof(bound), error, sizeof(error));
	if (listener < 0 || getsockname(listener, (struct sockaddr *) &address, &length) != 0 ||
		amoro_node_open(&node_options, &node, error, sizeof(error)) != AMORO_OK ||
		http_server_start(node, &options, listener, 0) == NULL)
		abort();
	return 0;
}

/* A name that was decoded is a name; what is no name is refused. */
static void
decode(const uint8_t *data, size_t size)
{
	char	   *segment = malloc(size + 1);
	char	   *name = malloc(size + 1);

	memcpy(segment, data, size);
	segment[size] = '\0';
	if (object_name_decode(segment, size, name) == NULL && (strlen(name) == 0 || object_name_check(name, strlen(name)) != NULL))
		violated("what was decoded is a name", name);
	free(segment);
	free(name);
}

/* The first answer: its head, and its body where both are here as a whole. */
static void
check_answer(const char *answer, size_t size, const char *request, size_t request_size)
{
	const char *end = strstr(answer, "\r\n\r\n");
	const char *length = strcasestr(answer, "content-length: ");
	const char *type = strcasestr(answer, "content-type: application/json");
	size_t		body_size;
	json_t	   *json;

	if (strncmp(answer, "HTTP/1.", 7) != 0)
	{
		/* an old client gets a body alone */
		if (size >= 7 && strncmp(answer, "HTTP/2", 6) != 0 && strstr(request, "HTTP/1.1") != NULL)
			violated("an answer is HTTP", answer);
		return;
	}
	if (strncmp(request, "GET /v1/tables/", 15) == 0 && strncmp(answer + 8, " 200", 4) == 0)
		violated("a node that is fenced answers from no cache", answer);
	if (end == NULL || length == NULL || length > end || type == NULL || type > end ||
		memmem(request, request_size, "HEAD", 4) != NULL)
		return;
	body_size = strtoul(length + strlen("content-length: "), NULL, 10);
	if ((size_t) (answer + size - (end + 4)) < body_size)
		return;
	json = json_loadb(end + 4, body_size, JSON_DECODE_ANY, NULL);
	if (json == NULL)
		violated("what says that it is JSON is JSON", answer);
	json_decref(json);
}

static void
exchange(const uint8_t *data, size_t size)
{
	static char answer[1 << 16];
	struct linger at_once = {.l_onoff = 1};
	int			client = socket(AF_INET, SOCK_STREAM, 0);
	char	   *request = malloc(size + 1);
	size_t		received = 0;
	ssize_t		n;

	memcpy(request, data, size);
	request[size] = '\0';
	/* thousands of connections a second: none may wait in TIME_WAIT */
	setsockopt(client, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	if (connect(client, (struct sockaddr *) &address, sizeof(address)) != 0)
		violated("the server takes clients", "");
	if (send(client, request, size, MSG_NOSIGNAL) == (ssize_t) size)
	{
		shutdown(client, SHUT_WR);
		while (received < sizeof(answer) - 1 &&
			   (n = recv(client, answer + received, sizeof(answer) - 1 - received, 0)) > 0)
			received += n;
		answer[received] = '\0';
		if (received > 0)
			check_answer(answer, received, request, size);
	}
	close(client);
	free(request);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	decode(data, size);
	if (size > 0)
		exchange(data, size);
	return 0;
}
