/*
 * authority_check.c
 *		Whether a user may do something now, whatever the snapshot of the transaction.
 */
#include "postgres.h"

#include "change/change.h"
#include "fmgr.h"
#include "procedure/procedure_sql.h"

PG_FUNCTION_INFO_V1(amoro_meta_user_has_privilege);

#define ARGUMENT_COUNT 6

/*
 * amoro_meta_user_has_privilege(user, privilege, catalog, database, table, path) answers from what is committed by now, as
 * a node that has applied everything does: a transaction may be older than a revocation.
 */
Datum
amoro_meta_user_has_privilege(PG_FUNCTION_ARGS)
{
	SqlArgument arguments[ARGUMENT_COUNT];
	bool		allowed;

	metadata_require_primary();
	for (int i = 0; i < ARGUMENT_COUNT; i++)
		arguments[i] = (SqlArgument) {TEXTOID, PG_ARGISNULL(i) ? (Datum) 0 : PG_GETARG_DATUM(i), PG_ARGISNULL(i)};
	SPI_connect();
	procedure_sql_latest("SELECT amoro_meta.privilege_in_snapshot($1, $2, $3, $4, $5, $6)", ARGUMENT_COUNT, arguments);
	allowed = result_boolean(0, 1);
	SPI_finish();
	PG_RETURN_BOOL(allowed);
}
