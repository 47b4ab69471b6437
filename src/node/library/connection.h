/*
 * connection.h
 *		One connection over libpq, of which every wait ends at a deadline or at a wake.
 */
#ifndef AMORO_CONNECTION_H
#define AMORO_CONNECTION_H

#include <libpq-fe.h>

#include "hosts.h"
#include "transport.h"

typedef enum ConnectionStage
{
	CONNECTION_CLOSED,
	CONNECTION_CONNECTING,
	CONNECTION_IDENTIFYING,		/* connected, asking where the extension is */
	CONNECTION_READY
} ConnectionStage;

typedef struct Connection
{
	const NodeClock *clock;
	const char *conninfo;
	char	   *application_name;
	Hosts		hosts;
	int			host_index;		/* where we are, or last were */
	int			hosts_tried;	/* since open began */
	NodeTime	host_deadline;
	int			wake_fd;
	ConnectionStage stage;
	PGconn	   *conn;
	PGresult   *result;			/* came, while the end of the answer has not */
	PGconn	   *aside;			/* left while an answer was still to come; NULL: none */
	PostgresPollingStatusType polling;
	char		schema[140];	/* of the extension's functions, quoted, with a dot */
	uint32_t	prepared;		/* bit i: statement i is prepared on this connection */
	uint32_t	preparing;		/* the same of a statement that is being prepared, while the answer has not come */
	bool		pooled;			/* behind a pooler that hands out another server session for every transaction */
} Connection;

extern bool connection_init(Connection *connection, const char *conninfo, const char *application_name,
							const NodeClock *clock, char *error, size_t error_size);
extern void connection_destroy(Connection *connection);
/* As Transport.open. */
extern TransportStatus connection_open(Connection *connection, NodeTime wait_until, NodeTime deadline,
									   TransportFailure *failure);
extern void connection_close(Connection *connection);
/* As Transport.set_aside. */
extern void connection_set_aside(Connection *connection);
/* Sends what is unsent and waits for the one result; goes on when called again. */
extern TransportStatus connection_result(Connection *connection, NodeTime deadline, PGresult **result,
										 TransportFailure *failure);
/* Takes over a message of libpq, which ends in a newline and may have several lines. */
extern void connection_note_failure(TransportFailure *failure, const char *message);
extern TransportStatus connection_sleep(Connection *connection, NodeTime until);
extern void connection_wake(Connection *connection);
extern void connection_wake_reset(Connection *connection);

#endif							/* AMORO_CONNECTION_H */
