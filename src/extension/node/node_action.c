/*
 * node_action.c
 *		What remove_node does in its steps (rule 9 of docs/protocol.md, section 3).
 */
#include "postgres.h"

#include "lease/lease.h"
#include "miscadmin.h"
#include "node/node_action.h"
#include "object/object_action.h"
#include "procedure/procedure_sql.h"

/* From here on the node can neither register nor activate, and its heartbeats are told to leave. */
ActionResult
node_remove_mark(Procedure *procedure)
{
	SqlArgument id = sql_bigint(procedure->object_id);

	procedure_sql("UPDATE amoro_meta.node SET removing = true WHERE node_id = $1", SPI_OK_UPDATE, 1, &id);
	/* what it has is given to others, once it surely serves nothing */
	procedure_sql("SELECT amoro_meta.request_sweep('balance_buckets'), amoro_meta.request_sweep('repair_partitions')",
				  SPI_OK_SELECT, 0, NULL);
	return ACTION_NEXT;
}

/* The node may come back: it registers or activates again, if it was told to leave already. */
ActionResult
node_remove_undo(Procedure *procedure)
{
	SqlArgument id = sql_bigint(procedure->object_id);

	procedure_sql("UPDATE amoro_meta.node SET removing = false WHERE node_id = $1", SPI_OK_UPDATE, 1, &id);
	lease_node_stays(MyDatabaseId, procedure->object_id);
	return ACTION_NEXT;
}

/* What names the node no longer does: the slots of databases that it has, the buckets of services that it owns. */
static void
append_changes(Procedure *procedure)
{
	SqlArgument id = sql_bigint(procedure->object_id);
	ChangeList	changes = {0};

	procedure_sql("SELECT c.catalog_name, d.database_name, NULL::text, d.database_id"
				  " FROM amoro_meta.database d JOIN amoro_meta.catalog c USING (catalog_id)"
				  " WHERE d.database_id IN (SELECT p.database_id FROM amoro_meta.partition p"
				  "  WHERE $1 = ANY (p.node_ids) OR $1 = ANY (p.next_node_ids)) ORDER BY d.database_id",
				  SPI_OK_SELECT, 1, &id);
	object_collect_changes("partition", "leave", &changes);
	procedure_sql("SELECT s.service, NULL::text, NULL::text, s.service_id FROM amoro_meta.bucket_service s"
				  " WHERE s.service_id IN (SELECT b.service_id FROM amoro_meta.service_bucket b"
				  "  WHERE $1 IN (b.node_id, b.next_node_id)) ORDER BY s.service_id",
				  SPI_OK_SELECT, 1, &id);
	object_collect_changes("bucket", "leave", &changes);
	procedure_append_list(procedure, &changes);
}

ActionResult
node_remove_commit(Procedure *procedure)
{
	SqlArgument id = sql_bigint(procedure->object_id);

	if (!lease_node_gone(MyDatabaseId, procedure->object_id, &procedure->look_again_at))
		return ACTION_WAIT;
	/* the process may be out of touch: it must not register again once somebody else has the name */
	procedure_sql("INSERT INTO amoro_meta.superseded_incarnation"
				  " (node_id, incarnation, registered_by, superseded_at, lease_owed)"
				  " SELECT node_id, incarnation, registered_by, clock_timestamp(), false"
				  " FROM amoro_meta.node WHERE node_id = $1",
				  SPI_OK_INSERT, 1, &id);
	procedure_sql("DELETE FROM amoro_meta.node WHERE node_id = $1", SPI_OK_DELETE, 1, &id);
	append_changes(procedure);
	return ACTION_NEXT;
}

/* A step of its own, because it must follow the commit of the deletion and survive a crash in between. */
ActionResult
node_remove_forget(Procedure *procedure)
{
	lease_forget_node(MyDatabaseId, procedure->object_id);
	return ACTION_NEXT;
}
