# The rules of a lease, seen from the server: who gets one, for how long it is owed, what ends it.
use strict;
use warnings;
use AmoroCluster qw(poll);
use LeaseClock qw(long_lease advance change outcome_of verdict waits_for);
use PostgreSQL::Test::Utils;
use SimulatedNode;
use Test::More;

my $server = AmoroCluster->create('main', conf => long_lease());
$server->safe_psql('postgres',
	"CREATE ROLE node_role LOGIN; SELECT grant_access('node_role', 'node'); CREATE ROLE other_role LOGIN; SELECT grant_access('other_role', 'node')");

# Rule 6, L03: a node starts fenced, heartbeats do not lift that, activation only at the current version does
my $node = SimulatedNode->new($server, 'n1');
is($node->{answer}, 'reload', 'a node that registers has to load first');
is($node->heartbeat, 'reload', 'a heartbeat does not activate');
is($node->owed_ms, 0, 'and nothing is owed for it');
change($server);
is($node->activate, 'behind', 'nor does an activation at a version that is not current any more');
is($node->{metadata_version}, 1, 'the answer names the version that is');
is($node->recover, 'granted', 'at the current version it does');
is($node->status('state'), 'active', 'node_status says so');

# Rule 1 and 2: owed for L * (1 + drift) + margin from the grant, while the node counts L * (1 - drift) from before its question
my $owed = $node->owed_ms;
cmp_ok($owed, '>', 570_000, 'the lease is owed');
cmp_ok($owed, '<=', 600_800, 'for no longer than L * (1 + drift) + margin');
is($node->{lease_ms}, 600_000, 'the node is told L');

# V01, variant: contact just before the end, and it counts from anew
advance($server, 560_000);
cmp_ok($node->owed_ms, '<', 41_000, 'a moment before the end');
is($node->heartbeat, 'granted', 'a heartbeat still extends the lease');
cmp_ok($node->owed_ms, '>', 570_000, 'by its full length');

# Rule 4, L01: over is over, whoever notices first
my $epoch = $node->{epoch};
advance($server, 610_000);
is($node->status('state'), 'fenced', 'a lease that is over is not shown as one that may be held');
is($node->heartbeat, 'reload', 'the first heartbeat after the end does not revive the lease');
is($node->{epoch}, $epoch + 1, 'it fences the node: the epoch moves on');
is($node->heartbeat(epoch => $epoch), 'reload', 'neither does one with the old epoch');
is($node->activate(epoch => $epoch), 'reload', 'nor an activation with it');
is($node->recover, 'granted', 'only an activation with the new epoch');
is($node->status('fences'), 1, 'the fence is counted');
advance($server, 610_000);
change($server);
is(verdict($server, 2), 'PROCEED', 'a node whose lease is over holds up nothing');
is($node->heartbeat, 'reload', 'and is fenced when it comes back');

# The other way round: the coordinator fences first, in the step that relies on it
$node->recover;
$epoch = $node->{epoch};
advance($server, 610_000);
$server->safe_psql('postgres', "SELECT create_catalog('c')");
is(outcome_of($server, "create_database('c', 'd')"), 'done', 'a change goes through without the node');
is($node->status('state, lease_epoch'), "(fenced," . ($epoch + 1) . ")", 'whose slot was fenced before it was relied on');
is($node->heartbeat, 'reload', 'a heartbeat on its way meanwhile comes too late');

# A9: a node that comes back in the middle of a change counts again, with what it has loaded
$node->recover;
my $version = change($server);
is(waits_for($server, $version), 'n1', 'a change is waited for by a node that activated just before it');
is($node->apply, 'granted', 'its heartbeat is the ack');
is(verdict($server, $version), 'PROCEED', 'then it is not waited for any more');

# V06: an ack never goes backwards
is($node->heartbeat(version => 0), 'granted', 'a heartbeat from before, delivered late, changes nothing');
is($node->status('applied_version'), $version, 'the applied version stays');
is(verdict($server, $version), 'PROCEED', 'and so does the verdict');

# V07: an ack of another epoch, term or incarnation does not count
$version = change($server);
is($node->heartbeat(version => $version, epoch => $node->{epoch} - 1), 'reload', 'ack with an old epoch: refused');
is($node->heartbeat(version => $version, term => $node->{term} - 1), 'reload', 'ack with an old term: refused');
is($node->heartbeat(version => $version, incarnation => '00000000-0000-0000-0000-000000000000'), 'AM003',
	'ack of another incarnation: refused with its own SQLSTATE');
is($node->heartbeat(version => $version, node_id => 4711), 'AM002', 'ack of an unknown node: refused with its own SQLSTATE');
is($node->heartbeat(version => $version, term => $node->{term} + 1), 'AM004', 'ack with a newer term: refused with its own SQLSTATE');
is(waits_for($server, $version), 'n1', 'none of them counts');
$node->apply;

# L12, L13: one name, two processes
my $second = SimulatedNode->active($server, 'n1');
is($second->{node_id}, $node->{node_id}, 'a new process is the same node');
is($node->heartbeat, 'AM003', 'the older process gets no lease any more');
is($node->activate, 'AM003', 'in no way');
is($node->register, 'AM003', 'nor can it take the name back');
$version = change($server);
is($second->apply, 'granted', 'the newer one acknowledges a change');
is(verdict($server, $version), 'WAIT', 'which says nothing of the older one');
is($node->status('current'), 'false', 'its slot is shown as one of an older process');
like($node->status('reason'), qr/superseded/, 'with the reason');
advance($server, 560_000);
is($second->heartbeat, 'granted', 'time passes');
is(verdict($server, $version), 'WAIT', 'it counts until its lease is over');
advance($server, 50_000);
is(verdict($server, $version), 'PROCEED', 'then not any more');
poll('its slot is gone', sub { !defined $node->status('state') });
is($node->heartbeat, 'AM003', 'it is refused for good even then');
is($server->safe_psql('postgres', 'SELECT count(*) FROM amoro_meta.superseded_incarnation WHERE NOT lease_owed'), 1,
	'and it is on record that it holds no lease');

