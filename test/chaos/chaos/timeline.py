"""What each table is by the metadata log; and which version was everywhere when."""
import bisect

ABSENT = ('absent',)
IN_TRANSITION = ('in transition',)


class Table:
    def __init__(self, table_id, marker, version=0, stamp=None):
        self.table_id = table_id
        self.marker = marker
        self.version = version
        self.stamp = stamp


class Metadata:
    """Replays the log, change by change."""

    def __init__(self, stamps):
        self.stamps = stamps            # procedure id → stamp that it writes
        self.databases = {}             # name → marker
        self.tables = {}                # key → Table

    def state(self, key):
        table = self.tables.get(key)
        if table is None:
            return ABSENT
        if self.databases.get(key.split('/')[0]) in ('pre_create', 'pre_drop') or table.marker in ('pre_create', 'pre_drop'):
            return IN_TRANSITION
        return ('there', table.version, table.table_id, table.stamp)

    def apply(self, version, changes):
        """All changes of one version."""
        renamed = None
        for change in changes:
            if change['kind'] == 'database':
                self.change_database(change)
            elif change['kind'] == 'table':
                renamed = self.change_table(version, change, renamed)

    def change_database(self, change):
        name, operation = change['database'], change['operation']
        if operation == 'rollback':
            if self.databases.get(name) == 'pre_create':
                del self.databases[name]
            else:
                self.databases[name] = 'normal'
        elif operation == 'drop':
            del self.databases[name]
        elif not operation.endswith('_ttl'):
            self.databases[name] = 'normal' if operation == 'create' else operation

    def change_table(self, version, change, renamed):
        key, operation = f"{change['database']}/{change['table']}", change['operation']
        stamp = self.stamps.get(change['procedure'])
        if operation == 'pre_create':
            self.tables[key] = Table(change['object_id'], 'pre_create', 0, stamp)
        elif operation in ('pre_alter', 'pre_drop'):
            self.tables[key].marker = operation
        elif operation == 'create':
            self.tables[key].marker = 'normal'
            self.tables[key].version = version
        elif operation.endswith('_ttl'):
            self.tables[key].version = version
        elif operation == 'alter':
            self.tables[key] = Table(self.tables[key].table_id, 'normal', version, stamp)
        elif operation == 'drop':
            del self.tables[key]
        elif operation == 'rename' and renamed is None:
            return self.tables.pop(key)     # the old name; the new one follows
        elif operation == 'rename':
            self.tables[key] = Table(renamed.table_id, 'normal', version, renamed.stamp)
        elif operation == 'rollback' and self.tables[key].marker == 'pre_create':
            del self.tables[key]
        elif operation == 'rollback':
            self.tables[key].marker = 'normal'
        return None


class Steps:
    """A number that only grows, by moment: the largest that was reached at the latest at a time."""

    def __init__(self, pairs):
        self.moments, self.values = [], []
        largest = 0
        for moment, value in sorted(pairs):
            if value > largest:
                largest = value
                self.moments.append(moment)
                self.values.append(value)

    def before(self, moment):
        """The largest value that was reached before this moment."""
        index = bisect.bisect_left(self.moments, moment)
        return self.values[index - 1] if index else 0
