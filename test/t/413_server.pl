# The server's side of a node's life: lost privileges, locks, restarts, crashes (faults L14, L16, L18).
use strict;
use warnings;
use AmoroCluster;
use AmoroHttp;
use AmoroLake;
use AmoroNode;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $server = AmoroCluster->create('main');
my $lease = lease_seconds();
create_lake($server, 't');
$server->safe_psql('postgres', "CREATE ROLE noder LOGIN; SELECT grant_access('noder', 'node')");
my @nodes = map { AmoroNode->start(conninfo => conninfo($server, user => 'noder'), name => "n$_") } 1 .. 3;
$_->wait_for_serving for @nodes;
$_->lookup('c', 'd', 't')->{status} == 200 or die for @nodes;
my $node = $nodes[0];

# L14: renewals fail for good, in three ways. The lease ends on time; the nodes try on, and come back when they may.
sub check_loss
{
	my ($what, $take, $give) = @_;
	my $start = time;
	$server->safe_psql('postgres', $take);
	$_->wait_for_fenced($lease + slack_seconds()) for @nodes;
	cmp_ok(time - $start, '<', $lease + 1, "$what: every node is fenced when its lease ends");
	is($node->lookup('c', 'd', 't')->{json}{error}{type}, 'MetadataLeaseFencedException', "$what: lookups are refused");
	$node->wait_until("says why ($what)", sub { $node->status->{reason} ne '' });
	my $failures = $node->status->{heartbeat_failures};
	sleep 2;
	my $tries = $node->status->{heartbeat_failures} - $failures;
	cmp_ok($tries, '<', 60, "$what: it does not hammer the server");
	ok($node->is_running, "$what: it tries on");
	$server->safe_psql('postgres', $give);
	$_->wait_for_serving(30) for @nodes;
	is($node->lookup('c', 'd', 't')->{status}, 200, "$what: it comes back by itself");
	return;
}
check_loss('privilege revoked', "SELECT revoke_access('noder', 'node')", "SELECT grant_access('noder', 'node')");
check_loss('role may not log in',
	"ALTER ROLE noder NOLOGIN; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'noder'",
	'ALTER ROLE noder LOGIN');
check_loss('functions gone',
	'ALTER FUNCTION node_heartbeat_text RENAME TO node_heartbeat_hidden; ALTER FUNCTION activate_node RENAME TO activate_node_hidden',
	'ALTER FUNCTION node_heartbeat_hidden RENAME TO node_heartbeat_text; ALTER FUNCTION activate_node_hidden RENAME TO activate_node');

# A lost connection costs nothing while there is a lease.
my $fences = $node->status->{fences};
for (1 .. 5)
{
	$server->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'noder'");
	sleep 0.3;
	is($node->lookup('c', 'd', 't')->{status}, 200, 'a terminated backend is replaced while the lease lasts');
}
is($node->status->{fences}, $fences, 'without a fence');

# L16: somebody locks everything for two leases. Heartbeats need no table: nobody is fenced.
my $locker = $server->background_psql('postgres');
my $tables = $server->safe_psql('postgres', "SELECT string_agg(oid::regclass::text, ', ') FROM pg_class
	WHERE relnamespace = 'amoro_meta'::regnamespace AND relkind = 'r'");
$locker->query_safe("BEGIN; LOCK TABLE $tables IN ACCESS EXCLUSIVE MODE");
my $end = time + 2 * $lease;
my $refused = 0;
while (time < $end)
{
	$refused++ if $node->lookup('c', 'd', 't')->{status} != 200;
	sleep 0.05;
}
is($refused, 0, 'with every table locked, what is in memory is served on');
is($node->status->{fences}, $fences, 'and nobody is fenced');
$locker->query_safe('COMMIT');
$locker->quit;

# The server restarts under the nodes: quickly, they serve on or at least come back; nobody is forgotten.
for my $mode (qw(fast immediate))
{
	$server->stop($mode);
	$server->start;
	$_->wait_for_serving(30) for @nodes;
	is(scalar(grep { $_->lookup('c', 'd', 't')->{status} == 200 } @nodes), 3, "stop -m $mode and start: every node serves");
	is(run_procedure($server, sprintf q(alter_table('c', 'd', 't', '[{"op":"add_column","column":"after_%s","type":"int"}]')), $mode),
		'done', 'and changes go on');
	is(scalar(grep { $_->lookup('c', 'd', 't')->{body} =~ /"after_$mode"/ } @nodes), 3, 'and reach every node');
}
cmp_ok($node->status->{term}, '>', 0, 'the nodes know the term');
is($node->status->{term}, $server->safe_psql('postgres', "SELECT term FROM metadata_lookup('table', 'c', 'd', 't')"), 'which is the new one');

# L18: away for longer than a lease. All are fenced, none is counted as dead, all come back.
$server->stop;
$_->wait_for_fenced($lease + slack_seconds()) for @nodes;
sleep $lease;
$server->start;
my $start = time;
$_->wait_for_serving(30) for @nodes;
cmp_ok(time - $start, '<', 2 * $lease + slack_seconds(), 'a server that was away for longer than a lease: all come back');
is($server->safe_psql('postgres', "SELECT count(*) FROM node_status WHERE state = 'active'"), 3, 'none was lost');

is($_->stop, 0, $_->name . ' stops in good order') for @nodes;
$server->stop;
my $alone = AmoroNode->start(conninfo => conninfo($server, user => 'noder'), name => 'n1');
is($alone->get('/healthz')->{status}, 503, 'without a server a node starts, fenced');
$server->start;
$alone->wait_for_serving(30);
$server->stop('immediate');
$start = time;
is($alone->stop, 0, 'a node stops without its server, too');
cmp_ok(time - $start, '<', 5, 'and does not wait long for it');
done_testing();
