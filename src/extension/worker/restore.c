/*
 * restore.c
 *		Dumps that are restored into this database.
 *
 * The rows of a dump come a table at a time, in any order, and what says whose they are is one among them. The
 * coordinator of an extension that was just created would take those that are there before for its own: call leaders
 * and catalogs, end blockers and processes whose other half is still to come. So the first COPY into one of our
 * tables says, in its own transaction, that the data is of nobody.
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "procedure/procedure_sql.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "worker/restore.h"

static Oid
owner_of(Oid relation)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relation));
	Oid			owner = HeapTupleIsValid(tuple) ? ((Form_pg_class) GETSTRUCT(tuple))->relowner : InvalidOid;

	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	return owner;
}

/* Asks something of the extension as its owner, whoever restores the dump. */
static bool
ask_as_owner(Oid owner, const char *query)
{
	Oid			user;
	int			security_context;
	bool		answer;

	GetUserIdAndSecContext(&user, &security_context);
	SetUserIdAndSecContext(owner, security_context | SECURITY_LOCAL_USERID_CHANGE | SECURITY_RESTRICTED_OPERATION);
	SPI_connect();
	if (SPI_execute(query, /* read_only= */ false, /* count= */ 1) != SPI_OK_SELECT || SPI_processed != 1)
		elog(ERROR, "amoro_meta does not know whose data this is");
	answer = result_boolean(0, 1);
	SPI_finish();
	SetUserIdAndSecContext(user, security_context);
	return answer;
}

/* See restore.h. */
Oid
restore_begins(const CopyStmt *statement)
{
	Oid			relation;

	if (!statement->is_from || statement->relation == NULL || XactReadOnly || RecoveryInProgress())
		return InvalidOid;
	relation = RangeVarGetRelid(statement->relation, NoLock, true);
	if (!OidIsValid(relation) || get_rel_namespace(relation) != get_namespace_oid("amoro_meta", true) ||
		getExtensionOfObject(RelationRelationId, relation) != get_extension_oid("amoro_meta", true) ||
		pg_class_aclcheck(relation, GetUserId(), ACL_INSERT) != ACLCHECK_OK)
		return InvalidOid;
	return ask_as_owner(owner_of(relation), "SELECT amoro_meta.data_is_own()") ? owner_of(relation) : InvalidOid;
}

/* See restore.h. */
void
restore_disown(Oid owner)
{
	(void) ask_as_owner(owner, "SELECT amoro_meta.disown_data()");
}
