/*
 * template_path_action.c
 *		What set_template and unset_template do in their steps: no node serves where a template is set, so one step does
 *		it; and how paths and templates go with their database.
 */
#include "postgres.h"

#include "device/template_action.h"
#include "object/database_content.h"
#include "object/object_action.h"
#include "procedure/procedure_sql.h"

ActionResult
template_set_commit(Procedure *procedure)
{
	int64		database_id = argument_bigint(procedure, "database_id");
	SqlArgument arguments[] = {
		sql_bigint(database_id), sql_text(argument_text(procedure, "path")), sql_bigint(procedure->object_id), sql_bigint(0)
	};

	database_require_normal(database_id, procedure->database_name);
	(void) template_lock_normal(procedure, procedure->object_id);
	if (procedure_sql("SELECT s.device_path, t.template_name FROM amoro_meta.template_path s"
					  " JOIN amoro_meta.template t USING (template_id)"
					  " WHERE s.database_id = $1 AND (s.device_path = $2"
					  "  OR amoro_meta.device_paths_overlap(s.device_path || '.**', $2)"
					  "  OR amoro_meta.device_paths_overlap(s.device_path, $2 || '.**')) LIMIT 1",
					  SPI_OK_SELECT, 2, arguments) > 0)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("a template is set on path \"%s\" already", result_text(0, 1)),
				 errdetail("It is the template \"%s\"; no path with a template is above or below another.", result_text(0, 2))));
	template_append_change(procedure, "set");
	arguments[3] = sql_bigint(procedure->appended_version);
	procedure_sql("INSERT INTO amoro_meta.template_path (database_id, device_path, template_id, version) VALUES ($1, $2, $3, $4)",
				  SPI_OK_INSERT, lengthof(arguments), arguments);
	return ACTION_NEXT;
}

ActionResult
template_unset_commit(Procedure *procedure)
{
	char	   *path = argument_text(procedure, "path");
	SqlArgument arguments[] = {
		sql_bigint(procedure->object_id), sql_text(path), sql_bigint(argument_bigint(procedure, "database_id"))
	};

	(void) template_lock_normal(procedure, procedure->object_id);
	template_require_no_activation(procedure, procedure->object_id);
	if (procedure_sql("SELECT v.device_path FROM amoro_meta.device v WHERE v.template_id = $1"
					  " AND (v.device_path = $2 OR amoro_meta.device_paths_overlap($2 || '.**', v.device_path)) LIMIT 1",
					  SPI_OK_SELECT, 2, arguments) > 0)
		ereport(ERROR,
				(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
				 errmsg("template \"%s\" is active below path \"%s\"", procedure->object_name, path),
				 errdetail("It is active on \"%s\".", result_text(0, 1)),
				 errhint("SELECT deactivate_template(%s, %s, %s, %s)", quote_literal_cstr(procedure->catalog_name),
						 quote_literal_cstr(procedure->database_name), quote_literal_cstr(procedure->object_name),
						 quote_literal_cstr(psprintf("%s.**", path)))));
	procedure_sql("DELETE FROM amoro_meta.template_path WHERE template_id = $1 AND device_path = $2 AND database_id = $3",
				  SPI_OK_DELETE, lengthof(arguments), arguments);
	template_append_change(procedure, "unset");
	return ACTION_NEXT;
}

/* See database_content.h. */
char *
template_find_one(int64 database_id)
{
	SqlArgument id = sql_bigint(database_id);

	if (procedure_sql("SELECT template_name FROM amoro_meta.template WHERE database_id = $1 LIMIT 1",
					  SPI_OK_SELECT, 1, &id) == 0)
		return NULL;
	return result_text(0, 1);
}

/* See database_content.h. */
int
template_drop_some(const Procedure *procedure, int limit, ChangeList *changes)
{
	SqlArgument arguments[] = {sql_bigint(procedure->object_id), sql_bigint(limit)};
	int			count;

	count = (int) procedure_sql("DELETE FROM amoro_meta.template_path WHERE (database_id, device_path) IN"
								" (SELECT database_id, device_path FROM amoro_meta.template_path WHERE database_id = $1 LIMIT $2)",
								SPI_OK_DELETE, lengthof(arguments), arguments);
	if (count > 0)
		return count;
	return (int) procedure_sql("DELETE FROM amoro_meta.template WHERE template_id IN"
							   " (SELECT template_id FROM amoro_meta.template WHERE database_id = $1 LIMIT $2)",
							   SPI_OK_DELETE, lengthof(arguments), arguments);
}
