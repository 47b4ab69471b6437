/*
 * object_action.c
 *		The steps that are the same for databases and tables.
 */
#include "postgres.h"

#include "authority/authority_action.h"
#include "device/device_action.h"
#include "device/template_action.h"
#include "object/object_action.h"
#include "partition/assignment_action.h"
#include "procedure/procedure_sql.h"

ActionResult
object_finish(Procedure *procedure)
{
	return ACTION_NEXT;
}

ActionResult
object_undo_nothing(Procedure *procedure)
{
	return ACTION_NEXT;
}

/* See the header. */
void
object_collect_changes(const char *object_kind, const char *operation, ChangeList *changes)
{
	for (uint64 row = 0; row < SPI_processed; row++)
	{
		MetadataChange change = {
			.object_kind = object_kind,
			.operation = operation,
			.catalog_name = result_text(row, 1),
			.database_name = result_text(row, 2),
			.table_name = result_text(row, 3),
			.object_id = result_bigint(row, 4)
		};

		change_list_add(changes, change);
	}
}

/* See the header. */
void
object_rolled_back(const char *object_kind, ChangeList *changes)
{
	object_collect_changes(object_kind, "rollback", changes);
}

/* Whoever has tables with markers has a line here, in the order of the locks: from the database to what is in it. */
static void (*const unmark_functions[]) (int64 procedure_id, ChangeList *changes) = {
	database_unmark,
	table_unmark,
	authority_unmark,
	template_unmark,
	device_unmark,
	bucket_unmark,
	partition_unmark,
};

/*
 * object_unmark takes back every marker of the procedure. It looks for the markers
 * and not at the arguments, so that it works for a procedure that cannot be read.
 */
ActionResult
object_unmark(Procedure *procedure)
{
	ChangeList	changes = {0};

	for (int i = 0; i < lengthof(unmark_functions); i++)
		unmark_functions[i] (procedure->procedure_id, &changes);
	procedure_append_list(procedure, &changes);
	return ACTION_NEXT;
}
