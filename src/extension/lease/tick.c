/*
 * tick.c
 *		Proof that this server is still the primary of its synchronous standbys
 *		(docs/protocol.md, rule 11; amoro_meta.require_synchronous_tick).
 *
 * A tick is a record in the write-ahead log. It is confirmed when the synchronous
 * standbys have flushed the log up to it, which the walsenders keep in shared
 * memory. So nobody waits, and what ends a wait without a confirmation (a
 * cancellation, synchronous_standby_names emptied) ends nothing here.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "compat.h"
#include "lease/lease.h"
#include "lease/tick.h"
#include "miscadmin.h"
#include "replication/syncrep.h"
#include "replication/walsender.h"
#include "replication/walsender_private.h"
#include "utils/timestamp.h"

/*
 * Ticks are written four times in the time for which one is good. Eight on their way cover twice that time; when that
 * many are not confirmed, the standby is away, and no more are written until it is back.
 */
#define TICKS_IN_FLIGHT 8
#define TICKS_EACH_TIME 4
/* How often it is looked for a confirmation that leases wait for, in the same time. */
#define LOOKS_EACH_TIME 16

typedef struct Tick
{
	LeaseTime	written_after;	/* read before the record was made */
	TimestampTz shown;			/* the same moment, for people */
	XLogRecPtr	end;
} Tick;

/* Written, not confirmed, oldest first. */
static Tick in_flight[TICKS_IN_FLIGHT];
static int	in_flight_count = 0;
static LeaseTime written_at = 0;
static bool overdue_reported = false;

/* What the synchronous standbys have flushed. Grows only by their own reports, and is 0 when there never was one. */
static XLogRecPtr
confirmed_position(void)
{
	XLogRecPtr	position;

	LWLockAcquire(SyncRepLock, LW_SHARED);
	position = WalSndCtl->lsn[SYNC_REP_WAIT_FLUSH];
	LWLockRelease(SyncRepLock);
	return position;
}

static bool
standbys_are_named(void)
{
	return SyncRepStandbyNames != NULL && SyncRepStandbyNames[0] != '\0';
}

/* See tick.h. */
bool
tick_allows_grant_locked(const DatabaseEntry *entry, LeaseTime now)
{
	return entry->settings.tick_us == 0 ||
		(entry->tick_confirmed != 0 && now - entry->tick_confirmed <= entry->settings.tick_us);
}

/* See tick.h. lease_begin_term and lease_publish_settings have taken back the confirmation itself. */
void
tick_start_over(void)
{
	in_flight_count = 0;
	written_at = 0;
}

/* Takes the ticks that are confirmed out of those in flight; *newest is the last of them, if there is one. */
static bool
take_confirmed(Tick *newest)
{
	XLogRecPtr	position;
	int			confirmed = 0;

	if (in_flight_count == 0)
		return false;
	position = confirmed_position();
	while (confirmed < in_flight_count && in_flight[confirmed].end <= position)
		*newest = in_flight[confirmed++];
	in_flight_count -= confirmed;
	memmove(in_flight, in_flight + confirmed, in_flight_count * sizeof(Tick));
	return confirmed > 0;
}

/* The record carries nothing; logical decoding shows it as a message with the prefix amoro_meta. */
static void
write_tick(LeaseTime now)
{
	Tick	   *tick = &in_flight[in_flight_count];

	tick->written_after = now;
	tick->shown = GetCurrentTimestamp();
	tick->end = compat_log_message("amoro_meta");
	XLogFlush(tick->end);
	in_flight_count++;
	written_at = now;
}

/* One line when leases stop for want of ticks, one when they go on. */
static void
report(bool overdue, int64 tick_us)
{
	if (overdue == overdue_reported)
		return;
	overdue_reported = overdue;
	if (overdue)
		ereport(WARNING,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("amoro_meta grants no leases: no synchronous standby has confirmed a tick"),
				 errdetail("A tick must be confirmed within " INT64_FORMAT " ms of its beginning.", tick_us / 1000),
				 standbys_are_named() ?
				 errhint("SELECT * FROM pg_stat_replication;") :
				 errhint("Name the standbys in synchronous_standby_names, or set amoro_meta.require_synchronous_tick = off.")));
	else
		ereport(LOG,
				(errmsg("amoro_meta grants leases again: the synchronous standby has confirmed a tick")));
}

/* See tick.h. */
LeaseTime
tick_keep_up(void)
{
	LeaseTime	now = lease_clock_now();
	Tick		newest = {0};
	bool		confirmed = take_confirmed(&newest);
	DatabaseEntry *entry;
	int64		tick_us = 0;
	bool		fresh = false;
	bool		overdue = false;

	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	entry = database_entry_find(MyDatabaseId);
	if (entry != NULL && entry->term != 0)
	{
		tick_us = entry->settings.tick_us;
		if (confirmed)
		{
			entry->tick_confirmed = newest.written_after;
			entry->last_tick_at = newest.shown;
		}
		fresh = entry->tick_confirmed != 0 && now - entry->tick_confirmed <= tick_us / 2;
		/* a term that has just begun has not failed to tick yet */
		overdue = tick_us != 0 && !tick_allows_grant_locked(entry, now) && now - entry->tick_required_since > tick_us;
		entry->tick_pending_since = in_flight_count > 0 ? in_flight[0].shown : 0;
	}
	LWLockRelease(AmoroShared->lock);
	if (tick_us == 0)
	{
		tick_start_over();
		overdue_reported = false;
		return 0;
	}

	report(overdue, tick_us);
	if (in_flight_count < TICKS_IN_FLIGHT && (written_at == 0 || now < written_at || now - written_at >= tick_us / TICKS_EACH_TIME))
		write_tick(now);
	if (fresh)
		return written_at + tick_us / TICKS_EACH_TIME;
	return now + Max(tick_us / LOOKS_EACH_TIME, 1000);
}
