/*
 * procedure_machine.h
 *		The machine of the procedures: for every kind and state, what is done there and what comes next.
 */
#ifndef AMORO_META_PROCEDURE_MACHINE_H
#define AMORO_META_PROCEDURE_MACHINE_H

#include "postgres.h"

#include "change/change.h"
#include "clock.h"
#include "utils/timestamp.h"

#define PROCEDURE_DONE "done"
/* Version of the layout of amoro_meta.procedure.arguments; a row that says another one is quarantined. */
#define PROCEDURE_FORMAT 1

/* A row of amoro_meta.procedure, locked by the step that works on it; lives as long as the step. */
typedef struct Procedure
{
	int64		procedure_id;
	const char *kind;
	const char *state;
	const char *catalog_name;
	const char *database_name;	/* NULL: the object is above or outside databases */
	const char *object_name;	/* NULL: the object is the database */
	int64		object_id;
	Jsonb	   *arguments;
	int64		wait_version;	/* 0: waits for no version */
	TimestampTz deadline;		/* DT_NOBEGIN: none yet, or past the point of no return */
	TimestampTz not_before;		/* DT_NOBEGIN: at once */
	int			attempts;		/* failed ones, of this step */
	TimestampTz state_since;
	bool		cancel_requested;
	bool		abandoned;		/* a step failed for good: to be undone */
	bool		holds_claims;
	bool		waits_for_nothing;	/* wait_version was never given out */
	const char *error_code;		/* what the last attempt of this step failed with; NULL: nothing */
	const char *error_message;

	/* set by the action */
	int64		appended_version;	/* of the change it appended; 0: none */
	LeaseTime	look_again_at;	/* with ACTION_WAIT: when to look again; 0: when something wakes the coordinator */
} Procedure;

typedef enum ActionResult
{
	ACTION_NEXT,				/* go to the next state */
	ACTION_AGAIN,				/* stay: there is more of the same to do */
	ACTION_WAIT					/* stay: what it waits for has not happened; nothing was written */
} ActionResult;

/* Works in the transaction of a step, through SPI, idempotently: whatever it finds done already, it leaves. */
typedef ActionResult (*ProcedureAction) (Procedure *procedure);

typedef struct ProcedureStep
{
	const char *kind;
	const char *state;
	const char *action_name;
	ProcedureAction action;
	const char *next_state;		/* PROCEDURE_DONE ends the procedure */
	const char *undo_name;
	ProcedureAction undo;		/* NULL: no way back from this state, only forward */
	bool		waits_for_verdict;	/* the action runs once every node has applied the version, or surely stopped */
	bool		irreversible;	/* the action is the point of no return */
	const char *comment;
} ProcedureStep;

/* NULL when the machine knows no such kind or state. */
extern const ProcedureStep *procedure_machine_find(const char *kind, const char *state);

/* procedure_change.c */
/* Appends changes of a procedure to the log, under one version, which becomes appended_version. */
extern void procedure_append(Procedure *procedure, MetadataChange *changes, int count);
extern void procedure_append_one(Procedure *procedure, MetadataChange change);

/* Changes that are collected before they are appended, all under one version. Begins as {0}. */
typedef struct ChangeList
{
	MetadataChange *changes;
	int			count;
	int			room;
} ChangeList;

extern void change_list_add(ChangeList *list, MetadataChange change);
/* Appends them, if there are any. */
extern void procedure_append_list(Procedure *procedure, ChangeList *list);

/* procedure_argument.c: members of the arguments; each raises 42P17 when the member is missing or of another type: the row is unreadable. */
extern bool argument_has(const Procedure *procedure, const char *name);
extern int64 argument_bigint(const Procedure *procedure, const char *name);
extern bool argument_boolean(const Procedure *procedure, const char *name);
extern char *argument_text(const Procedure *procedure, const char *name);
/* NULL when there is no such member */
extern char *argument_optional_text(const Procedure *procedure, const char *name);
extern Jsonb *argument_jsonb(const Procedure *procedure, const char *name);

#endif							/* AMORO_META_PROCEDURE_MACHINE_H */
