/*
 * template_action.h
 *		What the procedures on templates of devices do in their steps.
 */
#ifndef AMORO_META_TEMPLATE_ACTION_H
#define AMORO_META_TEMPLATE_ACTION_H

#include "procedure/procedure_machine.h"

/* template_action.c */
extern ActionResult template_create_commit(Procedure *procedure);
extern ActionResult template_alter_mark(Procedure *procedure);
extern ActionResult template_alter_commit(Procedure *procedure);
extern ActionResult template_drop_commit(Procedure *procedure);
/* Takes back the markers that the procedure has on templates. */
extern void template_unmark(int64 procedure_id, ChangeList *changes);

/* template_path_action.c */
extern ActionResult template_set_commit(Procedure *procedure);
extern ActionResult template_unset_commit(Procedure *procedure);

/* template_activation.c */
extern ActionResult template_activate_mark(Procedure *procedure);
extern ActionResult template_activate_commit(Procedure *procedure);
extern ActionResult template_deactivate_mark(Procedure *procedure);
extern ActionResult template_deactivate_begin(Procedure *procedure);
extern ActionResult template_deactivate_continue(Procedure *procedure);

/* template_row.c */

/*
 * Locks a template that no procedure works on and returns its definition, here to the end of the transaction. Raises
 * 42704 when it is gone and AM401 when another procedure works on it.
 */
extern Jsonb *template_lock_normal(const Procedure *procedure, int64 template_id);
/* Raises AM401 when a procedure is activating the template, for as long as it is not done. */
extern void template_require_no_activation(const Procedure *procedure, int64 template_id);
/* Appends a change of the template of the procedure: nodes forget all devices of the database. */
extern void template_append_change(Procedure *procedure, const char *operation);
/* Raises AM401 when a procedure works on a template that is active on a device that matches. */
extern void template_require_none_in_transition(const Procedure *procedure, int64 database_id, const char *pattern);

#endif							/* AMORO_META_TEMPLATE_ACTION_H */
