/*
 * node_action.h
 *		What remove_node does in its steps.
 */
#ifndef AMORO_META_NODE_ACTION_H
#define AMORO_META_NODE_ACTION_H

#include "procedure/procedure_machine.h"

extern ActionResult node_remove_mark(Procedure *procedure);
extern ActionResult node_remove_undo(Procedure *procedure);
extern ActionResult node_remove_commit(Procedure *procedure);
extern ActionResult node_remove_forget(Procedure *procedure);

#endif							/* AMORO_META_NODE_ACTION_H */
