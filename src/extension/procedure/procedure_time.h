/*
 * procedure_time.h
 *		What a procedure was in a state for so long for, as amoro_stat_procedure says it.
 */
#ifndef AMORO_META_PROCEDURE_TIME_H
#define AMORO_META_PROCEDURE_TIME_H

#include "postgres.h"

#include "procedure/procedure_machine.h"

/*
 * Of a procedure that now leaves its state: "coordinator": until somebody took it up; "apply": until the nodes had applied
 * a version; "lease": until the lease of a node was over that did not; "retry": attempts failed; "work": it was not waiting.
 */
extern const char *procedure_time_cause(const Procedure *procedure);

#endif							/* AMORO_META_PROCEDURE_TIME_H */
