/*
 * connection_test.c
 *		Connection strings, and connections to servers that do not answer.
 */
#include "scenario.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "amoro_node.h"
#include "hosts.h"
#include "server_transport.h"

static const Registration registration = {"n1", "node", NULL};

static void
test_hosts(void **state)
{
	Hosts		hosts;
	char		error[200];

	assert_true(hosts_read(&hosts, "host=a,b port=1,2 dbname=x", error, sizeof(error)));
	assert_int_equal(hosts.count, 2);
	assert_string_equal(hosts.hosts[0].host, "a");
	assert_string_equal(hosts.hosts[1].host, "b");
	assert_string_equal(hosts.hosts[1].port, "2");
	assert_true(hosts.wants_read_write && hosts.wants_keepalives && hosts.wants_user_timeout);
	hosts_free(&hosts);

	assert_true(hosts_read(&hosts, "postgresql://u@a:1,b,c:3/x?target_session_attrs=primary&keepalives_idle=7",
						   error, sizeof(error)));
	assert_int_equal(hosts.count, 3);
	assert_string_equal(hosts.hosts[0].port, "1");
	assert_null(hosts.hosts[1].port);
	assert_false(hosts.wants_read_write);
	assert_false(hosts.wants_keepalives);
	hosts_free(&hosts);

	assert_true(hosts_read(&hosts, "hostaddr=10.0.0.1,10.0.0.2 port=5", error, sizeof(error)));
	assert_int_equal(hosts.count, 2);
	assert_null(hosts.hosts[0].host);
	assert_string_equal(hosts.hosts[1].port, "5");
	hosts_free(&hosts);

	setenv("PGHOST", "e1,e2", 1);
	assert_true(hosts_read(&hosts, "", error, sizeof(error)));
	assert_int_equal(hosts.count, 2);
	assert_string_equal(hosts.hosts[1].host, "e2");
	hosts_free(&hosts);
	unsetenv("PGHOST");
}

static void
test_wrong_options(void **state)
{
	static const char *const conninfos[] = {"nonsense=1", "host=a host", "service=no_such_service", "host=a,b port=1,2,3",
	"postgresql://[a/"};
	AmoroNodeOptions options = {.node_name = "n1"};
	AmoroNode  *node;
	char		error[200];
	char		long_name[1100];

	memset(long_name, 'n', sizeof(long_name));
	long_name[sizeof(long_name) - 1] = '\0';
	for (size_t i = 0; i < sizeof(conninfos) / sizeof(conninfos[0]); i++)
	{
		options.conninfo = conninfos[i];
		error[0] = '\0';
		assert_int_equal(amoro_node_open(&options, &node, error, sizeof(error)), AMORO_INVALID_ARGUMENT);
		assert_null(node);
		assert_true(strlen(error) > 0);
		assert_null(strstr(error, "probe"));
		assert_null(strchr(error, '\n'));
	}
	options.conninfo = "dbname=x";
	options.node_name = "";
	assert_int_equal(amoro_node_open(&options, &node, error, sizeof(error)), AMORO_INVALID_ARGUMENT);
	options.node_name = long_name;
	assert_int_equal(amoro_node_open(&options, &node, error, sizeof(error)), AMORO_INVALID_ARGUMENT);
	options.node_name = "n1";
	options.loader_connections = -1;
	assert_int_equal(amoro_node_open(&options, &node, error, 0), AMORO_INVALID_ARGUMENT);
	options.loader_connections = 0;
	options.conninfo = NULL;
	assert_int_equal(amoro_node_open(&options, &node, error, 3), AMORO_INVALID_ARGUMENT);
	assert_int_equal(strlen(error), 2);
}

/* A socket that accepts, and then says nothing. */
static int
listen_mute(char *conninfo, size_t size)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t	length = sizeof(address);
	int			fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(bind(fd, (struct sockaddr *) &address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 8), 0);
	getsockname(fd, (struct sockaddr *) &address, &length);
	snprintf(conninfo, size, "host=127.0.0.1 port=%d sslmode=disable", ntohs(address.sin_port));
	return fd;
}

/* L15: connecting ends at its deadline, and can be gone on with before */
static void
test_connecting_is_bounded(void **state)
{
	char		conninfo[100];
	char		error[200];
	int			fd = listen_mute(conninfo, sizeof(conninfo));
	Transport  *transport = server_transport_create(conninfo, &registration, &clock_boottime, error, sizeof(error));
	NodeTime	begin = clock_now(&clock_boottime);
	TransportFailure failure = {"", ""};
	NodeTime	took;

	assert_int_equal(transport->open(transport, begin + 50000, begin + 1000000, &failure), TRANSPORT_TIMED_OUT);
	assert_int_equal(transport->open(transport, begin + 9000000, begin + 1000000, &failure), TRANSPORT_BROKEN);
	took = clock_now(&clock_boottime) - begin;
	assert_true(took >= 1000000 && took < 3000000);
	assert_string_equal(failure.message, "no connection to the server in time");
	assert_false(transport->is_open(transport));
	transport->destroy(transport);
	close(fd);
}

