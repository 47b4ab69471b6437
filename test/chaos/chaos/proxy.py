"""A TCP proxy in front of the server's socket, one for each node, whose faults are switched at run time.

Each direction ('up': from the node to the server, 'down': back) is in one mode:
  pass  bytes go through, after the delay of the direction, of which each connection has its own part
  hold  bytes are taken but kept, and no end of stream is passed on: a connection that is half open
  drop  bytes are taken and thrown away, as by a network that loses every packet
"""
import asyncio
import random

CHUNK = 1 << 16


class Direction:
    def __init__(self):
        self.mode = 'pass'
        self.delay = 0.0            # at most; each connection has its own part of it
        self.late = 0.0             # the same for each connection
        self.changed = asyncio.Event()

    def set(self, mode=None, delay=None, late=None):
        if mode is not None:
            self.mode = mode
        if delay is not None:
            self.delay = delay
        if late is not None:
            self.late = late
        self.changed.set()


class Proxy:
    def __init__(self, socket_path, seed):
        self.random = random.Random(seed)
        self.socket_path = socket_path
        self.directions = {'up': Direction(), 'down': Direction()}
        self.accepting = True
        self.links = set()
        self.port = None
        self.listener = None

    async def start(self):
        self.listener = await asyncio.start_server(self.accepted, '127.0.0.1', 0)
        self.port = self.listener.sockets[0].getsockname()[1]

    async def stop(self):
        self.listener.close()
        self.cut()

    def cut(self):
        """Resets every connection."""
        for link in list(self.links):
            for writer in link:
                writer.transport.abort()

    def heal(self):
        """Everything passes again, at once. What was thrown away leaves a broken stream: such connections end here."""
        broken = any(direction.mode == 'drop' for direction in self.directions.values())
        for direction in self.directions.values():
            direction.set('pass', 0.0, 0.0)
        self.accepting = True
        if broken:
            self.cut()

    async def accepted(self, reader, writer):
        if not self.accepting:
            writer.transport.abort()
            return
        try:
            server_reader, server_writer = await asyncio.open_unix_connection(self.socket_path)
        except OSError:
            writer.transport.abort()
            return
        link = (writer, server_writer)
        self.links.add(link)
        pumps = [asyncio.ensure_future(self.pump(self.directions['up'], self.random.random(), reader, server_writer)),
                 asyncio.ensure_future(self.pump(self.directions['down'], self.random.random(), server_reader, writer))]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            self.links.discard(link)
            for end in link:
                end.transport.abort()

    async def pump(self, direction, part, reader, writer):
        """Takes bytes as they come, and gives each on when its delay is over and the direction passes."""
        queue = asyncio.Queue()
        giver = asyncio.ensure_future(self.give(direction, queue, writer))
        loop = asyncio.get_running_loop()
        try:
            while True:
                try:
                    data = await reader.read(CHUNK)
                except OSError:
                    data = b''
                if data and direction.mode == 'drop':
                    continue
                queue.put_nowait((loop.time() + part * direction.delay + direction.late, data))
                if not data:
                    await giver
                    return
        finally:
            giver.cancel()
            await asyncio.gather(giver, return_exceptions=True)

    async def give(self, direction, queue, writer):
        loop = asyncio.get_running_loop()
        while True:
            due, data = await queue.get()
            while direction.mode != 'pass' or due > loop.time():
                direction.changed.clear()
                timeout = None if direction.mode != 'pass' else due - loop.time()
                try:
                    await asyncio.wait_for(direction.changed.wait(), timeout)
                except asyncio.TimeoutError:
                    pass
                if direction.mode == 'pass' and direction.delay == 0 and direction.late == 0:
                    break
            if not data:
                return
            writer.write(data)
            try:
                await writer.drain()
            except OSError:
                return
