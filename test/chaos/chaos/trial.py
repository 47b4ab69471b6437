"""One run: a server, nodes, readers, clients, a schedule of faults; then quiet, and a last look."""
import asyncio
import glob
import os
import random
import re
import subprocess

from . import document, history, schedule, tenure
from .client import Client, Interest
from .fault import Faults
from .history import History
from .node import FAKETIME, Node
from .operation import BUCKETS, CLIENTS, DATABASES, KEYS, QUIET_DATABASE, QUIET_KEYS, ROLE, SERVICE, USERS
from .reader import Reader
from .server import LEASE_MS, LEASES_MS, Server
from .watcher import Watcher

READERS = 3             # on each node
QUIET_TABLE = '{"format": "iceberg", "columns": [{"name": "id", "type": "long"}], "properties": {"stamp": "quiet"}}'
STALL_SOURCE = os.path.join(os.path.dirname(__file__), '..', '..', 't', 'stall.c')
LEADER_SOURCE = os.path.join(os.path.dirname(__file__), '..', 'leader.c')
# Seconds after the last fault within which everything must have come to rest.
REST = 30

FINAL_PROCEDURES = """
SELECT procedure_id, kind, state, outcome,
    coalesce(arguments #>> '{definition,properties,stamp}', arguments #>> '{changes,0,properties,stamp}')
FROM amoro_meta.procedure
"""
# Procedures that work, and what the sweep will have done next.
UNFINISHED = """
SELECT (SELECT count(*) FROM amoro_meta.procedure WHERE outcome IS NULL)
    + (SELECT count(*) FROM amoro_meta.bucket_service s, amoro_meta.planned_buckets(s.service_id))
    + (SELECT count(*) FROM amoro_meta.partition_set s, amoro_meta.planned_partitions(s.database_id, false))
"""
# No marker without a procedure that works on it, no claim of an ended one, and no transaction left open.
LEFTOVERS = """
SELECT format('%s %s is %s for ever', 'table', table_name, state) FROM amoro_meta.table_metadata WHERE state <> 'normal'
UNION ALL
SELECT format('database %s is %s for ever', database_name, state) FROM amoro_meta.database WHERE state <> 'normal'
UNION ALL
SELECT format('device %s is %s for ever', device_path, state) FROM devices WHERE state <> 'normal'
UNION ALL
SELECT format('bucket %s is %s for ever', bucket, state) FROM amoro_meta.service_bucket WHERE state <> 'normal'
UNION ALL
SELECT format('slot %s is %s for ever', slot, state) FROM amoro_meta.partition WHERE state <> 'normal'
UNION ALL
SELECT format('procedure %s still claims %s', procedure_id, object_name) FROM amoro_meta.procedure_claim
UNION ALL
SELECT format('procedure %s was quarantined: %s', procedure_id, error_message) FROM amoro_meta.procedure WHERE outcome = 'quarantined'
"""


