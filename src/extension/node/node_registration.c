/*
 * node_registration.c
 *		What register_node leaves to the end of its transaction: only a committed
 *		registration supersedes the older incarnation, and only a committed one may get
 *		a lease (docs/protocol.md, section 3, rule 9).
 */
#include "postgres.h"

#include "access/xact.h"
#include "fmgr.h"
#include "lease/lease.h"
#include "miscadmin.h"
#include "node/node.h"
#include "node/node_grant.h"
#include "nodes/pg_list.h"
#include "utils/memutils.h"
#include "utils/uuid.h"

PG_FUNCTION_INFO_V1(amoro_meta_attach_node);
PG_FUNCTION_INFO_V1(amoro_meta_require_coordinator);
PG_FUNCTION_INFO_V1(amoro_meta_may_hold_lease);

/* One call of register_node in the transaction at hand. */
typedef struct Registration
{
	SubTransactionId subtransaction;
	LeaseRequest request;
	int64		number;
} Registration;

/* In TopTransactionContext, in the order of the calls. */
static List *registrations = NIL;

static void
transaction_ends(XactEvent event, void *argument)
{
	ListCell   *cell;

	if (registrations == NIL)
		return;
	if (event == XACT_EVENT_PRE_PREPARE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot prepare a transaction that has registered a node"),
				 errhint("Use COMMIT instead of PREPARE TRANSACTION.")));
	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT)
		return;
	foreach(cell, registrations)
	{
		Registration *registration = lfirst(cell);

		if (event == XACT_EVENT_COMMIT)
			lease_registration_committed(&registration->request, registration->number);
		else
			lease_registration_rolled_back(&registration->request);
	}
	/* its memory goes with the transaction */
	registrations = NIL;
}

static void
subtransaction_ends(SubXactEvent event, SubTransactionId subtransaction, SubTransactionId parent, void *argument)
{
	ListCell   *cell;

	if (event != SUBXACT_EVENT_COMMIT_SUB && event != SUBXACT_EVENT_ABORT_SUB)
		return;
	foreach(cell, registrations)
	{
		Registration *registration = lfirst(cell);

		if (registration->subtransaction != subtransaction)
			continue;
		if (event == SUBXACT_EVENT_COMMIT_SUB)
			registration->subtransaction = parent;
		else
		{
			lease_registration_rolled_back(&registration->request);
			registrations = foreach_delete_current(registrations, cell);
		}
	}
}

/* See node.h. */
void
node_install_callbacks(void)
{
	RegisterXactCallback(transaction_ends, NULL);
	RegisterSubXactCallback(subtransaction_ends, NULL);
}

/*
 * amoro_meta_attach_node(node_id bigint, incarnation uuid) returns node_grant: the slot of a registration whose row is
 * written and locked. Errors: AM003 when the incarnation is superseded, AM005, 22023 when the settings do not fit
 * together, 53400 when there is no room.
 */
Datum
amoro_meta_attach_node(PG_FUNCTION_ARGS)
{
	Registration *registration;
	LeaseGrant	grant;
	LeaseRefusal refusal;
	MemoryContext caller;

	node_require_primary();
	/* Room first: once the slot is made, the list must know of it. */
	caller = MemoryContextSwitchTo(TopTransactionContext);
	registration = palloc0(sizeof(*registration));
	registrations = lappend(registrations, registration);
	MemoryContextSwitchTo(caller);

	registration->subtransaction = GetCurrentSubTransactionId();
	registration->request.database = MyDatabaseId;
	registration->request.role = GetOuterUserId();
	registration->request.node_id = PG_GETARG_INT64(0);
	registration->request.incarnation = *PG_GETARG_UUID_P(1);
	refusal = lease_register(&registration->request, &grant, &registration->number);
	if (refusal != LEASE_ACCEPTED)
	{
		LeaseRequest request = registration->request;

		registrations = list_delete_ptr(registrations, registration);
		lease_raise(refusal, &request);
	}
	/* A lease must never be older than the durable record of its holder. */
	ForceSyncCommit();
	return node_grant_datum(fcinfo, registration->request.node_id, &grant);
}

/* amoro_meta_require_coordinator() raises 25006 on a standby, AM005 unless a coordinator has begun a term. */
Datum
amoro_meta_require_coordinator(PG_FUNCTION_ARGS)
{
	node_require_primary();
	lease_require_coordinator();
	PG_RETURN_VOID();
}

/* amoro_meta_may_hold_lease(node_id bigint, incarnation uuid) returns boolean: false when it surely holds none. */
Datum
amoro_meta_may_hold_lease(PG_FUNCTION_ARGS)
{
	LeaseRequest request = {.database = MyDatabaseId};

	request.node_id = PG_GETARG_INT64(0);
	request.incarnation = *PG_GETARG_UUID_P(1);
	PG_RETURN_BOOL(AmoroShared != NULL && lease_incarnation_known(&request));
}
