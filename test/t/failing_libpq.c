/*
 * failing_libpq.c
 *		Preloaded into amoro-node: one call of libpq fails, as the manual of libpq says that it can.
 *
 * The file $AMORO_FAILING_LIBPQ holds four numbers of four bytes, which a test reads and changes while the node runs:
 * which function is meant (its place in the list below from 1, or 0: any), which of its calls is to fail (from 1, or 0:
 * none), how many calls there were, and how many failed. The call that fails does not reach libpq.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <libpq-fe.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

typedef struct Control
{
	_Atomic int32_t function;
	_Atomic int32_t call;
	_Atomic int32_t calls;
	_Atomic int32_t failed;
} Control;

static Control *control;

__attribute__((constructor)) static void
map_control(void)
{
	const char *file = getenv("AMORO_FAILING_LIBPQ");
	int			descriptor = file != NULL ? open(file, O_RDWR | O_CLOEXEC) : -1;
	void	   *address = mmap(NULL, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);

	if (address == MAP_FAILED)
		abort();
	control = address;
}

static bool
fails(int32_t function)
{
	int32_t		meant = atomic_load(&control->function);

	if ((meant != 0 && meant != function) || atomic_fetch_add(&control->calls, 1) + 1 != atomic_load(&control->call))
		return false;
	atomic_fetch_add(&control->failed, 1);
	return true;
}

/* A function of libpq: its place in the list, result, name, parameters, arguments, and the result of a failure. */
#define FUNCTION(place, type, name, parameters, arguments, failure) \
	type name parameters \
	{ \
		type (*original) parameters; \
		if (fails(place)) \
			return failure; \
		*(void **) &original = dlsym(RTLD_NEXT, #name); \
		return original arguments; \
	}

FUNCTION(1, PGconn *, PQconnectStartParams, (const char *const *keywords, const char *const *values, int expand),
		 (keywords, values, expand), NULL)
FUNCTION(2, PostgresPollingStatusType, PQconnectPoll, (PGconn *conn), (conn), PGRES_POLLING_FAILED)
FUNCTION(3, ConnStatusType, PQstatus, (const PGconn *conn), (conn), CONNECTION_BAD)
FUNCTION(4, int, PQsocket, (const PGconn *conn), (conn), -1)
FUNCTION(5, int, PQsetnonblocking, (PGconn *conn, int on), (conn, on), -1)
FUNCTION(6, int, PQsendQueryParams,
		 (PGconn *conn, const char *command, int n, const Oid *types, const char *const *values, const int *lengths,
		  const int *formats, int format),
		 (conn, command, n, types, values, lengths, formats, format), 0)
FUNCTION(7, int, PQsendPrepare, (PGconn *conn, const char *name, const char *query, int n, const Oid *types),
		 (conn, name, query, n, types), 0)
FUNCTION(8, int, PQsendQueryPrepared,
		 (PGconn *conn, const char *name, int n, const char *const *values, const int *lengths, const int *formats,
		  int format),
		 (conn, name, n, values, lengths, formats, format), 0)
FUNCTION(9, int, PQflush, (PGconn *conn), (conn), -1)
FUNCTION(10, int, PQconsumeInput, (PGconn *conn), (conn), 0)
FUNCTION(11, PGresult *, PQgetResult, (PGconn *conn), (conn), NULL)
FUNCTION(12, ExecStatusType, PQresultStatus, (const PGresult *result), (result), PGRES_FATAL_ERROR)
FUNCTION(13, char *, PQescapeIdentifier, (PGconn *conn, const char *text, size_t length), (conn, text, length), NULL)
FUNCTION(14, PQconninfoOption *, PQconninfoParse, (const char *conninfo, char **error), (conninfo, error), NULL)
FUNCTION(15, PQconninfoOption *, PQconninfo, (PGconn *conn), (conn), NULL)
FUNCTION(16, PGTransactionStatusType, PQtransactionStatus, (const PGconn *conn), (conn), PQTRANS_UNKNOWN)
