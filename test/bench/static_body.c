/*
 * static_body.c
 *		The baseline of http_lookup: libh2o on one thread, answering every request with the same body from memory.
 *		static_body PORT SIZE
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <h2o.h>

static h2o_iovec_t body;
static h2o_accept_ctx_t accept_context;

static int
on_request(h2o_handler_t *handler, h2o_req_t *request)
{
	static h2o_generator_t generator = {NULL, NULL};

	request->res.status = 200;
	request->res.reason = "OK";
	request->res.content_length = body.len;
	h2o_add_header(&request->pool, &request->res.headers, H2O_TOKEN_CONTENT_TYPE, NULL,
				   H2O_STRLIT("application/json"));
	h2o_start_response(request, &generator);
	h2o_send(request, &body, 1, H2O_SEND_STATE_FINAL);
	return 0;
}

static void
on_accept(h2o_socket_t *listener, const char *error)
{
	h2o_socket_t *connection;

	if (error == NULL && (connection = h2o_evloop_socket_accept(listener)) != NULL)
		h2o_accept(&accept_context, connection);
}

static int
listen_on(int port)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t) port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int			on = 1;
	int			descriptor = socket(AF_INET, SOCK_STREAM, 0);

	setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(descriptor, (struct sockaddr *) &address, sizeof(address)) != 0 || listen(descriptor, SOMAXCONN) != 0)
	{
		perror("static_body: cannot listen");
		exit(1);
	}
	return descriptor;
}

int
main(int argc, char **argv)
{
	static h2o_globalconf_t configuration;
	static h2o_context_t context;
	h2o_hostconf_t *host;
	h2o_handler_t *handler;

	if (argc != 3)
	{
		fprintf(stderr, "usage: static_body PORT SIZE\n");
		return 2;
	}
	body.len = strtoul(argv[2], NULL, 10);
	body.base = malloc(body.len);
	memset(body.base, 'x', body.len);

	h2o_config_init(&configuration);
	host = h2o_config_register_host(&configuration, h2o_iovec_init(H2O_STRLIT("default")), 65535);
	handler = h2o_create_handler(h2o_config_register_path(host, "/", 0), sizeof(*handler));
	handler->on_req = on_request;
	h2o_context_init(&context, h2o_evloop_create(), &configuration);
	accept_context = (h2o_accept_ctx_t) {.ctx = &context, .hosts = configuration.hosts};
	h2o_socket_read_start(h2o_evloop_socket_create(context.loop, listen_on((int) strtol(argv[1], NULL, 10)), H2O_SOCKET_FLAG_DONT_READ),
						  on_accept);
	while (h2o_evloop_run(context.loop, INT32_MAX) == 0 || errno == EINTR)
		continue;
	return 1;
}
