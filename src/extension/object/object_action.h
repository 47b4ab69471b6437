/*
 * object_action.h
 *		What the procedures on databases and tables do in their steps.
 */
#ifndef AMORO_META_OBJECT_ACTION_H
#define AMORO_META_OBJECT_ACTION_H

#include "procedure/procedure_machine.h"

/* database_action.c */
extern ActionResult database_create_mark(Procedure *procedure);
extern ActionResult database_create_commit(Procedure *procedure);
extern ActionResult database_drop_mark(Procedure *procedure);
extern ActionResult database_drop_begin(Procedure *procedure);
extern ActionResult database_drop_continue(Procedure *procedure);
/* Raises 42704 unless the database is there, and AM401 when a procedure works on it. */
extern void database_require_normal(int64 database_id, const char *database_name);
extern void database_unmark(int64 procedure_id, ChangeList *changes);

/* table_action.c */
extern ActionResult table_create_mark(Procedure *procedure);
extern ActionResult table_create_commit(Procedure *procedure);
extern ActionResult table_alter_mark(Procedure *procedure);
extern ActionResult table_alter_commit(Procedure *procedure);
extern ActionResult table_rename_mark(Procedure *procedure);
extern ActionResult table_rename_commit(Procedure *procedure);
extern ActionResult table_drop_mark(Procedure *procedure);
extern ActionResult table_drop_commit(Procedure *procedure);
extern void table_unmark(int64 procedure_id, ChangeList *changes);

/* view_action.c; a view is renamed by table_rename_mark and table_rename_commit */
extern ActionResult view_create_mark(Procedure *procedure);
extern ActionResult view_create_commit(Procedure *procedure);
extern ActionResult view_alter_mark(Procedure *procedure);
extern ActionResult view_alter_commit(Procedure *procedure);
extern ActionResult view_drop_mark(Procedure *procedure);
extern ActionResult view_drop_commit(Procedure *procedure);

/* object_action.c */
extern ActionResult object_finish(Procedure *procedure);
extern ActionResult object_undo_nothing(Procedure *procedure);
/* Takes back every marker of the procedure: what was being created goes, what was there is as before. */
extern ActionResult object_unmark(Procedure *procedure);
/* Collects a change for each row of the last result, which has catalog, database, name (NULL: none), id. */
extern void object_collect_changes(const char *object_kind, const char *operation, ChangeList *changes);
/* The same for functions that take back the markers of a procedure in tables of their own, X_unmark, which are listed in object_action.c. */
extern void object_rolled_back(const char *object_kind, ChangeList *changes);

#endif							/* AMORO_META_OBJECT_ACTION_H */
