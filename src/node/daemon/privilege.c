/*
 * privilege.c
 *		Whether a user may do something, over HTTP.
 */
#include "privilege.h"

#include <stdbool.h>

#include "http_answer.h"
#include "query.h"

static const char *const parameters[] = {"privilege", "catalog", "database", "table", "path"};

enum
{
	PARAMETER_COUNT = sizeof(parameters) / sizeof(parameters[0])
};

const PrivilegeQuestion *
privilege_read_question(h2o_req_t *request)
{
	const char *values[PARAMETER_COUNT] = {NULL};
	PrivilegeQuestion *question = h2o_mem_alloc_pool(&request->pool, sizeof(*question));

	if (!query_read(request, parameters, PARAMETER_COUNT, values))
		return NULL;
	question->scope = (AmoroScope) {values[1], values[2], values[3], values[4]};
	if (values[0] == NULL)
		query_refuse(request, "privilege", "is not given");
	else if (!amoro_privilege_parse(values[0], &question->privilege))
		query_refuse(request, "privilege", "is none that there is");
	else if (!amoro_scope_is_valid(&question->scope))
		query_refuse(request, "the scope", "is none: a database needs its catalog, a table or a path (which begins with root) both");
	else if (!amoro_privilege_fits(question->privilege, &question->scope))
		query_refuse(request, "privilege", "cannot be had on a scope of this kind");
	else
		return question;
	return NULL;
}

h2o_iovec_t
privilege_begin_answer(h2o_req_t *request, const PrivilegeQuestion *question, const AmoroEntry *entry)
{
	bool		allowed = entry != NULL && amoro_privilege_allowed(entry, question->privilege, &question->scope) == AMORO_OK;

	http_answer_begin(request, 200);
	h2o_add_header(&request->pool, &request->res.headers, H2O_TOKEN_CONTENT_TYPE, NULL, H2O_STRLIT("application/json"));
	return allowed ? h2o_iovec_init(H2O_STRLIT("{\"allowed\":true}")) : h2o_iovec_init(H2O_STRLIT("{\"allowed\":false}"));
}
