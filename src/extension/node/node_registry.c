/*
 * node_registry.c
 *		The registry of the nodes as the coordinator reads and tidies it.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "guc.h"
#include "lease/lease.h"
#include "miscadmin.h"
#include "node/node.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/uuid.h"

/* How many rows one call of node_registry_prune looks at, at most. */
#define PRUNE_BATCH 1000

static void
execute(const char *statement, int expected)
{
	int			result = SPI_execute(statement, /* read_only= */ false, /* count= */ 0);

	if (result != expected)
		elog(ERROR, "unexpected result of a statement on the node registry: %s", SPI_result_code_string(result));
}

/*
 * After a failover nobody knows whose registration was lost with the tail of the log: the row of node 0 stands for
 * them, and node_registry_prune takes it away when their leases are over.
 */
static void
expect_unknown_nodes(void)
{
	execute("INSERT INTO amoro_meta.superseded_incarnation (node_id, incarnation, registered_by, superseded_at, lease_owed)"
			" VALUES (0, '00000000-0000-0000-0000-000000000000', CURRENT_USER::regrole,"
			" clock_timestamp(), true)"
			" ON CONFLICT (node_id, incarnation) DO UPDATE SET lease_owed = true", SPI_OK_INSERT);
}

/* See node.h. */
RegisteredNode *
node_registry_read(int64 previous_term, int64 term, MemoryContext context, int *count)
{
	RegisteredNode *nodes;
	bool		isnull;

	if (previous_term != 0 && previous_term >> 32 != term >> 32)
		expect_unknown_nodes();
	execute("SELECT node_id, incarnation, registered_by::oid, removing, false FROM amoro_meta.node"
			" UNION ALL"
			" SELECT node_id, incarnation, registered_by::oid, false, true"
			" FROM amoro_meta.superseded_incarnation WHERE lease_owed", SPI_OK_SELECT);
	*count = (int) SPI_processed;
	nodes = MemoryContextAllocHuge(context, mul_size(Max(SPI_processed, 1), sizeof(RegisteredNode)));
	for (int i = 0; i < *count; i++)
	{
		HeapTuple	row = SPI_tuptable->vals[i];
		TupleDesc	shape = SPI_tuptable->tupdesc;

		nodes[i].node_id = DatumGetInt64(SPI_getbinval(row, shape, 1, &isnull));
		nodes[i].incarnation = *DatumGetUUIDP(SPI_getbinval(row, shape, 2, &isnull));
		nodes[i].role = DatumGetObjectId(SPI_getbinval(row, shape, 3, &isnull));
		nodes[i].removing = DatumGetBool(SPI_getbinval(row, shape, 4, &isnull));
		nodes[i].superseded = DatumGetBool(SPI_getbinval(row, shape, 5, &isnull));
	}
	return nodes;
}

/* Whether the incarnation of a row may still hold a lease. */
static bool
still_owed(HeapTuple row, TupleDesc shape)
{
	LeaseRequest request = {.database = MyDatabaseId};
	bool		isnull;

	request.node_id = DatumGetInt64(SPI_getbinval(row, shape, 1, &isnull));
	request.incarnation = *DatumGetUUIDP(SPI_getbinval(row, shape, 2, &isnull));
	/* what has no slot of its own may be among those for whom there was no room */
	return lease_unseen_owed(MyDatabaseId) || lease_incarnation_known(&request);
}

static void
record_lease_over(HeapTuple row, TupleDesc shape)
{
	Oid			types[] = {INT8OID, UUIDOID};
	Datum		values[2];
	bool		isnull;

	values[0] = SPI_getbinval(row, shape, 1, &isnull);
	values[1] = SPI_getbinval(row, shape, 2, &isnull);
	if (SPI_execute_with_args("UPDATE amoro_meta.superseded_incarnation SET lease_owed = false"
							  " WHERE node_id = $1 AND incarnation = $2",
							  2, types, values, NULL, false, 0) != SPI_OK_UPDATE)
		elog(ERROR, "could not update the node registry");
}

/* See node.h. */
bool
node_registry_prune(void)
{
	SPITupleTable *rows;
	Oid			types[] = {INT4OID, INT4OID};
	Datum		values[] = {Int32GetDatum(guc_history_retention), Int32GetDatum(PRUNE_BATCH)};

	execute("SELECT node_id, incarnation FROM amoro_meta.superseded_incarnation WHERE lease_owed", SPI_OK_SELECT);
	rows = SPI_tuptable;
	for (uint64 i = 0; i < rows->numvals; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (!still_owed(rows->vals[i], rows->tupdesc))
			record_lease_over(rows->vals[i], rows->tupdesc);
	}
	if (SPI_execute_with_args(
							  "DELETE FROM amoro_meta.superseded_incarnation s USING"
							  " (SELECT node_id, incarnation FROM amoro_meta.superseded_incarnation"
							  " WHERE NOT lease_owed AND superseded_at <"
							  " clock_timestamp() - make_interval(secs => $1)"
							  " LIMIT $2) old"
							  " WHERE s.node_id = old.node_id"
							  " AND s.incarnation = old.incarnation",
							  2, types, values, NULL, false, 0) != SPI_OK_DELETE)
		elog(ERROR, "could not prune the node registry");
	return SPI_processed == PRUNE_BATCH;
}
