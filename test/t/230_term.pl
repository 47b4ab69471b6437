# A server that restarts, crashes or is promoted, and settings that change: what leases of before are worth.
use strict;
use warnings;
use AmoroCluster qw(poll);
use LeaseClock qw(long_lease advance change outcome_of verdict waits_for);
use PostgreSQL::Test::Utils;
use SimulatedNode;
use Test::More;

my $server = AmoroCluster->create('main', conf => long_lease(), init => { allows_streaming => 1 });
$server->safe_psql('postgres', "SELECT create_catalog('c')");

sub restart
{
	my ($mode) = @_;
	my $term = $server->coordinator->{term};
	$server->stop($mode);
	$server->start;
	return $server->wait_for_state('running')->{term} - $term;
}

# L18, rule 5: nobody is expired because the server was away; everybody is owed one longest lease from its start
$server->safe_psql('postgres', <<'SQL');
DO $$
DECLARE
	g record;
BEGIN
	FOR i IN 1 .. 50 LOOP
		PERFORM register_node('n' || i, ('55555555-0000-0000-0000-' || lpad(i::text, 12, '0'))::uuid);
	END LOOP;
END;
$$;
SQL
sub all
{
	my ($function, $term, $epoch, $version) = @_;
	return $server->safe_psql('postgres', <<"SQL");
SELECT string_agg(DISTINCT g.answer, ',') FROM node_status s, LATERAL
	$function(s.node_id, s.incarnation, $term, $epoch, $version) g WHERE s.incarnation::text LIKE '55555555-%'
SQL
}
my $now = 'amoro_meta.current_term()';
is(all('activate_node', $now, 's.lease_epoch', 0), 'granted', '50 nodes are active');
my $version = change($server);
is(all('node_heartbeat', $now, 's.lease_epoch', $version), 'granted', 'and have acknowledged');
my $term = $server->coordinator->{term};
is(restart('fast'), 1, 'a restart begins a new term');
is($server->safe_psql('postgres', <<'SQL'), '50|joining|t', 'every node is expected, and owed one longest lease');
SELECT count(*), string_agg(DISTINCT state, ','), min(lease_owed_for) > '570 s' AND max(lease_owed_for) <= '600.8 s' FROM node_status
SQL
is(verdict($server, $version), 'WAIT', 'even a version that all had applied before has to be waited for: nobody remembers that they had');
is(all('node_heartbeat', $term, 's.lease_epoch', $version), 'reload', 'a heartbeat of the old term is told of the new one');
is(all('node_heartbeat', $term, 1, $version), 'reload', 'and extends nothing');

# Rule 6: who never lapsed and is current keeps its caches: it activates with what it has applied
is(all('activate_node', $now, 's.lease_epoch', $version), 'granted', 'all activate in the new term with what they have');
is(verdict($server, $version), 'PROCEED', 'then nothing is waited for');
is($server->safe_psql('postgres', 'SELECT sum(fences) FROM node_status'), 0, 'nobody was fenced');
$version = change($server);
is(all('activate_node', $now, 's.lease_epoch', $version - 1), 'behind', 'who is not current does not');

# The time that is owed lasts: a change that comes before it is over waits for nodes that are never heard of again
$server->safe_psql('postgres', "SELECT remove_node('n' || i) FROM generate_series(2, 50) i");
advance($server, 610_000);
poll('49 nodes are removed', sub { $server->safe_psql('postgres', 'SELECT count(*) FROM nodes') == 1 });
my $node = SimulatedNode->active($server, 'n1');
poll('it is on record that the process before holds no lease', sub {
	$server->safe_psql('postgres', 'SELECT count(*) FROM amoro_meta.superseded_incarnation WHERE lease_owed') == 0 });