static void *
wake_soon(void *argument)
{
	Transport  *transport = argument;

	usleep(50000);
	transport->wake(transport);
	return NULL;
}

static void
test_wake(void **state)
{
	char		conninfo[100];
	char		error[200];
	int			fd = listen_mute(conninfo, sizeof(conninfo));
	Transport  *transport = server_transport_create(conninfo, &registration, &clock_boottime, error, sizeof(error));
	NodeTime	begin = clock_now(&clock_boottime);
	TransportFailure failure = {"", ""};
	pthread_t	thread;

	pthread_create(&thread, NULL, wake_soon, transport);
	assert_int_equal(transport->open(transport, begin + 10000000, begin + 10000000, &failure), TRANSPORT_WOKEN);
	assert_int_equal(transport->sleep(transport, NODE_TIME_NEVER), TRANSPORT_WOKEN);
	pthread_join(thread, NULL);
	transport->wake_reset(transport);
	begin = clock_now(&clock_boottime);
	assert_int_equal(transport->sleep(transport, begin + 20000), TRANSPORT_TIMED_OUT);
	assert_true(clock_now(&clock_boottime) >= begin + 20000);
	transport->destroy(transport);
	close(fd);
}

/* of several hosts each gets its share of the time, whatever the first one does */
static void
test_mute_host_does_not_hide_the_next(void **state)
{
	char		mute[100];
	char		conninfo[200];
	char		error[200];
	int			fd = listen_mute(mute, sizeof(mute));
	int			port = (int) strtol(strstr(mute, "port=") + 5, NULL, 10);
	Transport  *transport;
	NodeTime	begin = clock_now(&clock_boottime);
	TransportFailure failure = {"", ""};
	NodeTime	took;

	/* the second refuses at once: what fails last is what we hear of */
	snprintf(conninfo, sizeof(conninfo), "host=127.0.0.1,127.0.0.1 port=%d,1 sslmode=disable", port);
	transport = server_transport_create(conninfo, &registration, &clock_boottime, error, sizeof(error));
	assert_int_equal(transport->open(transport, begin + 4000000, begin + 4000000, &failure), TRANSPORT_BROKEN);
	took = clock_now(&clock_boottime) - begin;
	assert_true(took >= 1500000 && took < 3500000);
	assert_non_null(strstr(failure.message, "refused"));
	transport->destroy(transport);
	close(fd);
}

/* a whole node on a mute server: fenced, and closed within its time */
static void
test_node_on_a_mute_server(void **state)
{
	char		conninfo[100];
	char		error[200];
	int			fd = listen_mute(conninfo, sizeof(conninfo));
	AmoroNodeOptions options = {.conninfo = conninfo, .node_name = "n1"};
	AmoroKey	key = {"a", "b", "c"};
	AmoroEntry *entry;
	AmoroTicket ticket;
	AmoroNode  *node;
	AmoroNodeStatus status;
	NodeTime	begin;

	assert_int_equal(amoro_node_open(&options, &node, error, sizeof(error)), AMORO_OK);
	usleep(100000);
	amoro_node_status(node, &status);
	assert_int_equal(status.state, AMORO_NODE_CONNECTING);
	assert_int_equal(strlen(status.incarnation), 36);
	assert_int_equal(amoro_cache_get(node, AMORO_CACHE_TABLE, &key, &entry, &ticket), AMORO_FENCED);
	begin = clock_now(&clock_boottime);
	amoro_node_close(node);
	assert_true(clock_now(&clock_boottime) - begin < 2500000);
	close(fd);
}

/* A server that answers as few questions as it takes: where the extension is, and to prepare a statement, but that late. */
typedef struct SlowServer
{
	int			listener;
	int			prepare;		/* a byte is read from here before the answer to it */
} SlowServer;

static void
read_all(int fd, char *bytes, size_t size)
{
	while (size > 0)
	{
		ssize_t		got = read(fd, bytes, size);

		assert_true(got > 0);
		bytes += got;
		size -= (size_t) got;
	}
}

static size_t
read_size(int fd)
{
	uint32_t	size;

	read_all(fd, (char *) &size, sizeof(size));
	assert_in_range(ntohl(size), 4, 4096);
	return ntohl(size) - 4;
}

