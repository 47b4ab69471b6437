/*
 * connection.c
 *		One connection over libpq.
 */
#include "connection.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Milliseconds; a dead peer is noticed by the kernel too, not only by our own deadlines. */
#define USER_TIMEOUT "10000"

/* For the last answer on a connection that was set aside. */
#define LAST_ANSWER_US 250000

/*
 * Where the functions are; whether this is a standby; and whether the session is ours alone: a pooler makes up the
 * process id that it tells its clients. On a session of our own the server is asked to look now and then whether we
 * still live, lest statements of lost connections pile up behind a lock.
 */
static const char identify_sql[] =
	"SELECT n.nspname, s.own, pg_catalog.pg_is_in_recovery(),"
	" CASE WHEN s.own THEN pg_catalog.set_config('client_connection_check_interval', '2000', false) END"
	" FROM (SELECT pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.=) $1::pg_catalog.int4 AS own) s"
	" LEFT JOIN (pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n"
	" ON n.oid OPERATOR(pg_catalog.=) e.extnamespace AND e.extname OPERATOR(pg_catalog.=) 'amoro_meta') ON true";

bool
connection_init(Connection *connection, const char *conninfo, const char *application_name,
				const NodeClock *clock, char *error, size_t error_size)
{
	memset(connection, 0, sizeof(*connection));
	connection->clock = clock;
	connection->wake_fd = -1;
	if (!hosts_read(&connection->hosts, conninfo, error, error_size))
		return false;
	connection->conninfo = conninfo;
	connection->application_name = strdup(application_name);
	connection->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (connection->wake_fd < 0 || connection->application_name == NULL)
	{
		if (error_size > 0)
			snprintf(error, error_size, "out of memory or file descriptors");
		connection_destroy(connection);
		return false;
	}
	return true;
}

void
connection_destroy(Connection *connection)
{
	connection_close(connection);
	hosts_free(&connection->hosts);
	free(connection->application_name);
	if (connection->wake_fd >= 0)
		close(connection->wake_fd);
	connection->wake_fd = -1;
}

void
connection_wake(Connection *connection)
{
	uint64_t	one = 1;

	if (write(connection->wake_fd, &one, sizeof(one)) < 0)
		return;					/* already readable, which is all that is wanted */
}

void
connection_wake_reset(Connection *connection)
{
	uint64_t	count;

	if (read(connection->wake_fd, &count, sizeof(count)) < 0)
		return;					/* was not woken */
}

/* Waits for the socket (fd < 0: for none), a wake, or the time. */
static TransportStatus
wait_for(Connection *connection, int fd, short events, NodeTime until)
{
	struct pollfd fds[2] = {{.fd = connection->wake_fd, .events = POLLIN}, {.fd = fd, .events = events}};

	for (;;)
	{
		NodeTime	left = until == NODE_TIME_NEVER ? 0 : until - clock_now(connection->clock);
		int			timeout = until == NODE_TIME_NEVER ? -1 : left <= 0 ? 0 : left > 3600000000 ? 3600000
			: (int) ((left + 999) / 1000);
		int			ready = poll(fds, fd >= 0 ? 2 : 1, timeout);

		if (ready < 0 && errno != EINTR)
			return TRANSPORT_BROKEN;
		if (ready > 0)
			return fds[0].revents != 0 ? TRANSPORT_WOKEN : TRANSPORT_DONE;
		if (ready == 0 && left <= 0 && timeout >= 0)
			return TRANSPORT_TIMED_OUT;
	}
}

TransportStatus
connection_sleep(Connection *connection, NodeTime until)
{
	return wait_for(connection, -1, 0, until);
}

/* Ends the present connection, or the attempt to make one. */
static void
close_current(Connection *connection)
{
	/* Given up though it worked: it may be a primary that was deposed, and would take us again. */
	if (connection->stage == CONNECTION_READY)
		connection->host_index = (connection->host_index + 1) % connection->hosts.count;
	PQclear(connection->result);
	connection->result = NULL;
	PQfinish(connection->conn);
	connection->conn = NULL;
	connection->stage = CONNECTION_CLOSED;
	connection->prepared = connection->preparing = 0;
	connection->hosts_tried = 0;
}

/* Ends the connection that was set aside, once its answer is there or has taken too long. */
static void
finish_aside(Connection *connection)
{
	NodeTime	deadline = clock_now(connection->clock) + LAST_ANSWER_US;
	PGconn	   *aside = connection->aside;

	while (aside != NULL && PQisBusy(aside) &&
		   wait_for(connection, PQsocket(aside), POLLIN, deadline) == TRANSPORT_DONE)
	{
		if (!PQconsumeInput(aside))
			break;
	}
	PQfinish(aside);
	connection->aside = NULL;
}

void
connection_set_aside(Connection *connection)
{
	if (connection->stage == CONNECTION_READY && PQtransactionStatus(connection->conn) == PQTRANS_ACTIVE)
	{
		finish_aside(connection);
		connection->aside = connection->conn;
		connection->conn = NULL;
		connection->stage = CONNECTION_CONNECTING;	/* no reason to try another host */
	}
	close_current(connection);
}

