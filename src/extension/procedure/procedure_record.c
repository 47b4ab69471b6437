/*
 * procedure_record.c
 *		The rows of amoro_meta.procedure, as the engine reads and writes them.
 */
#include "postgres.h"

#include "guc.h"
#include "miscadmin.h"
#include "procedure/procedure_record.h"
#include "procedure/procedure_sql.h"
#include "procedure/procedure_time.h"
#include "shmem.h"
#include "worker/coordinator.h"

/*
 * procedure_record_lock locks and reads the row of a procedure in flight. It never
 * waits: who asks to cancel holds the row until that transaction ends.
 */
bool
procedure_record_lock(int64 procedure_id, Procedure *procedure)
{
	SqlArgument id = sql_bigint(procedure_id);

	if (procedure_sql("SELECT p.kind, p.state, p.catalog_name, p.database_name, p.object_name, p.object_id,"
					  " p.arguments, p.wait_version, p.deadline, p.not_before, p.cancel_requested, p.abandoned,"
					  " EXISTS (SELECT FROM amoro_meta.procedure_claim q WHERE q.procedure_id = p.procedure_id),"
					  " p.error_code, p.error_message, p.attempts::bigint,"
					  " p.wait_version NOT BETWEEN 1 AND (SELECT v.version FROM amoro_meta.metadata_version v), p.state_since"
					  " FROM amoro_meta.procedure p"
					  " WHERE p.procedure_id = $1 AND p.outcome IS NULL FOR UPDATE OF p SKIP LOCKED",
					  SPI_OK_SELECT, 1, &id) == 0)
		return false;
	*procedure = (Procedure) {
		.procedure_id = procedure_id,
		.kind = result_text(0, 1),
		.state = result_text(0, 2),
		.catalog_name = result_text(0, 3),
		.database_name = result_text(0, 4),
		.object_name = result_text(0, 5),
		.object_id = result_bigint(0, 6),
		.arguments = result_jsonb(0, 7),
		.wait_version = result_bigint(0, 8),
		.deadline = result_timestamptz(0, 9),
		.not_before = result_timestamptz(0, 10),
		.cancel_requested = result_boolean(0, 11),
		.abandoned = result_boolean(0, 12),
		.holds_claims = result_boolean(0, 13),
		.error_code = result_text(0, 14),
		.error_message = result_text(0, 15),
		.attempts = (int) result_bigint(0, 16),
		.waits_for_nothing = result_boolean(0, 17),
		.state_since = result_timestamptz(0, 18)
	};
	return true;
}

/* Long enough for a node that dies at the worst moment, twice over; counted from the first step. */
static TimestampTz
default_deadline(void)
{
	int64		owed_us = 0;
	int64		ack_timeout_us = (int64) guc_ack_timeout * 1000;
	DatabaseEntry *entry;

	LWLockAcquire(AmoroShared->lock, LW_SHARED);
	entry = database_entry_find(MyDatabaseId);
	if (entry != NULL)
	{
		owed_us = entry->settings.owed_us;
		ack_timeout_us = entry->settings.ack_timeout_us;
	}
	LWLockRelease(AmoroShared->lock);
	return GetCurrentTimestamp() + ack_timeout_us + 2 * owed_us + 60 * USECS_PER_SEC;
}

/* The time in a state that is left; $2: the next one, $7: what it went on. */
#define RECORD_TIME \
	"times = CASE WHEN state = $2 THEN times ELSE times || jsonb_build_object(state," \
	" jsonb_build_array(greatest(extract(epoch FROM clock_timestamp() - state_since), 0), $7)) END," \
	" state_since = CASE WHEN state = $2 THEN state_since ELSE clock_timestamp() END"

/*
 * procedure_record_advance writes down that the action of a step is done. Behind the point of no return there is
 * neither a deadline nor a cancellation any more.
 */