/* Up to a Sync, or what a client begins with. */
static void
read_request(int fd, bool startup)
{
	char		bytes[4096];
	char		type = 'S';

	do
	{
		if (!startup)
			read_all(fd, &type, 1);
		read_all(fd, bytes, read_size(fd));
	} while (type != 'S');
}

#define SEND(fd, bytes) assert_int_equal(write(fd, bytes, sizeof(bytes) - 1), sizeof(bytes) - 1)

static void *
answer_slowly(void *argument)
{
	const SlowServer *server = argument;
	int			fd = accept(server->listener, NULL, NULL);
	char		byte;

	read_request(fd, true);
	SEND(fd, "R\0\0\0\10\0\0\0\0" "S\0\0\0\030server_version\00015.0\0" "S\0\0\0\027in_hot_standby\0off\0"
		 "S\0\0\0\046default_transaction_read_only\0off\0" "S\0\0\0\031client_encoding\0UTF8\0"
		 "K\0\0\0\014\0\0\0\1\0\0\0\1" "Z\0\0\0\5I");
	read_request(fd, false);
	SEND(fd, "1\0\0\0\4" "2\0\0\0\4" "T\0\0\0\126\0\4"
		 "a\0\0\0\0\0\0\0\0\0\0\31\377\377\377\377\377\377\0\0" "b\0\0\0\0\0\0\0\0\0\0\20\377\377\377\377\377\377\0\0"
		 "c\0\0\0\0\0\0\0\0\0\0\20\377\377\377\377\377\377\0\0" "d\0\0\0\0\0\0\0\0\0\0\31\377\377\377\377\377\377\0\0"
		 "D\0\0\0\032\0\4\0\0\0\1x\0\0\0\1t\0\0\0\1f\0\0\0\1x" "C\0\0\0\015SELECT 1\0" "Z\0\0\0\5I");
	read_request(fd, false);
	read_all(server->prepare, &byte, 1);
	SEND(fd, "1\0\0\0\4" "Z\0\0\0\5I");
	read_request(fd, false);
	close(fd);
	return NULL;
}

/* a campaign that is woken while its statement is being prepared goes on with that */
static void
test_wake_while_preparing(void **state)
{
	static const NodeRequest lead = {.kind = REQUEST_LEAD, .service = "s", .incarnation = "00000000-0000-0000-0000-000000000000"};
	char		conninfo[100];
	char		error[200];
	int			pipes[2];
	SlowServer	server;
	Transport  *transport;
	NodeTime	deadline = clock_now(&clock_boottime) + 20000000;
	TransportFailure failure = {"", ""};
	pthread_t	threads[2];

	assert_int_equal(pipe(pipes), 0);
	server = (SlowServer) {listen_mute(conninfo, sizeof(conninfo)), pipes[0]};
	transport = server_transport_create(conninfo, &registration, &clock_boottime, error, sizeof(error));
	pthread_create(&threads[0], NULL, answer_slowly, &server);
	assert_int_equal(transport->open(transport, deadline, deadline, &failure), TRANSPORT_DONE);
	pthread_create(&threads[1], NULL, wake_soon, transport);
	assert_int_equal(transport->send(transport, &lead, NULL, NULL, deadline, &failure), TRANSPORT_WOKEN);
	transport->wake_reset(transport);
	assert_int_equal(write(pipes[1], "", 1), 1);
	assert_int_equal(transport->send(transport, &lead, NULL, NULL, deadline, &failure), TRANSPORT_DONE);
	assert_string_equal(failure.message, "");
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	transport->destroy(transport);
	close(server.listener);
	close(pipes[0]);
	close(pipes[1]);
}

static void
test_names(void **state)
{
	for (int i = AMORO_NODE_CONNECTING; i <= AMORO_NODE_CLOSED; i++)
		assert_string_not_equal(amoro_node_state_name((AmoroNodeState) i), "unknown");
	for (int i = AMORO_OK; i <= AMORO_INVALID_ARGUMENT; i++)
		assert_string_not_equal(amoro_result_name((AmoroResult) i), "unknown");
	assert_string_equal(amoro_cache_kind_name(AMORO_CACHE_TABLE), "table");
	assert_string_equal(amoro_cache_kind_name((AmoroCacheKind) 99), "unknown");
	assert_string_equal(amoro_node_library_version(), AMORO_NODE_VERSION);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hosts),
		cmocka_unit_test(test_wrong_options),
		cmocka_unit_test(test_connecting_is_bounded),
		cmocka_unit_test(test_wake),
		cmocka_unit_test(test_mute_host_does_not_hide_the_next),
		cmocka_unit_test(test_node_on_a_mute_server),
		cmocka_unit_test(test_wake_while_preparing),
		cmocka_unit_test(test_names),
	};

	alarm(60);
	return cmocka_run_group_tests_name("connection", tests, NULL, NULL);
}
