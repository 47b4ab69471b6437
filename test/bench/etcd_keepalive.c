/*
 * etcd_keepalive.c
 *		Lease keepalives a second of etcd, for the comparison in test/bench/heartbeat: as many connections as clients, each
 *		with a stream of its own to LeaseKeepAlive, as etcd's own client has, one request on its way at a time. Of gRPC and
 *		HTTP/2 it speaks what that takes. Two threads, each with an epoll loop over half of the connections, as in
 *		heartbeat.c.
 *
 *	etcd_keepalive SOCKET SECONDS LEASE...
 *
 * LEASE: the id, in hexadecimal, one a client. Prints the calls a second.
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
#define OUR_STREAM 1

enum
{
	FRAME_DATA = 0, FRAME_HEADERS = 1, FRAME_RESET = 3, FRAME_SETTINGS = 4, FRAME_PING = 6, FRAME_GOAWAY = 7, FRAME_WINDOW_UPDATE = 8
};

typedef struct Client
{
	int			socket;
	unsigned char request[32];	/* the frame of one keepalive */
	size_t		request_size;
	unsigned char input[65536];
	size_t		input_size;
	uint32_t	unacknowledged; /* bytes of data, of which etcd has not been told that they were read */
} Client;

static Client *clients;
static int	client_count;
static double seconds;
static long long calls[THREADS];

static void
fail(const char *what)
{
	fprintf(stderr, "etcd_keepalive: %s: %s\n", what, strerror(errno));
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
begin_stream(const Client *client)
{
	static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
	unsigned char headers[200] = {0x83, 0x86};	/* :method POST, :scheme http */
	unsigned char *at = headers + 2;

	at = put_field(at, (const unsigned char *) "\x04", 1, "/etcdserverpb.Lease/LeaseKeepAlive");
	at = put_field(at, (const unsigned char *) "\x01", 1, "localhost");
	at = put_field(at, (const unsigned char *) "\x0f\x10", 2, "application/grpc");
	at = put_field(at, (const unsigned char *) "\x00\x02te", 4, "trailers");
	send_all(client, preface, sizeof(preface) - 1);
	send_frame(client, FRAME_SETTINGS, 0, 0, "", 0);
	send_frame(client, FRAME_HEADERS, FLAG_END_HEADERS, OUR_STREAM, headers, at - headers);
}

/* LeaseKeepAliveRequest { int64 ID = 1 }, in the frame of gRPC, in that of HTTP/2. */
static void
prepare_request(Client *client, uint64_t lease)
{
	unsigned char message[16] = {0x08};
	size_t		size = 1;
	unsigned char *at;

	for (; lease >= 0x80; lease >>= 7)
		message[size++] = lease | 0x80;
	message[size++] = lease;
	at = put_frame_header(client->request, size + 5, FRAME_DATA, 0, OUR_STREAM);
	memset(at, 0, 4);
	at[4] = size;
	memcpy(at + 5, message, size);
	client->request_size = FRAME_HEADER + 5 + size;
}

static void
open_client(Client *client, const char *path, const char *lease)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	client->socket = socket(AF_UNIX, SOCK_STREAM, 0);
	if (connect(client->socket, (struct sockaddr *) &address, sizeof(address)) != 0)
		fail(path);
	prepare_request(client, strtoull(lease, NULL, 16));
	begin_stream(client);
}

/* Tells etcd now and then that its data was read, for the stream and for the connection. */
static void
acknowledge_data(Client *client, size_t length)
{
	client->unacknowledged += length;
	if (client->unacknowledged < 16384)
		return;
	for (uint32_t stream = 0; stream <= OUR_STREAM; stream += OUR_STREAM)
	{
		const unsigned char size[] = {client->unacknowledged >> 24, client->unacknowledged >> 16,
		client->unacknowledged >> 8, client->unacknowledged};

		send_frame(client, FRAME_WINDOW_UPDATE, 0, stream, size, sizeof(size));
	}
	client->unacknowledged = 0;
}

/* One frame; true when it is the answer to a keepalive. */
static bool
handle_frame(Client *client, const unsigned char *frame, size_t length)
{
	int			type = frame[3];
	int			flags = frame[4];

	if (type == FRAME_RESET || type == FRAME_GOAWAY || (type == FRAME_HEADERS && (flags & FLAG_END_STREAM)))
		fail("etcd ended the stream");
	if (type == FRAME_SETTINGS && !(flags & FLAG_ACK))
		send_frame(client, FRAME_SETTINGS, FLAG_ACK, 0, "", 0);
	if (type == FRAME_PING && !(flags & FLAG_ACK))
		send_frame(client, FRAME_PING, FLAG_ACK, 0, frame + FRAME_HEADER, length);
	if (type != FRAME_DATA)
		return false;
	/* a lease that is gone is answered without a time to live, so with less than header, id and ttl take */
	if (length < 5 + 20)
		fail("a lease was not kept alive");
	acknowledge_data(client, length);
	return true;
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
		send_all(&clients[i], clients[i].request, clients[i].request_size);
	}
	while (now() < end)
	{
		int			count = epoll_wait(poller, events, 64, 100);

		for (int i = 0; i < count; i++)
		{
			Client	   *client = events[i].data.ptr;

			if (take_answer(client))
			{
				calls[thread]++;
				send_all(client, client->request, client->request_size);
			}
		}
	}
	return NULL;
}

int
main(int argc, char **argv)
{
	pthread_t	threads[THREADS];

	if (argc < 4)
	{
		fprintf(stderr, "usage: etcd_keepalive SOCKET SECONDS LEASE...\n");
		return 2;
	}
	seconds = atof(argv[2]);
	client_count = argc - 3;
	clients = calloc(client_count, sizeof(Client));
	for (int i = 0; i < client_count; i++)
		open_client(&clients[i], argv[1], argv[3 + i]);
	for (intptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, drive, (void *) i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%.0f\n", (calls[0] + calls[1]) / seconds);
	return 0;
}
