/*
 * template_row.c
 *		Rows of amoro_meta.template, as the steps of procedures read and lock them.
 */
#include "postgres.h"

#include "device/template_action.h"
#include "error_codes.h"
#include "procedure/procedure_sql.h"

static void
raise_template_in_transition(const Procedure *procedure, const char *template_name, int64 other_procedure_id)
{
	ereport(ERROR,
			(errcode(ERRCODE_AMORO_OBJECT_IN_TRANSITION),
			 errmsg("template \"%s\".\"%s\".\"%s\" is in transition",
					procedure->catalog_name, procedure->database_name, template_name),
			 errdetail("Procedure " INT64_FORMAT " works on it or on a device on which it is active.", other_procedure_id),
			 errhint("SELECT procedure_status(" INT64_FORMAT ")", other_procedure_id)));
}

/* See template_action.h. */
Jsonb *
template_lock_normal(const Procedure *procedure, int64 template_id)
{
	SqlArgument id = sql_bigint(template_id);

	if (procedure_sql("SELECT template_name, procedure_id, definition FROM amoro_meta.template WHERE template_id = $1 FOR UPDATE",
					  SPI_OK_SELECT, 1, &id) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("the template of procedure " INT64_FORMAT " does not exist", procedure->procedure_id),
				 errdetail("The template with the id " INT64_FORMAT " was dropped after the submission.", template_id)));
	if (!result_is_null(0, 2) && result_bigint(0, 2) != procedure->procedure_id)
		raise_template_in_transition(procedure, result_text(0, 1), result_bigint(0, 2));
	return result_jsonb(0, 3);
}

/* See template_action.h. */
void
template_require_no_activation(const Procedure *procedure, int64 template_id)
{
	SqlArgument id = sql_bigint(template_id);

	if (procedure_sql("SELECT p.object_name, p.procedure_id FROM amoro_meta.procedure p"
					  " WHERE p.outcome IS NULL AND p.kind = 'activate_template' AND p.state <> 'submitted'"
					  " AND p.object_id = $1 LIMIT 1",
					  SPI_OK_SELECT, 1, &id) > 0)
		raise_template_in_transition(procedure, result_text(0, 1), result_bigint(0, 2));
}

/* See template_action.h. */
void
template_append_change(Procedure *procedure, const char *operation)
{
	procedure_append_one(procedure, (MetadataChange) {
		.object_kind = "template",
		.operation = operation,
		.catalog_name = procedure->catalog_name,
		.database_name = procedure->database_name,
		.table_name = procedure->object_name,
		.object_id = procedure->object_id
	});
}

/* See template_action.h. */
void
template_require_none_in_transition(const Procedure *procedure, int64 database_id, const char *pattern)
{
	SqlArgument arguments[] = {sql_bigint(database_id), sql_text(pattern)};

	if (procedure_sql("SELECT t.template_name, t.procedure_id FROM amoro_meta.template t"
					  " WHERE t.procedure_id IS NOT NULL AND t.database_id = $1 AND EXISTS"
					  " (SELECT FROM amoro_meta.device v WHERE v.template_id = t.template_id"
					  "  AND amoro_meta.device_paths_overlap(v.device_path, $2)) LIMIT 1",
					  SPI_OK_SELECT, lengthof(arguments), arguments) > 0)
		raise_template_in_transition(procedure, result_text(0, 1), result_bigint(0, 2));
}
