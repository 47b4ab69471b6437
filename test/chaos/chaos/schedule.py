"""The schedule of a run: which fault begins when, on what, for how long. A seed makes one, always the same."""
import random

# Kind of fault → (weight, what it needs for itself, shortest and longest duration in leases).
# 'process', 'network': one at a time on each node. 'server': one at a time.
KINDS = {
    'pause': (14, 'process', 0.2, 2.5),                 # SIGSTOP, SIGCONT
    'kill': (6, 'process', 0.1, 2.0),                   # SIGKILL, started again later
    'stop': (3, 'process', 0.1, 1.0),                   # SIGTERM
    'replace': (4, 'process', 0.3, 2.0),                # paused, another process takes its name, then it goes on
    'stall': (9, 'process', 0.2, 1.5),                  # its thread stands still between reading and answering
    'remove': (3, 'process', 0.2, 1.0),                 # remove_node, started again later
    'cut': (5, 'network', 0.0, 0.0),                    # every connection reset
    'refuse': (4, 'network', 0.2, 2.0),                 # reset, and no new ones
    'hold_up': (4, 'network', 0.2, 2.5),                # half open: the server hears nothing
    'hold_down': (5, 'network', 0.2, 2.5),              # the node hears nothing
    'hold_both': (5, 'network', 0.2, 2.5),
    'drop_up': (2, 'network', 0.2, 2.0),                # thrown away for good
    'drop_down': (2, 'network', 0.2, 2.0),
    'delay': (6, 'network', 0.3, 3.0),                  # both directions, differently
    'clock': (3, 'clock', 0.0, 0.0),                    # the wall clock of a node jumps
    'backend': (5, 'backend', 0.0, 0.0),                # a node's backend terminated
    'coordinator': (4, 'server', 0.0, 0.0),             # the coordinator terminated
    'worker': (2, 'server', 0.0, 0.0),                  # any process of the extension terminated
    'client': (3, 'client', 0.0, 0.0),                  # the backend of a client that changes metadata terminated
    'crash': (1, 'server', 0.0, 0.0),                   # one of the server's processes killed: all of them start again
    'freeze': (2, 'server', 0.1, 0.8),                  # the coordinator SIGSTOPped
    'restart_fast': (1.5, 'server', 0.0, 0.0),
    'restart_immediate': (2.5, 'server', 0.0, 0.0),
    'restart_apart': (4, 'server', 0.5, 1.5),           # immediate, while one node cannot reach the server
    'late': (12, 'server', 1.8, 2.2),                    # the answers to one node come late, and then none
    'lease': (3, 'server', 0.0, 0.0),                   # another L
    'stop_at': (5, 'server', 0.1, 1.0),                 # the coordinator stops at a step, in its transaction
}
# What makes sense together with a stop of the coordinator in the middle of a step.
THEN = ('resume', 'coordinator', 'restart_immediate')
# Where: before and after what a step does, or undoes; its share of all stops.
SUFFIXES = {'': 4, '.commit': 4, '.undo': 1, '.undo.commit': 1}
# Seconds that the server is left alone after a restart, so that there is progress between two.
REST = 1.5


def make(seed, seconds, nodes, lease, kinds=None, leases=()):
    """Faults in the order of their beginnings: dictionaries with at, kind, node, duration in seconds and details."""
    rng = random.Random(f'schedule {seed}')
    busy = {}                       # (what, node) → until when
    schedule = []
    at = 0.5
    while at < seconds:
        kind = rng.choices(list(KINDS), [weight for weight, *_ in KINDS.values()])[0]
        fault = draw(rng, kind, at, nodes, lease, leases)
        place = (KINDS[kind][1], fault['node'])
        # drawn whatever the kinds asked for: a run with fewer kinds has the same faults otherwise
        if busy.get(place, 0) <= at:
            rest = REST if kind.startswith('restart') or kind == 'crash' or fault.get('then') == 'restart_immediate' else 0.1
            busy[place] = at + fault['duration'] + rest
            if kinds is None or kind in kinds:
                schedule.append(fault)
        at += rng.expovariate(1 / 0.3)
    return schedule


def draw(rng, kind, at, nodes, lease, leases):
    _, place, shortest, longest = KINDS[kind]
    fault = {'at': round(at, 3), 'kind': kind, 'node': rng.randrange(nodes) if place not in ('server', 'client') else None,
             'duration': round(rng.uniform(shortest, longest) * lease, 3)}
    detail = rng.random()
    if kind == 'delay':
        fault['delays'] = [round(detail * 0.5, 3), round(rng.random(), 3)]
    elif kind == 'clock':
        fault['seconds'] = round((detail - 0.5) * 200000)
    elif kind == 'lease':
        fault['lease_ms'] = leases[int(detail * len(leases))]
    elif kind == 'stop_at':
        fault['pick'] = detail
        fault['suffix'] = rng.choices(list(SUFFIXES), list(SUFFIXES.values()))[0]
        fault['then'] = rng.choices(THEN, (6, 2, 1))[0]
    elif kind in ('backend', 'worker', 'client', 'crash'):
        fault['pick'] = detail
    elif kind in ('restart_apart', 'late'):
        fault['apart'] = int(detail * nodes)
    return fault
