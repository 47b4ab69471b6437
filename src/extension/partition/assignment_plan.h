/*
 * assignment_plan.h
 *		Which nodes the slots of a database, or the buckets of a service, should be given to.
 */
#ifndef AMORO_META_ASSIGNMENT_PLAN_H
#define AMORO_META_ASSIGNMENT_PLAN_H

#include "postgres.h"

/* A node that may be given slots. */
typedef struct PlanNode
{
	int64		node_id;
	bool		receives;		/* false: keeps what it has and is given nothing */
	int			load;			/* places that it has */
	int		   *slots;			/* as many, in their order */
	int			room;			/* in slots */
} PlanNode;

/* A place of a slot: a slot has as many as it should have nodes. */
typedef struct PlanPlace
{
	int			node;			/* index of a PlanNode; -1: nobody */
	bool		given;			/* by the plan; it was not there before */
} PlanPlace;

typedef struct AssignmentPlan
{
	int			slot_count;
	int			replica_count;
	int			node_count;
	PlanNode   *nodes;			/* in the order of their ids */
	PlanPlace  *places;			/* replica_count for each slot */
	bool	   *fixed;			/* a flag for each slot: as it is, somebody else is moving it */
	bool	   *changed;		/* a flag for each slot: somebody has it who did not before, or the other way round */
} AssignmentPlan;

/*
 * Allocates a plan in the current context. nodes become the plan's, sorted by node_id. Then, for every slot that a
 * node has, assignment_plan_place; then assignment_plan_fill.
 */
extern AssignmentPlan *assignment_plan_create(int slot_count, int replica_count, PlanNode *nodes, int node_count);
/* Says that a node has a slot. Of a node that is not in the plan, or one too many, the slot is taken away. */
extern void assignment_plan_place(AssignmentPlan *plan, int slot, int64 node_id);
/* The same for all nodes of a slot that has too many: those that have fewest keep it. Spoils the array. */
extern void assignment_plan_place_some(AssignmentPlan *plan, int slot, int64 *node_ids, int count);
/*
 * Gives free places to the nodes that have fewest. Afterwards the loads of the nodes that receive differ by at most
 * one, as far as that is possible without (move: with) taking slots away from nodes that have them; no plan that
 * does so moves fewer, where a slot has one place.
 */
extern void assignment_plan_fill(AssignmentPlan *plan, bool move);

#endif							/* AMORO_META_ASSIGNMENT_PLAN_H */