void
procedure_record_advance(const Procedure *procedure, const ProcedureStep *step, ActionResult result)
{
	const char *state = result == ACTION_NEXT ? step->next_state : step->state;
	const ProcedureStep *next = procedure_machine_find(step->kind, state);
	bool		undoable = next != NULL && next->undo != NULL;
	TimestampTz deadline = procedure->deadline == DT_NOBEGIN ? default_deadline() : procedure->deadline;

	if (strcmp(state, PROCEDURE_DONE) == 0)
	{
		procedure_record_end(procedure, "done", NULL, NULL, NULL);
		return;
	}

	SqlArgument arguments[] = {
		sql_bigint(procedure->procedure_id), sql_text(state),
		sql_optional_id(next->waits_for_verdict ? procedure->appended_version : 0),
		sql_timestamptz(undoable ? deadline : DT_NOBEGIN), sql_boolean(undoable), sql_bigint(coordinator_term()),
		sql_text(procedure_time_cause(procedure))
	};

	procedure_sql("UPDATE amoro_meta.procedure SET state = $2, wait_version = $3, deadline = $4,"
				  " cancel_requested = cancel_requested AND $5, not_before = NULL, attempts = 0,"
				  " error_code = NULL, error_message = NULL, error_detail = NULL,"
				  " last_step_at = clock_timestamp(), last_step_term = $6, " RECORD_TIME
				  " WHERE procedure_id = $1",
				  SPI_OK_UPDATE, lengthof(arguments), arguments);
}

/*
 * procedure_record_end ends the procedure and gives its names free.
 */
void
procedure_record_end(const Procedure *procedure, const char *outcome, const char *error_code,
					 const char *message, const char *detail)
{
	SqlArgument arguments[] = {
		sql_bigint(procedure->procedure_id), sql_text(outcome), sql_text(error_code), sql_text(message),
		sql_text(detail), sql_bigint(coordinator_term()), sql_text(procedure_time_cause(procedure))
	};

	procedure_sql("UPDATE amoro_meta.procedure SET outcome = $2, state = CASE $2 WHEN 'quarantined' THEN state ELSE $2 END,"
				  " error_code = CASE WHEN $2 = 'done' THEN NULL ELSE coalesce($3, error_code) END,"
				  " error_message = CASE WHEN $2 = 'done' THEN NULL ELSE coalesce($4, error_message) END,"
				  " error_detail = CASE WHEN $2 = 'done' THEN NULL WHEN $3 IS NULL THEN error_detail ELSE $5 END,"
				  " wait_version = NULL, not_before = NULL, deadline = NULL,"
				  " ended_at = clock_timestamp(), last_step_at = clock_timestamp(), last_step_term = $6, " RECORD_TIME
				  " WHERE procedure_id = $1",
				  SPI_OK_UPDATE, lengthof(arguments), arguments);
	procedure_sql("DELETE FROM amoro_meta.procedure_claim WHERE procedure_id = $1", SPI_OK_DELETE, 1, arguments);
}

/*
 * procedure_record_failure notes a failed attempt and when to try again; the time of the procedure begins to run.
 */
void
procedure_record_failure(const Procedure *procedure, const ErrorData *error, bool abandon,
						 TimestampTz not_before)
{
	const ProcedureStep *step = procedure_machine_find(procedure->kind, procedure->state);
	bool		undoable = step != NULL && step->undo != NULL;
	SqlArgument arguments[] = {
		sql_bigint(procedure->procedure_id), sql_text(unpack_sql_state(error->sqlerrcode)),
		sql_text(error->message), sql_text(error->detail), sql_boolean(abandon), sql_timestamptz(not_before),
		sql_timestamptz(undoable ? default_deadline() : DT_NOBEGIN)
	};

	procedure_sql("UPDATE amoro_meta.procedure SET attempts = attempts + 1,"
				  " error_code = $2, error_message = $3, error_detail = $4,"
				  " abandoned = abandoned OR $5, not_before = $6, deadline = coalesce(deadline, $7),"
				  " last_step_at = clock_timestamp()"
				  " WHERE procedure_id = $1",
				  SPI_OK_UPDATE, lengthof(arguments), arguments);
}
