/*
 * device_batch.c
 *		All devices of a pattern, some at a time, by the steps of one procedure.
 */
#include "postgres.h"

#include "device/device_batch.h"
#include "device/device_path.h"
#include "miscadmin.h"
#include "object/database_content.h"
#include "procedure/procedure_sql.h"
#include "utils/memutils.h"

/* See device_batch.h. */
DeviceBatch
device_batch(const Procedure *procedure, int64 database_id, const char *pattern, const char *cursor)
{
	DeviceBatch batch = {.database_id = database_id, .pattern = pattern, .cursor = cursor, .limit = DEVICE_BATCH};
	char	   *reached = argument_optional_text(procedure, cursor);

	device_path_range(pattern, &batch.from, &batch.to);
	if (reached != NULL)
		batch.from = reached;
	return batch;
}

/* Remembers that everything up to and with a path is done. */
static void
remember(const Procedure *procedure, DeviceBatch *batch, const char *last_path)
{
	batch->from = device_path_after(last_path);

	SqlArgument arguments[] = {
		sql_bigint(procedure->procedure_id), sql_text(batch->cursor), sql_text(batch->from)
	};

	procedure_sql("UPDATE amoro_meta.procedure SET arguments = arguments || jsonb_build_object($2, $3)"
				  " WHERE procedure_id = $1",
				  SPI_OK_UPDATE, lengthof(arguments), arguments);
}

/* See device_batch.h. */
int
device_batch_scan(const Procedure *procedure, DeviceBatch *batch)
{
	SqlArgument arguments[] = {
		sql_bigint(batch->database_id), sql_text(batch->from), sql_text(batch->to), sql_bigint(batch->limit),
		sql_text(batch->pattern), sql_optional_id(batch->template_id)
	};
	int			count;
	char	   *last_path = NULL;

	procedure_sql_along_index("SELECT s.device_id, s.device_path,"
							  " coalesce($6 = s.template_id, $6 IS NULL) AND amoro_meta.device_paths_overlap($5, s.device_path) FROM"
							  " (SELECT v.device_id, v.device_path, v.template_id FROM amoro_meta.device v"
							  "  WHERE v.database_id = $1 AND v.device_path ~>=~ $2 AND v.device_path ~<~ $3"
							  "  ORDER BY v.device_path USING ~<~ LIMIT $4) s",
							  SPI_OK_SELECT, lengthof(arguments), arguments);
	count = (int) SPI_processed;
	batch->matched = 0;
	batch->ids = palloc_array(int64, count);
	batch->paths = palloc_array(char *, count);
	for (int i = 0; i < count; i++)
	{
		last_path = result_text(i, 2);
		if (!result_boolean(i, 3))
			continue;
		batch->ids[batch->matched] = result_bigint(i, 1);
		batch->paths[batch->matched++] = last_path;
	}
	if (count > 0)
		remember(procedure, batch, last_path);
	return count;
}

/* See device_batch.h. */
int
device_batch_delete(const Procedure *procedure, DeviceBatch *batch)
{
	SqlArgument arguments[] = {
		sql_bigint(batch->database_id), sql_text(batch->from), sql_text(batch->to), sql_bigint(batch->limit),
		sql_text(batch->pattern)
	};
	int			count;

	procedure_sql_along_index("WITH scanned AS MATERIALIZED"
							  " (SELECT v.device_id, v.device_path FROM amoro_meta.device v"
							  "  WHERE v.database_id = $1 AND v.device_path ~>=~ $2 AND v.device_path ~<~ $3"
							  "  ORDER BY v.device_path USING ~<~ LIMIT $4),"
							  " gone AS"
							  " (DELETE FROM amoro_meta.device v USING scanned s"
							  "  WHERE v.device_id = s.device_id AND amoro_meta.device_paths_overlap($5, s.device_path) RETURNING 1)"
							  " SELECT (SELECT count(*) FROM scanned), (SELECT count(*) FROM gone),"
							  " (SELECT s.device_path FROM scanned s OFFSET greatest((SELECT count(*) FROM scanned) - 1, 0) LIMIT 1)",
							  SPI_OK_SELECT, lengthof(arguments), arguments);
	count = (int) result_bigint(0, 1);
	batch->matched = (int) result_bigint(0, 2);
	if (count > 0)
		remember(procedure, batch, result_text(0, 3));
	return count;
}

/* An error that says which device it is about. */
static void
raise_of_device(const char *device_path, MemoryContext context)
{
	ErrorData  *error;

	MemoryContextSwitchTo(context);
	error = CopyErrorData();
	FlushErrorState();
	error->detail = psprintf("%s%sThe device is \"%s\".", error->detail ? error->detail : "", error->detail ? " " : "",
							 device_path);
	ReThrowError(error);
}

/*
 * device_batch_work works on those that a scan found, each in memory of its own: definitions may be large.
 */
void
device_batch_work(const Procedure *procedure, const DeviceBatch *batch, DeviceWork work, void *argument)
{
	MemoryContext outer = CurrentMemoryContext;
	MemoryContext inner = AllocSetContextCreate(outer, "device of a batch", ALLOCSET_DEFAULT_SIZES);

	for (int i = 0; i < batch->matched; i++)
	{
		CHECK_FOR_INTERRUPTS();
		MemoryContextSwitchTo(inner);
		PG_TRY();
		{
			work(procedure, batch->ids[i], argument);
		}
		PG_CATCH();
		{
			raise_of_device(batch->paths[i], outer);
		}
		PG_END_TRY();
		MemoryContextSwitchTo(outer);
		MemoryContextReset(inner);
	}
	MemoryContextDelete(inner);
}

/* See device_batch.h. */
int64
device_batch_count(const Procedure *procedure, int matched)
{
	SqlArgument arguments[] = {sql_bigint(procedure->procedure_id), sql_bigint(matched)};

	procedure_sql("UPDATE amoro_meta.procedure SET arguments = arguments ||"
				  " jsonb_build_object('devices_changed', coalesce((arguments->>'devices_changed')::bigint, 0) + $2)"
				  " WHERE procedure_id = $1 RETURNING (arguments->>'devices_changed')::bigint",
				  SPI_OK_UPDATE_RETURNING, lengthof(arguments), arguments);
	return result_bigint(0, 1);
}

/* See database_content.h. */
char *
device_find_one(int64 database_id)
{
	SqlArgument id = sql_bigint(database_id);

	if (procedure_sql("SELECT device_path FROM amoro_meta.device WHERE database_id = $1 LIMIT 1",
					  SPI_OK_SELECT, 1, &id) == 0)
		return NULL;
	return result_text(0, 1);
}

/* See database_content.h. */
int
device_drop_some(const Procedure *procedure, int limit, ChangeList *changes)
{
	DeviceBatch batch = device_batch(procedure, procedure->object_id, DEVICE_EVERY, "device_cursor");

	batch.limit = limit;
	return device_batch_delete(procedure, &batch);
}
