/*
 * database_content.c
 *		What hangs on a database, in the order in which a cascading drop deletes it.
 */
#include "postgres.h"

#include "fmgr.h"
#include "object/database_content.h"
#include "procedure/procedure_sql.h"

PG_FUNCTION_INFO_V1(amoro_meta_require_empty_database);

static const DatabaseContent contents[] = {
	{"table", table_find_one, table_drop_some},
	{"view", view_find_one, NULL},
	{"device", device_find_one, device_drop_some},
	{"partition", NULL, partition_drop_some},
	{"template", template_find_one, template_drop_some},
	{"time to live", NULL, ttl_drop_some},
};

/*
 * database_require_empty raises 2BP01 unless the database can go without cascade. See the header.
 */
void
database_require_empty(int64 database_id, const char *catalog_name, const char *database_name)
{
	for (int i = 0; i < lengthof(contents); i++)
	{
		char	   *one = contents[i].find_one == NULL ? NULL : contents[i].find_one(database_id);

		if (one != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
					 errmsg("database \"%s\".\"%s\" is not empty", catalog_name, database_name),
					 errdetail("It has the %s \"%s\".", contents[i].noun, one),
					 errhint("SELECT drop_database(%s, %s, cascade => true)",
							 quote_literal_cstr(catalog_name), quote_literal_cstr(database_name))));
	}
}

/*
 * database_drop_some deletes a bounded number of rows of all that hangs on a database. See the header.
 */
int
database_drop_some(const Procedure *procedure, int limit, ChangeList *changes)
{
	int			count = 0;

	for (int i = 0; i < lengthof(contents) && count < limit; i++)
		count += contents[i].drop_some == NULL ? 0 : contents[i].drop_some(procedure, limit - count, changes);
	return count;
}

/*
 * amoro_meta_require_empty_database(database_id, catalog_name, database_name) raises 2BP01 as a step of drop_database does.
 */
Datum
amoro_meta_require_empty_database(PG_FUNCTION_ARGS)
{
	SPI_connect();
	database_require_empty(PG_GETARG_INT64(0), text_to_cstring(PG_GETARG_TEXT_PP(1)),
						   text_to_cstring(PG_GETARG_TEXT_PP(2)));
	SPI_finish();
	PG_RETURN_VOID();
}