is(restart('immediate'), 1, 'a crash begins a new term as well');
$version = change($server);
is(waits_for($server, $version), 'n1', 'the node is waited for');
advance($server, 560_000);
is(waits_for($server, $version), 'n1', 'until the longest lease is over');
advance($server, 50_000);
is(verdict($server, $version), 'PROCEED', 'and not for longer');
is($node->heartbeat, 'reload', 'it comes back');
is($node->recover, 'granted', 'and recovers');

# Rule 9 over a restart: an older process of a node is waited for although its row is gone
my $newer = SimulatedNode->active($server, 'n1');
is($server->safe_psql('postgres', "SELECT lease_owed FROM amoro_meta.superseded_incarnation WHERE incarnation = '$node->{incarnation}'"),
	't', 'it is on record that an older process may hold a lease');
restart('immediate');
$newer->heartbeat;
$newer->recover;
$version = change($server);
$newer->apply;
is(waits_for($server, $version), 'n1', 'after a crash it is still waited for');
is($server->safe_psql('postgres', "SELECT incarnation FROM node_status WHERE lease_owed_for IS NOT NULL AND NOT current"),
	$node->{incarnation}, 'under its own incarnation');
is($node->heartbeat, 'AM003', 'and still refused');
is($node->release, 't', 'unless it releases');
is(verdict($server, $version), 'PROCEED', 'then not any more');
poll('that is on record', sub {
	$server->safe_psql('postgres', 'SELECT count(*) FROM amoro_meta.superseded_incarnation WHERE lease_owed') == 0 });
is($newer->register, 'reload', 'the newer one goes on');

# A4, A5: a shorter lease holds for the grants after it; those of before keep their ends
$newer->recover;
$server->configure('amoro_meta.metadata_lease_fence_ms' => '120s');
poll('the new lease is published', sub { $server->coordinator->{lease_ms} == 120_000 });
cmp_ok($newer->owed_ms, '>', 500_000, 'a lease of ten minutes is owed to its end, whatever the setting says now');
is($newer->heartbeat, 'granted', 'the next grant');
is($newer->{lease_ms}, 120_000, 'tells the node the shorter lease');
cmp_ok($newer->owed_ms, '>', 500_000, 'the longer one is still owed: the answer may be lost');
advance($server, 590_000);
is($newer->heartbeat, 'granted', 'it is extended');
cmp_ok($newer->owed_ms, '<=', 120_320, 'by the shorter one when the longer one is over');
restart('immediate');
cmp_ok($newer->owed_ms, '>', 500_000, 'a new term waits for the longest lease that was ever granted');
$server->configure('amoro_meta.metadata_lease_fence_ms' => '1200s');
poll('the longer lease is published', sub { $server->coordinator->{lease_ms} == 1_200_000 });
is($server->safe_psql('postgres', 'SELECT longest_lease_us FROM amoro_meta.coordinator'), 1_200_000_000, 'a longer one is durable before it is granted');
$newer->heartbeat;
$newer->recover;
cmp_ok($newer->owed_ms, '>', 1_100_000, 'then granted');

# L11, A16, rule 10: settings that do not fit together are refused as a whole, naming both
for my $case (
	[ { 'amoro_meta.heartbeat_interval' => '301s' }, qr/at least four times amoro_meta.heartbeat_interval.*1200000 ms.*301000 ms/s ],
	[ { 'amoro_meta.ack_timeout' => '1200s' }, qr/greater than amoro_meta.ack_timeout.*1200000 ms.*1200000 ms/s ],
	[ { 'amoro_meta.metadata_lease_fence_ms' => '60s', 'amoro_meta.lease_margin_ms' => '60s', 'amoro_meta.ack_timeout' => '1s' },
		qr/greater than amoro_meta.lease_margin_ms.*60000 ms.*60000 ms/s ])
{
	my ($settings, $message) = @$case;
	my $log = $server->log_position;
	$server->configure(%$settings);
	poll('the combination is refused', sub { $server->log_text($log) =~ $message });
	pass('refused with both values: ' . join(', ', map { "$_ = $settings->{$_}" } sort keys %$settings));
	is($server->coordinator->{lease_ms}, 1_200_000, 'the lease of before stays');
	is($newer->heartbeat, 'granted', 'and is granted');
	$server->configure(map { $_ => undef } keys %$settings);
	$server->configure('amoro_meta.metadata_lease_fence_ms' => '1200s');
}
is(($server->outcome("ALTER SYSTEM SET $_"))[0], '22023', "out of range: $_")
	for 'amoro_meta.metadata_lease_fence_ms = 0', 'amoro_meta.lease_margin_ms = 0', 'amoro_meta.lease_margin_ms = -1',
	'amoro_meta.max_clock_drift_ppm = -1', 'amoro_meta.metadata_lease_fence_ms = 2147483647';
