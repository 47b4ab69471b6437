/*
 * lease_term.c
 *		The beginning and end of a coordinator's term, and the settings that leases are
 *		made of (docs/protocol.md, section 3, rules 2, 5 and 10).
 */
#include "postgres.h"

#include "guc.h"
#include "lease/lease.h"
#include "lease/lease_slot.h"
#include "miscadmin.h"

/* Rule 5: whoever may hold a lease of an older term counts, with nothing applied, until it activates or that lease is over. */
static void
expect_node(NodeSlot *slot, LeaseTime owed_until)
{
	if (slot->state == NODE_RELEASED)
		return;
	slot->state = NODE_JOINING;
	slot->held = false;
	slot->lease_epoch++;
	slot->applied_version = 0;
	slot->behind_since = 0;
	slot->owed_until = Max(slot->owed_until, owed_until);
}

/* Slots from an earlier term of this server start: what the registry does not speak of can only wait for its end. */
static void
expect_known_nodes(Oid database, LeaseTime owed_until)
{
	NodeSlot   *slot = NULL;

	while ((slot = slot_of_database(database, slot)) != NULL)
	{
		slot->superseded = !slot->pending;
		slot->forgotten = slot->superseded;
		expect_node(slot, owed_until);
	}
}

/* One row of the registry; false when there is no slot for it. */
static bool
expect_registered_node(Oid database, const RegisteredNode *node, LeaseTime owed_until)
{
	NodeSlot   *slot = slot_find(database, node->node_id, &node->incarnation);

	if (slot == NULL)
	{
		slot = slot_take(database, node->node_id, &node->incarnation, node->role);
		if (slot == NULL)
			return false;
		slot->owed_until = owed_until;
	}
	slot->role = node->role;
	slot->superseded = node->superseded;
	slot->forgotten = false;
	slot->removing = node->removing;
	return true;
}

/* A tick that was confirmed before says nothing about the standby's knowledge of these settings (rule 11). */
static void
publish_settings_locked(DatabaseEntry *entry, LeaseSettings settings, LeaseTime now)
{
	entry->settings = settings;
	entry->tick_confirmed = 0;
	entry->tick_required_since = now;
	entry->last_tick_at = 0;
	entry->tick_pending_since = 0;
}

/*
 * lease_begin_term publishes a term that is durable, with its settings and the version that was read in it, and
 * expects every node of the list (rule 5). longest_owed_us is for how long the longest lease ever granted is owed;
 * settings with lease_us = 0 grant nothing until lease_publish_settings. The caller has claimed the entry.
 */
void
lease_begin_term(Oid database, int64 term, LeaseSettings settings, int64 longest_owed_us,
				 int64 version, const RegisteredNode *nodes, int node_count)
{
	DatabaseEntry *entry;
	LeaseTime	now;

	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	entry = database_entry_find(database);
	now = lease_clock_now();
	if (entry != NULL)
	{
		entry->term = term;
		entry->term_start = now;
#ifdef AMORO_WITHOUT_TERM_GRACE
		entry->term_owed_until = now;
#else
		entry->term_owed_until = now + longest_owed_us;
#endif
		publish_settings_locked(entry, settings, now);
		/* a commit may have published a newer version since the caller read its own */
		entry->published_version = Max(entry->published_version, version);
		entry->ring_oldest_version = entry->published_version + 1;
		lease_news_forget_locked(entry);
		entry->awaited_version = 0;
		entry->unseen_owed = false;
		expect_known_nodes(database, entry->term_owed_until);
		for (int i = 0; i < node_count; i++)
		{
			if (nodes[i].node_id == 0 || !expect_registered_node(database, &nodes[i], entry->term_owed_until))
				entry->unseen_owed = true;
		}
	}
	LWLockRelease(AmoroShared->lock);
	lease_wake_waiters(database, 0);
}

