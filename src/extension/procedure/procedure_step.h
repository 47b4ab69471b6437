/*
 * procedure_step.h
 *		One step of one procedure, in a transaction of its own.
 */
#ifndef AMORO_META_PROCEDURE_STEP_H
#define AMORO_META_PROCEDURE_STEP_H

#include "postgres.h"

#include "clock.h"

typedef enum StepResult
{
	STEP_NOT_MADE,				/* it waits, failed, or somebody else has its row locked */
	STEP_MADE,
	STEP_ENDED					/* made, and that was the last one */
} StepResult;

/*
 * Makes the next step of a procedure, if the frontier lets it. An error is recorded on its row and not raised, except
 * AM004: then this coordinator is no longer the one. *moment: when to look at it again; 0: at the next wake-up.
 */
extern StepResult procedure_step_run(int64 procedure_id, int64 frontier, LeaseTime *moment);
/* Until when a procedure is left alone whose failure could not be recorded; 0: none. */
extern LeaseTime procedure_step_delayed_until(int64 procedure_id);

#endif							/* AMORO_META_PROCEDURE_STEP_H */
