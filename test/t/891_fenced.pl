# What goes on while a node is fenced, route by route: every route that the daemon has is in the table below, with what a
# fenced node answers; a route that the table does not know fails the test.
use strict;
use warnings;
use AmoroCluster;
use AmoroLake;
use AmoroNode;
use AmoroProxy;
use File::Basename qw(dirname);
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

# method, route, a path of it that a node which serves answers with 200 (and has in memory), what a fenced one answers
my @cases = (
	[ 'GET', '/healthz', '/healthz', 503 ],
	[ 'GET', '/metrics', '/metrics', 200 ],
	[ 'GET', '/v1/status', '/v1/status', 200 ],
	[ 'GET', '/v1/tables/CATALOG/DATABASE/TABLE', '/v1/tables/c/d/t', 'fenced' ],
	[ 'GET', '/v1/tables/CATALOG/DATABASE', '/v1/tables/c/d', 'fenced' ],
	[ 'POST', '/v1/tables/CATALOG/DATABASE', '/v1/tables/c/d', 'fenced', '["t"]' ],
	[ 'GET', '/v1/devices/CATALOG/DATABASE/DEVICE', '/v1/devices/c/d/root.a', 'fenced' ],
	[ 'GET', '/v1/devices/CATALOG/DATABASE', '/v1/devices/c/d', 'fenced' ],
	[ 'POST', '/v1/devices/CATALOG/DATABASE', '/v1/devices/c/d', 'fenced', '["root.a"]' ],
	[ 'GET', '/v1/partitions/CATALOG/DATABASE/PARTITION', '/v1/partitions/c/d/0', 'fenced' ],
	[ 'GET', '/v1/buckets/SERVICE/BUCKET', '/v1/buckets/compactor/1', 'fenced' ],
	[ 'GET', '/v1/users/USER', '/v1/users/ada', 'fenced' ],
	[ 'GET', '/v1/privileges/USER', '/v1/privileges/ada?privilege=SELECT&catalog=c', 'fenced' ]);

my ($printed) = run_command([ $ENV{AMORO_NODE}, '--routes' ]);
my @routes = split /\n/, $printed;
my %known;
for my $case (@cases)
{
	my ($method, $route) = @$case;
	$known{$route}{$_} = 1 for $method eq 'GET' ? ('GET', 'HEAD') : $method;
}
is_deeply([ sort @routes ], [ sort map { join(', ', sort keys %{ $known{$_} }) . " $_" } keys %known ], 'every route is in the table, each with its methods');
my $readme = slurp_file(dirname(__FILE__) . '/../../README.md');
for my $route (@routes)
{
	my ($start) = $route =~ m{ (/[a-z0-9/]+)};
	like($readme, qr/\Q$start\E/, "the README has $start");
}

my $server = AmoroCluster->create('main');
my $proxy = AmoroProxy->start(socket_path($server));
my $user = $server->safe_psql('postgres', 'SELECT current_user');
my $node = AmoroNode->start(name => 'n1', conninfo => conninfo($server, proxy => $proxy, user => $user));
$node->wait_for_serving;
create_lake($server, 't');
is(run_procedure($server, $_), 'done', $_)
  for q{create_device('c', 'd', 'root.a', '{"measurements": [{"name": "speed", "type": "INT32"}]}')}, q{create_partitions('c', 'd')},
  q{create_service_buckets('compactor')}, q{create_user('ada', 'secret of ada')}, q{grant_privilege('{SELECT}', 'ada', catalog_name => 'c')};

sub ask
{
	my ($case) = @_;
	my ($method, undef, $path, undef, $body) = @$case;
	return $node->get($path, method => $method, body => $body);
}

for my $case (@cases)
{
	my $answer = $node->wait_until("answers $case->[2]", sub { my $a = ask($case); return $a->{status} == 200 && $a });
	is($answer->{status}, 200, "a node that serves answers $case->[0] $case->[2]");
	like($answer->{body}, qr/"allowed":true/, '... that the user may do it') if $case->[2] =~ /privileges/;
}

# cut off, with all of it in memory
$proxy->set(up => 'hold', down => 'hold');
$node->wait_for_fenced;
for my $case (@cases)
{
	my ($method, $route, $path, $expected) = @$case;
	my $answer = ask($case);
	is($answer->{status}, $expected eq 'fenced' ? 503 : $expected, "a fenced node: $method $path");
	ok(!exists $answer->{headers}{'amoro-metadata-version'}, '... speaks of no version of the metadata');
	next if $expected ne 'fenced';
	is($answer->{json}{error}{type}, 'MetadataLeaseFencedException', '... says that it is fenced');
	is_deeply([ keys %{ $answer->{json} } ], ['error'], '... and nothing else');
	ok($answer->{headers}{'retry-after'}, '... and when to try again');
	next if $method ne 'GET';
	my $head = $node->get($path, method => 'HEAD');
	is($head->{status}, 503, "a fenced node: HEAD $path");
	(my $absent = $path) =~ s/(t|root\.a|0|1|ada|d)(?=$|\?)/nothing/;
	is($node->get($absent)->{json}{error}{type}, 'MetadataLeaseFencedException', "nor does it say whether $absent exists");
}
like($node->get('/healthz')->{body}, qr/^fenced: ./, 'health says why');
my $status = $node->status;
ok(!$status->{serving}, 'the status says so');
is($status->{fences}, 1, '... and how often it happened');
like($node->get('/metrics')->{body}, qr/^amoro_node_fenced 1$/m, 'so do the metrics');
is($node->get('/v1/tables/c//t')->{status}, 400, 'what is wrong in itself is refused as such');

# the heartbeat goes on: the node comes back by itself
$proxy->set(up => 'pass', down => 'pass');
$node->wait_for_serving;
is(ask($_)->{status}, 200, "back: $_->[0] $_->[2]") for grep { $_->[3] eq 'fenced' } @cases;

# a graceful stop, fenced
$proxy->set(up => 'hold', down => 'hold');
$node->wait_for_fenced;
is($node->stop, 0, 'a fenced node stops in good order');
done_testing();
