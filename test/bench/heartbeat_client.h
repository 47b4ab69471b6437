/*
 * heartbeat_client.h
 *		For the benches: a node that sends its heartbeats as libamoro_node does, the numbers, the uuid and the interval
 *		in binary form, and is answered with one value.
 */
#ifndef HEARTBEAT_CLIENT_H
#define HEARTBEAT_CLIENT_H

#include <endian.h>
#include <libpq-fe.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define HEARTBEAT_STATEMENT "SELECT node_heartbeat_text($1::int8, $2::uuid, $3::int8, $4::int8, $5::int8, $6::interval, $7::text, true)"

typedef struct HeartbeatClient
{
	int64_t		id;
	unsigned char uuid[16];
	int64_t		term;
	int64_t		epoch;
	int64_t		applied;
} HeartbeatClient;

static inline void
heartbeat_client_set_uuid(HeartbeatClient *client, const char *text)
{
	for (int i = 0; i < 16; i++, text += 2)
	{
		text += *text == '-';
		sscanf(text, "%2hhx", &client->uuid[i]);
	}
}

/* Sends it, as PQsendQueryPrepared does, through the statement "heartbeat"; as PQsendQueryParams without it (through a pooler). */
static inline int
heartbeat_client_send(const HeartbeatClient *client, PGconn *connection, long wait_ms, int prepared)
{
	const uint64_t numbers[] = {htobe64(client->id), htobe64(client->term), htobe64(client->epoch), htobe64(client->applied)};
	const uint64_t wait[] = {htobe64((uint64_t) wait_ms * 1000), 0};
	const char *values[] = {(const char *) &numbers[0], (const char *) client->uuid, (const char *) &numbers[1],
	(const char *) &numbers[2], (const char *) &numbers[3], (const char *) wait, "0 entries"};
	static const int lengths[] = {8, 16, 8, 8, 8, 16, 0};
	static const int formats[] = {1, 1, 1, 1, 1, 1, 0};

	if (prepared)
		return PQsendQueryPrepared(connection, "heartbeat", 7, values, lengths, formats, 0);
	return PQsendQueryParams(connection, HEARTBEAT_STATEMENT, 7, NULL, values, lengths, formats, 0);
}

#endif							/* HEARTBEAT_CLIENT_H */
