/*
 * etcd_call.c
 *		Calls a second of etcd, for the comparisons in test/bench/heartbeat and test/bench/blocker: as many connections as
 *		clients, one request on its way at a time in each. Of gRPC and HTTP/2 it speaks what that takes. Two threads, each
 *		with an epoll loop over half of the connections, as in heartbeat.c.
 *
 *	etcd_call SOCKET SECONDS keepalive LEASE...		keeps leases alive, whose ids are in hexadecimal, one a client, over a stream
 *													of its own to LeaseKeepAlive, as etcd's own client does
 *	etcd_call SOCKET SECONDS acquire KEY...			puts a key if there is none of the name, and deletes it: two requests a round
 *	etcd_call SOCKET SECONDS refused KEY...			tries to put a key that is there
 *
 * A key is shorter than 64 characters, and that of one client. Prints the rounds a second.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define THREADS 2
/* Of HTTP/2: a frame has a header of nine bytes */
#define FRAME_HEADER 9
#define FLAG_ACK 1
#define FLAG_END_STREAM 1
#define FLAG_END_HEADERS 4
#define FIRST_STREAM 1
#define MAX_REQUEST 512

enum
{
	FRAME_DATA = 0, FRAME_HEADERS = 1, FRAME_RESET = 3, FRAME_SETTINGS = 4, FRAME_PING = 6, FRAME_GOAWAY = 7, FRAME_WINDOW_UPDATE = 8
};

/* A request: its headers, unless it goes over a stream that is open, and its message in the frame of gRPC. */
typedef struct Request
{
	unsigned char headers[128];
	size_t		headers_size;
	unsigned char message[256];
	size_t		message_size;
	bool		refused;		/* what it asks for is not to be done */
} Request;

typedef struct Client
{
	int			socket;
	Request		requests[2];	/* of a round */
	int			request_count;
	int			next;
	uint32_t	stream;			/* of the request that is on its way */
	bool		is_stream;		/* all requests go over the first one */
	unsigned char input[65536];
	size_t		input_size;
	uint32_t	unacknowledged; /* bytes of data, of which etcd has not been told that they were read */
} Client;

static Client *clients;
static int	client_count;
static double seconds;
static long long rounds[THREADS];

