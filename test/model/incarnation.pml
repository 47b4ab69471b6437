/*
 * incarnation.pml
 *		Two processes under one name (docs/protocol.md, section 3, rule 9) as a Spin model:
 *		restart of a node while its old process may still run, removal, registration
 *		anew, graceful stop; and a server that may be restarted at any moment.
 *
 * The promise and the bound are those of lease.pml, which looks into one process: loads,
 * tickets, drift of clocks, answers that were overtaken. Here a process answers from one
 * version, that which it has applied, there is one clock, and a process has one question
 * at a time. The question may be late, and it or its answer lost; a process may be paused
 * between any two steps, or for ever, which is how it dies.
 *
 * Times are kept as what is left of them, so the model has no end: all of time is searched.
 *
 * A rule is switched off by -DWITHOUT_<RULE>; test/model/run expects an error then.
 */
#define LEASE 2					/* L; owed for as long, because there is one clock */
#define ACK_TIMEOUT 1
#define OLDER 0
#define NEWER 1
#define NOBODY 2

/* A change is held up no longer than this, a removal and a process that is replaced no longer than that. */
#define CHANGE_BOUND (ACK_TIMEOUT + LEASE + 1)
#define LEAVE_BOUND (LEASE + 1)

mtype = { none, slot_joining, slot_active, slot_fenced, slot_released };	/* a slot, as the server sees it */
mtype = { idle, unregistered, recovering, serving, ended };		/* a process */
mtype = { nothing, enroll, heartbeat, activate, release };		/* what it asks */

typedef Slot {
	mtype state = none;
	bit pending = 0;			/* the registration is not committed */
	bit applied = 0;
	byte owed = 0;				/* for so long */
};

typedef Process {
	mtype state = idle;
	bit holds = 0;				/* answers from this version while it has a lease, or is about to activate with it */
	bit heard = 0;				/* newest version spoken of by the server */
	bit current = 0;			/* term and epoch that it shows are those of its slot */
	byte lease = 0;				/* left of it */
	mtype question = nothing;
	byte may_get = 0;			/* what a lease that the question gets is worth, counted from when it was sent */
	bit said = 0;				/* version in the question */
};

/* durable */
bit version = 0;				/* of the metadata; 1 after the change */
bit done = 0;					/* the step that needed version 1 everywhere has committed */
byte row = NOBODY;				/* the row of the node: which of the two is the current one */
bit removing = 0;				/* in the row */
bit superseded[2];				/* gave way or was removed */

/* shared memory */
Slot slot[2];

/* for how long, at most as long as is asked for */
byte change_waits = 0;
byte removal_waits = 0;
byte other_waits = 0;

Process process[2];

#define serves(i) (process[i].state == serving && process[i].lease > 0)
#define owed(i) ((slot[i].state == slot_active || slot[i].state == slot_joining) && slot[i].owed > 0)
#ifdef WITHOUT_SLOTS
/* rows instead of slots: the current incarnation speaks for the node */
#define holds_up(i) (row == i && owed(i) && slot[i].applied == 0)
#else
#define holds_up(i) (owed(i) && slot[i].applied == 0)
#endif

inline forget_question(i)
{
	process[i].question = nothing; process[i].may_get = 0; process[i].said = 0
}

/* It forgets everything, and is about to load what is there now. */
inline recover(i)
{
	process[i].state = recovering; process[i].lease = 0; process[i].holds = process[i].heard
}

inline leave(i, next)
{
	process[i].state = next; process[i].lease = 0; process[i].holds = 0; process[i].heard = 0; process[i].current = 0
}

inline free_slot(i)
{
	slot[i].state = none; slot[i].pending = 0; slot[i].applied = 0; slot[i].owed = 0;
	process[i].current = 0
}

/* Rule 4. */
inline settle(i)
{
	if
	:: slot[i].state == slot_active && slot[i].owed == 0 -> slot[i].state = slot_fenced; process[i].current = 0
	:: else
	fi
}

/* p is the slot: that of the process, unless a rule is missing. */
inline grant(i, p)
{
	slot[p].state = slot_active;
	slot[p].owed = LEASE;
	slot[p].applied = (process[i].said > slot[p].applied -> process[i].said : slot[p].applied)
}

/* The answer reaches the process. A lost one has the same effects on the server. */
inline hear(i)
{
	process[i].heard = version
}

inline hear_reload(i)
{
	hear(i); process[i].current = 1; recover(i)
}

