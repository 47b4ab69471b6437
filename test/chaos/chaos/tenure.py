"""
The service of a run: every node campaigns for it, and who leads says all the time that it lives (test/chaos/leader.c). Nobody
lives under a token once somebody has lived under a greater one, and there is a leader again when the lease of the old one is over.
"""
from .server import LEASES_MS, MARGIN_MS

SERVICE = 'chaos'
STOP_TIMEOUT_MS = 400
# Faults that befall the leader alone: the others are there to follow it.
OF_A_NODE = {'pause', 'kill', 'stop', 'replace', 'clock', 'cut', 'stall', 'backend', 'client'}
# Seconds from the last sign of an old leader to the first of a new one: the longest lease, and what a busy machine takes.
LONGEST_CHANGEOVER = (max(LEASES_MS) * 1.001 + MARGIN_MS) / 1000 + 2.5


def read(path):
    """The tenures in the file of the leaders, as dictionaries with token, first, last and signs, by token."""
    tenures = {}
    try:
        with open(path, encoding='ascii') as file:
            lines = file.read().split('\n')[:-1]
    except FileNotFoundError:
        lines = []
    for line in lines:
        token, moment = map(int, line.split())
        tenure = tenures.setdefault(token, {'token': token, 'first': moment / 1e6, 'last': moment / 1e6, 'signs': 0})
        tenure['first'] = min(tenure['first'], moment / 1e6)
        tenure['last'] = max(tenure['last'], moment / 1e6)
        tenure['signs'] += 1
    return [tenures[token] for token in sorted(tenures)]


def check(tenures, faults, violate):
    """Calls violate(rule, at, text) for what must not be. faults: (kind, begin, end)."""
    for older, newer in zip(tenures, tenures[1:]):
        if older['last'] >= newer['first']:
            violate('leadership', newer['first'],
                    f"token {older['token']} was used {older['last'] - newer['first']:.3f} s after token {newer['token']}")
        others = {kind for kind, begin, over in faults if begin < newer['first'] and over > older['last'] - 1}
        gap = newer['first'] - older['last']
        if others <= OF_A_NODE and gap > LONGEST_CHANGEOVER:
            violate('changeover', newer['first'], f"nobody led for {gap:.3f} s after token {older['token']}")
