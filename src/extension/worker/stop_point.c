/*
 * stop_point.c
 *		Points at which a test can make the coordinator stand still, to stage a race.
 */
#include "postgres.h"

#include "compat.h"
#include "guc.h"
#include "miscadmin.h"
#include "postmaster/interrupt.h"
#include "shmem.h"
#include "storage/latch.h"
#include "utils/guc.h"
#include "worker/stop_point.h"

static void
report_stopped_at(const char *name)
{
	DatabaseEntry *entry;

	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	entry = database_entry_find(MyDatabaseId);
	if (entry != NULL)
		strlcpy(entry->stopped_at, name, sizeof(entry->stopped_at));
	LWLockRelease(AmoroShared->lock);
}

/* See stop_point.h. The wait is seen in amoro_stat_coordinator.stopped_at; a reload of the settings ends it. */
void
stop_point(const char *name)
{
	static uint32 wait_event = 0;

	if (AmoroShared == NULL || strcmp(guc_debug_stop_at, name) != 0)
		return;

	if (wait_event == 0)
		wait_event = WaitEventExtensionNew("AmoroMetaStopPoint");
	report_stopped_at(name);
	while (strcmp(guc_debug_stop_at, name) == 0)
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 1000L, wait_event);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
	}
	report_stopped_at("");
	/* What woke the coordinator while it stood here is still to be looked at. */
	SetLatch(MyLatch);
}