# the longest lease, margin and drift there can be, and all of it owed
$server->configure('amoro_meta.metadata_lease_fence_ms' => '1d', 'amoro_meta.max_clock_drift_ppm' => 200000, 'amoro_meta.lease_margin_ms' => '60s');
poll('the longest lease is published', sub { $server->coordinator->{lease_ms} == 86_400_000 });
$newer->heartbeat;
cmp_ok($newer->owed_ms, '<=', 86_400_000 * 1.2 + 60_000, 'the longest lease is owed in full');
cmp_ok($newer->owed_ms, '>', 86_400_000 * 1.2, 'V15: with the drift of the clocks');
$server->configure(map { $_ => undef } 'amoro_meta.metadata_lease_fence_ms', 'amoro_meta.max_clock_drift_ppm', 'amoro_meta.lease_margin_ms');
# a server that starts with settings that do not fit grants nothing, and says so to whoever registers
$newer->release;
$server->append_conf('postgresql.conf', 'amoro_meta.ack_timeout = 600s');
restart('fast');
my $unlucky = SimulatedNode->new($server, 'unlucky');
is($unlucky->{answer}, '22023', 'without valid settings no node can register');
like($unlucky->{error}, qr/600000 ms.*600000 ms/s, 'the error names both values');
is($newer->heartbeat, '22023', 'nor is anything granted');
$server->append_conf('postgresql.conf', 'amoro_meta.ack_timeout = 100s');
$server->reload;
poll('the settings fit', sub { ($server->coordinator->{lease_ms} // 0) == 600_000 });
is($unlucky->register, 'reload', 'until they are corrected');
$unlucky->recover;

# While a term begins there is none
$server->configure('amoro_meta.debug_stop_at' => 'begin_term');
$server->restart;
poll('the coordinator stops before the term', sub { ($server->coordinator->{stopped_at} // '') eq 'begin_term' });
is($unlucky->heartbeat, 'AM005', 'before the term is begun no heartbeat is answered');
is($unlucky->register, 'AM005', 'and nobody registers');
is(($server->outcome('SELECT broadcast_verdict(0)'))[0], 'AM005', 'there is no verdict');
is($server->safe_psql('postgres', "SELECT DISTINCT state FROM node_status"), 'unknown', 'node_status says so');
$server->configure('amoro_meta.debug_stop_at' => undef);
$server->wait_for_state('running');
is($unlucky->heartbeat, 'reload', 'then they are');
$unlucky->recover;

# A standby grants nothing and answers nothing
$server->backup('copy');
my $standby = AmoroCluster->new('standby');
$standby->init_from_backup($server, 'copy', has_streaming => 1);
$standby->start;
$server->wait_for_catchup($standby);
is(($standby->outcome("SELECT * FROM $_"))[0], '25006', "on a standby: $_")
	for "register_node('s', '11111111-1111-1111-1111-111111111111')",
	"node_heartbeat($unlucky->{node_id}, '$unlucky->{incarnation}', $unlucky->{term}, $unlucky->{epoch}, 0)",
	"activate_node($unlucky->{node_id}, '$unlucky->{incarnation}', $unlucky->{term}, $unlucky->{epoch}, 0)",
	"release_node($unlucky->{node_id}, '$unlucky->{incarnation}')", 'broadcast_verdict(0)', 'metadata_changes(0)',
	"metadata_snapshot('table')", "metadata_lookup('catalog', 'c')";

# Promotion, with the newest change and the newest registration lost: versions do not repeat, and nodes that nobody here
# ever heard of are waited for
$standby->stop;
my $ahead = change($server);
$unlucky->apply;
my $lost = SimulatedNode->active($server, 'lost');
$server->stop('immediate');
$standby->start;
$standby->promote;
my $row = $standby->wait_for_state('running');
is($row->{term} >> 32, 2, 'the new term is of the new timeline');
cmp_ok($row->{term}, '>', $unlucky->{term}, 'and greater than any before');
$unlucky->{server} = $lost->{server} = $standby;
is($unlucky->heartbeat, 'reload', 'a node that comes over is told to reload');
is($unlucky->{metadata_version}, $ahead - 1, 'its version was lost');
is($unlucky->activate(version => $ahead), 'reload', 'so it cannot keep what it has');
is($unlucky->recover, 'granted', 'it recovers with what there is');
is($lost->heartbeat, 'AM002', 'a node whose registration was lost is unknown');
$version = $standby->safe_psql('postgres', <<'SQL');
UPDATE amoro_meta.metadata_version SET version = GREATEST(version + 1, ((amoro_meta.timeline_id() - 1)::bigint << 40) + 1) RETURNING version
SQL
$unlucky->{version} = $version;
$standby->safe_psql('postgres', "SELECT create_catalog('after')");
my $id = $standby->safe_psql('postgres', "SELECT create_database('after', 'd')");
is($standby->safe_psql('postgres', "SELECT wait_for_procedure($id, '200 ms')"), 'running', 'a change waits for those who were lost');
like($standby->safe_psql('postgres', 'SELECT array_to_string(waits_for, $$,$$) FROM broadcast_verdict((SELECT version FROM amoro_meta.metadata_version))'),
	qr/\(unregistered\)/, 'the verdict says so');
# a second failure while they are waited for does not forget them
$standby->restart;
$standby->wait_for_state('running');
is($standby->safe_psql('postgres', "SELECT count(*) FROM node_status WHERE state = 'unknown'"), 1, 'nor does a restart forget them');
advance($standby, 86_400_000 * 1.2 + 70_000);
$unlucky->heartbeat;
$unlucky->recover;
poll('the change goes on', sub { $unlucky->apply; $standby->safe_psql('postgres', "SELECT wait_for_procedure($id, '100 ms')") eq 'done' });
cmp_ok($standby->safe_psql('postgres', 'SELECT version FROM amoro_meta.metadata_version'), '>', 1 << 40,
	'versions go on beyond all of the old timeline');
poll('that they were waited for is forgotten', sub {
	$standby->safe_psql('postgres', 'SELECT count(*) FROM amoro_meta.superseded_incarnation WHERE lease_owed') == 0 });

# The extension is dropped, the server restarted, and the extension created again: nodes that saw the terms of before refuse
# lower ones, so the new one begins with a higher term. (More restarts than seconds would outrun the clock.)
my $before = $standby->coordinator->{term};
$standby->safe_psql('postgres', 'DROP EXTENSION amoro_meta');
$standby->restart;
poll('the clock is beyond the terms', sub { int(CORE::time) - 1577836800 > ($before & 0xffffffff) });
$standby->safe_psql('postgres', 'CREATE EXTENSION amoro_meta');
cmp_ok($standby->wait_for_state('running')->{term}, '>', $before, 'the terms of an extension that is created again are beyond those of the one before');

unlike($server->log_text . $standby->log_text, qr/PANIC|TRAP|terminated by signal/, 'nothing went down by itself');
done_testing();
