"""Clients that ask nodes for everything there is, without pause, and write down what they were told."""
import asyncio
import json
import socket

from . import document, history
from .operation import QUIET_KEYS

# Seconds. The first reader of each node asks mostly for what is in memory, and does not wait for long for what is not.
TIMEOUT = 15
IMPATIENT = 0.2
# Not a key: who it is that answers.
STATUS = 'status'


def path_of(key):
    """Where a node answers for a key."""
    if key == STATUS:
        return STATUS
    kind, _, name = key.rpartition(':')
    if kind == 'user':
        return f'privileges/{name}?privilege=SELECT&catalog=lake'
    return f'buckets/{name}' if kind == 'bucket' else f"{kind or 'table'}s/lake/{name}"


class Request:
    """One request on its way. 'start' is before it was sent, 'pending' a later moment at which it surely had no answer."""

    def __init__(self, instance, sock):
        self.socket = sock
        self.start = self.pending = history.now()
        self.received = False
        self.frozen = instance.stands
        self.caught = False         # it was on its way when the process was stopped

    def freeze(self, caught):
        """
        The process, or the thread that answers, stands still: if there is no answer yet, there will be none until it goes on.
        caught: where it stands is not known, it may be right before the write of an answer.
        """
        if self.received:
            return
        try:
            self.socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            self.frozen = True
            self.caught = self.caught or caught
        except OSError:
            pass

    def thaw(self, moment):
        if self.frozen:
            self.pending = moment
            self.frozen = False


class Reader:
    def __init__(self, node, number, keys, interest, random, record):
        self.node = node
        self.number = number
        self.timeout = IMPATIENT if number == 0 else TIMEOUT
        self.keys = keys
        self.interest = interest    # keys that somebody changes now
        self.random = random
        self.record = record
        self.connection = None      # (instance, socket)
        self.ending = False         # besides the cancellation, which asyncio.wait_for may lose

    def next_key(self):
        if self.random.random() < (0.8 if self.timeout == IMPATIENT else 0.1):
            return self.random.choice(QUIET_KEYS)
        keys = self.interest.of_one(history.now()) if self.random.random() < 0.6 else self.interest.keys
        if keys and self.random.random() < 0.8:
            return self.random.choice(keys)
        return self.random.choice(self.keys)

    async def run(self):
        while not self.ending:
            candidates = [instance for instance in self.node.instances if instance.port is not None]
            if candidates:
                instance = self.random.choice(candidates)
                await self.ask(instance, self.next_key() if instance.incarnation else STATUS)
            await asyncio.sleep(self.random.uniform(0.002, 0.012))

    def close(self):
        if self.connection is not None:
            self.connection[1].close()
        self.connection = None

    async def connect(self, instance):
        if self.connection is not None and self.connection[0] is instance:
            return
        self.close()
        sock = socket.socket()
        sock.setblocking(False)
        self.connection = (instance, sock)
        await asyncio.get_running_loop().sock_connect(sock, ('127.0.0.1', instance.port))

    async def ask(self, instance, key):
        """Asks once. No answer is recorded as status 0, which says nothing."""
        request = None
        status, headers, body = 0, {}, b''
        try:
            await self.connect(instance)
            request = Request(instance, self.connection[1])
            instance.requests.add(request)
            status, headers, body = await asyncio.wait_for(self.exchange(request, path_of(key)), self.timeout)
        except (OSError, asyncio.TimeoutError, ValueError):
            self.close()
        except asyncio.CancelledError:
            self.close()
            raise
        finally:
            if request is not None:
                instance.requests.discard(request)
        if key == STATUS and status == 200:
            instance.incarnation = json.loads(body)['incarnation']
        elif key != STATUS and status in (200, 404, 409):
            self.record_answer(instance, request, key, status, headers, body)

    def record_answer(self, instance, request, key, status, headers, body):
        answer = {'node': self.node.name, 'instance': instance.number, 'reader': self.number, 'key': key,
                  'start': request.start, 'pending': request.pending, 'caught': request.caught, 'status': status,
                  'metadata_version': int(headers.get('amoro-metadata-version', -1))}
        told = json.loads(body)
        if status == 200 and key.startswith('user:'):
            answer['allowed'] = told['allowed']
        elif status == 200:
            answer['object_version'] = int(headers['amoro-object-version'])
            answer['body_version'] = told['version']
            answer['tag'] = headers['etag']
            answer['digest'] = document.digest(body)
            answer['owned'] = told.get('owner_incarnation') == instance.incarnation
        self.record('answer', **answer)

    async def exchange(self, request, path):
        loop = asyncio.get_running_loop()
        head = f'GET /v1/{path} HTTP/1.1\r\nHost: node\r\n\r\n'
        await loop.sock_sendall(request.socket, head.encode())
        data = b''
        while b'\r\n\r\n' not in data:
            data += await self.more(request)
        head, _, body = data.partition(b'\r\n\r\n')
        lines = head.decode('latin-1').split('\r\n')
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(':') for line in lines[1:])}
        while len(body) < int(headers['content-length']):
            body += await self.more(request)
        if headers.get('connection') == 'close':
            self.close()
        return int(lines[0].split()[1]), headers, body

    async def more(self, request):
        data = await asyncio.get_running_loop().sock_recv(request.socket, 65536)
        if not data:
            raise ConnectionError('the node closed the connection')
        request.received = True
        return data
