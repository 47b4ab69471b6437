"""Looks at the server's tables all the time: between which two moments did what commit?"""
import threading

import psycopg2

from . import history
from .server import Session

# One statement, one snapshot: what is new in the log, and what became of the procedures.
LOOK = """
SELECT m.version, coordinator.term,
    (SELECT coalesce(json_agg(d ORDER BY d.version), '[]') FROM public.chaos_document d WHERE d.version > %s),
    (SELECT coalesce(json_agg(json_build_object('version', c.version, 'ordinal', c.ordinal, 'kind', c.object_kind,
                'operation', c.operation, 'catalog', c.catalog_name, 'database', c.database_name, 'table', c.table_name, 'object_id', c.object_id,
                'procedure', c.procedure_id) ORDER BY c.version, c.ordinal), '[]')
     FROM amoro_meta.change c WHERE c.version > %s),
    (SELECT coalesce(json_agg(json_build_object('procedure', p.procedure_id, 'kind', p.kind, 'object', p.object_name,
                'state', p.state, 'outcome', p.outcome, 'error', p.error_message,
                'stamp', coalesce(p.arguments #>> '{definition,properties,stamp}', p.arguments #>> '{changes,0,properties,stamp}'))
                ORDER BY p.procedure_id), '[]')
     FROM amoro_meta.procedure p WHERE p.outcome IS NULL OR p.procedure_id > %s OR p.procedure_id = ANY (%s))
FROM amoro_meta.metadata_version m LEFT JOIN amoro_meta.coordinator ON true
"""


class Watcher(threading.Thread):
    def __init__(self, server, record, interval=0.02):
        super().__init__(daemon=True)
        self.session = Session(server, 'chaos watcher')
        self.record = record
        self.interval = interval
        self.version = 0
        self.term = 0
        self.newest_procedure = 0
        self.documents = {}
        self.open = {}              # procedure id → what was seen of it last
        self.last_look = history.now()
        self.ending = threading.Event()
        self.failure = None

    def run(self):
        try:
            while not self.ending.is_set():
                self.look()
                self.ending.wait(self.interval)
        except Exception as error:  # the driver reports it: a run that was not watched proves nothing
            self.failure = error
        self.session.close()

    def look(self):
        before = history.now()
        try:
            rows = self.session.query(LOOK, self.version, self.version, self.newest_procedure, list(self.open))
        except psycopg2.Error:
            return
        after = history.now()
        version, term, noted, changes, procedures = rows[0]
        for row in noted:
            self.note_documents(**row)
        for change in changes:
            self.record('change', earliest=self.last_look, latest=after, **change)
        for procedure in procedures:
            self.note(procedure, after)
        if (version, term) != (self.version, self.term):
            self.record('version', at=after, version=version, term=term)
        self.version, self.term = version, term
        self.last_look = before

    def note_documents(self, version, documents):
        """Records what is not as it was at the version before."""
        changed = {key: documents.get(key) for key in {*documents, *self.documents} if documents.get(key) != self.documents.get(key)}
        self.record('documents', version=version, changed=changed)
        self.documents = documents

    def note(self, procedure, after):
        number = procedure['procedure']
        seen = (procedure['state'], procedure['outcome'])
        if self.open.get(number) != seen:
            self.record('procedure', at=after, **procedure)
        self.newest_procedure = max(self.newest_procedure, number)
        self.open[number] = seen
        if procedure['outcome'] is not None:
            del self.open[number]

    def stop(self):
        self.ending.set()
        self.join()
        if self.failure is not None:
            raise self.failure
