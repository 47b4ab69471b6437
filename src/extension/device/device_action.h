/*
 * device_action.h
 *		What the procedures on devices do in their steps.
 */
#ifndef AMORO_META_DEVICE_ACTION_H
#define AMORO_META_DEVICE_ACTION_H

#include "procedure/procedure_machine.h"

/* device_action.c */
extern ActionResult device_create_mark(Procedure *procedure);
extern ActionResult device_create_commit(Procedure *procedure);

/* device_drop_action.c */
extern ActionResult device_drop_mark(Procedure *procedure);
extern ActionResult device_drop_begin(Procedure *procedure);
extern ActionResult device_drop_continue(Procedure *procedure);

/* device_alter_action.c */
extern ActionResult device_alter_mark(Procedure *procedure);
extern ActionResult device_alter_begin(Procedure *procedure);
extern ActionResult device_alter_continue(Procedure *procedure);

/* device_marker.c */

/*
 * For procedures on a pattern, or on one path, which is the argument "pattern": puts the marker on it, for the readers of
 * all that match, and appends the change that says so. Raises AM401 when a procedure works on one of them, and 42704 when
 * a path has no device.
 */
extern void device_mark_pattern(Procedure *procedure, const char *state);
/* The version of devices of a pattern is that of the marker: the last change comes after many of them are written. */
extern void device_remember_marker_version(const Procedure *procedure);
/* Takes the marker away and appends the change that ends the procedure; changed: how many devices it has worked on. */
extern void device_settle_pattern(Procedure *procedure, const char *operation, int64 changed);

/* Raises AM401 when a procedure works on a pattern that one of the devices in the arguments matches. */
extern void device_require_unmarked(const Procedure *procedure, int64 database_id);
extern void device_raise_in_transition(const Procedure *procedure, const char *device_path, int64 other_procedure_id);
/* The change of a device, or, without a path, of all that may be among those that changed. */
extern MetadataChange device_change(const Procedure *procedure, const char *operation, const char *device_path, int64 device_id);
/* Takes back the markers that the procedure has on devices. */
extern void device_unmark(int64 procedure_id, ChangeList *changes);

#endif							/* AMORO_META_DEVICE_ACTION_H */
