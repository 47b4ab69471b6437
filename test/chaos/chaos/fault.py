"""Makes the faults of a schedule happen, and takes them back."""
import asyncio
import os
import signal

import psycopg2

from . import history
from .operation import KINDS as PROCEDURE_KINDS
from .schedule import KINDS
from .server import LEASE_MS, LEASES_MS, Session

# Seconds within which a process that has to end has ended.
END = 20
# Seconds: less than a node waits for an answer beside the wait that it asks for, which is a quarter of the lease.
LATE = 0.17 * max(LEASES_MS) / 1000
# Seconds within which nodes have another L from their next grant.
LEARN = 0.4
# What runs here, to stop at; a coordinator stops at begin_term when the server starts.
POINTS = """
SELECT kind || '.' || state FROM procedure_machine WHERE kind = ANY (%s) GROUP BY 1 ORDER BY 1
"""
BEGIN_TERM = 'begin_term'


class Faults:
    def __init__(self, server, nodes, record):
        self.server = server
        self.nodes = nodes
        self.record = record
        self.session = Session(server, 'chaos driver')
        self.tasks = set()
        self.busy = set()
        self.session_lock = asyncio.Lock()

    async def run(self, schedule):
        """Starts every fault at its time; returns when all are over."""
        began = history.now()
        for fault in schedule:
            await asyncio.sleep(max(0, began + fault['at'] - history.now()))
            task = asyncio.ensure_future(self.make(fault))
            self.tasks.add(task)
        await asyncio.gather(*self.tasks)

    async def make(self, fault):
        node = self.nodes[fault['node']] if fault['node'] is not None else None
        places = {(KINDS[fault['kind']][1], fault['node'])}
        if 'apart' in fault:
            places.add(('network', fault['apart']))
        # the one before may take longer than it was meant to
        if places & self.busy:
            return
        self.busy |= places
        self.record('fault', **{**fault, 'at': history.now(), 'node': node.name if node else None})
        await getattr(self, fault['kind'])(node, fault)
        self.record('fault_over', kind=fault['kind'], node=node.name if node else None)
        self.busy -= places

    async def query(self, statement, *arguments):
        """Rows, or None when the server could not be asked."""
        async with self.session_lock:
            try:
                return await asyncio.to_thread(self.session.query, statement, *arguments)
            except psycopg2.Error:
                return None

    # processes

    async def pause(self, node, fault):
        instance = node.newest()
        if instance is None:
            return
        await instance.pause()
        await asyncio.sleep(fault['duration'])
        instance.resume()

    async def stall(self, node, fault):
        """
        The thread that answers stands still when it has found a table in memory and has not asked whether it may answer.
        All else in the process goes on: it hears of changes, and acknowledges them.
        """
        instance = node.newest()
        if instance is None or instance.stall_file is None:
            return
        instance.arm_stall()
        # until it answers a lookup from memory at all
        end = history.now() + fault['duration'] + 1
        while not instance.is_stalled() and history.now() < end and not instance.ended:
            await asyncio.sleep(0.001)
        if instance.is_stalled() or not instance.disarm_stall():
            instance.freeze_requests(caught=False)
            self.record('stalled', node=node.name, instance=instance.number)
            await asyncio.sleep(fault['duration'])
            instance.end_stall()

    async def end_and_start_again(self, node, duration, end):
        instance = node.newest()
        if instance is None:
            return
        node.wanted = False
        end(instance)
        await asyncio.sleep(duration)
        await self.see_end(instance, f'{instance.label} does not end')
        node.wanted = True
        await node.start()

    async def see_end(self, instance, complaint, other=None):
        deadline = history.now() + END
        while not (instance.ended or other and other.ended) and history.now() < deadline:
            await asyncio.sleep(0.02)
        if not (instance.ended or other and other.ended):
            self.record('violation', rule='process', text=complaint)
            instance.kill()
            await instance.process.wait()

    async def kill(self, node, fault):
        await self.end_and_start_again(node, fault['duration'], lambda instance: instance.kill())

    async def stop(self, node, fault):
        def terminate(instance):
            instance.allowed_ends.add(0)
            instance.signal(signal.SIGTERM)
        await self.end_and_start_again(node, fault['duration'], terminate)

    async def replace(self, node, fault):
        """
        The older process is not dead, only paused; when it goes on, it must find out by itself. Whoever registers last
        stays: that is the older one if it had not come to it before it was paused.
        """
        older = node.newest()
        if older is None:
            return
        await older.pause()
        newer = await node.start()
        await asyncio.sleep(fault['duration'])
        older.resume()
        await self.see_end(older, f'{older.label} goes on though {newer.label} has registered', newer)

    async def remove(self, node, fault):
        """A node that is told of its removal ends; one that was out of touch meanwhile registers anew."""
        instance = node.newest()
        rows = await self.query('SELECT remove_node(%s)', node.name)
        if rows is None or instance is None:
            return
        node.wanted = False
        outcome = await self.end_of_procedure(rows[0][0])
        self.record('removed', node=node.name, procedure=rows[0][0], outcome=outcome)
        await asyncio.sleep(fault['duration'])
        node.wanted = True
        if instance.ended:
            await node.start()

    async def end_of_procedure(self, procedure):
        while True:
            rows = await self.query('SELECT outcome FROM amoro_meta.procedure WHERE procedure_id = %s', procedure)
            if rows and rows[0][0]:
                return rows[0][0]
            await asyncio.sleep(0.05)

    # the network

    async def cut(self, node, fault):
        node.proxy.cut()

    async def refuse(self, node, fault):
        node.proxy.accepting = False
        node.proxy.cut()
        await self.heal_after(node, fault)

    async def heal_after(self, node, fault):
        await asyncio.sleep(fault['duration'])
        node.proxy.heal()

    async def switch(self, node, fault, mode, *directions):
        for direction in directions:
            node.proxy.directions[direction].set(mode)
        await self.heal_after(node, fault)

    async def hold_up(self, node, fault):
        await self.switch(node, fault, 'hold', 'up')

    async def hold_down(self, node, fault):
        await self.switch(node, fault, 'hold', 'down')

    async def hold_both(self, node, fault):
        await self.switch(node, fault, 'hold', 'up', 'down')

    async def drop_up(self, node, fault):
        await self.switch(node, fault, 'drop', 'up')

    async def drop_down(self, node, fault):
        await self.switch(node, fault, 'drop', 'down')

    async def delay(self, node, fault):
        for direction, delay in zip(('up', 'down'), fault['delays']):
            node.proxy.directions[direction].set(delay=delay)
        await self.heal_after(node, fault)

    async def clock(self, node, fault):
        if node.clock_file:
            node.set_clock(fault['seconds'])

    # the server

    async def pick_process(self, fault, condition, *arguments):
        """The process id of one of the server's processes, or None."""
        rows = await self.query(f'SELECT pid FROM pg_stat_activity WHERE {condition} ORDER BY pid', *arguments)
        return rows[int(fault['pick'] * len(rows))][0] if rows else None

    async def terminate(self, fault, condition, *arguments):
        pid = await self.pick_process(fault, condition, *arguments)
        if pid is not None:
            await self.query('SELECT pg_terminate_backend(%s)', pid)

    async def backend(self, node, fault):
        await self.terminate(fault, 'application_name = %s', node.name)

    async def client(self, node, fault):
        await self.terminate(fault, "application_name LIKE 'chaos client%%'")

    async def worker(self, node, fault):
        await self.terminate(fault, "backend_type LIKE 'amoro_meta%%'")

    async def crash(self, node, fault):
        pid = await self.pick_process(fault, "backend_type LIKE 'amoro_meta%%' OR application_name LIKE 'node-%%'")
        if pid is not None:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    async def coordinator(self, node, fault):
        await self.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'amoro_meta coordinator'")

    async def freeze(self, node, fault):
        rows = await self.query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'amoro_meta coordinator'")
        for (pid,) in rows or ():
            os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(fault['duration'])
        for (pid,) in rows or ():
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass

    async def restart(self, mode):
        async with self.session_lock:
            await asyncio.to_thread(self.server.control, 'restart', mode)

    async def restart_fast(self, node, fault):
        await self.restart('fast')

    async def restart_immediate(self, node, fault):
        await self.restart('immediate')

    async def restart_apart(self, node, fault):
        """What that node may still serve, only the grace of the new term covers. With a lease that outlives the restart."""
        apart = self.nodes[fault['apart']]
        await self.set('amoro_meta.metadata_lease_fence_ms', str(max(LEASES_MS)))
        await asyncio.sleep(LEARN)
        apart.proxy.accepting = False
        apart.proxy.cut()
        await self.restart('immediate')
        await self.heal_after(apart, fault)
        await self.set('amoro_meta.metadata_lease_fence_ms', str(LEASE_MS))

    async def late(self, node, fault):
        """The last grant that arrives is old when it does: whoever counts from then serves for longer than it is owed."""
        apart = self.nodes[fault['apart']]
        await self.set('amoro_meta.metadata_lease_fence_ms', str(max(LEASES_MS)))
        await asyncio.sleep(LEARN)
        apart.proxy.directions['down'].set(late=LATE)
        await asyncio.sleep(LEASE_MS / 1000)
        # no more requests; the answer to the last one is still on its way
        apart.proxy.directions['up'].set('hold')
        await self.heal_after(apart, fault)
        await self.set('amoro_meta.metadata_lease_fence_ms', str(LEASE_MS))

    async def set(self, name, value):
        """Changes a setting of the server for all, at once."""
        while True:
            if await self.query(f"ALTER SYSTEM SET {name} = %s", value) is not None:
                if await self.query('SELECT pg_reload_conf()') is not None:
                    return
            await asyncio.sleep(0.05)

    async def lease(self, node, fault):
        await self.set('amoro_meta.metadata_lease_fence_ms', str(fault['lease_ms']))

    async def stop_at(self, node, fault):
        rows = await self.query(POINTS, PROCEDURE_KINDS)
        if rows is None:
            return
        points = [point + fault['suffix'] for point, in rows] + [BEGIN_TERM]
        point = points[int(fault['pick'] * len(points))]
        self.record('stop_point', point=point)
        await self.set('amoro_meta.debug_stop_at', point)
        if point == BEGIN_TERM:
            await self.restart('immediate')
        await asyncio.sleep(fault['duration'])
        if fault['then'] == 'coordinator':
            await self.coordinator(node, fault)
        elif fault['then'] == 'restart_immediate':
            await self.restart('immediate')
        await self.set('amoro_meta.debug_stop_at', '')

    async def heal(self):
        """Everything works again: no fault is left, every node has a process."""
        for node in self.nodes:
            node.proxy.heal()
            node.wanted = True
            for instance in list(node.instances):
                instance.resume()
            if not node.instances:
                await node.start()
        await self.set('amoro_meta.debug_stop_at', '')
        await self.set('amoro_meta.metadata_lease_fence_ms', str(LEASE_MS))
