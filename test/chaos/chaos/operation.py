"""What clients change: the names there are, the keys that readers ask for, and each operation with its arguments."""
import json

DATABASES = ('sales', 'stock', 'staff')
TABLES = ('a', 'b', 'c', 'd')
VIEWS = ('v', 'w')
DEVICES = ('root.s.a', 'root.s.b')
SLOTS = 3
SERVICE = 'work'
BUCKETS = 4
ROLE = 'team'
# What nobody changes is in memory at every node, and answered from there as long as a node believes in its lease.
QUIET_DATABASE = 'quiet'
QUIET_KEYS = [f'{QUIET_DATABASE}/{table}' for table in ('a', 'b')]
# Users, each of whom may read the catalog or may not.
USERS = ('ann', 'bob')
# A key is a table or view, or has its kind before it.
TABLE_KEYS = [f'{database}/{table}' for database in DATABASES for table in TABLES] + QUIET_KEYS
VIEW_KEYS = [f'{database}/{view}' for database in DATABASES for view in VIEWS]
USER_KEYS = [f'user:{user}' for user in USERS]
DEVICE_KEYS = [f'device:{database}/{device}' for database in DATABASES for device in DEVICES]
PARTITION_KEYS = [f'partition:{database}/{slot}' for database in DATABASES for slot in range(SLOTS)]
BUCKET_KEYS = [f'bucket:{SERVICE}/{number + 1}' for number in range(BUCKETS)]
KEYS = TABLE_KEYS + VIEW_KEYS + USER_KEYS + DEVICE_KEYS + PARTITION_KEYS + BUCKET_KEYS

# The clients, each with the weights of what it does.
CLIENTS = 3 * ({'create_table': 34, 'alter_table': 26, 'drop_table': 20, 'rename_table': 12, 'create_database': 4, 'drop_database': 4},) + (
    {'create_device': 8, 'create_devices': 8, 'alter_device': 20, 'drop_devices': 8, 'create_template': 14, 'alter_template': 10,
     'set_template': 28, 'activate_template': 18, 'deactivate_template': 6, 'unset_template': 2, 'drop_template': 2},
    {'create_view': 16, 'alter_view': 12, 'rename_view': 4, 'drop_view': 6, 'set_ttl': 12, 'unset_ttl': 6},
    {'create_partitions': 12, 'move_partition': 20, 'balance_partitions': 6, 'alter_partitions': 6, 'drop_partitions': 4,
     'create_service_buckets': 6, 'alter_service_buckets': 12, 'drop_service_buckets': 2},
    {'grant_privilege': 14, 'revoke_privilege': 14, 'grant_role': 8, 'revoke_role': 8, 'alter_user': 6, 'create_user': 4, 'drop_user': 4,
     'create_role': 4, 'drop_role': 2})
# Kinds of procedures that other names submit, or nobody: the sweep, and the driver.
KINDS = sorted({kind for weights in CLIENTS for kind in weights} - {'create_device'} | {'balance_buckets', 'remove_node'})


def touches(change, key):
    """Whether a change in the log makes nodes forget a key."""
    kind, _, name = key.rpartition(':')
    of = change['kind']
    if of in ('table', 'view', 'device', 'partition', 'database', 'template'):
        database, _, last = name.partition('/')
        if kind in ('user', 'bucket') or change['database'] not in (None, database):
            return False
        if of in ('database', 'template'):
            return of == 'database' or kind == 'device'
        return (kind or 'table') == ('table' if of == 'view' else of) and change['table'] in (None, last)
    if of == 'bucket':
        service, _, number = name.partition('/')
        return kind == 'bucket' and change['catalog'] == service and change['database'] in (None, number)
    return of == 'authority' and kind == 'user' and change['catalog'] in ('', name)


