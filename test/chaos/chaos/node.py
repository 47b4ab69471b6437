"""amoro-node processes. A node is a name with a proxy of its own; an instance is one process under that name."""
import asyncio
import os
import re
import signal

from . import history
from .proxy import Proxy
from .tenure import SERVICE, STOP_TIMEOUT_MS

FAKETIME = '/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1'
# How amoro-node ends (src/node/daemon/exit_code.h).
EXIT_STOPPED, EXIT_SUPERSEDED, EXIT_REMOVED = 0, 5, 6


class Instance:
    """One process, and the requests to it that are on their way."""

    def __init__(self, node, number):
        self.node = node
        self.number = number
        self.process = None
        self.port = None
        self.incarnation = None     # once it has said so
        self.paused = False
        self.stands = False         # answers nothing: paused, or stalled
        self.ended = False
        self.allowed_ends = {EXIT_SUPERSEDED, EXIT_REMOVED}
        self.requests = set()
        # see test/t/stall.c; such a process has one thread that answers
        self.stall_file = os.path.join(node.directory, f'{node.name}.{number}.stall') if node.stall_library else None

    @property
    def label(self):
        return f'{self.node.name}/{self.number}'

    def signal(self, number):
        if not self.ended:
            try:
                self.process.send_signal(number)
            except ProcessLookupError:
                pass

    def kill(self):
        self.allowed_ends.add(-signal.SIGKILL)
        self.signal(signal.SIGKILL)

    def is_stopped(self):
        """Whether every thread stands still."""
        try:
            for task in os.listdir(f'/proc/{self.process.pid}/task'):
                with open(f'/proc/{self.process.pid}/task/{task}/stat', encoding='ascii', errors='replace') as file:
                    if file.read().rpartition(')')[2].split()[0] != 'T':
                        return False
        except OSError:
            return False
        return True

    async def pause(self):
        """
        Stops the process. A request that has no answer now gets none before the process goes on: what it is answered
        then, it is answered after that moment, and is held to what is true then.
        """
        self.signal(signal.SIGSTOP)
        while not self.ended and not self.is_stopped():
            await asyncio.sleep(0.001)
        self.paused = True
        self.freeze_requests(caught=True)

    def resume(self):
        if not self.paused:
            return
        self.thaw_requests()
        self.paused = False
        self.signal(signal.SIGCONT)

    def freeze_requests(self, caught):
        self.stands = True
        for request in self.requests:
            request.freeze(caught)

    def thaw_requests(self):
        self.stands = False
        moment = history.now()
        for request in self.requests:
            request.thaw(moment)

    def arm_stall(self):
        with open(self.stall_file, 'w', encoding='ascii'):
            pass

    def is_stalled(self):
        return os.path.exists(self.stall_file + '.stalled')

    def disarm_stall(self):
        """False when it has happened just now."""
        try:
            os.unlink(self.stall_file)
        except FileNotFoundError:
            return False
        return True

    def end_stall(self):
        self.thaw_requests()
        os.unlink(self.stall_file + '.stalled')


class Node:
    def __init__(self, name, server, directory, program, record, seed, with_faketime, stall_library, leader_program):
        self.name = name
        self.server = server
        self.directory = directory
        self.program = program
        self.record = record
        self.proxy = Proxy(server.socket_path, f'{name} {seed}')
        self.instances = []
        self.count = 0
        self.wanted = True          # the supervisor starts it again when it ends
        self.finished = False
        self.stall_library = stall_library
        self.leader_program = leader_program
        self.clock_file = os.path.join(directory, f'{name}.clock') if with_faketime else None
        if self.clock_file:
            self.set_clock(0)

    def set_clock(self, seconds):
        """Shifts the wall clock that the processes of this node see."""
        with open(self.clock_file + '.new', 'w', encoding='ascii') as file:
            file.write(f'{seconds:+d}\n')
        os.replace(self.clock_file + '.new', self.clock_file)

    def environment(self, instance):
        environment = dict(os.environ, AMORO_LEADERS=os.path.join(self.directory, 'leaders'))
        preloaded = []
        if self.stall_library:
            preloaded.append(self.stall_library)
            environment.update(AMORO_STALL=instance.stall_file)
        if self.clock_file:
            preloaded.append(FAKETIME)
            environment.update(FAKETIME_TIMESTAMP_FILE=self.clock_file, FAKETIME_CACHE_DURATION='1',
                               FAKETIME_DONT_FAKE_MONOTONIC='1')
        if preloaded:
            environment['LD_PRELOAD'] = ' '.join(preloaded)
        return environment

    async def start(self):
        """Starts another process; earlier ones stay as they are."""
        self.count += 1
        instance = Instance(self, self.count)
        path = os.path.join(self.directory, f'{self.name}.{self.count}.log')
        conninfo = (f'host=127.0.0.1 port={self.proxy.port} user=chaos_node dbname=lakehouse application_name={self.name} '
                    'sslmode=disable gssencmode=disable')
        with open(path, 'w', encoding='utf-8') as log:
            instance.process = await asyncio.create_subprocess_exec(
                self.program, '--name', self.name, '--listen', '127.0.0.1:0', '--conninfo', conninfo,
                '--load-timeout-ms', '3000', '--http-threads', '1', '--service', SERVICE, '--on-gain', self.leader_program,
                '--stop-timeout-ms', str(STOP_TIMEOUT_MS), stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log,
                env=self.environment(instance))
        self.instances.append(instance)
        self.record('start', node=self.name, instance=instance.number)
        asyncio.ensure_future(self.follow(instance, path))
        return instance

    async def follow(self, instance, path):
        """Learns the port of a process; waits for its end; has another one started when it was not meant to end."""
        while instance.process.returncode is None and instance.port is None:
            with open(path, encoding='utf-8', errors='replace') as file:
                match = re.search(r'listening on 127\.0\.0\.1:(\d+)', file.read())
            instance.port = int(match.group(1)) if match else None
            if instance.port is None:
                await asyncio.sleep(0.02)
        code = await instance.process.wait()
        instance.ended = True
        self.instances.remove(instance)
        self.record('exit', node=self.name, instance=instance.number, code=code,
                    allowed=code in instance.allowed_ends)
        await asyncio.sleep(0.3)
        if self.wanted and not self.finished and not self.instances:
            await self.start()

    def newest(self):
        return self.instances[-1] if self.instances else None

    async def end(self):
        """Ends every process at once."""
        self.finished = True
        for instance in list(self.instances):
            instance.kill()
            await instance.process.wait()
        await self.proxy.stop()
