/*
 * bench_connection.h
 *		For the benches: connections of a driver that ends at the first error, and its clock.
 */
#ifndef BENCH_CONNECTION_H
#define BENCH_CONNECTION_H

#include <errno.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline void
fail(const char *what, PGconn *connection)
{
	fprintf(stderr, "%s: %s\n", what, connection != NULL ? PQerrorMessage(connection) : strerror(errno));
	exit(1);
}

static inline double
now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

static inline PGresult *
run(PGconn *connection, const char *statement)
{
	PGresult   *result = PQexec(connection, statement);
	ExecStatusType status = PQresultStatus(result);

	if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
		fail(statement, connection);
	return result;
}

static inline PGconn *
connect_to(const char *conninfo)
{
	PGconn	   *connection = PQconnectdb(conninfo);

	if (PQstatus(connection) != CONNECTION_OK)
		fail("connection", connection);
	return connection;
}

#endif							/* BENCH_CONNECTION_H */