# L13: a clean stop waits for nobody, and the next start inherits no ack
is($second->release, 't', 'a node that stops releases its lease');
$version = change($server);
is(verdict($server, $version), 'PROCEED', 'no change waits for it');
is($second->heartbeat, 'AM002', 'a heartbeat that was on its way does not revive it');
my $third = SimulatedNode->active($server, 'n1');
is($server->safe_psql('postgres', "SELECT lease_owed FROM amoro_meta.superseded_incarnation WHERE incarnation = '$second->{incarnation}'"),
	'f', 'the process before it owes nothing');
is(verdict($server, change($server)), 'WAIT', 'the new process starts without acks');
$third->apply;
is($third->release, 't', 'and may release in turn');

# L14: a node whose calls fail gets no lease, whatever the reason
my $mine = SimulatedNode->active($server, 'mine', role => 'node_role');
$server->safe_psql('postgres', "SELECT revoke_access('node_role', 'node')");
is($mine->heartbeat, '42501', 'without the privilege there is no lease');
advance($server, 610_000);
$server->safe_psql('postgres', "SELECT grant_access('node_role', 'node')");
is($mine->heartbeat, 'reload', 'and the one before has ended meanwhile');
is($mine->recover, 'granted', 'with the privilege it recovers');
{
	local $mine->{role} = 'other_role';
	is($mine->heartbeat, '42501', 'another role cannot speak for the node');
	is($mine->activate, '42501', 'nor activate it');
	like($mine->release, qr/belongs to another role/, 'nor release it');
	is($mine->register, '42501', 'nor register it');
}
is($mine->release, 't', 'its own role can');

# L16: leases do not depend on tables, so nobody's lock fences anybody
$third = SimulatedNode->active($server, 'n1');
my $locker = $server->background_psql('postgres');
$locker->query_safe('BEGIN; LOCK TABLE amoro_meta.node, amoro_meta.change, amoro_meta.metadata_version IN ACCESS EXCLUSIVE MODE');
for (1 .. 3)
{
	advance($server, 500_000, coordinator => 0);
	is($third->heartbeat, 'granted', 'a heartbeat is granted under a lock on every table');
}
$locker->query_safe('ROLLBACK');
$locker->quit;

# No row, no WAL, no NOTIFY, no transaction id
my $measure = <<'SQL';
SELECT pg_current_wal_insert_lsn(), pg_snapshot_xmax(pg_current_snapshot()), pg_notification_queue_usage()
SQL
poll('the server is quiet', sub {
	my $before = $server->safe_psql('postgres', "CHECKPOINT; $measure");
	my $calls = join(";\n", ("SELECT answer FROM node_heartbeat($third->{node_id}, '$third->{incarnation}', $third->{term}, $third->{epoch}, $third->{version})") x 200);
	$server->safe_psql('postgres', $calls);
	return $server->safe_psql('postgres', $measure) eq $before;
}, 30);
pass('200 heartbeats leave WAL, transaction ids and the notification queue as they were');
is($server->safe_psql('postgres', 'SELECT count(*) FROM pg_listening_channels()'), 0, 'nobody listens to anything');

# No room
my $small = AmoroCluster->create('small', conf => long_lease() . "amoro_meta.max_nodes = 2\n");
my ($one, $two) = map { SimulatedNode->active($small, "n$_") } 1 .. 2;
my $refused = SimulatedNode->new($small, 'n3');
is($refused->{answer}, '53400', 'a node for which there is no room is refused');
like($refused->{error}, qr/amoro_meta\.max_nodes/, 'and told what to do');
is($small->safe_psql('postgres', "SELECT string_agg(node_name, ',' ORDER BY node_name) FROM nodes"), 'n1,n2', 'it leaves no row');
is($two->heartbeat, 'granted', 'the others go on');
# a smaller server after a restart: who finds no place is waited for all the same
$small->append_conf('postgresql.conf', 'amoro_meta.max_nodes = 1');
$small->restart;
$small->wait_for_state('running');
$version = change($small);
is(waits_for($small, $version), 'n1,(unregistered)', 'after a restart with less room, who found none is waited for')
	or diag $small->safe_psql('postgres', 'SELECT * FROM node_status');
is($small->safe_psql('postgres', "SELECT count(*) FROM node_status WHERE state = 'unknown'"), 2, 'node_status shows who has no place');
advance($small, 610_000);
is(verdict($small, $version), 'PROCEED', 'until no lease of before can last');

# V01 … int64: a server that has been up for 25 days, in milliseconds just beyond 2^31
$server->configure('amoro_meta.debug_clock_offset_ms' => 2147483647);
poll('the clock has moved', sub { $third->heartbeat ne 'granted' });
$third->recover;
cmp_ok($third->owed_ms, '>', 570_000, 'after 25 days leases are as long as before');
cmp_ok($third->owed_ms, '<=', 600_800, 'and no longer');
is($third->heartbeat, 'granted', 'and are extended');

unlike($server->log_text . $small->log_text, qr/PANIC|TRAP|terminated by signal/, 'nothing went down');
done_testing();
