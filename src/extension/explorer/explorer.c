/*
 * explorer.c
 *		The background worker of one database that is on the network, so that the coordinator never is.
 *
 * Its loop waits for its latch and its sockets together. No transaction is open while it waits. It works only while
 * the coordinator of its database does: that one knows whether the data is ours.
 */
#include "explorer/explorer.h"

#include "access/xact.h"
#include "compat.h"
#include "explorer/explorer_call.h"
#include "explorer/explorer_record.h"
#include "explorer/explorer_round.h"
#include "fmgr.h"
#include "guc.h"
#include "http/http.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "shmem.h"
#include "storage/latch.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "worker/coordinator_transaction.h"
#include "worker/lifecycle.h"
#include "worker/stop_point.h"
#include "worker/worker_place.h"

#define SECOND_US INT64CONST(1000000)
/* Catalogs that are explored at the same time. */
#define MOST_ROUNDS 32
/* How long catalogs have their turn at least, when there is that much to do. */
#define TURN_US (SECOND_US / 50)
/* How long calls are waited for meanwhile, at most. */
#define LONGEST_CALLS_US (SECOND_US / 10)
/* How soon it is looked again whether the coordinator is at work, and after an error. */
#define PASSIVE_US SECOND_US
#define ERROR_DELAY_US SECOND_US

static dlist_head rounds = DLIST_STATIC_INIT(rounds);
static MemoryContext cycle_context = NULL;
static LeaseTime claim_at = 0;
static bool begun = false;

static void
leave(int code, Datum database)
{
	worker_place_leave(WORKER_EXPLORER, DatumGetObjectId(database), NULL);
}

static bool
coordinator_works(void)
{
	DatabaseEntry *entry;
	bool		works;

	LWLockAcquire(AmoroShared->lock, LW_SHARED);
	entry = database_entry_find(MyDatabaseId);
	works = entry != NULL && entry->state == COORDINATOR_RUNNING;
	LWLockRelease(AmoroShared->lock);
	return works;
}

/* Forgets all rounds and calls; they are begun anew, from that moment on. */
static void
abandon_all(LeaseTime again_at)
{
	while (!dlist_is_empty(&rounds))
		round_free(dlist_head_element(Round, node, &rounds));
	calls_abandon(again_at);
	begun = false;
	claim_at = again_at;
}

static int
count_rounds(void)
{
	dlist_iter	iter;
	int			count = 0;

	dlist_foreach(iter, &rounds)
		count++;
	return count;
}

/* Takes a round one step further, or ends it when it is over; returns when it is to be looked at again. */
static LeaseTime
advance_round(Round *round)
{
	LeaseTime	round_at;
	LeaseTime	shown_at;

	if (round->over_at <= lease_clock_now() && round_advance(round))
	{
		if (record_end(round))
		{
			round_free(round);
			claim_at = 0;
			return 0;
		}
		round->over_at = lease_clock_now() + SECOND_US;
	}
	round_at = round_next(round);
	shown_at = lease_clock_now() + SECOND_US;
	return round_at == 0 ? shown_at : Min(round_at, shown_at);
}

/* Takes all rounds further, or as many as there is time for, which then come last the next time. */
static void
advance_rounds(LeaseTime *next)
{
	LeaseTime	begun_at = lease_clock_now();

	for (int left = count_rounds(); left > 0; left--)
	{
		Round	   *round = dlist_head_element(Round, node, &rounds);
		LeaseTime	round_at;

		if (lease_clock_now() - begun_at >= TURN_US)
		{
			*next = begun_at;
			return;
		}
		dlist_move_tail(&rounds, &round->node);
		round_at = advance_round(round);
		*next = Min(*next, round_at);
	}
}

/* Begins rounds of catalogs that are due. */
static void
claim_due(LeaseTime *next)
{
	LeaseTime	now = lease_clock_now();
	ErrorData  *error = NULL;
	int64		due = 0;

	if (now < claim_at)
		return;
	if (!begun)
		error = record_begin();
	begun = begun || error == NULL;
	if (error == NULL)
		error = record_claim(&rounds, MOST_ROUNDS);
	if (error == NULL)
		error = record_next_due(&rounds, &due);
	if (error != NULL)
	{
		record_note_error("look for catalogs to explore", error);
		claim_at = lease_clock_now() + ERROR_DELAY_US;
		return;
	}
	if (due < 0)
		due = (int64) guc_explore_interval * 1000;
	/* what is due but finds no place is looked for when a round ends */
	claim_at = now + (due == 0 ? SECOND_US : Min(due, (int64) guc_explore_interval * 1000));
}

static bool
take_finished(bool urgent)
{
	if (!http_take_finished(urgent))
		return false;
	MemoryContextReset(cycle_context);
	CHECK_FOR_INTERRUPTS();
	return true;
}

