"""Clients that change metadata: every kind of procedure, retries, cancellations, timeouts too short to be kept."""
import threading
import uuid

import psycopg2

from .operation import Choice
from .server import Session


class Interest:
    """The keys that clients work on, for readers to look at."""

    def __init__(self):
        self.lock = threading.Lock()
        self.by_client = {}
        self.keys = ()

    def set(self, client, keys):
        with self.lock:
            self.by_client[client] = keys
            self.keys = tuple(key for keys in self.by_client.values() for key in keys)

    def of_one(self, moment):
        """The keys of one client, for half a second of each: so that many readers look at the same."""
        return self.by_client.get(int(moment * 2) % max(len(self.by_client), 1), ())


class Client(threading.Thread):
    def __init__(self, number, weights, server, nodes, random, interest, record):
        super().__init__(daemon=True)
        self.number = number
        self.weights = weights      # operation → how often
        self.nodes = nodes          # names
        self.session = Session(server, f'chaos client {number}')
        self.random = random
        self.interest = interest
        self.record = record
        self.ending = threading.Event()
        self.count = 0
        self.missing_database = None
        self.error_text = ''
        self.failure = None

    def run(self):
        try:
            while not self.ending.is_set():
                self.change_something()
                self.interest.set(self.number, ())
                self.ending.wait(self.random.uniform(0, 0.15))
        except Exception as error:
            self.failure = error
        self.session.close()

    def choose(self):
        self.count += 1
        operation = self.random.choices(list(self.weights), list(self.weights.values()))[0]
        choice = Choice(operation, self.random, f'{self.number}-{self.count}', self.nodes)
        if self.missing_database:
            choice.create_database(self.missing_database)
            self.missing_database = None
        return choice

    def change_something(self):
        choice = self.choose()
        request_id = str(uuid.UUID(int=self.random.getrandbits(128)))
        timeout = f'{self.random.randint(100, 1500)} ms' if self.random.random() < 0.15 else None
        cancel_after = self.random.uniform(0, 0.6) if self.random.random() < 0.12 else None
        self.interest.set(self.number, choice.keys)
        procedure = self.submit(choice, request_id, timeout)
        if procedure is None:
            return
        if cancel_after is not None:
            self.ending.wait(cancel_after)
            self.until_answered('SELECT cancel_procedure(%s)', procedure)
        self.wait_for(procedure)

    def submit(self, choice, request_id, timeout):
        marks = ', '.join('%s' for _ in choice.arguments)
        statement = f'SELECT {choice.operation}({marks}, request_id => %s, timeout => %s)'
        value, error = self.until_answered(statement, *choice.arguments, request_id, timeout)
        if error == '42704' and self.error_text.startswith('database') and 'does not exist' in self.error_text:
            self.missing_database = self.error_text.split('"')[3]
        self.record('submitted', client=self.number, operation=choice.operation, arguments=choice.arguments, procedure=value,
                    timeout=timeout, error=error)
        return value

    def wait_for(self, procedure):
        while not self.ending.is_set():
            outcome, error = self.until_answered("SELECT wait_for_procedure(%s, '5 s')", procedure)
            if outcome != 'running':
                self.record('acknowledged', client=self.number, procedure=procedure, outcome=outcome, error=error)
                return

    def until_answered(self, statement, *arguments):
        """(value, None), or (None, SQLSTATE). Asks again while there is no server, or none that may answer yet."""
        while not self.ending.is_set():
            try:
                return self.session.value(statement, *arguments), None
            except psycopg2.Error as error:
                # no server, terminated, starting up, crashed, no coordinator yet
                if error.pgcode is not None and error.pgcode[:3] != '57P' and error.pgcode not in ('AM005', '40001', '40P01'):
                    self.error_text = str(error)
                    return None, error.pgcode
                self.ending.wait(0.05)
        return None, 'ended'

    def stop(self):
        self.ending.set()

    def finish(self):
        self.join(60)
        if self.is_alive():
            raise TimeoutError(f'client {self.number} does not come back from the server')
        if self.failure is not None:
            raise self.failure