static void
fail(const char *what)
{
	fprintf(stderr, "etcd_call: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double
now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static unsigned char *
put_frame_header(unsigned char *at, size_t length, int type, int flags, uint32_t stream)
{
	const unsigned char header[FRAME_HEADER] = {length >> 16, length >> 8, length, type, flags,
	stream >> 24, stream >> 16, stream >> 8, stream};

	memcpy(at, header, FRAME_HEADER);
	return at + FRAME_HEADER;
}

static void
send_all(const Client *client, const void *data, size_t size)
{
	if (send(client->socket, data, size, MSG_NOSIGNAL) != (ssize_t) size)
		fail("send");
}

static void
send_frame(const Client *client, int type, int flags, uint32_t stream, const void *payload, size_t length)
{
	unsigned char frame[FRAME_HEADER + 256];

	memcpy(put_frame_header(frame, length, type, flags, stream), payload, length);
	send_all(client, frame, FRAME_HEADER + length);
}

/* A header field that is not indexed: its name by number of the static table, or as text; the prefix says which. */
static unsigned char *
put_field(unsigned char *at, const unsigned char *name, size_t name_size, const char *value)
{
	memcpy(at, name, name_size);
	at += name_size;
	*at++ = strlen(value);
	memcpy(at, value, strlen(value));
	return at + strlen(value);
}

static void
prepare_headers(Request *request, const char *path)
{
	unsigned char *at = request->headers;

	*at++ = 0x83;				/* :method POST */
	*at++ = 0x86;				/* :scheme http */
	at = put_field(at, (const unsigned char *) "\x04", 1, path);
	at = put_field(at, (const unsigned char *) "\x01", 1, "localhost");
	at = put_field(at, (const unsigned char *) "\x0f\x10", 2, "application/grpc");
	at = put_field(at, (const unsigned char *) "\x00\x02te", 4, "trailers");
	request->headers_size = at - request->headers;
}

/* A field of a message that is bytes; all of them are short. */
static unsigned char *
put_bytes(unsigned char *at, int number, const void *bytes, size_t size)
{
	*at++ = number << 3 | 2;
	*at++ = size;
	memcpy(at, bytes, size);
	return at + size;
}

static void
prepare_message(Request *request, const void *message, size_t size)
{
	memset(request->message, 0, 4);
	request->message[4] = size;
	memcpy(request->message + 5, message, size);
	request->message_size = 5 + size;
}

/* LeaseKeepAliveRequest { int64 ID = 1 } */
static void
prepare_keepalive(Client *client, uint64_t lease)
{
	unsigned char message[16] = {0x08};
	size_t		size = 1;

	for (; lease >= 0x80; lease >>= 7)
		message[size++] = lease | 0x80;
	message[size++] = lease;
	prepare_headers(&client->requests[0], "/etcdserverpb.Lease/LeaseKeepAlive");
	prepare_message(&client->requests[0], message, size);
	client->is_stream = true;
}

/*
 * TxnRequest { Compare compare = 1; RequestOp success = 2 }, where
 * Compare { target = 2, which is 1: create_revision; bytes key = 3; int64 create_revision = 5 },
 * RequestOp { PutRequest request_put = 2 }, PutRequest { bytes key = 1; bytes value = 2 }
 */
static void
prepare_put_if_absent(Request *request, const char *key)
{
	unsigned char compare[80] = {0x10, 1};
	unsigned char put[80];
	unsigned char operation[90];
	unsigned char message[200];
	unsigned char *at = put_bytes(compare + 2, 3, key, strlen(key));
	unsigned char *put_end = put_bytes(put_bytes(put, 1, key, strlen(key)), 2, "holder", 6);
	unsigned char *operation_end = put_bytes(operation, 2, put, put_end - put);

	*at++ = 5 << 3;
	*at++ = 0;
	at = put_bytes(message, 1, compare, at - compare);
	at = put_bytes(at, 2, operation, operation_end - operation);
	prepare_headers(request, "/etcdserverpb.KV/Txn");
	prepare_message(request, message, at - message);
}

/* DeleteRangeRequest { bytes key = 1 } */
static void
prepare_delete(Request *request, const char *key)
{
	unsigned char message[80];

	prepare_headers(request, "/etcdserverpb.KV/DeleteRange");
	prepare_message(request, message, put_bytes(message, 1, key, strlen(key)) - message);
}

static void
prepare_requests(Client *client, const char *what, const char *argument)
{
	client->request_count = 1;
	client->stream = FIRST_STREAM;
	if (strcmp(what, "keepalive") == 0)
	{
		prepare_keepalive(client, strtoull(argument, NULL, 16));
		return;
	}
	if (strlen(argument) >= 64)
		fail("a key is too long");
	prepare_put_if_absent(&client->requests[0], argument);
	client->requests[0].refused = strcmp(what, "refused") == 0;
	if (client->requests[0].refused)
		return;
	prepare_delete(&client->requests[1], argument);
	client->request_count = 2;
}

/* Sends the next request; over a stream of its own, unless all of them go over one. */
static void
send_request(Client *client, bool first)
{
	const Request *request = &client->requests[client->next];
	unsigned char frames[MAX_REQUEST];
	unsigned char *at = frames;

	if (first || !client->is_stream)
	{
		at = put_frame_header(at, request->headers_size, FRAME_HEADERS, FLAG_END_HEADERS, client->stream);
		memcpy(at, request->headers, request->headers_size);
		at += request->headers_size;
	}
	at = put_frame_header(at, request->message_size, FRAME_DATA, client->is_stream ? 0 : FLAG_END_STREAM, client->stream);
	memcpy(at, request->message, request->message_size);
	send_all(client, frames, at + request->message_size - frames);
}

static void
open_client(Client *client, const char *path, const char *what, const char *argument)
{
	static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	client->socket = socket(AF_UNIX, SOCK_STREAM, 0);
	if (connect(client->socket, (struct sockaddr *) &address, sizeof(address)) != 0)
		fail(path);
	prepare_requests(client, what, argument);
	send_all(client, preface, sizeof(preface) - 1);
	send_frame(client, FRAME_SETTINGS, 0, 0, "", 0);
}

/* Tells etcd now and then that its data was read, for the stream and for the connection. */
static void
acknowledge_data(Client *client, size_t length)
{
	client->unacknowledged += length;
	if (client->unacknowledged < 16384)
		return;
	for (uint32_t stream = 0; stream <= (client->is_stream ? FIRST_STREAM : 0); stream += FIRST_STREAM)
	{
		const unsigned char size[] = {client->unacknowledged >> 24, client->unacknowledged >> 16,
		client->unacknowledged >> 8, client->unacknowledged};

		send_frame(client, FRAME_WINDOW_UPDATE, 0, stream, size, sizeof(size));
	}
	client->unacknowledged = 0;
}

/*
 * Looks at what etcd says: of a lease that it is gone by leaving out the time to live, so in less than frame, id and ttl
 * take; of a key that nothing was done by leaving out the second field (TxnResponse.succeeded, DeleteRangeResponse.deleted).
 */
static void
check_answer(const Client *client, const unsigned char *message, size_t length)
{
	size_t		header = 5 + 2 + message[6];

	if (client->is_stream)
	{
		if (length < 5 + 20)
			fail("a lease was not kept alive");
	}
	else if ((header < length && message[header] == 0x10) == client->requests[client->next].refused)
		fail("a key was not as it should be");
}

/* One frame; true when the request is answered by it. */
static bool
handle_frame(Client *client, const unsigned char *frame, size_t length)
{
	int			type = frame[3];
	int			flags = frame[4];
	bool		ends = type == FRAME_HEADERS && (flags & FLAG_END_STREAM);

	if (type == FRAME_RESET || type == FRAME_GOAWAY || (ends && client->is_stream))
		fail("etcd ended the stream");
	if (type == FRAME_SETTINGS && !(flags & FLAG_ACK))
		send_frame(client, FRAME_SETTINGS, FLAG_ACK, 0, "", 0);
	if (type == FRAME_PING && !(flags & FLAG_ACK))
		send_frame(client, FRAME_PING, FLAG_ACK, 0, frame + FRAME_HEADER, length);
	if (type == FRAME_DATA)
	{
		check_answer(client, frame + FRAME_HEADER, length);
		acknowledge_data(client, length);
	}
	return client->is_stream ? type == FRAME_DATA : ends;
}

static bool
take_answer(Client *client)
{
	ssize_t		got = recv(client->socket, client->input + client->input_size, sizeof(client->input) - client->input_size, 0);
	const unsigned char *at = client->input;
	bool		answered = false;

	if (got <= 0)
		fail("recv");
	client->input_size += got;
	while (client->input_size >= FRAME_HEADER)
	{
		size_t		length = at[0] << 16 | at[1] << 8 | at[2];

		if (client->input_size < FRAME_HEADER + length)
			break;
		answered = handle_frame(client, at, length) || answered;
		at += FRAME_HEADER + length;
		client->input_size -= FRAME_HEADER + length;
	}
	memmove(client->input, at, client->input_size);
	return answered;
}

static void *
drive(void *argument)
{
	int			thread = (int) (intptr_t) argument;
	int			poller = epoll_create1(0);
	double		end = now() + seconds;
	struct epoll_event events[64];

	for (int i = thread; i < client_count; i += THREADS)
	{
		struct epoll_event event = {.events = EPOLLIN, .data.ptr = &clients[i]};

		epoll_ctl(poller, EPOLL_CTL_ADD, clients[i].socket, &event);
		send_request(&clients[i], true);
	}
	while (now() < end)
	{
		int			count = epoll_wait(poller, events, 64, 100);

		for (int i = 0; i < count; i++)
		{
			Client	   *client = events[i].data.ptr;

			if (!take_answer(client))
				continue;
			client->next = (client->next + 1) % client->request_count;
			rounds[thread] += client->next == 0;
			if (!client->is_stream)
				client->stream += 2;
			send_request(client, false);
		}
	}
	return NULL;
}

int
main(int argc, char **argv)
{
	pthread_t	threads[THREADS];

	if (argc < 5)
	{
		fprintf(stderr, "usage: etcd_call SOCKET SECONDS keepalive|acquire|refused LEASE|KEY...\n");
		return 2;
	}
	seconds = atof(argv[2]);
	client_count = argc - 4;
	clients = calloc(client_count, sizeof(Client));
	for (int i = 0; i < client_count; i++)
		open_client(&clients[i], argv[1], argv[3], argv[4 + i]);
	for (intptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, drive, (void *) i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%.0f\n", (rounds[0] + rounds[1]) / seconds);
	return 0;
}
