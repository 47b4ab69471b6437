# require_synchronous_tick: a server that its synchronous standby does not confirm grants no leases (H05, H11).
use strict;
use warnings;
use AmoroCluster qw(poll);
use AmoroNode;
use AmoroReplica;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $lease = 2;
my $tick = $lease / 8;
my $server = create_primary('main', tables => ['t'], conf => "amoro_meta.require_synchronous_tick = on\namoro_meta.assignment_interval = 100ms\n");
my $no_lease = qr/no synchronous standby confirms that this server is the primary/;

sub coordinator_cycles { return $server->coordinator->{cycles} }

sub wait_for_cycles
{
	my $cycles = coordinator_cycles();
	return poll('the coordinator goes on', sub { coordinator_cycles() > $cycles + 1 }, 20);
}

# No synchronous standby is named: there is none that could confirm
my $row = $server->coordinator;
is($row->{tick_ms}, $tick * 1000, 'a tick is good for an eighth of the lease');
is($row->{last_tick_at}, undef, 'without a synchronous standby no tick is confirmed');
my $node = AmoroNode->start(name => 'n1', conninfo => conninfo_of($server));
$node->wait_until('is told why it gets no lease', sub { $node->status->{reason} =~ $no_lease });
is($node->get('/healthz')->{status}, 503, 'a node gets no lease');
my $status = $server->safe_psql('postgres', "SELECT state, reason FROM node_status WHERE node_name = 'n1'");
like($status, qr/^joining\|gets no lease: $no_lease/, 'node_status says why');
poll('the log says so', sub { $server->log_text =~ /WARNING:.*amoro_meta grants no leases: no synchronous standby has confirmed/ });
like($server->log_text, qr/HINT:.*synchronous_standby_names/, 'with a hint');
is($server->safe_psql('postgres', 'SELECT longest_owed_us FROM amoro_meta.coordinator'),
	2_000_000 + 2_000 + 200_000 + 250_501, 'a successor will owe a lease, the drift, the margin and the age of a tick');

# With one it works; the tick costs no transaction
my $standby = create_standby($server, 'synchronous');
$server->configure(synchronous_standby_names => 'synchronous');
$node->wait_for_serving;
wait_for_tick($server);
my $before = $server->safe_psql('postgres', 'SELECT pg_snapshot_xmax(pg_current_snapshot())');
wait_for_tick($server) for 1 .. 3;
is($server->safe_psql('postgres', 'SELECT pg_snapshot_xmax(pg_current_snapshot())'), $before, 'ticks take no transaction ids');
like($server->log_text, qr/LOG:.*amoro_meta grants leases again/, 'the log says that leases are granted again');
my $buckets = $server->safe_psql('postgres', "SELECT create_service_buckets('work', 2)");
is($server->safe_psql('postgres', "SELECT wait_for_procedure($buckets, '30 s')"), 'done', 'a service gets buckets');
poll('the node owns them', sub { $server->safe_psql('postgres',
	"SELECT owned = 2 FROM bucket_services WHERE NOT EXISTS (SELECT FROM procedures WHERE outcome IS NULL)") eq 't' });

# The standby hangs: no leases from then on, and nobody but those who commit waits
my $walreceiver = $standby->safe_psql('postgres', 'SELECT pid FROM pg_stat_wal_receiver');
my $fences = $node->status->{fences};
my $position = $server->log_position;
is($node->lookup('c', 'd', 't')->{status}, 200, 'the node serves');
kill 'STOP', $walreceiver;
my $start = time;
my ($served) = $node->served_until(AmoroNode::table_path('c', 'd', 't'), $lease + $tick + 10);
my $gap = $served - $start;
cmp_ok($gap, '<', $lease + $tick, sprintf 'a node serves for no longer than one lease and one tick (%.2f s)', $gap);
is($node->status->{fences}, $fences + 1, 'it is fenced once');
$status = poll('it is owed nothing any more', sub { $server->safe_psql('postgres',
	"SELECT reason FROM node_status WHERE node_name = 'n1' AND lease_owed_for IS NULL") }, 10);
like($status, qr/^gets no lease: $no_lease/, 'node_status says why');
isnt($server->coordinator->{tick_pending_since}, undef, 'amoro_stat_coordinator shows a tick that is pending');
poll('that the node is missed is written down', sub { $server->safe_psql('postgres',
	"SELECT bool_and(absent_since IS NOT NULL) FROM service_buckets WHERE node_name = 'n1'") eq 't' });
