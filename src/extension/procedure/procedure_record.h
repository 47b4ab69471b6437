/*
 * procedure_record.h
 *		The rows of amoro_meta.procedure, as the engine reads and writes them.
 */
#ifndef AMORO_META_PROCEDURE_RECORD_H
#define AMORO_META_PROCEDURE_RECORD_H

#include "postgres.h"

#include "procedure/procedure_machine.h"

/* Locks and reads the row of a procedure in flight; false when it has ended or somebody else has it locked. */
extern bool procedure_record_lock(int64 procedure_id, Procedure *procedure);
/* Goes to the next state of its step, or stays for ACTION_AGAIN; ends the procedure when that was the last one. */
extern void procedure_record_advance(const Procedure *procedure, const ProcedureStep *step, ActionResult result);
/* Ends the procedure: outcome, error (NULL: keeps the recorded one), claims. */
extern void procedure_record_end(const Procedure *procedure, const char *outcome, const char *error_code,
								 const char *message, const char *detail);
/* Notes a failed attempt; abandon: it is to be undone. */
extern void procedure_record_failure(const Procedure *procedure, const ErrorData *error, bool abandon,
									 TimestampTz not_before);

#endif							/* AMORO_META_PROCEDURE_RECORD_H */
