/*
 * assignment_plan.c
 *		Which nodes the slots of a database, or the buckets of a service, should be given to.
 *
 * Free places go to the node that has fewest. After that, as long as two nodes differ by more
 * than one, a slot goes from the one that has most to the one that has fewest: there is one
 * that only the former has. Each such step brings one of the two nearer to its share, so there is no
 * shorter way.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "partition/assignment_plan.h"

static PlanPlace *
places_of(const AssignmentPlan *plan, int slot)
{
	return &plan->places[(Size) slot * plan->replica_count];
}

static bool
has_slot(const AssignmentPlan *plan, int slot, int node)
{
	PlanPlace  *places = places_of(plan, slot);

	for (int i = 0; i < plan->replica_count; i++)
	{
		if (places[i].node == node)
			return true;
	}
	return false;
}

static int
compare_nodes(const void *a, const void *b)
{
	int64		left = ((const PlanNode *) a)->node_id;
	int64		right = ((const PlanNode *) b)->node_id;

	return left < right ? -1 : left > right ? 1 : 0;
}

/* See assignment_plan.h. */
AssignmentPlan *
assignment_plan_create(int slot_count, int replica_count, PlanNode *nodes, int node_count)
{
	AssignmentPlan *plan = palloc0(sizeof(AssignmentPlan));

	plan->slot_count = slot_count;
	plan->replica_count = replica_count;
	plan->nodes = nodes;
	plan->node_count = node_count;
	qsort(nodes, node_count, sizeof(PlanNode), compare_nodes);
	plan->fixed = palloc0_array(bool, slot_count);
	plan->changed = palloc0_array(bool, slot_count);
	plan->places = palloc_array(PlanPlace, (Size) slot_count * replica_count);
	for (Size i = 0; i < (Size) slot_count * replica_count; i++)
		plan->places[i] = (PlanPlace) {.node = -1};
	return plan;
}

/* Where in the slots of a node a slot stands, or would stand. */
static int
position_of(const PlanNode *node, int slot)
{
	int			low = 0;
	int			high = node->load;

	while (low < high)
	{
		int			middle = low + (high - low) / 2;

		if (node->slots[middle] < slot)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void
add_slot(PlanNode *node, int slot)
{
	int			position = position_of(node, slot);

	if (node->load == node->room)
	{
		node->room = Max(16, 2 * node->room);
		node->slots = node->slots == NULL ? palloc_array(int, node->room) : repalloc_array(node->slots, int, node->room);
	}
	memmove(&node->slots[position + 1], &node->slots[position], sizeof(int) * (node->load - position));
	node->slots[position] = slot;
	node->load++;
}

static void
remove_slot(PlanNode *node, int slot)
{
	int			position = position_of(node, slot);

	node->load--;
	memmove(&node->slots[position], &node->slots[position + 1], sizeof(int) * (node->load - position));
}

/* See assignment_plan.h. */
void
assignment_plan_place(AssignmentPlan *plan, int slot, int64 node_id)
{
	PlanNode	key = {.node_id = node_id};
	PlanNode   *node = bsearch(&key, plan->nodes, plan->node_count, sizeof(PlanNode), compare_nodes);
	PlanPlace  *places = places_of(plan, slot);

	for (int i = 0; node != NULL && i < plan->replica_count; i++)
	{
		if (places[i].node != -1)
			continue;
		places[i].node = node - plan->nodes;
		add_slot(node, slot);
		return;
	}
	plan->changed[slot] = true;
}

/* See assignment_plan.h. */
void
assignment_plan_place_some(AssignmentPlan *plan, int slot, int64 *node_ids, int count)
{
	for (; count > 0; count--)
	{
		int			chosen = 0;
		const PlanNode *best = NULL;

		for (int i = 0; i < count; i++)
		{
			PlanNode	key = {.node_id = node_ids[i]};
			const PlanNode *node = bsearch(&key, plan->nodes, plan->node_count, sizeof(PlanNode), compare_nodes);

			if (node == NULL || (best != NULL && (node->load > best->load || (node->load == best->load && node > best))))
				continue;
			best = node;
			chosen = i;
		}
		assignment_plan_place(plan, slot, node_ids[chosen]);
		node_ids[chosen] = node_ids[count - 1];
	}
}

/* The node that receives, does not have the slot (-1: any) and has fewest, or most; -1: none. Ties: the smaller id. */
static int
find_extreme(const AssignmentPlan *plan, int without_slot, bool most, const bool *passed_over)
{
	int			found = -1;

	for (int i = 0; i < plan->node_count; i++)
	{
		PlanNode   *node = &plan->nodes[i];

		if (!node->receives || (passed_over != NULL && passed_over[i]) ||
			(found != -1 && (most ? node->load <= plan->nodes[found].load : node->load >= plan->nodes[found].load)))
			continue;
		if (without_slot == -1 || !has_slot(plan, without_slot, i))
			found = i;
	}
	return found;
}

static void
give(AssignmentPlan *plan, int slot, PlanPlace *place, int node)
{
	if (place->node != -1)
		remove_slot(&plan->nodes[place->node], slot);
	add_slot(&plan->nodes[node], slot);
	*place = (PlanPlace) {.node = node, .given = true};
	plan->changed[slot] = true;
}

static void
fill_free_places(AssignmentPlan *plan)
{
	for (int slot = 0; slot < plan->slot_count; slot++)
	{
		PlanPlace  *places = places_of(plan, slot);

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < plan->replica_count && !plan->fixed[slot]; i++)
		{
			int			node = places[i].node == -1 ? find_extreme(plan, slot, false, NULL) : -1;

			if (node != -1)
				give(plan, slot, &places[i], node);
		}
	}
}

/* Moves one slot from a node to another one; best one that the plan has just given to it. False: there is none. */
static bool
move_slot(AssignmentPlan *plan, int from, int to, bool move)
{
	const PlanNode *node = &plan->nodes[from];
	PlanPlace  *found = NULL;
	int			found_slot = 0;

	for (int number = 0; number < node->load; number++)
	{
		int			slot = node->slots[number];
		PlanPlace  *places = places_of(plan, slot);

		if (plan->fixed[slot] || has_slot(plan, slot, to))
			continue;
		for (int i = 0; i < plan->replica_count; i++)
		{
			if (places[i].node != from || (!places[i].given && (!move || found != NULL)))
				continue;
			found = &places[i];
			found_slot = slot;
		}
		if (found != NULL && found->given)
			break;
	}
	if (found == NULL)
		return false;
	give(plan, found_slot, found, to);
	return true;
}

/* See assignment_plan.h. */
void
assignment_plan_fill(AssignmentPlan *plan, bool move)
{
	bool	   *passed_over = palloc0_array(bool, Max(plan->node_count, 1));

	fill_free_places(plan);
	for (;;)
	{
		int			to = find_extreme(plan, -1, false, NULL);
		int			from = find_extreme(plan, -1, true, passed_over);

		CHECK_FOR_INTERRUPTS();
		if (from == -1 || plan->nodes[from].load - plan->nodes[to].load <= 1)
			break;
		if (move_slot(plan, from, to, move))
			memset(passed_over, 0, sizeof(bool) * plan->node_count);
		else
			passed_over[from] = true;
	}
	pfree(passed_over);
}