class Choice:
    """One call: the name of an operation, its arguments, and the keys that it is about."""

    def __init__(self, operation, random, stamp, nodes):
        self.operation = operation
        self.random = random
        self.stamp = stamp
        self.nodes = nodes
        self.database = random.choice(DATABASES)
        self.arguments = ['lake', self.database]
        self.keys = []
        for suffix in ('table', 'view', 'ttl', 'database', 'device', 'devices', 'template', 'partition', 'partitions', 'service_buckets', 'user',
                       'role', 'privilege'):
            if operation.endswith('_' + suffix):
                getattr(self, 'about_' + suffix)()

    def create_database(self, database):
        """Instead: the database that the one before missed."""
        self.operation, self.arguments = 'create_database', ['lake', database]
        self.keys = [key for key in TABLE_KEYS + VIEW_KEYS + DEVICE_KEYS if key.rpartition(':')[2].startswith(database + '/')]

    def about_view(self):
        view = self.random.choice(VIEWS)
        self.keys = [f'{self.database}/{view}']
        self.arguments.append(view)
        if self.operation == 'create_view':
            self.arguments.append(json.dumps({'base': {'table': self.random.choice(TABLES)}, 'properties': {'stamp': self.stamp}}))
        else:
            self.change_relation(VIEWS)

    def about_ttl(self):
        """Of a database, of a table, of devices; what inherits it shows it as well."""
        what = self.random.randrange(3)
        self.arguments += [f'{self.random.randint(1, 1000)} s'] if self.operation == 'set_ttl' else []
        if what == 0:
            self.keys = self.of_database(TABLE_KEYS + VIEW_KEYS + DEVICE_KEYS)
        elif what == 1:
            table = self.random.choice(TABLES)
            self.keys = [f'{self.database}/{table}'] + self.of_database(VIEW_KEYS)
            self.arguments.append(table)
        else:
            self.keys = self.of_database(DEVICE_KEYS)
            self.arguments += [None, self.random.choice(('root.s.*', *DEVICES))]

    def about_table(self):
        table = self.random.choice(TABLES)
        self.keys = [f'{self.database}/{table}']
        self.arguments.append(table)
        if self.operation == 'create_table':
            self.arguments.append(json.dumps({'format': 'iceberg', 'columns': [{'name': 'id', 'type': 'long'}],
                                              'properties': {'stamp': self.stamp}}))
        else:
            self.change_relation(TABLES)

    def change_relation(self, names):
        if self.operation.startswith('alter_'):
            self.arguments.append(json.dumps([{'op': 'set_properties', 'properties': {'stamp': self.stamp}}]))
        elif self.operation.startswith('rename_'):
            new = self.random.choice(DATABASES), self.random.choice(names)
            self.arguments += new
            self.keys.append('/'.join(new))

    def of_database(self, keys):
        return [key for key in keys if key.rpartition(':')[2].startswith(self.database + '/')]

    def about_database(self):
        self.keys = self.of_database(TABLE_KEYS + VIEW_KEYS + DEVICE_KEYS + PARTITION_KEYS)
        if self.operation == 'drop_database':
            self.arguments.append('true')

    def schema(self, **more):
        return {'measurements': [{'name': 'm', 'type': 'INT32', 'tags': {'stamp': self.stamp}}], **more}

    def about_device(self):
        """One, or for what can be done to all that match, a pattern."""
        device = self.random.choice(DEVICES)
        self.keys = [f'device:{self.database}/{device}']
        if self.operation == 'create_device':
            self.arguments += [device, json.dumps(self.schema())]
            return
        if self.random.random() < 0.4:
            device = 'root.s.*'
            self.keys = self.of_database(DEVICE_KEYS)
        self.arguments += [device]
        if self.operation == 'alter_device':
            self.arguments.append(json.dumps([{'op': 'set_tags', 'measurement': 'm', 'if_exists': True, 'tags': {'stamp': self.stamp}}]))

    def about_devices(self):
        if self.operation == 'drop_devices':
            self.about_device()
            return
        self.keys = self.of_database(DEVICE_KEYS)
        self.arguments += [json.dumps([self.schema(path=device) for device in DEVICES]), 'true']

    def about_template(self):
        self.keys = self.of_database(DEVICE_KEYS)
        self.arguments.append('t')
        if self.operation == 'create_template':
            self.arguments.append(json.dumps({'measurements': [{'name': 'of_all', 'type': 'INT32'}]}))
        elif self.operation == 'alter_template':
            self.arguments.append(json.dumps([{'op': 'add_measurement', 'name': 'n' + self.stamp.replace('-', '_'), 'type': 'INT32'}]))
        elif self.operation in ('set_template', 'unset_template'):
            self.arguments.append('root.s')
        elif self.operation == 'activate_template':
            self.arguments.append(self.random.sample(DEVICES, self.random.randint(1, len(DEVICES))))
        elif self.operation == 'deactivate_template':
            self.arguments.append(self.random.choice(('root.s.*', *DEVICES)))

    def about_partition(self):
        slot = self.random.randrange(SLOTS)
        self.keys = [f'partition:{self.database}/{slot}']
        self.arguments += [slot, *self.random.sample(self.nodes, 2)]

    def about_partitions(self):
        self.keys = self.of_database(PARTITION_KEYS)
        if self.operation == 'create_partitions':
            self.arguments.append(SLOTS)
        if self.operation in ('create_partitions', 'alter_partitions'):
            self.arguments.append(self.random.randint(1, 2))

    def about_service_buckets(self):
        self.keys = BUCKET_KEYS
        self.arguments = [SERVICE]
        if self.operation != 'drop_service_buckets':
            self.arguments.append(self.random.randint(2, BUCKETS))

    def about_user(self):
        user = self.random.choice(USERS)
        self.keys = [f'user:{user}']
        self.arguments = [user]
        if self.operation == 'alter_user':
            self.arguments += [None, self.random.random() < 0.5]

    def about_role(self):
        self.keys = USER_KEYS
        self.arguments = [ROLE]
        if self.operation in ('grant_role', 'revoke_role'):
            user = self.random.choice(USERS)
            self.keys = [f'user:{user}']
            self.arguments.append(user)

    def about_privilege(self):
        """To or from users, and the role that they may be in."""
        name = self.random.choice((*USERS, ROLE))
        self.keys = USER_KEYS if name == ROLE else [f'user:{name}']
        self.arguments = ['{SELECT}', name, 'lake']
