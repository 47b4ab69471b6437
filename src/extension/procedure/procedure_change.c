/*
 * procedure_change.c
 *		The changes that a step appends to the metadata log.
 */
#include "postgres.h"

#include "procedure/procedure_machine.h"

/* See procedure_machine.h. */
void
procedure_append(Procedure *procedure, MetadataChange *changes, int count)
{
	for (int i = 0; i < count; i++)
		changes[i].procedure_id = procedure->procedure_id;
	procedure->appended_version = change_append(changes, count);
}

/* See procedure_machine.h. */
void
procedure_append_one(Procedure *procedure, MetadataChange change)
{
	procedure_append(procedure, &change, 1);
}

void
change_list_add(ChangeList *list, MetadataChange change)
{
	if (list->count == list->room)
	{
		list->room = Max(16, 2 * list->room);
		list->changes = list->changes == NULL ? palloc_array(MetadataChange, list->room) :
			repalloc_array(list->changes, MetadataChange, list->room);
	}
	list->changes[list->count++] = change;
}

/* See procedure_machine.h. */
void
procedure_append_list(Procedure *procedure, ChangeList *list)
{
	if (list->count > 0)
		procedure_append(procedure, list->changes, list->count);
}
