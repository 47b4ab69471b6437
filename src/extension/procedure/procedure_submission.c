/*
 * procedure_submission.c
 *		What a submission needs besides its SQL: a coordinator that will work on it, and to wake it at commit.
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "fmgr.h"
#include "lease/lease.h"
#include "miscadmin.h"
#include "procedure/procedure.h"
#include "shmem.h"
#include "worker/coordinator.h"

PG_FUNCTION_INFO_V1(amoro_meta_begin_submission);
PG_FUNCTION_INFO_V1(amoro_meta_wake_coordinator_at_commit);

/* This transaction wrote something that the coordinator waits for. */
static bool wake_at_commit = false;

static void
procedure_transaction_ends(XactEvent event, void *argument)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
			if (wake_at_commit && AmoroShared != NULL)
				coordinator_wake(MyDatabaseId);
			wake_at_commit = false;
			break;
		case XACT_EVENT_ABORT:
			/* it may have kept a row locked that the coordinator skipped */
			if (wake_at_commit && AmoroShared != NULL)
				coordinator_wake(MyDatabaseId);
			wake_at_commit = false;
			break;
		case XACT_EVENT_PRE_PREPARE:
			/* COMMIT PREPARED would wake nobody, and may never come while the names stay taken. */
			if (wake_at_commit)
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("cannot prepare a transaction that has submitted or cancelled a procedure"),
						 errhint("Use COMMIT instead of PREPARE TRANSACTION.")));
			break;
		default:
			break;
	}
}

/*
 * procedure_install_callbacks registers the transaction callback. See the header.
 */
void
procedure_install_callbacks(void)
{
	RegisterXactCallback(procedure_transaction_ends, NULL);
}

/*
 * amoro_meta_wake_coordinator_at_commit() makes the end of this transaction wake the coordinator.
 */
Datum
amoro_meta_wake_coordinator_at_commit(PG_FUNCTION_ARGS)
{
	wake_at_commit = true;
	PG_RETURN_VOID();
}

/*
 * amoro_meta_begin_submission() raises 25006 on a standby and AM005 without a coordinator; from here on the
 * end of this transaction wakes the coordinator.
 */
Datum
amoro_meta_begin_submission(PG_FUNCTION_ARGS)
{
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("cannot submit a procedure on a standby"),
				 errhint("Connect to the primary server.")));
	lease_require_coordinator();
	wake_at_commit = true;
	PG_RETURN_VOID();
}
