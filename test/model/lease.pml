/*
 * lease.pml
 *		The lease rules (docs/protocol.md) as a Spin model: one server, one node, one
 *		metadata change, and everything that may go wrong between them. One node is
 *		enough: a verdict is the conjunction of one condition a node.
 *
 * The promise, asserted whenever an answer leaves the node: no node answers from
 * version n after the step that needed n+1 everywhere has committed.
 * The bound, asserted at every tick: no node holds a change longer than
 * ACK_TIMEOUT + LEASE + DRIFT (rule 8), counted anew after a restart of the server.
 *
 * Every step of the node is a step of its own, so it may be paused between any two;
 * messages may be lost, late, and overtaken by the node's next request.
 *
 * Time is discrete. t is true time and the server's clock. The node's clock is slower:
 * it may miss one tick in LEASE + 1. That is the drift bound of this model, so a lease
 * of LEASE ticks of the node lasts at most LEASE + DRIFT ticks of the server.
 *
 * A rule is switched off by -DWITHOUT_<RULE>; test/model/run expects an error then.
 * -DPRELOADED models a cache that is loaded before serving, instead of on demand.
 */
#ifndef HORIZON
#define HORIZON 8				/* true time at which the model stops */
#endif
#define LEASE 2					/* L */
#define DRIFT 1					/* L * drift + margin */
#define ACK_TIMEOUT 1

#ifdef WITHOUT_DRIFT_MARGIN
#define OWED(lease) (lease)
#else
#define OWED(lease) (lease + DRIFT)
#endif

#define NO_VERSION 15

mtype = { slot_joining, slot_active, slot_fenced };	/* the slot, as the server sees it */
mtype = { nothing, heartbeat, activate, granted, activated, behind, reload };

byte t = 0;						/* true time, and the server's clock */

/* server, durable */
byte term = 1;
byte version = 0;				/* of the metadata: 0, and 1 after the change */
bit done = 0;					/* the step that needed version 1 everywhere has committed */

/* server, in shared memory */
byte lease_setting = LEASE;
mtype slot = slot_joining;
byte slot_epoch = 1;
byte slot_applied = 0;
byte owed_until = 0;			/* owed while t < owed_until */
#ifdef WITHOUT_STORED_END
byte granted_at = 0;
#endif
byte holding_since = 0;			/* when the change, or else the term, began */

/* node */
byte clock = 0;
byte since_missed_tick = LEASE;
byte lease_end = 0;
bit serving = 0;				/* believes to be active; the lease is tested besides */
byte node_term = 1;
byte node_epoch = 1;
byte applied = 0;
byte heard = 0;					/* newest version spoken of by the server */
byte cached = NO_VERSION;		/* version of the one cached entry */
byte noted = NO_VERSION;		/* version to activate with; NO_VERSION: recovery not begun */
byte next_term = 1;				/* term and epoch to activate with */
byte next_epoch = 1;

/* node: a load on its way */
bit loading = 0;
bit load_overtaken = 0;			/* the key's generation has moved since the load began */
byte load_version = 0;

/* node: an answer on its way */
bit answering = 0;
bit answer_overtaken = 0;		/* the key's generation has moved since the entry was read */
byte answer_version = 0;

/* network */
mtype request = nothing;
byte request_sent = 0;			/* on the node's clock; it travels only in the model */
byte request_term = 0;
byte request_epoch = 0;
byte request_applied = 0;
bit request_is_newest = 0;
#ifdef WITHOUT_NEWEST_REQUEST
byte newest_sent = 0;			/* when the newest request left: a node that mixes up its requests */
#endif

mtype reply = nothing;
byte reply_sent = 0;
byte reply_term = 0;
byte reply_epoch = 0;
byte reply_version = 0;
byte reply_lease = 0;
bit reply_is_newest = 0;

#define lease_valid (serving && clock < lease_end)

/* The generation of the key moves: by an invalidation, or by a clear. */
inline next_generation()
{
	load_overtaken = loading;
	answer_overtaken = answering
}

inline forget_request()
{
	request = nothing; request_sent = 0; request_term = 0; request_epoch = 0; request_applied = 0; request_is_newest = 0
}

inline forget_reply()
{
	reply = nothing; reply_sent = 0; reply_term = 0; reply_epoch = 0; reply_version = 0; reply_lease = 0; reply_is_newest = 0
}

/* Clearing is cheap and always succeeds; it moves the generation, so loads and answers begun before are refused. */
inline clear()
{
	serving = 0;
	cached = NO_VERSION;
	applied = 0;
	lease_end = 0;
	noted = NO_VERSION;
	next_generation()
}

inline answer_request(kind)
{
	reply = kind;
	reply_sent = request_sent;
	reply_term = term;
	reply_epoch = slot_epoch;
	reply_version = version;
	reply_lease = lease_setting;
	reply_is_newest = request_is_newest;
	forget_request()
}

