/*
 * object_action.c
 *		The steps that are the same for databases and tables.
 */
#include "postgres.h"

#include "object_action.h"
#include "procedure_sql.h"

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

/* Collects a change for each row of the last result: catalog, database, table name (or NULL), id. */
static int
rollback_changes(const char *object_kind, MetadataChange *changes)
{
	for (uint64 row = 0; row < SPI_processed; row++)
		changes[row] = (MetadataChange) {
			.object_kind = object_kind,
			.operation = "rollback",
			.catalog_name = result_text(row, 1),
			.database_name = result_text(row, 2),
			.table_name = result_text(row, 3),
			.object_id = result_bigint(row, 4)
		};
	return (int) SPI_processed;
}

/*
 * object_unmark takes back every marker of the procedure. It looks for the markers
 * and not at the arguments, so that it works for a procedure that cannot be read.
 */
ActionResult
object_unmark(Procedure *procedure)
{
	SqlArgument id = sql_bigint(procedure->procedure_id);
	MetadataChange *changes;
	int			count;

	procedure_sql("SELECT c.catalog_name, d.database_name, t.table_name, t.table_id"
				  " FROM amoro_meta.table_metadata t"
				  " JOIN amoro_meta.database d USING (database_id)"
				  " JOIN amoro_meta.catalog c USING (catalog_id)"
				  " WHERE t.procedure_id = $1 ORDER BY t.table_id FOR UPDATE OF t",
				  SPI_OK_SELECT, 1, &id);
	changes = palloc_array(MetadataChange, SPI_processed);
	count = rollback_changes("table", changes);

	procedure_sql("SELECT c.catalog_name, d.database_name, NULL::text, d.database_id"
				  " FROM amoro_meta.database d JOIN amoro_meta.catalog c USING (catalog_id)"
				  " WHERE d.procedure_id = $1 ORDER BY d.database_id FOR UPDATE OF d",
				  SPI_OK_SELECT, 1, &id);
	changes = repalloc(changes, sizeof(MetadataChange) * (count + SPI_processed));
	count += rollback_changes("database", changes + count);

	procedure_sql("DELETE FROM amoro_meta.table_metadata WHERE procedure_id = $1 AND state = 'pre_create'",
				  SPI_OK_DELETE, 1, &id);
	procedure_sql("UPDATE amoro_meta.table_metadata SET state = 'normal', procedure_id = NULL WHERE procedure_id = $1",
				  SPI_OK_UPDATE, 1, &id);
	procedure_sql("DELETE FROM amoro_meta.database WHERE procedure_id = $1 AND state = 'pre_create'",
				  SPI_OK_DELETE, 1, &id);
	procedure_sql("UPDATE amoro_meta.database SET state = 'normal', procedure_id = NULL WHERE procedure_id = $1",
				  SPI_OK_UPDATE, 1, &id);
	if (count > 0)
		procedure_append(procedure, changes, count);
	return ACTION_NEXT;
}
