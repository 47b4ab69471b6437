/*
 * task_activity.c
 *		Waiting for tasks, and counting what happens to them.
 *
 * All of it is in shared memory and may be lost: whoever waits looks at the rows
 * again after a second at the latest, and the counters are statistics.
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "compat.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "task/task_activity.h"
#include "utils/builtins.h"

/* From that many new tasks on everybody is woken, not one for each. */
#define WAKE_ALL 16

PG_FUNCTION_INFO_V1(amoro_meta_announce_tasks);
PG_FUNCTION_INFO_V1(amoro_meta_count_task_event);
PG_FUNCTION_INFO_V1(amoro_meta_task_events);

/* Names of the events, in the order of TaskEvent. */
static const char *const event_names[] = {
	"poll", "empty_poll", "claim", "over_quota", "ack", "stale_ack", "success", "failure", "retry", "reset",
	"late_completion", "cancelled_completion", "expired_optimizer"
};

StaticAssertDecl(lengthof(event_names) == TASK_EVENTS, "a name for each event");

/* How many tasks this transaction has put into each channel. */
static uint32 announced[TASK_CHANNELS];
static bool any_announced = false;
/* Has this transaction called for an optimizer? */
static bool has_called = false;

static int
channel_of(const char *group_name)
{
	return (hash_bytes((const unsigned char *) group_name, strlen(group_name)) ^ MyDatabaseId) % TASK_CHANNELS;
}

/* After commit: touches nothing but shared memory and latches. */
static void
wake_optimizers(void)
{
	for (int i = 0; i < TASK_CHANNELS; i++)
	{
		TaskChannel *channel = &AmoroShared->task_channels[i];

		if (announced[i] == 0)
			continue;
		pg_atomic_fetch_add_u64(&channel->announcements, 1);
		if (announced[i] >= WAKE_ALL)
			ConditionVariableBroadcast(&channel->waiters);
		else
			for (uint32 n = 0; n < announced[i]; n++)
				ConditionVariableSignal(&channel->waiters);
	}
}

static void
transaction_ends(XactEvent event, void *argument)
{
	/* It would keep what it has claimed, and the processes it has locked, from everybody for as long as it likes. */
	if (event == XACT_EVENT_PRE_PREPARE && has_called)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot prepare a transaction that has called for an optimizer"),
				 errhint("Use COMMIT instead of PREPARE TRANSACTION.")));
	if (event == XACT_EVENT_PRE_COMMIT || event == XACT_EVENT_PRE_PREPARE)
		return;
	has_called = false;
	if (!any_announced)
		return;
	if (event == XACT_EVENT_COMMIT && AmoroShared != NULL)
		wake_optimizers();
	memset(announced, 0, sizeof(announced));
	any_announced = false;
}

/* task_install_callbacks makes commits wake who waits for what they bring. Called from _PG_init. */
void
task_install_callbacks(void)
{
	RegisterXactCallback(transaction_ends, NULL);
}

/* amoro_meta_announce_tasks(group_name, task_count): see the COMMENT in src/schema/task.sql. */
Datum
amoro_meta_announce_tasks(PG_FUNCTION_ARGS)
{
	char	   *group_name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	int32		count = PG_GETARG_INT32(1);
	int			channel = channel_of(group_name);

	if (count > 0)
	{
		announced[channel] = Min(announced[channel] + (uint64) count, PG_UINT32_MAX);
		any_announced = true;
	}
	PG_RETURN_VOID();
}

/* See task_activity.h. */
uint64
task_announcements(const char *group_name)
{
	if (AmoroShared == NULL)
		return 0;
	return pg_atomic_read_u64(&AmoroShared->task_channels[channel_of(group_name)].announcements);
}

/* See task_activity.h. */
void
task_wait(const char *group_name, uint64 seen, long wait_ms)
{
	static uint32 wait_event = 0;
	TaskChannel *channel;

	if (AmoroShared == NULL)
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, wait_ms, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		return;
	}
	if (wait_event == 0)
		wait_event = WaitEventExtensionNew("AmoroMetaTasks");
	channel = &AmoroShared->task_channels[channel_of(group_name)];
	ConditionVariablePrepareToSleep(&channel->waiters);
	while (pg_atomic_read_u64(&channel->announcements) == seen)
	{
		if (ConditionVariableTimedSleep(&channel->waiters, wait_ms, wait_event))
			break;
	}
	ConditionVariableCancelSleep();
}

/* The counters of this database; NULL without preload, and when there are more databases than places. */
static TaskCounters *
own_counters(void)
{
	static TaskCounters *counters = NULL;

	if (counters != NULL || AmoroShared == NULL)
		return counters;
	for (int i = 0; i < TASK_COUNTER_PLACES && counters == NULL; i++)
	{
		TaskCounters *place = &AmoroShared->task_counters[i];
		uint32		owner = InvalidOid;

		if (pg_atomic_compare_exchange_u32(&place->database, &owner, MyDatabaseId) || owner == MyDatabaseId)
			counters = place;
	}
	return counters;
}

/* task_count counts an event of this database, for amoro_stat_task. */
void
task_count(TaskEvent event)
{
	TaskCounters *counters = own_counters();

	has_called = true;
	if (counters != NULL)
		pg_atomic_fetch_add_u64(&counters->events[event], 1);
}

/* See the header. */
void
task_count_reset(void)
{
	TaskCounters *counters = own_counters();

	for (int event = 0; counters != NULL && event < TASK_EVENTS; event++)
		pg_atomic_write_u64(&counters->events[event], 0);
}

/* amoro_meta_count_task_event(event) counts an event by its name. */
Datum
amoro_meta_count_task_event(PG_FUNCTION_ARGS)
{
	char	   *name = text_to_cstring(PG_GETARG_TEXT_PP(0));

	for (int event = 0; event < TASK_EVENTS; event++)
	{
		if (strcmp(event_names[event], name) == 0)
		{
			task_count(event);
			PG_RETURN_VOID();
		}
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unknown event of tasks: \"%s\"", name)));
}

/* amoro_meta_task_events() returns the name and the count of each event; counts are NULL without preload. */
Datum
amoro_meta_task_events(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	TaskCounters *counters = own_counters();

	InitMaterializedSRF(fcinfo, 0);
	for (int event = 0; event < TASK_EVENTS; event++)
	{
		Datum		values[] = {
			CStringGetTextDatum(event_names[event]),
			Int64GetDatum(counters != NULL ? pg_atomic_read_u64(&counters->events[event]) : 0)
		};
		bool		nulls[] = {false, counters == NULL};

		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}
