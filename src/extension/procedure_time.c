/*
 * procedure_time.c
 *		What a procedure was in a state for so long for, as amoro_stat_procedure says it.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "node_action.h"
#include "procedure_time.h"
#include "shmem.h"

/*
 * Whether a node that is not owed a lease any more has not applied the version either: it was owed one when the wait began,
 * and nothing else let the procedure go on.
 */
static bool
lease_had_to_end(const Procedure *procedure)
{
	LeaseTime	begun = lease_clock_now() - (GetCurrentTimestamp() - procedure->state_since);
	bool		found = false;

	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < AmoroShared->slots_end && !found; i++)
	{
		NodeSlot   *slot = &AmoroNodeSlots[i];

		found = slot->state != NODE_SLOT_FREE && slot->database == MyDatabaseId &&
			slot->applied_version < procedure->wait_version && slot->owed_until > begun;
	}
	LWLockRelease(AmoroShared->lock);
	return found;
}

/*
 * procedure_time_cause says why a procedure that now leaves its state was in it. See the header.
 */
const char *
procedure_time_cause(const Procedure *procedure)
{
	const ProcedureStep *step = procedure_machine_find(procedure->kind, procedure->state);

	if (procedure->attempts > 0)
		return "retry";
	if (procedure->wait_version != 0)
		return lease_had_to_end(procedure) ? "lease" : "apply";
	if (step != NULL && step->action == node_remove_commit)
		return "lease";
	return strcmp(procedure->state, "submitted") == 0 ? "coordinator" : "work";
}
