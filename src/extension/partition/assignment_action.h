/*
 * assignment_action.h
 *		What the procedures do that give buckets of services, and slots of databases, to nodes.
 */
#ifndef AMORO_META_ASSIGNMENT_ACTION_H
#define AMORO_META_ASSIGNMENT_ACTION_H

#include "procedure/procedure_machine.h"

/* The change of one slot or bucket, or (part NULL) the one that stands for all that the procedure is about. */
typedef MetadataChange (*AssignmentChange) (const Procedure *procedure, const char *operation, const char *part);

/* assignment_change.c */
/* Appends a change for each slot or bucket in the last result, or one for all; none when there is none. */
extern void assignment_append_changes(Procedure *procedure, const char *operation, AssignmentChange change_of);

/* bucket_action.c */
extern ActionResult bucket_create(Procedure *procedure);
extern ActionResult bucket_release(Procedure *procedure);
extern ActionResult bucket_hand_over(Procedure *procedure);
extern ActionResult bucket_alter_release(Procedure *procedure);
extern ActionResult bucket_alter_commit(Procedure *procedure);
extern ActionResult bucket_drop_mark(Procedure *procedure);
extern ActionResult bucket_drop_commit(Procedure *procedure);
/* See object_rolled_back. */
extern void bucket_unmark(int64 procedure_id, ChangeList *changes);

/* partition_action.c */
extern ActionResult partition_create(Procedure *procedure);
extern ActionResult partition_move_release(Procedure *procedure);
extern ActionResult partition_balance_release(Procedure *procedure);
extern ActionResult partition_hand_over(Procedure *procedure);
extern ActionResult partition_alter_release(Procedure *procedure);
extern ActionResult partition_alter_commit(Procedure *procedure);
extern ActionResult partition_drop_mark(Procedure *procedure);
extern ActionResult partition_drop_commit(Procedure *procedure);
extern void partition_unmark(int64 procedure_id, ChangeList *changes);

#endif							/* AMORO_META_ASSIGNMENT_ACTION_H */
