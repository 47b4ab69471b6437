/*
 * procedure_step.c
 *		One step of one procedure, in a transaction of its own.
 */
#include "postgres.h"

#include "error_codes.h"
#include "miscadmin.h"
#include "object/object_action.h"
#include "procedure/procedure_record.h"
#include "procedure/procedure_sql.h"
#include "procedure/procedure_step.h"
#include "shmem.h"
#include "utils/array.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"
#include "worker/coordinator.h"
#include "worker/coordinator_transaction.h"
#include "worker/stop_point.h"

#define FIRST_DELAY_US (100 * INT64CONST(1000))
#define LONGEST_DELAY_US (30 * INT64CONST(1000000))
/* When to try again a row that somebody else has locked. */
#define LOCKED_DELAY_US INT64CONST(1000000)

/* A failure that could not be recorded on the row itself. */
typedef struct UnrecordedFailure
{
	int64		procedure_id;	/* key */
	int			attempts;
	LeaseTime	until;
} UnrecordedFailure;

static HTAB *unrecorded_failures = NULL;

/* Names the stop points of a step, "drop_table.pre_drop" and "drop_table.pre_drop.commit" say. */
static void
stop_at_step(const Procedure *procedure, const char *suffix)
{
	stop_point(psprintf("%s.%s%s", procedure->kind, procedure->state, suffix));
}

/* The nodes that may still serve an older version, for people. NULL: none. */
static char *
awaited_nodes(int64 version)
{
	LeaseTime	now = lease_clock_now();
	Datum	   *ids;
	int			count = 0;
	int			room;

	if (version == 0)
		return NULL;
	/* room is made outside of the lock; who has come meanwhile may be missing */
	room = AmoroShared->slots_end;
	ids = palloc_array(Datum, Max(room, 1));
	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < room; i++)
	{
		NodeSlot   *slot = &AmoroNodeSlots[i];

		if (slot->state != NODE_SLOT_FREE && slot->database == MyDatabaseId &&
			slot->applied_version < version && slot->owed_until > now)
			ids[count++] = Int64GetDatum(slot->node_id);
	}
	LWLockRelease(AmoroShared->lock);
	if (count == 0)
		return NULL;

	SqlArgument argument = {INT8ARRAYOID, PointerGetDatum(construct_array(ids, count, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE)), false};

	procedure_sql("SELECT string_agg(format('\"%s\"', node_name), ', ' ORDER BY node_name)"
				  " FROM amoro_meta.node WHERE node_id = ANY ($1)",
				  SPI_OK_SELECT, 1, &argument);
	return result_text(0, 1);
}

static char *
waited_for(const Procedure *procedure)
{
	char	   *nodes = awaited_nodes(procedure->wait_version);

	if (procedure->error_message != NULL)
		return psprintf("It was in state \"%s\"; the last of %d attempts failed with %s: %s.",
						procedure->state, procedure->attempts, procedure->error_code, procedure->error_message);
	if (nodes == NULL)
		return psprintf("It was in state \"%s\".", procedure->state);
	return psprintf("It was in state \"%s\" and waited for version " INT64_FORMAT " on %s.",
					procedure->state, procedure->wait_version, nodes);
}

static void
log_end(const Procedure *procedure, const char *outcome)
{
	ereport(DEBUG1,
			(errmsg_internal("procedure " INT64_FORMAT " (%s) ended in state \"%s\": %s",
							 procedure->procedure_id, procedure->kind, procedure->state, outcome)));
}

static StepResult
quarantine(Procedure *procedure, const char *reason)
{
	(void) object_unmark(procedure);
	procedure_record_end(procedure, "quarantined", unpack_sql_state(ERRCODE_INVALID_OBJECT_DEFINITION), reason,
						 "Its markers were taken back and its names are free.");
	ereport(LOG,
			(errmsg("procedure " INT64_FORMAT " was quarantined: %s", procedure->procedure_id, reason)));
	return STEP_ENDED;
}

static StepResult
undo(Procedure *procedure, const ProcedureStep *step, const char *message)
{
	char	   *detail = message ? waited_for(procedure) : NULL;

	stop_at_step(procedure, ".undo");
	(void) step->undo(procedure);
	procedure_record_end(procedure, "rolled_back",
						 message ? unpack_sql_state(ERRCODE_QUERY_CANCELED) : NULL, message, detail);
	stop_at_step(procedure, ".undo.commit");
	log_end(procedure, "rolled_back");
	return STEP_ENDED;
}

