"""
Decides for every answer of a history whether it was allowed at some moment inside its request.

What the log says of versions is bounded by two looks at the database: a change committed after the look that did not show
it began, and before the look that showed it ended. An answer is given everything that may have happened before it arrived.
It is held to what was everywhere when it surely had not left yet: when its request started, or when a process that had
been stopped with the request in it went on. What a step does to one object it does at once for all nodes; a request that
starts after it sees it.
"""
from collections import defaultdict

from . import document, tenure
from .operation import BUCKET_KEYS, DEVICE_KEYS, KEYS, PARTITION_KEYS, TABLE_KEYS, touches
from .server import ACK_TIMEOUT_MS, LEASES_MS
from .timeline import ABSENT, IN_TRANSITION, Metadata, Steps

# Takes effect for readers at once, on all nodes: they read through the database since its marker was everywhere.
EFFECTS = ('create', 'alter', 'rename', 'drop', 'assign', 'rollback')
# Seconds after a change within which every node that still answers has applied it, whatever happens to it.
STALENESS = (ACK_TIMEOUT_MS + max(LEASES_MS) * 1.001) / 1000 + 1.0


class Checker:
    def __init__(self, events):
        self.events = events
        self.violations = []
        self.forgiven = 0           # see forgive_caught
        self.tags = {}              # (key, entity tag) → what was told under it
        self.of = defaultdict(list)
        for event in events:
            self.of[event['event']].append(event)

    def violate(self, rule, at, text, **context):
        self.violations.append({'rule': rule, 'at': at, 'text': text, **context})

    def check(self):
        """All violations, in the order of time."""
        self.check_log()
        self.replay()
        self.find_floors()
        for answer in self.of['answer']:
            self.check_answer(answer)
        self.forgive_caught()
        self.check_acknowledged()
        tenure.check(self.of['tenure'], self.fault_spans(), self.violate)
        for event in self.of['violation']:
            self.violate(event['rule'], event['at'], event['text'])
        for event in self.of['exit']:
            if not event['allowed']:
                self.violate('process', event['at'], f"{event['node']}/{event['instance']} ended with code {event['code']}")
        self.violations.sort(key=lambda violation: violation['at'])
        return self.violations

    def check_log(self):
        """Versions have no gaps and do not come again; the counter and the term never go back; ids are given once."""
        self.by_version = defaultdict(list)
        for change in self.of['change']:
            self.by_version[change['version']].append(change)
        newest = 0
        for version in sorted(self.by_version):
            if version != newest + 1:
                self.violate('versions', self.by_version[version][0]['latest'], f'version {version} comes after {newest}')
            newest = version
        last = {'version': 0, 'term': 0}
        for event in self.of['version']:
            for name in last:
                if event[name] < last[name]:
                    self.violate('versions', event['at'], f'{name} went from {last[name]} back to {event[name]}')
            last = {name: event[name] for name in ('version', 'term')}
        created = {}
        for change in self.of['change']:
            if change['operation'] == 'pre_create':
                earlier = created.setdefault(change['object_id'], change['version'])
                if earlier != change['version']:
                    self.violate('ids', change['latest'], f"id {change['object_id']} was given in versions {earlier} and {change['version']}")

    def fault_spans(self):
        """(kind, begin, end) of each fault; what it left behind may take a moment longer."""
        spans, open_faults = [], defaultdict(list)
        for event in self.of['fault'] + self.of['fault_over']:
            open_faults[event['kind'], event['node']].append((event['at'], event['event']))
        for (kind, _), marks in open_faults.items():
            begun = []
            for at, what in sorted(marks):
                if what == 'fault':
                    begun.append(at)
                elif begun:
                    spans.append((kind, begun.pop(0), at + 1.0))
            spans.extend((kind, at, float('inf')) for at in begun)
        return spans

    def replay(self):
        """What the log says of tables, step by step, is what there was."""
        self.documents = document.read(self.of['documents'])
        stamps = {event['procedure']: event['stamp'] for event in self.of['procedure'] + self.of['final_procedure'] if event['stamp']}
        metadata = Metadata(stamps)
        for version in sorted(self.by_version):
            at = self.by_version[version][0]['latest']
            try:
                metadata.apply(version, self.by_version[version])
            except KeyError as error:
                self.violate('log', at, f'version {version} changes {error}, which is not there')
            for key in TABLE_KEYS:
                value = self.documents[key].at(version)
                found = self.documents[key].answer(value)
                if found[0] == 'there':
                    found = ('there', value[1], *value[3:])
                if found != metadata.state(key):
                    self.violate('log', at, f'{key} was {found} at version {version}; by the log it is {metadata.state(key)}')
                    return

    def find_floors(self):
        """From when on is a version everywhere? When the step that needed it has surely committed."""
        of_procedure = defaultdict(list)    # (version, committed at the latest)
        for version in sorted(self.by_version):
            change = self.by_version[version][0]
            if change['procedure'] is not None:
                of_procedure[change['procedure']].append((version, change['latest'], change['operation']))
        floors = []
        for changes in of_procedure.values():
            for (version, _, mark), (_, latest, operation) in zip(changes, changes[1:]):
                # the other tables of a database that is dropped follow without a wait
                if mark.startswith(('pre_', 'release')) and operation != 'rollback':
                    floors.append((latest, version))
        for event in self.of['procedure'] + self.of['acknowledged']:
            if event['outcome'] == 'done' and event['procedure'] in of_procedure:
                floors.append((event['at'], of_procedure[event['procedure']][-1][0]))
        self.floors = Steps(floors)
        self.surely_committed = Steps((changes[0]['latest'], version) for version, changes in self.by_version.items())
        self.maybe_committed = Steps((changes[0]['earliest'], version) for version, changes in self.by_version.items())
        effects = {key: [] for key in KEYS}
        marked = set()                      # (procedure, key)
        for version in sorted(self.by_version):
            for change in self.by_version[version]:
                for key in KEYS:
                    if not touches(change, key):
                        continue
                    mark = (change['procedure'], key)
                    if change['operation'].startswith(('pre_', 'release')):
                        marked.add(mark)
                    # whoever may do what has no marker, nor has a view whose table changes
                    elif change['operation'] in EFFECTS and (mark in marked or change['kind'] not in ('authority', 'view')):
                        effects[key].append((change['latest'], version))
        self.effects = {key: Steps(pairs) for key, pairs in effects.items()}
        self.spans = {key: self.marker_spans(key) for key in DEVICE_KEYS + PARTITION_KEYS}
        self.owners = {key: Steps((answer['at'], answer['object_version']) for answer in self.of['answer']
                                  if answer['key'] == key and answer.get('owned')) for key in BUCKET_KEYS}

    def marker_spans(self, key):
        """(version of a marker on a key, version with which it goes), whoever has put it there."""
        begun, spans = {}, []
        for version in sorted(self.by_version):
            for change in self.by_version[version]:
                if not touches(change, key):
                    continue
                if change['operation'].startswith('pre_'):
                    begun[change['procedure']] = version
                elif change['procedure'] in begun:
                    spans.append((begun.pop(change['procedure']), version))
        return spans + [(version, float('inf')) for version in begun.values()]

    def check_answer(self, answer):
        pending, key, version = answer['pending'], answer['key'], answer['metadata_version']
        everywhere = self.floors.before(pending)
        # what was read before a stop, of an object that did not change since, is as true as it was: see what it says
        if version < (self.floors.before(answer['start']) if answer['caught'] else everywhere):
            self.violate('promise', answer['at'], f'answered from version {version} when {everywhere} was everywhere', answer=answer)
            return
        committed = self.surely_committed.before(pending - STALENESS)
        if version < committed:
            self.violate('lease', answer['at'],
                         f'answered from version {version}; {committed} was committed {STALENESS:.1f} s before', answer=answer)
            return
        first = max(everywhere, self.effects[key].before(answer['start']))
        last = self.maybe_committed.before(answer['at'])
        if version > last:
            self.violate('future', answer['at'], f'answered from version {version} before it was committed', answer=answer)
            return
        spans = self.spans.get(key, ())
        allowed = self.documents[key].between(max(first, version), max(last, version), spans)
        if self.state_of(answer) not in allowed and ('there', answer.get('object_version'), None) not in allowed:
            wider = self.documents[key].between(max(everywhere, version), max(last, version), spans)
            rule = 'switch' if self.state_of(answer) in wider else 'content'
            self.violate(rule, answer['at'], f'answered {self.state_of(answer)}; from version {max(first, version)} to {last} it was {allowed}',
                         answer=answer)
        if answer.get('object_version') != answer.get('body_version'):
            self.violate('content', answer['at'], 'header and body disagree about the version', answer=answer)
        # one tag, one document, whatever is asked of which node
        told = answer.get('digest'), answer.get('object_version')
        if 'tag' in answer and self.tags.setdefault((key, answer['tag']), told) != told:
            self.violate('content', answer['at'], f"tag {answer['tag']} was also that of {self.tags[key, answer['tag']]}", answer=answer)
        if answer.get('owned') and self.owners[key].before(pending) > answer['object_version']:
            self.violate('ownership', answer['at'], 'said that it owns the bucket, after a later owner had said so', answer=answer)

    def forgive_caught(self):
        """
        The thread of a node that answers may have been stopped right between the last check of one ticket and the write:
        that answer was given before the stop. There cannot be two of them in one stop.
        """
        caught = defaultdict(list)
        for violation in self.violations:
            answer = violation.get('answer')
            if answer and answer['pending'] > answer['start'] and answer['caught']:
                caught[answer['node'], answer['instance'], answer['pending']].append(violation)
        for violations in caught.values():
            if len(violations) == 1:
                self.violations.remove(violations[0])
                self.forgiven += 1
                answer = violations[0]['answer']
                self.check_answer({**answer, 'pending': answer['start']})

    @staticmethod
    def state_of(answer):
        if answer['status'] == 404:
            return ABSENT
        if answer['status'] == 409:
            return IN_TRANSITION
        if 'allowed' in answer:
            return ('allowed', answer['allowed'])
        return ('there', answer['object_version'], answer['digest'])

    def check_acknowledged(self):
        """Whatever a client was told of a procedure is what the database says of it at the end."""
        final = {event['procedure']: event for event in self.of['final_procedure']}
        if not self.of['final']:
            return
        for event in self.of['submitted'] + self.of['acknowledged']:
            if event['procedure'] is None:
                continue
            found = final.get(event['procedure'])
            if found is None:
                self.violate('acknowledged', event['at'], f"procedure {event['procedure']} is gone")
            elif event.get('outcome') not in (None, 'running', found['outcome']):
                self.violate('acknowledged', event['at'],
                             f"procedure {event['procedure']} was {event['outcome']} and is {found['outcome']} in the end")
        for key in KEYS:
            noted = self.documents[key].at(float('inf'))
            found = self.of['final'][0]['documents'].get(key)
            if noted != found:
                self.violate('log', self.of['final'][0]['at'], f'{key} is {found} in the end; at the last version it was {noted}')
