/*
 * ttl_action.h
 *		What set_ttl and unset_ttl do in their step.
 */
#ifndef AMORO_META_TTL_ACTION_H
#define AMORO_META_TTL_ACTION_H

#include "procedure/procedure_machine.h"

/* Arguments: database_id; table_id or path_pattern, or neither for the database itself; ttl_ms, none takes it away. */
extern ActionResult ttl_commit(Procedure *procedure);

#endif							/* AMORO_META_TTL_ACTION_H */