void
connection_close(Connection *connection)
{
	close_current(connection);
	finish_aside(connection);
}

void
connection_note_failure(TransportFailure *failure, const char *message)
{
	snprintf(failure->message, sizeof(failure->message), "%s", message);
	for (char *c = failure->message; *c != '\0'; c++)
	{
		if (*c == '\n' || *c == '\t')
			*c = c[1] == '\0' ? '\0' : ' ';
	}
}

/* What a server says beside its answers goes nowhere, above all not to the standard error of our program. */
static void
ignore_notice(void *argument, const char *message)
{
}

static void
start_host(Connection *connection, NodeTime deadline, TransportFailure *failure)
{
	const Hosts *hosts = &connection->hosts;
	const Host *host = &hosts->hosts[connection->host_index];
	NodeTime	now = clock_now(connection->clock);
	const char *keywords[16];
	const char *values[16];
	int			n = 0;

#define ADD(keyword, value) (keywords[n] = (keyword), values[n++] = (value))
	ADD("fallback_application_name", connection->application_name);
	ADD("dbname", connection->conninfo);
	if (hosts->count > 1)
	{
		ADD("host", host->host ? host->host : "");
		ADD("hostaddr", host->hostaddr ? host->hostaddr : "");
		ADD("port", host->port ? host->port : "");
	}
	if (hosts->wants_read_write)
		ADD("target_session_attrs", "read-write");
	if (hosts->wants_keepalives)
	{
		ADD("keepalives_idle", "5");
		ADD("keepalives_interval", "2");
		ADD("keepalives_count", "3");
	}
	if (hosts->wants_user_timeout)
		ADD("tcp_user_timeout", USER_TIMEOUT);
	ADD("client_encoding", "UTF8");
	ADD(NULL, NULL);
#undef ADD

	connection->conn = PQconnectStartParams(keywords, values, 1);
	PQsetNoticeProcessor(connection->conn, ignore_notice, NULL);
	connection->stage = CONNECTION_CONNECTING;
	connection->polling = PGRES_POLLING_WRITING;
	/* what is left of the time is shared by the hosts that are left */
	connection->host_deadline = now + (deadline - now) / (hosts->count - connection->hosts_tried);
	if (connection->conn == NULL || PQstatus(connection->conn) == CONNECTION_BAD)
	{
		connection_note_failure(failure, connection->conn ? PQerrorMessage(connection->conn) : "out of memory");
		connection->polling = PGRES_POLLING_FAILED;
	}
}

static TransportStatus
send_identify(Connection *connection, TransportFailure *failure)
{
	char		pid[16];
	const char *values[1] = {pid};

	snprintf(pid, sizeof(pid), "%d", PQbackendPID(connection->conn));
	if (PQsetnonblocking(connection->conn, 1) != 0 ||
		!PQsendQueryParams(connection->conn, identify_sql, 1, NULL, values, NULL, NULL, 0))
	{
		connection_note_failure(failure, PQerrorMessage(connection->conn));
		return TRANSPORT_BROKEN;
	}
	connection->stage = CONNECTION_IDENTIFYING;
	return TRANSPORT_DONE;
}

static TransportStatus
go_on_connecting(Connection *connection, NodeTime until, TransportFailure *failure)
{
	TransportStatus status = TRANSPORT_DONE;

	while (connection->polling == PGRES_POLLING_READING || connection->polling == PGRES_POLLING_WRITING)
	{
		short		events = connection->polling == PGRES_POLLING_READING ? POLLIN : POLLOUT;

		status = wait_for(connection, PQsocket(connection->conn), events, until);
		if (status != TRANSPORT_DONE)
			return status;
		connection->polling = PQconnectPoll(connection->conn);
		if (connection->polling == PGRES_POLLING_FAILED)
			connection_note_failure(failure, PQerrorMessage(connection->conn));
	}
	if (connection->polling == PGRES_POLLING_FAILED)
		return TRANSPORT_BROKEN;
	return send_identify(connection, failure);
}

static TransportStatus
take_identity(Connection *connection, PGresult *result, TransportFailure *failure)
{
	char	   *quoted;

	if (PQgetvalue(result, 0, 2)[0] == 't')
	{
		connection_note_failure(failure, "the server is a standby");
		return TRANSPORT_BROKEN;
	}
	if (PQgetisnull(result, 0, 0))
	{
		snprintf(failure->message, sizeof(failure->message),
				 "the extension amoro_meta is not installed in database \"%.150s\"", PQdb(connection->conn));
		return TRANSPORT_BROKEN;
	}
	quoted = PQescapeIdentifier(connection->conn, PQgetvalue(result, 0, 0), strlen(PQgetvalue(result, 0, 0)));
	if (quoted == NULL)
	{
		connection_note_failure(failure, PQerrorMessage(connection->conn));
		return TRANSPORT_BROKEN;
	}
	snprintf(connection->schema, sizeof(connection->schema), "%s.", quoted);
	PQfreemem(quoted);
	/* once behind a pooler, always: it may be found out late, by the statements that it loses */
	if (PQgetvalue(result, 0, 1)[0] != 't')
		connection->pooled = true;
	connection->stage = CONNECTION_READY;
	return TRANSPORT_DONE;
}