wait_for_cycles();
is($server->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"), 0, 'the coordinator itself does not wait');

# H05: a wait that is cancelled confirms nothing: neither a client's, nor the coordinator's
sub commit_cancelled
{
	my ($statement) = @_;
	my $client = $server->background_psql('postgres', on_error_stop => 0);
	$client->query_until(qr/submitted/, "\\echo submitted\n$statement;\n");
	my $pid = poll('the client waits for the standby', sub { $server->safe_psql('postgres',
		q{SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND backend_type = 'client backend'}) });
	$server->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
	$client->query('SELECT 1');
	like($client->{stderr}, qr/WARNING:.*canceling wait for synchronous replication/, 'a client whose wait is cancelled is warned');
	$client->quit;
	return;
}
commit_cancelled("SELECT create_catalog('cancelled')");
commit_cancelled("SELECT drop_table('c', 'd', 't')");
poll('the coordinator commits a step and waits for the standby', sub { $server->safe_psql('postgres',
	"SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND backend_type = 'amoro_meta coordinator'") });
for (1 .. 3)
{
	$server->safe_psql('postgres', 'SELECT pg_cancel_backend(pid) FROM amoro_stat_coordinator');
	sleep 0.2;
}
is($node->get('/healthz')->{status}, 503, 'no wait that was cancelled brings a lease');
cmp_ok($server->safe_psql('postgres', "SELECT clock_timestamp() - last_tick_at > '2 s' FROM amoro_stat_coordinator"), 'eq', 't',
	'no tick was confirmed');
is($server->safe_psql('postgres', "SELECT count(*) FROM procedures WHERE kind = 'drop_table' AND outcome IS NULL"), 1,
	'the procedure waits, it does not fail');

# A longer lease is not granted before the standby knows of it, even if the wait for that is cancelled
$server->configure('amoro_meta.metadata_lease_fence_ms' => '4s');
for (1 .. 5)
{
	$server->safe_psql('postgres', 'SELECT pg_cancel_backend(pid) FROM amoro_stat_coordinator');
	sleep 0.2;
}
is($server->coordinator->{lease_ms}, 2000, 'a longer lease that the standby has not confirmed is not published');
$server->configure('amoro_meta.metadata_lease_fence_ms' => undef);

# A fast shutdown does not wait for the standby (but Postgres does, for a walsender whose client hangs), and without it there is no new term
$server->safe_psql('postgres', "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE backend_type = 'walsender'");
my $ms = $server->elapsed(sub { $server->stop('fast') });
cmp_ok($ms, '<', 5000, sprintf 'a fast shutdown works meanwhile (%d ms)', $ms);
$server->start;
poll('the new coordinator waits for the standby', sub { $server->safe_psql('postgres',
	"SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND backend_type = 'amoro_meta coordinator'") });
is($server->coordinator->{term}, undef, 'no term is begun that the standby does not know of');
for (1 .. 5)
{
	$server->safe_psql('postgres', 'SELECT pg_cancel_backend(pid) FROM amoro_stat_coordinator');
	sleep 0.2;
}
is($server->coordinator->{term}, undef, 'not even when the wait is cancelled');

# The standby is back: everything goes on by itself, and the procedure ends
kill 'CONT', $walreceiver;
$node->wait_for_serving(30);
pass('with the standby back the node serves again');
poll('the procedure is done', sub {
	$server->safe_psql('postgres', "SELECT count(*) FROM procedures WHERE kind = 'drop_table' AND outcome = 'done'") });
is($node->lookup('c', 'd', 't')->{status}, 404, 'and the node has heard of it');
wait_for_tick($server);

# The standby goes and comes back a few times; synchronous_standby_names is emptied: that is no confirmation
$standby->stop('immediate');
$node->wait_for_fenced($lease + $tick + 2);
$standby->start;
$node->wait_for_serving(30);
$server->configure(synchronous_standby_names => '');
$node->wait_for_fenced($lease + $tick + 2);
pass('who empties synchronous_standby_names stops the leases');
$server->configure('amoro_meta.require_synchronous_tick' => 'off');
$node->wait_for_serving(30);
is($server->coordinator->{tick_ms}, undef, 'switched off, no tick is required');
unlike($server->log_text, qr/PANIC|TRAP|terminated by signal/, 'nothing crashed');
done_testing();
