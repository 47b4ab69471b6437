/*
 * authority_action.c
 *		What the procedures on users, roles and privileges do in their steps.
 *
 * They need no marker: a right that is there a little later, or (until the procedure is done) gone a little later,
 * is what it was before. A procedure is done when every node knows, so none can say yes any more.
 */
#include "postgres.h"

#include "authority/authority_action.h"
#include "procedure/procedure_sql.h"

/* Users that a change names one by one; where more are concerned, nodes forget all that they know of users. */
#define MOST_USERS 100

/* The verb of a kind of procedure: "grant" of "grant_privilege". */
static const char *
operation_of(const Procedure *procedure)
{
	return pnstrdup(procedure->kind, strcspn(procedure->kind, "_"));
}

/* Removes what a procedure keeps of a password: after its step it is with the user, and in one place is enough. */
static void
forget_secret(int64 procedure_id)
{
	SqlArgument id = sql_bigint(procedure_id);

	procedure_sql("UPDATE amoro_meta.procedure SET arguments = arguments - 'secret'"
				  " WHERE procedure_id = $1 AND jsonb_typeof(arguments) = 'object' AND arguments ? 'secret'",
				  SPI_OK_UPDATE, 1, &id);
}

/* The changes of the last result: a row for each name; one without a name, which stands for all, when they are too many. */
static MetadataChange *
collect_changes(const Procedure *procedure, int *count)
{
	MetadataChange *changes = palloc_array(MetadataChange, Max(SPI_processed, 1));
	bool		all = SPI_processed > MOST_USERS;

	*count = all ? 1 : (int) SPI_processed;
	for (int i = 0; i < *count; i++)
		changes[i] = (MetadataChange) {
			.object_kind = "authority",
			.operation = operation_of(procedure),
			.catalog_name = all ? "" : result_text(i, 2),
			.object_id = all ? procedure->object_id : result_bigint(i, 1)
		};
	return changes;
}

ActionResult
authority_commit(Procedure *procedure)
{
	/* one more than are named, to see that there are too many */
	SqlArgument apply[] = {sql_bigint(procedure->procedure_id), sql_integer(MOST_USERS + 1)};
	MetadataChange *changes;
	int			count;

	procedure_sql("SELECT principal_id, principal_name FROM amoro_meta.apply_authority($1, $2)",
				  SPI_OK_SELECT, lengthof(apply), apply);
	changes = collect_changes(procedure, &count);
	forget_secret(procedure->procedure_id);
	procedure_append(procedure, changes, count);

	SqlArgument version = sql_bigint(procedure->appended_version);

	procedure_sql("UPDATE amoro_meta.principal SET version = $1 WHERE version = 0", SPI_OK_UPDATE, 1, &version);
	return ACTION_NEXT;
}

ActionResult
authority_undo(Procedure *procedure)
{
	forget_secret(procedure->procedure_id);
	return ACTION_NEXT;
}

/*
 * authority_unmark has no markers to take back, but a password to forget. See object_action.h.
 */
void
authority_unmark(int64 procedure_id, ChangeList *changes)
{
	forget_secret(procedure_id);
}