inline serve_enroll(i)
{
	if
	:: removing -> skip								/* AM401: it asks again */
#ifndef WITHOUT_REFUSAL_TO_REGISTER
	:: !removing && superseded[i] ->
		if
		:: leave(i, ended)
		:: true										/* lost */
		fi
	:: !removing && !superseded[i] ->
#else
	:: !removing ->
#endif
		if
		:: row == i && slot[i].state != none ->
			slot[i].state = (slot[i].state == slot_released -> slot_joining : slot[i].state)
		:: else ->
			/* the transaction is open from here to its commit, and leaves nothing if it is rolled back or lost in a crash */
			free_slot(i);
			slot[i].state = slot_joining; slot[i].pending = 1
		fi;
		if
		:: hear_reload(i)
		:: true										/* lost */
		fi
	fi;
	forget_question(i)
}

/* The committed registration supersedes the other process. */
inline commit_registration(i)
{
	if
	:: row == 1 - i ->
		/* who has given way, or was removed, does not come back and throw out the one that came after */
		assert(!superseded[i]);
		superseded[1 - i] = 1;
		other_waits = 0
	:: else
	fi;
	row = i;
	slot[i].pending = 0
}

#ifdef WITHOUT_INCARNATION
/* whoever asks under the name is taken for the current incarnation, and shows its term and epoch */
#define party(i) (row != NOBODY && slot[row].state != none -> row : i)
#define shows_current(i, p) (p != i || process[i].current)
#else
#define party(i) i
#define shows_current(i, p) process[i].current
#endif

/* Refused for good, or not there: what both kinds of requests for a lease have in common. */
#ifdef WITHOUT_REFUSAL_TO_EXTEND
#define stale(i, p) (slot[p].state == none && row == 1 - i)
#else
#define stale(i, p) (slot[p].state == none && row == 1 - i || superseded[p])
#endif

inline serve_request(i)
{
	p = party(i);
	if
	:: stale(i, p) ->
		if
		:: leave(i, ended)
		:: true
		fi
	:: !stale(i, p) && (slot[p].state == none || slot[p].state == slot_released) ->
		if
		:: process[i].state = (process[i].state == recovering -> unregistered : process[i].state); process[i].current = 0
		:: true
		fi
	:: else ->
		settle(p);
		if
		:: process[i].question == heartbeat && shows_current(i, p) && slot[p].state == slot_active && process[i].said -> slot[p].applied = 1
		:: else
		fi;
		if
#ifndef WITHOUT_REMOVING
		:: removing ->
			if
			:: leave(i, ended)
			:: true
			fi
		:: !removing && (!shows_current(i, p) || process[i].question == heartbeat && slot[p].state != slot_active) ->
#else
		:: !shows_current(i, p) || process[i].question == heartbeat && slot[p].state != slot_active ->
#endif
			if
			:: hear_reload(i)
			:: true
			fi
#ifndef WITHOUT_COMMITTED_REGISTRATION
		/* reload: it asks again */
		:: process[i].question == activate && shows_current(i, p) && slot[p].pending
#define may_activate(p) (!slot[p].pending)
#else
#define may_activate(p) true
#endif
		:: else ->
			if
			:: process[i].question == heartbeat && version > slot[p].applied && change_waits > ACK_TIMEOUT -> hear(i)	/* held */
			:: process[i].question == activate && process[i].said < version ->
				hear(i);
				process[i].holds = (process[i].state == recovering -> version : process[i].holds)	/* behind */
			:: else ->
				grant(i, p);
				if
				:: process[i].may_get > 0 && (process[i].question == activate && process[i].state == recovering || serves(i)) ->
					process[i].state = serving; process[i].lease = process[i].may_get; hear(i)
				:: true
				fi
			fi
		fi
	fi;
	p = 0;
	forget_question(i)
}

inline serve_release(i)
{
	if
	:: slot[i].state != none -> slot[i].state = slot_released; slot[i].owed = 0; process[i].current = 0
	:: else
	fi;
#ifdef WITHOUT_STOP_BEFORE_RELEASE
	/* it serves until it hears that it may leave */
	if
	:: leave(i, ended)
	:: true
	fi;
#endif
	forget_question(i)
}

inline ask(i, kind)
{
	process[i].question = kind; process[i].may_get = LEASE; process[i].said = process[i].holds
}

inline restart_slot(i)
{
	if
#ifdef WITHOUT_SUPERSEDED_RECORD
	:: row == i ->
#else
	:: row == i || superseded[i] && slot[i].state != none && !slot[i].pending ->
#endif
		free_slot(i);
#ifdef WITHOUT_TERM_GRACE
		slot[i].state = slot_joining
#else
		slot[i].state = slot_joining; slot[i].owed = LEASE
#endif
	:: else -> free_slot(i)
	fi
}

