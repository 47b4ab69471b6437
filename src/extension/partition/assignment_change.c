/*
 * assignment_change.c
 *		What is logged of slots and buckets that change their nodes.
 */
#include "postgres.h"

#include "partition/assignment_action.h"
#include "procedure/procedure_sql.h"

/* Of more, one change is logged that stands for all. */
#define MOST_CHANGES 100

/* See assignment_action.h. */
void
assignment_append_changes(Procedure *procedure, const char *operation, AssignmentChange change_of)
{
	ChangeList	changes = {0};

	if (SPI_processed > MOST_CHANGES)
		change_list_add(&changes, change_of(procedure, operation, NULL));
	else
		for (uint64 row = 0; row < SPI_processed; row++)
			change_list_add(&changes, change_of(procedure, operation, result_text(row, 1)));
	procedure_append_list(procedure, &changes);
}
