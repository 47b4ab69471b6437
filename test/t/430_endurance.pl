# Thousands of lookups and heartbeats: no memory error, no leak, no growth. A hundred thousand heartbeats take a quarter of an
# hour here (AMORO_HEARTBEATS=100000 in the environment); without a server test/node/endurance_test.c has them in a moment.
use strict;
use warnings;
use AmoroCluster;
use AmoroHttp;
use AmoroLake;
use AmoroNode;
use File::Basename;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

# A long lease, so that valgrind's slowness is not taken for silence; heartbeats as quick as they can be.
my $server = AmoroCluster->create('main', conf => <<'CONF');
amoro_meta.metadata_lease_fence_ms = 20s
amoro_meta.ack_timeout = 5s
amoro_meta.heartbeat_interval = 10ms
log_statement = none
CONF
create_lake($server, map { "t$_" } 0 .. 9);

# Under valgrind: every kind of answer, clients that go away, changes, a fence, a stop.
my $valgrind_log = "$PostgreSQL::Test::Utils::tmp_check/valgrind";
my $node = AmoroNode->start(
	conninfo => conninfo($server),
	name => 'checked',
	under => [ 'valgrind', '--quiet', '--leak-check=full', '--show-leak-kinds=definite,possible', '--errors-for-leak-kinds=definite',
		'--error-exitcode=99', '--suppressions=' . dirname(__FILE__) . '/libh2o.supp', "--log-file=$valgrind_log" ],
	options => [ '--http-threads', '2' ]);
$node->wait_for_serving;
my @sockets = map { http_connect($node->address) } 1 .. 4;
my @paths = ((map { AmoroNode::table_path('c', 'd', "t$_") } 0 .. 9), AmoroNode::table_path('c', 'd', 'none'),
	'/v1/tables/c/d/%FF', '/healthz', '/v1/status', '/metrics', '/nothing');
my %statuses;
for my $i (1 .. 3000)
{
	$statuses{ http_exchange($sockets[ $i % 4 ], $paths[ $i % @paths ])->{status} }++;
	if ($i % 500 == 0)
	{
		run_procedure($server, sprintf q(alter_table('c', 'd', 't%d', '[{"op":"set_properties","properties":{"i":"%d"}}]')), $i % 10, $i);
		my $leaver = http_connect($node->address);
		syswrite $leaver, "GET /v1/tables/c/d/gone_$i HTTP/1.1\r\n\r\n";
		close $leaver;
		http_raw($node->address, "garbage\r\n\r\n");
	}
}
is_deeply([ sort keys %statuses ], [ 200, 400, 404 ], 'valgrind: every kind of answer was given') or diag explain \%statuses;
$server->safe_psql('postgres', 'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = \'client backend\' AND pid <> pg_backend_pid()');
$node->wait_until('serves again', sub { $node->lookup('c', 'd', 't0')->{status} == 200 });
is($node->stop, 0, 'valgrind: it stops with no error found') or diag slurp_file($valgrind_log);
is(slurp_file($valgrind_log), '', 'valgrind: and nothing to say');

# Without valgrind: a hundred thousand lookups between heartbeats, in five parts; the first part may settle in.
my $heartbeats = $ENV{AMORO_HEARTBEATS} // 300;
$node = AmoroNode->start(conninfo => conninfo($server), name => 'endures');
$node->wait_for_serving;
@sockets = map { http_connect($node->address) } 1 .. 8;
my $request = join '', map { "GET $_ HTTP/1.1\r\n\r\n" } @paths[ 0 .. 9 ];
my (@resident, $lookups);
my $descriptors;
for my $part (1 .. 5)
{
	for my $turn (1 .. 250)
	{
		syswrite $_, $request for @sockets;
		for my $socket (@sockets)
		{
			my $buffer = '';
			for (1 .. 10) { $lookups++ if http_read_response($socket, \$buffer, raw => 1)->{status} == 200 }
		}
		run_procedure($server, sprintf q(alter_table('c', 'd', 't%d', '[{"op":"set_properties","properties":{"i":"%d"}}]')), $turn % 10, $turn)
		  if $turn % 50 == 0;
		my $closing = http_connect($node->address);
		close $closing;
	}
	push @resident, $node->resident_kilobytes;
	$descriptors //= $node->descriptor_count;
}
is($lookups, 100_000, 'a hundred thousand lookups were answered');
$node->wait_until("has sent $heartbeats heartbeats", sub { $node->status->{heartbeats} > $heartbeats }, 60 + $heartbeats / 20);
push @resident, $node->resident_kilobytes;
my $status = $node->status;
diag sprintf '%d heartbeats, %s kB resident after each fifth and at the end', $status->{heartbeats}, join ' ', @resident;
cmp_ok($status->{heartbeats}, '>', $heartbeats, 'with heartbeats all along');
cmp_ok($resident[-1] - $resident[1], '<', 1024, 'memory does not grow');
$node->wait_until('has closed what its clients have closed', sub { $node->descriptor_count <= $descriptors });
cmp_ok($node->descriptor_count, '<=', $descriptors, 'nor do descriptors');
is($status->{fences}, 0, 'it was never fenced');
is($node->stop, 0, 'it stops in good order');
done_testing();
