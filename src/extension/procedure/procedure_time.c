/*
 * procedure_time.c
 *		What a procedure was in a state for so long for, as amoro_stat_procedure says it.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "node/node_action.h"
#include "procedure/procedure_time.h"
#include "shmem.h"

/*
 * Whether a node that serves nothing any more has not applied the version either, and was owed a lease when the wait began:
 * only its end let the procedure go on. What a lease was granted for is not kept; by the settings of now, for people.
 */
static bool
lease_had_to_end(const Procedure *procedure)
{
	LeaseTime	begun = lease_clock_now() - (GetCurrentTimestamp() - procedure->state_since);
	DatabaseEntry *entry;
	bool		found = false;

	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	entry = database_entry_find(MyDatabaseId);
	for (int i = 0; entry != NULL && i < AmoroShared->slots_end && !found; i++)
	{
		NodeSlot   *slot = &AmoroNodeSlots[i];

		found = slot->database == MyDatabaseId && (slot->state == NODE_FENCED || slot->state == NODE_JOINING) &&
			slot->applied_version < procedure->wait_version &&
			Max(slot->last_grant + entry->settings.owed_us, entry->term_owed_until) > begun;
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
