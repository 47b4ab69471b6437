/*
 * device_action.h
 *		What the procedures on devices do in their steps.
 */
#ifndef AMORO_META_DEVICE_ACTION_H
#define AMORO_META_DEVICE_ACTION_H

#include "procedure_machine.h"

/* device_action.c */
extern ActionResult device_create_mark(Procedure *procedure);
extern ActionResult device_create_commit(Procedure *procedure);

/* device_marker.c */

/* Raises AM401 when a procedure works on a pattern that one of the devices in the arguments matches. */
extern void device_require_unmarked(const Procedure *procedure, int64 database_id);
extern void device_raise_in_transition(const Procedure *procedure, const char *device_path, int64 other_procedure_id);
/* The change of a device, or, without a path, of all that may be among those that changed. */
extern MetadataChange device_change(const Procedure *procedure, const char *operation, const char *device_path, int64 device_id);
/* Takes back the markers that the procedure has on devices. */
extern void device_unmark(int64 procedure_id, ChangeList *changes);

#endif							/* AMORO_META_DEVICE_ACTION_H */
