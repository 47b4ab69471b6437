"""A private server with the extension, and sessions in it."""
import os
import subprocess
import time

import psycopg2

from . import document, history

DATABASE = 'lakehouse'
LEASE_MS = 1200
ACK_TIMEOUT_MS = 400
MARGIN_MS = 100
OFFLINE_TIMEOUT_MS = 1000
# L as the runs change it; the longest is what a new term waits for.
LEASES_MS = (800, 1200, 2000)

SETTINGS = f"""
shared_preload_libraries = 'amoro_meta'
max_worker_processes = 16
max_connections = 200
fsync = off
timezone = 'UTC'
log_line_prefix = '%m [%p] %b|%a|%e|'
log_min_messages = warning
deadlock_timeout = 100ms
amoro_meta.metadata_lease_fence_ms = {LEASE_MS}
amoro_meta.lease_margin_ms = {MARGIN_MS}
amoro_meta.ack_timeout = {ACK_TIMEOUT_MS}
amoro_meta.heartbeat_interval = 150
amoro_meta.change_history = 200
amoro_meta.assignment_interval = 250
amoro_meta.node_offline_timeout = {OFFLINE_TIMEOUT_MS}
"""

PREPARE = ('CREATE EXTENSION amoro_meta', *document.PREPARE, 'CREATE ROLE chaos_node LOGIN', "SELECT grant_access('chaos_node', 'node')",
           "SELECT create_catalog('lake')")


class Server:
    """One server in a directory; script/environment gives its programs and its user."""

    def __init__(self, directory, programs, user):
        self.directory = directory
        self.data = os.path.join(directory, 'data')
        self.log = os.path.join(directory, 'server.log')
        self.programs = programs
        self.as_user = ['runuser', '-u', user, '--'] if user else []
        self.socket_path = os.path.join(directory, '.s.PGSQL.5432')

    def program(self, name, *arguments, check=True):
        return subprocess.run([*self.as_user, os.path.join(self.programs, name), *arguments], check=check,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def create(self):
        self.program('initdb', '--pgdata', self.data, '--username=postgres', '--auth=trust', '--no-sync', '--no-locale',
                     '--encoding=UTF8')
        with open(os.path.join(self.data, 'postgresql.conf'), 'a', encoding='utf-8') as file:
            file.write(SETTINGS)
            file.write(f"listen_addresses = ''\nport = 5432\nunix_socket_directories = '{self.directory}'\n")
        self.control('start')
        self.program('createdb', '--host', self.directory, '--port=5432', '--username=postgres', DATABASE)
        session = Session(self, 'chaos driver')
        for statement in PREPARE:
            if 'create_catalog' in statement:
                session.wait_until("SELECT state = 'running' FROM amoro_stat_coordinator WHERE datname = current_database()")
            session.query(statement)
        session.close()

    def control(self, action, mode='fast', check=True):
        """pg_ctl: start, stop or restart, and waits for the end of it."""
        return self.program('pg_ctl', '--pgdata', self.data, '--log', self.log, '--silent', '--wait', '--timeout=60',
                            '--mode', mode, action, check=check)

    def postmaster(self):
        """Process id, or None."""
        try:
            with open(os.path.join(self.data, 'postmaster.pid'), encoding='utf-8') as file:
                return int(file.readline())
        except (OSError, ValueError):
            return None

    def log_text(self):
        with open(self.log, encoding='utf-8', errors='replace') as file:
            return file.read()


class Session:
    """A connection that is made when needed and made again when it broke; for one thread."""

    def __init__(self, server, name):
        self.server = server
        self.name = name
        self.connection = None

    def cursor(self):
        if self.connection is None or self.connection.closed:
            self.connection = psycopg2.connect(host=self.server.directory, port=5432, user='postgres', dbname=DATABASE,
                                               application_name=self.name)
            self.connection.autocommit = True
        return self.connection.cursor()

    def query(self, statement, *arguments):
        """Rows of one statement. psycopg2.Error: with pgcode when the server refused, without when it is not there."""
        try:
            with self.cursor() as cursor:
                cursor.execute(statement, arguments or None)
                return cursor.fetchall() if cursor.description else []
        except psycopg2.Error:
            # a session that was terminated is found closed by the next use
            if self.connection is not None and self.connection.closed:
                self.connection = None
            raise

    def value(self, statement, *arguments):
        return self.query(statement, *arguments)[0][0]

    def wait_until(self, statement, timeout=30):
        """Polls until the value of a statement is true, over restarts of the server."""
        deadline = history.now() + timeout
        error = None
        while history.now() < deadline:
            try:
                rows = self.query(statement)
                if rows and rows[0][0]:
                    return
            except psycopg2.Error as failure:
                error = failure
            time.sleep(0.02)
        raise TimeoutError(f'not true within {timeout} s: {statement} ({error})')

    def close(self):
        if self.connection is not None:
            self.connection.close()
        self.connection = None
