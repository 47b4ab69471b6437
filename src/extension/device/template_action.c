/*
 * template_action.c
 *		What create_template, alter_template and drop_template do in their steps. No node has anything of a template that
 *		is active on no device, so making one and dropping one needs no marker.
 */
#include "postgres.h"

#include "device/device_batch.h"
#include "device/device_definition.h"
#include "device/template_action.h"
#include "error_codes.h"
#include "object/object_action.h"
#include "procedure/procedure_sql.h"

static void
settle_template(const Procedure *procedure)
{
	SqlArgument arguments[] = {sql_bigint(procedure->object_id), sql_bigint(procedure->appended_version)};

	procedure_sql("UPDATE amoro_meta.template SET state = 'normal', procedure_id = NULL, version = $2 WHERE template_id = $1",
				  SPI_OK_UPDATE, lengthof(arguments), arguments);
}

ActionResult
template_create_commit(Procedure *procedure)
{
	SqlArgument arguments[] = {
		sql_bigint(procedure->object_id), sql_bigint(argument_bigint(procedure, "database_id")),
		sql_text(procedure->object_name), sql_jsonb(argument_jsonb(procedure, "definition"))
	};

	database_require_normal(argument_bigint(procedure, "database_id"), procedure->database_name);
	if (procedure_sql("SELECT FROM amoro_meta.template WHERE database_id = $1 AND template_name = $2",
					  SPI_OK_SELECT, 2, arguments + 1) > 0)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("template \"%s\".\"%s\".\"%s\" already exists",
						procedure->catalog_name, procedure->database_name, procedure->object_name)));
	procedure_sql("INSERT INTO amoro_meta.template (template_id, database_id, template_name, state, definition, version)"
				  " VALUES ($1, $2, $3, 'normal', $4, 0)",
				  SPI_OK_INSERT, lengthof(arguments), arguments);
	template_append_change(procedure, "create");
	settle_template(procedure);
	return ACTION_NEXT;
}

/* A procedure that works on a device on which the template is active is in the way, and so is one on its pattern. */
static void
require_unmarked_devices(const Procedure *procedure)
{
	SqlArgument arguments[] = {
		sql_bigint(procedure->object_id), sql_bigint(argument_bigint(procedure, "database_id"))
	};

	if (procedure_sql("SELECT v.procedure_id FROM amoro_meta.device v WHERE v.procedure_id IS NOT NULL AND v.template_id = $1"
					  " UNION ALL"
					  " SELECT m.procedure_id FROM amoro_meta.device_pattern m WHERE m.database_id = $2 AND EXISTS"
					  " (SELECT FROM amoro_meta.device v WHERE v.template_id = $1"
					  "  AND amoro_meta.device_paths_overlap(m.pattern, v.device_path)) LIMIT 1",
					  SPI_OK_SELECT, lengthof(arguments), arguments) > 0)
		ereport(ERROR,
				(errcode(ERRCODE_AMORO_OBJECT_IN_TRANSITION),
				 errmsg("a device on which template \"%s\".\"%s\".\"%s\" is active is in transition",
						procedure->catalog_name, procedure->database_name, procedure->object_name),
				 errdetail("Procedure " INT64_FORMAT " works on it.", result_bigint(0, 1)),
				 errhint("SELECT procedure_status(" INT64_FORMAT ")", result_bigint(0, 1))));
}

/* One marker on the template: readers of all devices on which it is active see it. */
ActionResult
template_alter_mark(Procedure *procedure)
{
	SqlArgument arguments[] = {sql_bigint(procedure->object_id), sql_bigint(procedure->procedure_id)};
	Jsonb	   *definition = template_lock_normal(procedure, procedure->object_id);

	database_require_normal(argument_bigint(procedure, "database_id"), procedure->database_name);
	template_require_no_activation(procedure, procedure->object_id);
	require_unmarked_devices(procedure);
	(void) device_definition_alter(definition, NULL, argument_jsonb(procedure, "changes"));
	procedure_sql("UPDATE amoro_meta.template SET state = 'pre_alter', procedure_id = $2 WHERE template_id = $1",
				  SPI_OK_UPDATE, lengthof(arguments), arguments);
	template_append_change(procedure, "pre_alter");
	return ACTION_NEXT;
}

/* No device on which the template is active has a measurement of its own with one of the new names. */
static void
check_device(const Procedure *procedure, int64 device_id, void *template)
{
	SqlArgument id = sql_bigint(device_id);
	Jsonb	   *definition = NULL;

	if (procedure_sql("SELECT definition FROM amoro_meta.device WHERE device_id = $1"
					  " AND jsonb_array_length(definition->'measurements') > 0",
					  SPI_OK_SELECT, 1, &id) > 0)
		definition = result_jsonb(0, 1);
	SPI_freetuptable(SPI_tuptable);
	if (definition != NULL)
		device_definition_require_apart(definition, template);
}

/* No node has one of its devices cached: look at all of them, in batches, then append. */
ActionResult
template_alter_commit(Procedure *procedure)
{
	DeviceBatch batch = device_batch(procedure, argument_bigint(procedure, "database_id"), DEVICE_EVERY, "check_cursor");
	Jsonb	   *definition = device_definition_alter(template_lock_normal(procedure, procedure->object_id), NULL,
													 argument_jsonb(procedure, "changes"));
	SqlArgument arguments[] = {sql_bigint(procedure->object_id), sql_jsonb(definition)};
	int			scanned;

	batch.template_id = procedure->object_id;
	scanned = device_batch_scan(procedure, &batch);
	device_batch_work(procedure, &batch, check_device, definition);
	if (scanned == batch.limit)
		return ACTION_AGAIN;
	procedure_sql("UPDATE amoro_meta.template SET definition = $2 WHERE template_id = $1",
				  SPI_OK_UPDATE, lengthof(arguments), arguments);
	template_append_change(procedure, "alter");
	settle_template(procedure);
	return ACTION_NEXT;
}

ActionResult
template_drop_commit(Procedure *procedure)
{
	SqlArgument id = sql_bigint(procedure->object_id);

	(void) template_lock_normal(procedure, procedure->object_id);
	if (procedure_sql("SELECT device_path FROM amoro_meta.template_path WHERE template_id = $1 LIMIT 1",
					  SPI_OK_SELECT, 1, &id) > 0)
		ereport(ERROR,
				(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
				 errmsg("template \"%s\".\"%s\".\"%s\" is set on a path",
						procedure->catalog_name, procedure->database_name, procedure->object_name),
				 errdetail("It is set on \"%s\".", result_text(0, 1))));
	procedure_sql("DELETE FROM amoro_meta.template WHERE template_id = $1", SPI_OK_DELETE, 1, &id);
	template_append_change(procedure, "drop");
	return ACTION_NEXT;
}

/* See template_action.h. */
void
template_unmark(int64 procedure_id, ChangeList *changes)
{
	SqlArgument id = sql_bigint(procedure_id);

	procedure_sql("SELECT c.catalog_name, d.database_name, t.template_name, t.template_id"
				  " FROM amoro_meta.template t"
				  " JOIN amoro_meta.database d USING (database_id)"
				  " JOIN amoro_meta.catalog c USING (catalog_id)"
				  " WHERE t.procedure_id = $1 FOR UPDATE OF t",
				  SPI_OK_SELECT, 1, &id);
	object_rolled_back("template", changes);
	procedure_sql("UPDATE amoro_meta.template SET state = 'normal', procedure_id = NULL WHERE procedure_id = $1",
				  SPI_OK_UPDATE, 1, &id);
}
