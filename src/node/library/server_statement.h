/*
 * server_statement.h
 *		What the server is asked: a statement for each kind of request, and its parameters.
 */
#ifndef AMORO_SERVER_STATEMENT_H
#define AMORO_SERVER_STATEMENT_H

#include "server_transport.h"

#define MAX_PARAMETERS 7

typedef struct ServerStatement
{
	const char *name;			/* NULL: too rare to be prepared */
	const char *sql;			/* %s is the schema of the extension */
	int			parameters;
	int			result_format;	/* 0 text, 1 binary */
} ServerStatement;

/* Parameters, and room for the numbers among them. */
typedef struct Parameters
{
	const char *values[MAX_PARAMETERS];
	int			lengths[MAX_PARAMETERS];	/* of those in binary form */
	int			formats[MAX_PARAMETERS];	/* 0 text, 1 binary */
	char		numbers[MAX_PARAMETERS][32];
	char	   *arrays[3];		/* allocated */
} Parameters;

extern const ServerStatement *server_statement(RequestKind kind);
/* False when memory is short; to be freed in either case. */
extern bool parameters_fill(Parameters *parameters, const Registration *registration, const NodeRequest *request,
							const char *detail, const LookupQuestion *question);
extern void parameters_free(Parameters *parameters);

#endif							/* AMORO_SERVER_STATEMENT_H */
