/*
 * authority_action.h
 *		What the procedures on users, roles and privileges do in their steps.
 */
#ifndef AMORO_META_AUTHORITY_ACTION_H
#define AMORO_META_AUTHORITY_ACTION_H

#include "procedure/procedure_machine.h"

/* The one step that changes anything; the next waits until every node knows. */
extern ActionResult authority_commit(Procedure *procedure);
/* Nothing was changed yet. */
extern ActionResult authority_undo(Procedure *procedure);
/* Of a procedure that cannot be read. */
extern void authority_unmark(int64 procedure_id, ChangeList *changes);

#endif							/* AMORO_META_AUTHORITY_ACTION_H */