inline grant()
{
	slot = slot_active;
#ifdef WITHOUT_STORED_END
	granted_at = t;
	owed_until = t + OWED(lease_setting);
#else
	if
	:: t + OWED(lease_setting) > owed_until -> owed_until = t + OWED(lease_setting)
	:: else
	fi;
#endif
	if
	:: request_applied > slot_applied -> slot_applied = request_applied
	:: else
	fi
}

inline fence()
{
	slot = slot_fenced;
	owed_until = 0;
#ifndef WITHOUT_EPOCH
	slot_epoch = slot_epoch + 1
#endif
}

/* Is the lease that the server granted surely over? */
#ifdef WITHOUT_STORED_END
#define lease_over (t >= granted_at + OWED(lease_setting))
#else
#define lease_over (t >= owed_until)
#endif

#define held_back (version > slot_applied && t > holding_since + ACK_TIMEOUT)

inline handle_heartbeat()
{
	if
#ifndef WITHOUT_TERM
	:: request_term != term -> answer_request(reload)
	:: request_term == term ->
#else
	:: true ->
#endif
		if
#ifndef WITHOUT_EPOCH
		:: slot == slot_active && lease_over -> fence(); answer_request(reload)
		:: !(slot == slot_active && lease_over) && (slot != slot_active || request_epoch != slot_epoch) -> answer_request(reload)
		:: slot == slot_active && !lease_over && request_epoch == slot_epoch ->
#else
		:: slot == slot_joining -> answer_request(reload)
		:: slot != slot_joining ->
#endif
			if
			:: request_applied > slot_applied -> slot_applied = request_applied
			:: else
			fi;
			if
#ifndef WITHOUT_HOLD
			:: held_back -> forget_request()
			:: !held_back ->
#else
			:: true ->
#endif
				grant(); answer_request(granted)
			fi
		fi
	fi
}

inline handle_activation()
{
	if
	:: request_term != term || request_epoch != slot_epoch -> answer_request(reload)
	:: request_term == term && request_epoch == slot_epoch ->
		if
#ifndef WITHOUT_CURRENT_VERSION
		:: request_applied != version -> answer_request(behind)
		:: request_applied == version ->
#else
		:: true ->
#endif
			grant(); answer_request(activated)
		fi
	fi
}

/* From when the node counts its new lease. */
#ifdef WITHOUT_SEND_TIME
#define lease_start clock
#else
#ifdef WITHOUT_NEWEST_REQUEST
#define lease_start newest_sent
#else
#define lease_start reply_sent
#endif
#endif

inline extend()
{
	if
	:: lease_start + reply_lease > lease_end -> lease_end = lease_start + reply_lease
	:: else
	fi
}

inline hear(newer)
{
	if
	:: newer > heard -> heard = newer
	:: else
	fi
}

inline receive_grant()
{
	if
	:: lease_valid -> extend(); hear(reply_version)
#ifdef WITHOUT_LAPSE
	:: serving && !lease_valid -> extend(); hear(reply_version)
#endif
	:: else					/* too late: the lapse comes first */
	fi
}

inline receive_activation()
{
	if
	:: noted != NO_VERSION && reply_term == next_term && clock < lease_start + reply_lease ->
		if
		:: serving && !lease_valid -> skip		/* kept its caches over a restart, but lapsed meanwhile */
		:: serving && lease_valid -> extend(); node_term = next_term; node_epoch = next_epoch; noted = NO_VERSION
		:: !serving ->
			serving = 1;
			lease_end = lease_start + reply_lease;
			node_term = next_term;
			node_epoch = next_epoch;
			applied = noted;
			noted = NO_VERSION
		fi;
		hear(reply_version)
	:: else
	fi
}

inline receive_reload()
{
	next_term = reply_term;
	next_epoch = reply_epoch;
	hear(reply_version);
	if
	:: lease_valid && reply_term > node_term -> noted = applied	/* rule 6: may keep its caches over a restart */
	:: else ->
		clear();
		node_term = reply_term;
		noted = reply_version;
#ifdef PRELOADED
		loading = 0; load_overtaken = 0; load_version = 0;
		noted = NO_VERSION		/* what is noted comes with the load */
#endif
	fi
}