/* The reason why this row makes no sense, or NULL. */
static char *
unreadable(const Procedure *procedure, const ProcedureStep *step)
{
	if (step == NULL)
		return psprintf("this version knows no state \"%s\" of kind \"%s\"", procedure->state, procedure->kind);
	if (procedure->object_id == 0 || (procedure->catalog_name == NULL && procedure->object_name == NULL))
		return pstrdup("it names no object");
	if (procedure->waits_for_nothing)
		return psprintf("it waits for version " INT64_FORMAT ", which was never given out", procedure->wait_version);
	if (!JB_ROOT_IS_OBJECT(procedure->arguments))
		return pstrdup("its arguments are not an object");
	if (argument_bigint(procedure, "format") != PROCEDURE_FORMAT)
		return psprintf("its arguments have the format " INT64_FORMAT ", this version reads " INT64_FORMAT,
						argument_bigint(procedure, "format"), (int64) PROCEDURE_FORMAT);
	return NULL;
}

/* Why the procedure is to be undone now; NULL: it is not. "" means that the recorded error says it. */
static const char *
reason_to_undo(const Procedure *procedure, const ProcedureStep *step)
{
	if (step->undo == NULL)
		return NULL;
	if (procedure->abandoned)
		return "";
	if (procedure->cancel_requested)
		return "procedure was cancelled";
	if (procedure->deadline != DT_NOBEGIN && procedure->deadline <= GetCurrentTimestamp())
		return "procedure timed out";
	if (!procedure->holds_claims)
		return "procedure lost its claim on the object's name";
	return NULL;
}

/* What the step does, in its transaction. */
static StepResult
make_step(Procedure *procedure, int64 frontier, LeaseTime *moment)
{
	const ProcedureStep *step = procedure_machine_find(procedure->kind, procedure->state);
	const char *reason = unreadable(procedure, step);
	ActionResult result;

	if (reason != NULL)
		return quarantine(procedure, reason);
	if (procedure->not_before > GetCurrentTimestamp())
		return STEP_NOT_MADE;
	reason = reason_to_undo(procedure, step);
	if (reason != NULL)
		return undo(procedure, step, *reason ? reason : NULL);
	if (procedure->wait_version > frontier)
		return STEP_NOT_MADE;

	stop_at_step(procedure, "");
	result = step->action(procedure);
	if (result == ACTION_WAIT)
	{
		*moment = procedure->look_again_at;
		return STEP_NOT_MADE;
	}
	procedure_record_advance(procedure, step, result);
	stop_at_step(procedure, ".commit");
	ereport(DEBUG1,
			(errmsg_internal("procedure " INT64_FORMAT " (%s): \"%s\" -> \"%s\"", procedure->procedure_id,
							 step->kind, step->state, result == ACTION_NEXT ? step->next_state : step->state)));
	return result == ACTION_NEXT && strcmp(step->next_state, PROCEDURE_DONE) == 0 ? STEP_ENDED : STEP_MADE;
}

/* Errors that the next attempt would meet again: the object is not what the procedure needs. */
static bool
is_permanent(int sqlerrcode)
{
	return sqlerrcode == ERRCODE_UNDEFINED_OBJECT || sqlerrcode == ERRCODE_DUPLICATE_OBJECT ||
		sqlerrcode == ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST || sqlerrcode == ERRCODE_INVALID_PARAMETER_VALUE ||
		sqlerrcode == ERRCODE_AMORO_OBJECT_IN_TRANSITION ||
		/* the grantor of a right has lost it; the role would be in itself */
		sqlerrcode == ERRCODE_INSUFFICIENT_PRIVILEGE || sqlerrcode == ERRCODE_INVALID_GRANT_OPERATION;
}

/* Errors that say that the row itself makes no sense. */
static bool
is_unreadable(int sqlerrcode)
{
	return sqlerrcode == ERRCODE_INVALID_OBJECT_DEFINITION || sqlerrcode == ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE;
}

static int64
retry_delay_us(int attempts)
{
	return Min(FIRST_DELAY_US << Min(attempts, 10), LONGEST_DELAY_US);
}

/* One transaction of the engine, and what came of it. */
typedef struct StepWork
{
	int64		procedure_id;
	int64		frontier;
	const ErrorData *failure;	/* to be recorded */
	LeaseTime	moment;			/* 0: none */
	StepResult	result;
} StepWork;

