"""What happened in a run, as JSON lines with times of one monotonic clock."""
import json
import threading
import time


def now():
    """Seconds of CLOCK_BOOTTIME: the clock of leases, and one that nobody sets."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class History:
    """Appends events to a file; may be used from any thread."""

    def __init__(self, path):
        self.path = path
        self.file = open(path, 'w', encoding='utf-8')
        self.lock = threading.Lock()
        self.started = now()

    def record(self, event, **fields):
        """Writes one event; 'at' is set unless it was given. Returns the event."""
        fields.setdefault('at', now())
        line = json.dumps({'event': event, **fields})
        with self.lock:
            if not self.file.closed:
                self.file.write(line + '\n')

    def close(self):
        with self.lock:
            self.file.close()


def read(path):
    """All events of a history, in the order of their writing."""
    with open(path, encoding='utf-8') as file:
        return [json.loads(line) for line in file]