active proctype world()
{
end:
	do
	/* time */
	:: t < HORIZON -> atomic {
		t++;
		if
		:: true -> clock++; since_missed_tick = (since_missed_tick < LEASE -> since_missed_tick + 1 : LEASE)
#ifdef WITH_DRIFT
		:: since_missed_tick == LEASE -> since_missed_tick = 0
#endif
		fi;
		/* the bound: a change that has waited this long can always go on */
		assert(!(version == 1 && t > holding_since + ACK_TIMEOUT + OWED(LEASE) + 1) ||
			   slot == slot_fenced || slot_applied >= 1 || lease_over)
		}

	/* the node sends: a heartbeat while it serves, else an activation once it has something to activate with */
	:: request == nothing -> atomic {
		if
		:: noted != NO_VERSION ->
			request = activate; request_term = next_term; request_epoch = next_epoch;
			request_applied = (serving -> applied : noted)
		:: noted == NO_VERSION ->
			request = heartbeat; request_term = node_term; request_epoch = node_epoch; request_applied = applied
		fi;
		request_sent = clock; request_is_newest = 1; reply_is_newest = 0;
#ifdef WITHOUT_NEWEST_REQUEST
		newest_sent = clock
#endif
		skip
		}
	:: request != nothing -> atomic { forget_request() }	/* lost */
	:: reply != nothing -> atomic { forget_reply() }		/* lost */

	/* the server answers */
	:: request == heartbeat && reply == nothing -> atomic { handle_heartbeat() }
	:: request == activate && reply == nothing -> atomic { handle_activation() }

	/* the node receives */
	:: reply != nothing -> atomic {
		if
#ifndef WITHOUT_NEWEST_REQUEST
		:: !reply_is_newest -> skip
		:: reply_is_newest ->
#else
		:: true ->
#endif
			if
			:: reply_term < node_term -> skip				/* an old server: refused */
			:: reply_term >= node_term && reply == granted && reply_term == node_term -> receive_grant()
			:: reply_term >= node_term && reply == activated -> receive_activation()
			:: reply_term >= node_term && reply == behind -> hear(reply_version)
			:: reply_term >= node_term && reply == reload -> receive_reload()
			:: else
			fi
		fi;
		forget_reply()
		}

	/* the node notices that its lease has lapsed; readers do not wait for this */
	:: serving && !lease_valid -> atomic {
		clear()
		}

	/* the node applies the change it heard of; its next heartbeat is the ack */
	:: serving && heard > applied -> atomic {
		applied = heard; cached = NO_VERSION; next_generation();
		if
		:: noted != NO_VERSION -> noted = applied
		:: else
		fi
		}
	/* recovering and behind: it notes the newer version, having nothing to forget */
	:: !serving && noted != NO_VERSION && heard > noted -> atomic {
#ifdef PRELOADED
		cached = NO_VERSION; noted = NO_VERSION
#else
		noted = heard
#endif
		}

#ifdef PRELOADED
	/* the load before serving, stamped with the version it was read at */
	:: !serving && noted == NO_VERSION && next_term == node_term && !loading -> atomic {
		loading = 1; load_version = version; load_overtaken = 0
		}
	:: loading -> atomic {
		if
		:: !load_overtaken && !serving -> cached = load_version; noted = load_version
		:: else
		fi;
		loading = 0; load_overtaken = 0; load_version = 0
		}
#else
	/* a load on demand */
	:: lease_valid && cached == NO_VERSION && !loading -> atomic {
		loading = 1; load_version = version; load_overtaken = 0
		}
	:: loading -> atomic {
		if
#ifndef WITHOUT_GENERATION
		:: !load_overtaken && serving -> cached = load_version
		:: else
#else
		:: serving -> cached = load_version
		:: else
#endif
		fi;
		loading = 0; load_overtaken = 0; load_version = 0
		}
#endif

	/* an answer: read, then (after any pause) tested again, then out */
	:: lease_valid && cached != NO_VERSION && !answering -> atomic {
		answering = 1; answer_version = cached; answer_overtaken = 0
		}
	:: answering -> atomic {
		if
#ifndef WITHOUT_RECHECK
		:: lease_valid && !answer_overtaken ->
#else
		:: true ->
#endif
			assert(!(done && answer_version == 0))
#ifndef WITHOUT_RECHECK
		:: else
#endif
		fi;
		answering = 0; answer_overtaken = 0; answer_version = 0
		}

	/* the change commits; the verdict */
	:: version == 0 -> atomic { version = 1; holding_since = t }
	:: version == 1 && !done -> atomic {
		if
		:: slot == slot_fenced || (slot == slot_active && slot_applied >= 1) -> done = 1
		:: slot == slot_active && slot_applied < 1 && lease_over -> fence(); done = 1
		:: slot == slot_joining && lease_over -> done = 1
		:: else
		fi
		}

#ifdef WITH_LOWER_LEASE
	/* the setting L is lowered; it reaches the node in its next grant */
	:: lease_setting == LEASE -> atomic { lease_setting = LEASE - 1 }
#endif

#ifdef WITH_RESTART
	/* the server restarts: shared memory is lost, a new term begins, every node is owed one longest lease */
	:: term == 1 -> atomic {
		term = 2; slot = slot_joining; slot_epoch = 1; slot_applied = 0; forget_request();
#ifdef WITHOUT_TERM_GRACE
		owed_until = t;
#else
		owed_until = t + OWED(LEASE);
#endif
#ifdef WITHOUT_STORED_END
		granted_at = t;
#endif
		holding_since = t
		}
#endif
	:: t == HORIZON -> break
	od
}