#define pass(left) left = (left > 0 -> left - 1 : 0)
#define wait_on(waits, bound) waits = (waits <= bound -> waits + 1 : waits)

inline tick()
{
	pass(slot[OLDER].owed); pass(slot[NEWER].owed);
	pass(process[OLDER].lease); pass(process[NEWER].lease);
	pass(process[OLDER].may_get); pass(process[NEWER].may_get);
	if
	:: version && !done -> wait_on(change_waits, CHANGE_BOUND)
	:: else
	fi;
	if
	:: removing -> wait_on(removal_waits, LEAVE_BOUND)
	:: else
	fi;
	if
	:: superseded[OLDER] || superseded[NEWER] -> wait_on(other_waits, LEAVE_BOUND)
	:: else
	fi;
	/* a change that has waited this long can always go on, however many processes there were under the name */
	assert(change_waits <= CHANGE_BOUND || !holds_up(OLDER) && !holds_up(NEWER));
	/* so can a removal */
	assert(removal_waits <= LEAVE_BOUND || !owed(OLDER) && !owed(NEWER));
	/* and one process under a name stands aside for the other */
	assert(other_waits <= LEAVE_BOUND || !(superseded[OLDER] && serves(OLDER)) && !(superseded[NEWER] && serves(NEWER)))
}

/* A graceful stop: it serves no more, then says so. */
#ifdef WITHOUT_STOP_BEFORE_RELEASE
#define stop(i) ask(i, release)
#else
#define stop(i) leave(i, ended); ask(i, release)
#endif

/* What one process does, and what the server does for it. */
#define STEPS(i) \
	:: process[i].state == idle -> atomic { process[i].state = unregistered } \
	:: process[i].question == nothing && process[i].state == unregistered -> atomic { ask(i, enroll) } \
	:: process[i].question == nothing && process[i].state == recovering -> atomic { ask(i, activate) } \
	:: process[i].question == nothing && process[i].state == serving -> atomic { ask(i, heartbeat) } \
	:: process[i].question == nothing && process[i].state == serving -> atomic { stop(i) } \
	:: process[i].question == enroll -> atomic { serve_enroll(i) } \
	:: process[i].question == heartbeat || process[i].question == activate -> atomic { serve_request(i) } \
	:: process[i].question == release -> atomic { serve_release(i) } \
	:: process[i].question != nothing -> atomic { forget_question(i) } /* lost */ \
	:: process[i].state == serving && process[i].lease == 0 -> atomic { recover(i) } \
	:: serves(i) && process[i].heard > process[i].holds -> atomic { process[i].holds = 1 } \
	:: serves(i) -> atomic { assert(!(done && process[i].holds == 0)) } /* answers */ \
	:: slot[i].pending && !removing -> atomic { commit_registration(i) } \
	:: slot[i].pending -> atomic { free_slot(i) } /* rolled back */ \
	:: slot[i].state != none && superseded[i] && row != i && !owed(i) -> atomic { free_slot(i) } /* reaped */

active proctype world()
{
	byte p = 0;

end:
	do
	:: atomic { tick() }
	STEPS(OLDER)
	STEPS(NEWER)

	/* the change commits; the verdict */
	:: version == 0 -> atomic { version = 1 }
	:: version == 1 && !done && !holds_up(OLDER) && !holds_up(NEWER) -> atomic {
		settle(OLDER); settle(NEWER); done = 1; change_waits = 0
		}

#ifdef WITH_REMOVAL
	/* remove_node: marked; then gone, as soon as nothing is owed to any of its processes */
	:: row != NOBODY && !removing && !slot[OLDER].pending && !slot[NEWER].pending -> atomic { removing = 1 }
#ifdef WITHOUT_REMOVAL_WAIT
	:: removing -> atomic {
#else
	:: removing && !owed(OLDER) && !owed(NEWER) -> atomic {
#endif
		superseded[row] = 1; row = NOBODY; removing = 0; removal_waits = 0; other_waits = 0;
		free_slot(OLDER); free_slot(NEWER)
		}
#endif

#ifdef WITH_RESTART
	/* the server restarts: shared memory is lost, a new term begins, who is on record is owed one longest lease */
	:: atomic {
		restart_slot(OLDER); restart_slot(NEWER);
		change_waits = 0; removal_waits = 0; other_waits = 0
		}
#endif
	od
}