/* The extension may be gone, or be on its way. */
static void
leave_without_extension(void)
{
	ExtensionPresence presence = coordinator_probe_extension();

	if (presence == EXTENSION_ABSENT || presence == EXTENSION_OTHER_VERSION)
		proc_exit(0);
}

/* Waits for the network, or for whoever wakes us, who may want anything. */
static void
wait_for_work(int64 left)
{
	static uint32 wait_event = 0;
	bool		woken = explorer_was_woken();

	if (wait_event == 0)
		wait_event = WaitEventExtensionNew("AmoroMetaExplorerMain");
	if (http_wait(woken ? 0 : Max(left, 0), wait_event))
	{
		woken = true;
		/* what the latch was set for is seen to now */
		(void) explorer_was_woken();
	}
	if (woken)
	{
		claim_at = 0;
		calls_look_again();
		leave_without_extension();
	}
	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
		claim_at = 0;
	}
}

/*
 * Whatever there is to do about calls, after catalogs were at work for so long. An answer takes several steps on the network, for none of
 * which it is waited until catalogs have had another turn: they have most of the time, but never all of it. Returns when there is
 * something to do again.
 */
static LeaseTime
take_calls(int64 busy_us)
{
	LeaseTime	until = lease_clock_now() + Min(busy_us / 10, LONGEST_CALLS_US);

	/* somebody may have made a call meanwhile */
	if (busy_us >= TURN_US)
		wait_for_work(0);
	for (;;)
	{
		LeaseTime	next;
		int64		left;

		while (take_finished(/* urgent= */ true))
			;
		next = calls_advance();
		left = until - lease_clock_now();
		/* waits are whole milliseconds */
		if (left < 1000 || !calls_are_under_way())
			return next;
		wait_for_work(left);
	}
}

/* Takes in answers of catalogs, as long as there is time for it; what is begun is done. */
static void
take_listings(LeaseTime *next)
{
	LeaseTime	begun_at = lease_clock_now();

	while (lease_clock_now() - begun_at < TURN_US && take_finished(/* urgent= */ false))
		;
}

/*
 * One round of everything there is to do; returns the moment of the next one. Calls have their turn before whatever is done for
 * catalogs, so that neither waits for as long as there is something to do for the other.
 */
static LeaseTime
run_cycle(void)
{
	static void (*const catalog_work[]) (LeaseTime *next) = {take_listings, advance_rounds, claim_due, advance_rounds};
	static int64 busy_us = 0;
	LeaseTime	next = PG_INT64_MAX;
	LeaseTime	next_call = 0;

	stop_point("explore");
	if (!coordinator_works())
	{
		abandon_all(0);
		return lease_clock_now() + PASSIVE_US;
	}
	for (int i = 0; i < lengthof(catalog_work); i++)
	{
		LeaseTime	begun_at;

		next_call = take_calls(busy_us);
		begun_at = lease_clock_now();
		catalog_work[i] (&next);
		busy_us = lease_clock_now() - begun_at;
	}
	if (http_has_finished() || claim_at == 0)
		return lease_clock_now();
	next = Min(next, claim_at);
	return Min(next, next_call);
}

static void
clean_up_after_error(void)
{
	AbortCurrentTransaction();
	LWLockReleaseAll();
	pgstat_report_wait_end();
	MemoryContextSwitchTo(cycle_context);
	FlushErrorState();
	pgstat_report_activity(STATE_IDLE, NULL);
}

/* Runs a cycle and waits; an error ends neither this process nor the loop, but everything begins anew. */
static void
guarded_cycle(void)
{
	PG_TRY();
	{
		LeaseTime	next = run_cycle();

		wait_for_work(next - lease_clock_now());
	}
	PG_CATCH();
	{
		bool		canceled = geterrcode() == ERRCODE_QUERY_CANCELED;

		HOLD_INTERRUPTS();
		MemoryContextSwitchTo(cycle_context);
		/* somebody drops the extension: that is no error of ours */
		if (geterrcode() != ERRCODE_LOCK_NOT_AVAILABLE && geterrcode() != ERRCODE_UNDEFINED_OBJECT)
			EmitErrorReport();
		clean_up_after_error();
		abandon_all(lease_clock_now() + (canceled ? 0 : ERROR_DELAY_US));
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(cycle_context);
	MemoryContextReset(cycle_context);
}

/* Entry point of the process; its argument is the oid of the database. */
void
amoro_meta_explorer_main(Datum database)
{
	worker_connect(DatumGetObjectId(database), leave);
	if (!worker_place_enter(WORKER_EXPLORER, NULL) || lifecycle_is_held(MyDatabaseId))
		proc_exit(0);
	coordinator_pin_settings();
	coordinator_transaction_of_explorer();
	cycle_context = AllocSetContextCreate(TopMemoryContext, "amoro_meta explorer", ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(cycle_context);
	http_initialize();
	leave_without_extension();
	pgstat_report_appname("amoro_meta explorer");
	pgstat_report_activity(STATE_IDLE, NULL);
	for (;;)
		guarded_cycle();
}