/* lease_end_term: see lease.h. The slots stay, so that the next term knows whom to expect. */
void
lease_end_term(Oid database)
{
	DatabaseEntry *entry;

	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	entry = database_entry_find(database);
	if (entry != NULL)
	{
		entry->term = 0;
		entry->published_version = 0;
		entry->ring_oldest_version = 1;
		lease_news_forget_locked(entry);
		entry->awaited_version = 0;
	}
	LWLockRelease(AmoroShared->lock);
	lease_wake_waiters(database, 0);
}

/* lease_forget_database frees every slot of a database that has gone, or has the extension no more. */
void
lease_forget_database(Oid database)
{
	NodeSlot   *slot = NULL;

	lease_end_term(database);
	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	while ((slot = slot_of_database(database, slot)) != NULL)
		slot_free(slot);
	LWLockRelease(AmoroShared->lock);
}

/*
 * lease_publish_settings changes what future grants are made of. The caller has made the longest lease among them
 * durable first (rule 2); leases granted before keep their own ends.
 */
void
lease_publish_settings(Oid database, LeaseSettings settings)
{
	DatabaseEntry *entry;

	LWLockAcquire(AmoroShared->lock, LW_EXCLUSIVE);
	entry = database_entry_find(database);
	if (entry != NULL)
		publish_settings_locked(entry, settings, lease_clock_now());
	LWLockRelease(AmoroShared->lock);
}

/*
 * lease_settings_check makes the settings of the grants from the GUCs, and checks that they fit together (rule 10):
 * a node must be able to miss three heartbeats before its lease ends, and must be found too slow before that.
 * False when they do not; *message and *detail (a sentence with both values, palloc'd) say which.
 */
bool
lease_settings_check(LeaseSettings *settings, const char **message, const char **detail)
{
	int64		lease = guc_metadata_lease_fence_ms;

	settings->lease_us = lease * 1000;
	settings->max_clock_drift_ppm = guc_max_clock_drift_ppm;
	settings->heartbeat_interval_ms = guc_heartbeat_interval;
	settings->ack_timeout_us = (int64) guc_ack_timeout * 1000;
	/* Rounded up. A day times 20 % is 2 * 10^10 us, far from overflow even before the division. */
	settings->owed_us = settings->lease_us + (settings->lease_us * guc_max_clock_drift_ppm + 999999) / 1000000 +
		(int64) guc_lease_margin_ms * 1000;

	settings->tick_us = guc_require_synchronous_tick ? settings->lease_us / 8 : 0;
	/* the age of a tick is measured by the clock of a deposed server, the grace by that of its successor; rounded up */
	settings->grace_us = settings->owed_us +
		(settings->tick_us * (1000000 + guc_max_clock_drift_ppm) + 999999 - guc_max_clock_drift_ppm) /
		(1000000 - guc_max_clock_drift_ppm);

	if (lease < 4 * (int64) guc_heartbeat_interval)
	{
		*message = "amoro_meta.metadata_lease_fence_ms must be at least four times amoro_meta.heartbeat_interval";
		*detail = psprintf("The lease is " INT64_FORMAT " ms, the heartbeat interval %d ms.", lease, guc_heartbeat_interval);
		return false;
	}
	if (lease <= guc_ack_timeout)
	{
		*message = "amoro_meta.metadata_lease_fence_ms must be greater than amoro_meta.ack_timeout";
		*detail = psprintf("The lease is " INT64_FORMAT " ms, the timeout %d ms.", lease, guc_ack_timeout);
		return false;
	}
	if (lease <= guc_lease_margin_ms)
	{
		*message = "amoro_meta.metadata_lease_fence_ms must be greater than amoro_meta.lease_margin_ms";
		*detail = psprintf("The lease is " INT64_FORMAT " ms, the margin %d ms.", lease, guc_lease_margin_ms);
		return false;
	}
	return true;
}

int64
lease_current_term(void)
{
	DatabaseEntry *entry;
	int64		term = 0;

	if (AmoroShared == NULL)
		return 0;
	LWLockAcquire(AmoroShared->lock, LW_SHARED);
	if (lease_entry_locked(MyDatabaseId, &entry) == LEASE_ACCEPTED)
		term = entry->term;
	LWLockRelease(AmoroShared->lock);
	return term;
}
