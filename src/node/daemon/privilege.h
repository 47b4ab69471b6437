/*
 * privilege.h
 *		Whether a user may do something, over HTTP: /v1/privileges/USER?privilege=…&catalog=…
 */
#ifndef AMORO_PRIVILEGE_H
#define AMORO_PRIVILEGE_H

#include <h2o.h>

#include "amoro_node.h"

typedef struct PrivilegeQuestion
{
	AmoroPrivilege privilege;
	AmoroScope	scope;
} PrivilegeQuestion;

/*
 * Reads the query of a request into a question in the request's memory. NULL: it has been answered, because the query
 * asks for nothing that could be had.
 */
extern const PrivilegeQuestion *privilege_read_question(h2o_req_t *request);
/* Begins the answer, {"allowed":…}, from what was found of the user. */
extern h2o_iovec_t privilege_begin_answer(h2o_req_t *request, const PrivilegeQuestion *question, const AmoroEntry *entry);

#endif							/* AMORO_PRIVILEGE_H */
