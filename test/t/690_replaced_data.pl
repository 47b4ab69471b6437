# Data that is not what the nodes have known, under nodes that run: the extension dropped and created again, and data
# that was restored from a dump over newer data.
use strict;
use warnings;
use AmoroCluster qw(poll);
use AmoroLake;
use AmoroNode;
use PostgreSQL::Test::Utils;
use Test::More;

my $server = AmoroCluster->create('main');
my $conninfo = conninfo($server);

# No node is told that a newer process has its name, which would end it for good.
my @nodes;
for my $name (qw(n1 n2 n3))
{
	push @nodes, AmoroNode->start(conninfo => $conninfo, name => $name);
	$nodes[-1]->wait_for_serving;
}
my $sleeper = shift @nodes;
$sleeper->signal('STOP');
$server->safe_psql('postgres', 'BEGIN; DROP EXTENSION amoro_meta; CREATE EXTENSION amoro_meta; COMMIT');
$server->wait_for_state('running');

sub registers_anew
{
	my ($node) = @_;
	$node->wait_until('is active in the new extension',
		sub { $server->safe_psql('postgres', "SELECT count(*) FROM node_status WHERE node_name = '" . $node->name . "' AND state = 'active'") eq '1' });
	return is($node->get('/healthz')->{status}, 200, $node->name . ' serves again');
}
registers_anew($_) for @nodes;
# the one that slept finds the others registered, in the same order as before
$sleeper->signal('CONT');
registers_anew($sleeper);
is($_->stop, 0, $_->name . ' stops in good order') for @nodes;

# From here on a lease that outlasts the test: nothing may depend on its end.
$server->configure('amoro_meta.metadata_lease_fence_ms' => '300s', 'amoro_meta.ack_timeout' => '200s');
poll('the coordinator uses the long lease', sub { $server->coordinator->{lease_ms} == 300_000 });

# A dump; then newer versions, which the node applies; then the dump is restored over them while the node sleeps, and as
# many versions are given again.
create_lake($server, 't');
my $node = $sleeper;
$node->wait_until('has the table', sub { $node->lookup('c', 'd', 't')->{status} == 200 });
mkdir $server->backup_dir;
my $dump = $server->backup_dir . '/lake.dump';
command_ok([ 'pg_dump', '--format=custom', '--file', $dump, '--dbname', $server->connstr('postgres') ], 'dump');
is(run_procedure($server, q(alter_table('c', 'd', 't', '[{"op":"add_column","column":"lost","type":"int"}]'))), 'done', 'altered');
$node->wait_until('keeps the altered table',
	sub { $node->lookup('c', 'd', 't')->{body} =~ /"lost"/ && $node->status->{caches}{table}{entries} == 1 });
my $applied = metadata_version($server);
my $term = $server->coordinator->{term};
$node->signal('STOP');
command_ok([ 'pg_restore', '--clean', '--single-transaction', '--dbname', $server->connstr('postgres'), $dump ], 'restore');
poll('the coordinator has noticed',
	sub { my $row = $server->coordinator; return ($row->{state} // '') eq 'running' && $row->{term} > $term });
$server->safe_psql('postgres', "SELECT create_database('c', 'again_' || i) FROM generate_series(1, 8) i");
wait_for_query($server, "SELECT count(*) = 8 FROM procedures WHERE database_name LIKE 'again%' AND state = 'pre_create'");
cmp_ok(metadata_version($server), '>', $applied, 'versions have gone beyond those that were lost');
$node->signal('CONT');
$node->wait_until('is active in the new term',
	sub { $server->safe_psql('postgres', "SELECT count(*) FROM node_status WHERE node_name = 'n1' AND state = 'active'") eq '1' });
unlike($node->lookup('c', 'd', 't')->{body}, qr/"lost"/, 'the node does not serve what is not in the restored data');
like($node->lookup('c', 'd', 't')->{body}, qr/"id"/, 'but what is');
is($node->stop, 0, 'it stops in good order');
$server->stop;
done_testing();