class Trial:
    def __init__(self, directory, seed, seconds, node_count, programs, node_program, user, kinds=None, preload=True):
        self.directory = directory
        self.seed = seed
        self.history = History(os.path.join(directory, 'history.jsonl'))
        self.record = self.history.record
        self.server = Server(directory, programs, user)
        self.schedule = schedule.make(seed, seconds, node_count, LEASE_MS / 1000, kinds, LEASES_MS)
        with_faketime = preload and os.path.exists(FAKETIME)
        stall_library = self.build_stall_library() if preload else None
        leader_program = self.build_leader()
        self.nodes = [Node(f'node-{number + 1}', self.server, directory, node_program, self.record, seed,
                           with_faketime and number % 2 == 1, stall_library, leader_program)
                      for number in range(node_count)]
        self.seconds = seconds
        self.interest = Interest()
        self.readers = []
        self.clients = []
        self.watcher = None

    def build_stall_library(self):
        library = os.path.join(self.directory, 'stall.so')
        subprocess.run(['gcc', '-shared', '-fPIC', '-O1', '-Wall', '-Werror', '-o', library, STALL_SOURCE, '-ldl'], check=True)
        return library

    def build_leader(self):
        program = os.path.join(self.directory, 'leader')
        subprocess.run(['gcc', '-O1', '-Wall', '-Werror', '-o', program, LEADER_SOURCE], check=True)
        return program

    def random(self, purpose):
        return random.Random(f'{purpose} {self.seed}')

    def violate(self, rule, text):
        self.record('violation', rule=rule, text=text)

    async def run(self):
        """Runs; what came of it is in the history."""
        await asyncio.to_thread(self.server.create)
        tasks = []
        try:
            await self.start(tasks)
            faults = Faults(self.server, self.nodes, self.record)
            await asyncio.gather(faults.run(self.schedule), asyncio.sleep(self.seconds))
            for client in self.clients:
                client.stop()
            await faults.heal()
            for client in self.clients:
                await asyncio.to_thread(client.finish)
            self.record('quiet')
            await self.come_to_rest(faults)
            await asyncio.sleep(0.5)
            await self.see_leader(faults)
            await asyncio.to_thread(self.watcher.stop)
            await self.stop_readers(tasks)
            await self.look_at_the_end(faults)
        finally:
            for client in self.clients:
                client.stop()
            for node in self.nodes:
                await node.end()
            await asyncio.to_thread(self.server.control, 'stop', 'immediate', check=False)
            for led in tenure.read(os.path.join(self.directory, 'leaders')):
                self.record('tenure', at=led['last'], **led)
            self.check_server_log()
            self.check_node_logs()
            self.history.close()

    async def start(self, tasks):
        for node in self.nodes:
            await node.proxy.start()
            await node.start()
        self.watcher = Watcher(self.server, self.record)
        self.watcher.start()
        session = Faults(self.server, self.nodes, self.record)
        calls = [('create_database', 'lake', database) for database in (*DATABASES, QUIET_DATABASE)]
        calls += [('create_table', 'lake', *key.split('/'), QUIET_TABLE) for key in QUIET_KEYS]
        calls += [('create_user', user) for user in USERS] + [('create_role', ROLE), ('create_service_buckets', SERVICE, BUCKETS)]
        for call, *arguments in calls:
            rows = await session.query(f"SELECT {call}({', '.join('%s' for _ in arguments)})", *arguments)
            outcome = await session.end_of_procedure(rows[0][0])
            if outcome != 'done':
                raise RuntimeError(f"{call}: {outcome}: {await session.query('SELECT error_message FROM procedures WHERE outcome = %s', outcome)}")
        for node in self.nodes:
            for number in range(READERS):
                reader = Reader(node, number, KEYS, self.interest, self.random(f'reader {node.name} {number}'), self.record)
                self.readers.append(reader)
                tasks.append(asyncio.ensure_future(reader.run()))
        names = [node.name for node in self.nodes]
        self.clients = [Client(number, weights, self.server, names, self.random(f'client {number}'), self.interest, self.record)
                        for number, weights in enumerate(CLIENTS)]
        for client in self.clients:
            client.start()

    async def stop_readers(self, tasks):
        for reader in self.readers:
            reader.ending = True
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Exception):
                raise RuntimeError('a reader failed') from result

    async def come_to_rest(self, faults):
        """When nothing fails any more every procedure ends, and every node serves."""
        deadline = history.now() + REST
        while True:
            procedures = await faults.query(UNFINISHED)
            serving = await faults.query("SELECT count(*) FROM node_status WHERE current AND state = 'active'")
            if procedures == [(0,)] and serving == [(len(self.nodes),)]:
                return
            if history.now() > deadline:
                open_procedures = await faults.query("SELECT procedure_id, kind, state, wait_version, error_message "
                                                     "FROM amoro_meta.procedure WHERE outcome IS NULL")
                states = await faults.query('SELECT node_name, current, state, reason, detail FROM node_status')
                self.violate('rest', f'not at rest after {REST} s: procedures {open_procedures}, nodes {states}')
                return
            await asyncio.sleep(0.1)

    async def see_leader(self, faults):
        """When nothing fails any more somebody comes to lead, at the latest when the lease of whoever did is over."""
        deadline = history.now() + tenure.LONGEST_CHANGEOVER
        while await faults.query("SELECT service FROM leaders WHERE state = 'led'") != [(tenure.SERVICE,)]:
            if history.now() > deadline:
                self.violate('changeover', f'nobody leads {tenure.LONGEST_CHANGEOVER:.1f} s after the last fault')
                return
            await asyncio.sleep(0.05)

    async def look_at_the_end(self, faults):
        for (text,) in await faults.query(LEFTOVERS) or ():
            self.violate('leftover', text)
        for number, kind, state, outcome, stamp in await faults.query(FINAL_PROCEDURES):
            self.record('final_procedure', procedure=number, kind=kind, state=state, outcome=outcome, stamp=stamp)
        rows = await faults.query(document.DOCUMENTS)
        self.record('final', documents=rows[0][0])

    def check_server_log(self):
        """Errors that no fault of the schedule explains."""
        for line in self.server.log_text().splitlines():
            match = re.match(r'[-\d]+ [:.\d]+ UTC \[\d+\] ([^|]*)\|([^|]*)\|(\w*)\|([A-Z]+): +(.*)', line)
            if 'TRAP' in line or re.search(r'was terminated by signal (4|6|7|8|11)', line):
                self.violate('server log', line)
            elif match and match.group(4) in ('ERROR', 'FATAL', 'PANIC') and not allowed(*match.groups()):
                self.violate('server log', line)

    def check_node_logs(self):
        """What a node built with a sanitizer, or the C library, complains about."""
        for path in glob.glob(os.path.join(self.directory, 'node-*.log')):
            with open(path, encoding='utf-8', errors='replace') as file:
                for line in file:
                    if re.search(r'Sanitizer|runtime error:|Assertion|corrupted|double free', line):
                        self.violate('node log', f'{os.path.basename(path)}: {line.strip()}')


def allowed(backend, application, code, severity, text):
    """Whether an error is one that clients and nodes get because of what the schedule does to them."""
    if severity == 'PANIC' or code.startswith('XX'):
        return False
    # terminated, going down, starting up, cancelled; a connection that broke in the middle of a message
    if code[:2] in ('57', '08'):
        return True
    if application.startswith('chaos'):
        return True
    return application.startswith('node-') and code[:2] == 'AM'
