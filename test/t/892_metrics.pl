# The names of the metrics are stable: the example scrape (docs/metrics.txt) has those that a node has, with their types and
# labels, and the dashboard (docs/dashboard.json) asks for none that there is not. The figures mean what they say.
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

my $docs = dirname(__FILE__) . '/../../docs';

# The shape of a scrape: types by name, and the series without values, with labels that differ from node to node left out.
sub shape_of
{
	my ($text) = @_;
	my (%types, %series);
	for (split /\n/, $text)
	{
		$types{$1} = $2 if /^# TYPE (\S+) (\S+)$/;
		next if /^#/;
		like($_, qr/^[a-z_]+(\{[^}]*\})? -?\d+(\.\d+)?$/, "a line of a scrape: $_") unless /^[a-z_]+(\{[^}]*\})? -?\d+(\.\d+)?$/;
		s/ \S+$//;
		s/"[^"]*"/"..."/g if /^amoro_node_info/;
		$series{$_} = 1;
	}
	return (\%types, \%series);
}

sub value_of
{
	my ($text, $series) = @_;
	return $text =~ /^\Q$series\E (\S+)$/m ? $1 : undef;
}

my $server = AmoroCluster->create('main');
my $proxy = AmoroProxy->start(socket_path($server));
create_lake($server, 't', 'u');
my $node = AmoroNode->start(
	conninfo => conninfo($server, proxy => $proxy, user => $server->safe_psql('postgres', 'SELECT current_user')),
	options => [ '--service', 'compactor', '--preload', 'table' ]);
$node->wait_for_serving;
$node->lookup('c', 'd', 't') for 1 .. 10;
$node->get("/v1/devices/c/d/root.none$_") for 1 .. 7;

my $scrape = $node->get('/metrics');
like($scrape->{headers}{'content-type'}, qr{^text/plain; version=0\.0\.4}, 'a format that Prometheus knows');
my $text = $scrape->{body};
append_to_file("$PostgreSQL::Test::Utils::log_path/metrics.txt", $text);
my ($types, $series) = shape_of($text);
my ($example_types, $example_series) = shape_of(slurp_file("$docs/metrics.txt"));
is_deeply($example_types, $types, 'the example has the metrics that a node has, with their types')
  or diag 'if that is meant, take docs/metrics.txt from the metrics.txt in the log directory of this test (script/check --keep)';
is_deeply([ sort keys %$example_series ], [ sort keys %$series ], '... and the same labels');
for my $name (sort keys %$types)
{
	is($types->{$name}, $name =~ /_total$/ ? 'counter' : 'gauge', "$name: a counter is called _total");
	unlike($name, qr/_(ms|us|milliseconds|kb|mb)(_|$)/, "$name: its unit is seconds or bytes");
	like($text, qr/^# HELP $name \S.+\.$/m, "$name: says what it is");
}
my $dashboard = decode_json(slurp_file("$docs/dashboard.json"));
my %asked;
for my $panel (@{ $dashboard->{panels} })
{
	$asked{$_} = 1 for map { $_->{expr} =~ /\b(amoro_\w+)/g } @{ $panel->{targets} };
	ok(@{ $panel->{targets} } > 0 && $panel->{title}, "panel $panel->{id} has a title, and asks for something");
}
$asked{$_} = 1 for map { ref $_->{query} ? $_->{query}{query} =~ /\b(amoro_\w+)/g : () } @{ $dashboard->{templating}{list} };
cmp_ok(scalar keys %asked, '>', 20, 'the dashboard asks for many metrics');
ok($types->{$_}, "the dashboard asks for $_, which there is") for sort keys %asked;

# per cache: hits, misses, clears, reloads and how long the last one took
is(value_of($text, 'amoro_node_cache_hits_total{cache="table"}'), 10, 'hits');
is(value_of($text, 'amoro_node_cache_misses_total{cache="device"}'), 7, 'misses');
is(value_of($text, 'amoro_node_cache_entries{cache="table"}'), 2, 'entries');
is(value_of($text, 'amoro_node_cache_reloads_total{cache="table"}'), 1, 'reloads');
cmp_ok(value_of($text, 'amoro_node_cache_last_reload_seconds{cache="table"}'), '>=', 0, 'how long the last reload took');
is(value_of($text, 'amoro_node_cache_last_reload_seconds{cache="device"}'), '-0.001', 'none of what is not loaded whole');
is(value_of($text, 'amoro_node_cache_whole{cache="table"}'), 1, 'whether it is whole');
is(value_of($text, 'amoro_node_fenced'), 0, 'not fenced');
is(value_of($text, 'amoro_node_fences_total'), 0, 'no fences so far');
cmp_ok(value_of($text, 'amoro_node_heartbeat_age_seconds'), '<', 2, 'seconds since the last heartbeat');
my $status = $node->status;
is($status->{caches}{device}{misses}, 7, 'the status has the same figures');

$proxy->set(up => 'hold', down => 'hold');
$node->wait_for_fenced;
$text = $node->wait_until('has emptied its caches',
	sub { my $t = $node->get('/metrics')->{body}; return value_of($t, 'amoro_node_cache_clears_total{cache="device"}') && $t });
is(value_of($text, 'amoro_node_fenced'), 1, 'fenced');
is(value_of($text, 'amoro_node_fences_total'), 1, 'one fence');
cmp_ok(value_of($text, 'amoro_node_heartbeat_age_seconds'), '>', 1, 'seconds since the last heartbeat');
is(value_of($text, 'amoro_node_cache_clears_total{cache="table"}'), 0, 'what was loaded whole is kept, unread');
$proxy->set(up => 'pass', down => 'pass');
$node->wait_for_serving;
is(value_of($node->get('/metrics')->{body}, 'amoro_node_recoveries_total'), 2, 'two recoveries');
$node->stop;
done_testing();