static void
try_step(void *argument)
{
	StepWork   *work = argument;
	Procedure	procedure;

	coordinator_check_term();
	if (procedure_record_lock(work->procedure_id, &procedure))
		work->result = make_step(&procedure, work->frontier, &work->moment);
	else
		work->moment = lease_clock_now() + LOCKED_DELAY_US;
}

/* Once for each new kind of failure; the row shows how often it was tried. */
static void
log_failure(const Procedure *procedure, const ErrorData *error)
{
	bool		known = procedure->error_code != NULL &&
		strcmp(procedure->error_code, unpack_sql_state(error->sqlerrcode)) == 0;

	ereport(known ? DEBUG1 : LOG,
			(errcode(error->sqlerrcode),
			 errmsg("procedure " INT64_FORMAT " (%s) failed in state \"%s\": %s",
					procedure->procedure_id, procedure->kind, procedure->state, error->message),
			 error->detail ? errdetail_internal("%s", error->detail) : 0));
}

static void
record_failure(void *argument)
{
	StepWork   *work = argument;
	const ErrorData *error = work->failure;
	const ProcedureStep *step;
	Procedure	procedure;
	bool		abandon;
	int64		delay;

	coordinator_check_term();
	if (!procedure_record_lock(work->procedure_id, &procedure))
		return;
	if (is_unreadable(error->sqlerrcode))
	{
		work->result = quarantine(&procedure, error->message);
		return;
	}
	step = procedure_machine_find(procedure.kind, procedure.state);
	abandon = is_permanent(error->sqlerrcode) && step != NULL && step->undo != NULL;
	delay = abandon ? 0 : retry_delay_us(procedure.attempts);
	procedure_record_failure(&procedure, error, abandon,
							 abandon ? DT_NOBEGIN : GetCurrentTimestamp() + delay);
	log_failure(&procedure, error);
	work->moment = lease_clock_now() + delay;
	work->result = abandon ? STEP_MADE : STEP_NOT_MADE;
}

/*
 * procedure_step_delayed_until looks up a failure that could not be recorded.
 */
LeaseTime
procedure_step_delayed_until(int64 procedure_id)
{
	UnrecordedFailure *failure = NULL;

	if (unrecorded_failures != NULL)
		failure = hash_search(unrecorded_failures, &procedure_id, HASH_FIND, NULL);
	return failure ? failure->until : 0;
}

/* The database can be read but not written: remember the failure here, and say so once. */
static LeaseTime
delay_unrecorded(int64 procedure_id, const ErrorData *error)
{
	UnrecordedFailure *failure;
	bool		found;

	if (unrecorded_failures == NULL)
	{
		HASHCTL		control = {.keysize = sizeof(int64), .entrysize = sizeof(UnrecordedFailure)};

		unrecorded_failures = hash_create("amoro_meta unrecorded failures", 64, &control, HASH_ELEM | HASH_BLOBS);
	}
	failure = hash_search(unrecorded_failures, &procedure_id, HASH_ENTER, &found);
	if (!found)
		failure->attempts = 0;
	failure->until = lease_clock_now() + retry_delay_us(failure->attempts++);
	ereport(found ? DEBUG1 : LOG,
			(errcode(error->sqlerrcode),
			 errmsg("could not record the failure of procedure " INT64_FORMAT ": %s", procedure_id, error->message),
			 errdetail("It is tried again with a growing delay.")));
	return failure->until;
}

/* Another coordinator has begun a term: nothing that this one does may commit any more. */
static void
raise_if_deposed(ErrorData *error)
{
	if (error != NULL && error->sqlerrcode == ERRCODE_AMORO_STALE_TERM)
		ReThrowError(error);
}

/*
 * procedure_step_run makes the next step of a procedure. See the header.
 */
StepResult
procedure_step_run(int64 procedure_id, int64 frontier, LeaseTime *moment)
{
	StepWork	work = {.procedure_id = procedure_id, .frontier = frontier, .result = STEP_NOT_MADE};
	ErrorData  *error = coordinator_transaction(try_step, &work);

	raise_if_deposed(error);
	if (error != NULL)
	{
		work.result = STEP_NOT_MADE;
		work.failure = error;
		error = coordinator_transaction(record_failure, &work);
		raise_if_deposed(error);
	}
	if (error != NULL)
	{
		work.result = STEP_NOT_MADE;
		work.moment = delay_unrecorded(procedure_id, error);
	}
	else if (unrecorded_failures != NULL)
		hash_search(unrecorded_failures, &procedure_id, HASH_REMOVE, NULL);
	*moment = work.moment;
	return work.result;
}