static TransportStatus
go_on_identifying(Connection *connection, NodeTime until, TransportFailure *failure)
{
	PGresult   *result;
	TransportStatus status = connection_result(connection, until, &result, failure);

	if (status == TRANSPORT_DONE)
	{
		status = take_identity(connection, result, failure);
		PQclear(result);
	}
	return status == TRANSPORT_REFUSED ? TRANSPORT_BROKEN : status;
}

/* One stage further with the present host; TRANSPORT_BROKEN: it will not do. */
static TransportStatus
advance(Connection *connection, NodeTime until, NodeTime deadline, TransportFailure *failure)
{
	TransportStatus status;

	if (connection->stage == CONNECTION_CLOSED)
		start_host(connection, deadline, failure);
	until = until < connection->host_deadline ? until : connection->host_deadline;
	if (connection->stage == CONNECTION_CONNECTING)
		status = go_on_connecting(connection, until, failure);
	else
		status = go_on_identifying(connection, until, failure);
	if (status == TRANSPORT_TIMED_OUT && clock_now(connection->clock) >= connection->host_deadline)
	{
		connection_note_failure(failure, "no connection to the server in time");
		return TRANSPORT_BROKEN;
	}
	return status;
}

TransportStatus
connection_open(Connection *connection, NodeTime wait_until, NodeTime deadline, TransportFailure *failure)
{
	while (connection->stage != CONNECTION_READY)
	{
		TransportStatus status = advance(connection, wait_until, deadline, failure);

		if (status == TRANSPORT_BROKEN)
		{
			int			tried = connection->hosts_tried + 1;

			close_current(connection);
			connection->host_index = (connection->host_index + 1) % connection->hosts.count;
			if (tried >= connection->hosts.count)
				return TRANSPORT_BROKEN;
			connection->hosts_tried = tried;
		}
		else if (status != TRANSPORT_DONE)
			return status;
	}
	connection->hosts_tried = 0;
	return TRANSPORT_DONE;
}

/* Waits for the socket once: sends what is unsent, takes what has come. */
static TransportStatus
exchange(Connection *connection, NodeTime deadline, TransportFailure *failure)
{
	PGconn	   *conn = connection->conn;
	int			unsent = PQflush(conn);
	TransportStatus status = TRANSPORT_BROKEN;

	if (unsent >= 0)
		status = wait_for(connection, PQsocket(conn), unsent > 0 ? POLLIN | POLLOUT : POLLIN, deadline);
	if (status == TRANSPORT_DONE && !PQconsumeInput(conn))
		status = TRANSPORT_BROKEN;
	if (status == TRANSPORT_BROKEN)
		connection_note_failure(failure, PQerrorMessage(conn));
	return status;
}

/* What a complete result says. */
static TransportStatus
read_result(Connection *connection, const PGresult *result, TransportFailure *failure)
{
	ExecStatusType status = PQresultStatus(result);
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	const char *hint = PQresultErrorField(result, PG_DIAG_MESSAGE_HINT);

	if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK)
		return TRANSPORT_DONE;
	connection_note_failure(failure, message ? message : PQresultErrorMessage(result));
	if (hint != NULL)
	{
		size_t		used = strlen(failure->message);

		snprintf(failure->message + used, sizeof(failure->message) - used, " (%s)", hint);
	}
	if (sqlstate == NULL || PQstatus(connection->conn) == CONNECTION_BAD)
		return TRANSPORT_BROKEN;
	snprintf(failure->sqlstate, sizeof(failure->sqlstate), "%s", sqlstate);
	return TRANSPORT_REFUSED;
}

TransportStatus
connection_result(Connection *connection, NodeTime deadline, PGresult **result, TransportFailure *failure)
{
	TransportStatus status;
	PGresult   *next;

	*result = NULL;
	do
	{
		while (PQisBusy(connection->conn))
		{
			status = exchange(connection, deadline, failure);
			if (status == TRANSPORT_BROKEN && connection->result != NULL)
				read_result(connection, connection->result, failure);	/* the server said why it went */
			if (status != TRANSPORT_DONE)
				return status;
		}
		next = PQgetResult(connection->conn);
		if (next != NULL)
		{
			PQclear(connection->result);
			connection->result = next;
		}
	} while (next != NULL);

	*result = connection->result;
	connection->result = NULL;
	if (*result == NULL)
	{
		connection_note_failure(failure, PQerrorMessage(connection->conn));
		return TRANSPORT_BROKEN;
	}
	status = read_result(connection, *result, failure);
	if (status != TRANSPORT_DONE)
	{
		PQclear(*result);
		*result = NULL;
	}
	return status;
}
