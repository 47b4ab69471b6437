/*
 * assignment.c
 *		The plan of an assignment as SQL sees it.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "compat.h"
#include "fmgr.h"
#include "funcapi.h"
#include "partition/assignment_plan.h"
#include "utils/array.h"

PG_FUNCTION_INFO_V1(amoro_meta_planned_assignment);

/* The values of an array argument; NULLs among them are an error. */
static Datum *
array_values(FunctionCallInfo fcinfo, int number, Oid type, int *count)
{
	ArrayType  *array = PG_GETARG_ARRAYTYPE_P(number);
	Datum	   *values;

	if (ARR_HASNULL(array))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("an assignment has no null slots and nodes")));
	if (type == INT4OID)
		deconstruct_array(array, INT4OID, sizeof(int32), true, TYPALIGN_INT, &values, NULL, count);
	else
		deconstruct_array(array, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE, &values, NULL, count);
	return values;
}

static void
add_nodes(PlanNode *nodes, int *count, const Datum *ids, int id_count, bool receives)
{
	for (int i = 0; i < id_count; i++)
		nodes[(*count)++] = (PlanNode) {.node_id = DatumGetInt64(ids[i]), .receives = receives};
}

static int
checked_slot(Datum value, int slot_count)
{
	int			slot = DatumGetInt32(value);

	if (slot < 0 || slot >= slot_count)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("there is no slot %d", slot),
				 errdetail("Slots are numbered from 0 to %d.", slot_count - 1)));
	return slot;
}

/*
 * Says who has what: first of slots that have no more nodes than they should, so that of the others those keep them that have
 * fewest.
 */
static void
place_all(AssignmentPlan *plan, const Datum *slots, const Datum *nodes, int count)
{
	int		   *counts = palloc0_array(int, plan->slot_count);
	int		   *last = palloc_array(int, plan->slot_count);	/* of the pairs of a slot; -1: none */
	int		   *previous = palloc_array(int, Max(count, 1));
	int64	   *ids = palloc_array(int64, Max(count, 1));

	memset(last, -1, sizeof(int) * plan->slot_count);
	for (int i = 0; i < count; i++)
	{
		int			slot = checked_slot(slots[i], plan->slot_count);

		counts[slot]++;
		previous[i] = last[slot];
		last[slot] = i;
	}
	for (int i = 0; i < count; i++)
	{
		if (counts[DatumGetInt32(slots[i])] <= plan->replica_count)
			assignment_plan_place(plan, DatumGetInt32(slots[i]), DatumGetInt64(nodes[i]));
	}
	for (int slot = 0; slot < plan->slot_count; slot++)
	{
		int			found = 0;

		if (counts[slot] <= plan->replica_count)
			continue;
		for (int i = last[slot]; i != -1; i = previous[i])
			ids[found++] = DatumGetInt64(nodes[i]);
		assignment_plan_place_some(plan, slot, ids, found);
	}
}

static void
put_slot(ReturnSetInfo *result, const AssignmentPlan *plan, int slot)
{
	Datum	   *ids = palloc_array(Datum, plan->replica_count);
	bool		nulls[2] = {false};
	Datum		values[2];
	int			count = 0;

	/* in the order of the nodes, which is that of their ids */
	for (int node = 0; node < plan->node_count; node++)
	{
		for (int i = 0; i < plan->replica_count; i++)
		{
			if (plan->places[(Size) slot * plan->replica_count + i].node == node)
				ids[count++] = Int64GetDatum(plan->nodes[node].node_id);
		}
	}
	values[0] = Int32GetDatum(slot);
	values[1] = PointerGetDatum(construct_array(ids, count, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/*
 * amoro_meta_planned_assignment(slot_count, replica_count, slots, nodes, fixed, receiving, keeping, move): the slots
 * that are to have other nodes than they have, and which. slots and nodes say who has what, row by row.
 */
Datum
amoro_meta_planned_assignment(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	int			slot_count = PG_GETARG_INT32(0);
	int			slots_count,
				nodes_count,
				fixed_count,
				receiving_count,
				keeping_count;
	Datum	   *slots = array_values(fcinfo, 2, INT4OID, &slots_count);
	Datum	   *nodes = array_values(fcinfo, 3, INT8OID, &nodes_count);
	Datum	   *fixed = array_values(fcinfo, 4, INT4OID, &fixed_count);
	Datum	   *receiving = array_values(fcinfo, 5, INT8OID, &receiving_count);
	Datum	   *keeping = array_values(fcinfo, 6, INT8OID, &keeping_count);
	PlanNode   *plan_nodes = palloc_array(PlanNode, receiving_count + keeping_count);
	AssignmentPlan *plan;
	int			count = 0;

	if (slot_count < 1 || PG_GETARG_INT32(1) < 1 || slots_count != nodes_count)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("this is not an assignment")));
	InitMaterializedSRF(fcinfo, 0);
	add_nodes(plan_nodes, &count, receiving, receiving_count, true);
	add_nodes(plan_nodes, &count, keeping, keeping_count, false);
	plan = assignment_plan_create(slot_count, PG_GETARG_INT32(1), plan_nodes, count);
	for (int i = 0; i < fixed_count; i++)
		plan->fixed[checked_slot(fixed[i], slot_count)] = true;
	place_all(plan, slots, nodes, slots_count);
	assignment_plan_fill(plan, PG_GETARG_BOOL(7));
	for (int slot = 0; slot < slot_count; slot++)
	{
		if (plan->changed[slot] && !plan->fixed[slot])
			put_slot(result, plan, slot);
	}
	return (Datum) 0;
}
