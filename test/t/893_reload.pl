# What is loaded whole before serving (--preload), from a real server: in chunks over a slow link, longer than a lease; a lost
# connection goes on where it was; changes meanwhile are in force at the activation; a failure of any part leaves the node
# fenced, with the reason; and what is still right after a lapse is not loaded again.
use strict;
use warnings;
use AmoroCluster;
use AmoroLake;
use AmoroNode;
use AmoroProxy;
use Test::More;
use Time::HiRes qw(time);

my $devices = 8000;
my $server = AmoroCluster->create('main');
my $proxy = AmoroProxy->start(socket_path($server));
my $user = $server->safe_psql('postgres', 'SELECT current_user');

sub query { return $server->safe_psql('postgres', $_[0]) }

sub device { my ($node, $name) = @_; return $node->get("/v1/devices/c/d/$name") }

sub detail { return query(q{SELECT coalesce(max(detail), '') FROM node_status WHERE current}) }

# The chunks of a kind that were asked for since a position of the log: the ids after which each begins, '' for the first one.
sub chunks_since
{
	my ($position, $kind) = @_;
	return map { $_ eq 'NULL' ? '' : $_ =~ s/'//gr } $server->log_text($position) =~ /[Pp]arameters: \$1 = '$kind', \$2 = (NULL|'-?\d+'), /g;
}

create_lake($server, 't');
query(<<"SQL");
INSERT INTO amoro_meta.device (device_id, database_id, device_path, state, definition, version)
	SELECT amoro_meta.next_id(), database_id, 'root.site.d' || n, 'normal',
		amoro_meta.device_definition(jsonb_build_object('measurements', jsonb_build_array(jsonb_build_object('name', 'speed', 'type', 'INT32',
			'attributes', jsonb_build_object('about', repeat('x', 4000)))))), 1
	FROM amoro_meta.database, generate_series(1, $devices) n
SQL
my $node;

sub start
{
	$node = AmoroNode->start(name => 'n1', conninfo => conninfo($server, proxy => $proxy, user => $user), options => [ '--preload', 'table,device' ]);
	return;
}

# A slow link: each chunk takes a while, all of them longer than a lease.
my $position = $server->log_position;
my $started = time;
$proxy->set(down_delay => 0.15);
start();
AmoroCluster::poll('the server is told how far the reload is', sub { detail() =~ /^reloading device: [1-9]\d{2,} entries$/ });
is($node->status->{serving}, JSON::PP::false, 'a node that loads does not serve');
is(device($node, 'root.site.d1')->{status}, 503, '... not even what it has');
is($node->lookup('c', 'd', 't')->{status}, 503, '... nor what is loaded already');

# The connection is lost in the middle.
$proxy->cut;
AmoroCluster::poll('the reload goes on over another connection', sub { (chunks_since($position, 'device'))[-1] > 0 && detail() =~ /^reloading device/ });

# Changes meanwhile, to what is loaded and to what is not: nobody waits for a node that has no lease.
for my $call (q{drop_devices('c', 'd', 'root.site.d1')}, q{alter_device('c', 'd', 'root.site.d2', '[{"op": "add_measurement", "name": "extra", "type": "INT32"}]')},
	qq{drop_devices('c', 'd', 'root.site.d$devices')}, q{create_device('c', 'd', 'root.aaa', '{"measurements": [{"name": "speed", "type": "INT32"}]}')},
	q{drop_table('c', 'd', 't')})
{
	is(run_procedure($server, $call), 'done', "while it loads: $call");
}
ok(!$node->status->{serving}, 'it still loads');
$node->wait_for_serving;
cmp_ok(time - $started, '>', lease_seconds, 'the reload took longer than a lease, and ended');
my @chunks = chunks_since($position, 'device');
is(scalar(grep { $_ eq '' } @chunks), 1, 'the first chunk was asked for once: what was loaded before the connection was lost is kept');
is_deeply([ @chunks[ 1 .. $#chunks ] ], [ sort { $a <=> $b } @chunks[ 1 .. $#chunks ] ], 'each chunk goes on after the one before') or diag "@chunks";
$proxy->set(down_delay => 0);
is(device($node, 'root.site.d1')->{status}, 404, 'dropped while it was loaded: not served');
is(device($node, "root.site.d$devices")->{status}, 404, '... the last one neither');
like(device($node, 'root.site.d2')->{body}, qr/"extra"/, 'altered while it was loaded: served as it is now');
is(device($node, 'root.aaa')->{status}, 200, 'created while it was loaded: served');
is($node->lookup('c', 'd', 't')->{status}, 404, 'a table that was dropped meanwhile is not served');
my $before = $node->status->{caches}{device};
is($before->{reloads}, 1, 'devices were loaded once');
ok($before->{whole}, 'all of them are in memory');
cmp_ok($before->{last_reload_ms}, '>', 500, '... and it is known how long that took');
is(device($node, 'root.site.d500')->{status}, 200, 'what is there comes from memory');
is(device($node, 'root.site.none')->{status}, 404, '... and so does that something is not there');
my $after = $node->status->{caches}{device};
is($after->{loads}, $before->{loads}, '... nothing was read for that');

# The lease lapses; one device is changed; everything else is still right, and is not loaded again.
$position = $server->log_position;
$proxy->set(up => 'hold', down => 'hold');
$node->wait_for_fenced;
is(run_procedure($server, q{alter_device('c', 'd', 'root.site.d3', '[{"op": "add_measurement", "name": "extra", "type": "INT32"}]')}), 'done',
	'a change while the node is cut off');
$proxy->set(up => 'pass', down => 'pass');
$proxy->cut;
$node->wait_for_serving;
is_deeply([ chunks_since($position, 'device') ], [], 'no chunk was asked for again');
like(device($node, 'root.site.d3')->{body}, qr/"extra"/, 'what was changed meanwhile is served as it is now');
$before = $node->status->{caches}{device};
is($before->{reloads}, 1, 'still one reload');
is(device($node, 'root.site.d501')->{status}, 200, 'what was not is served');
is($node->status->{caches}{device}{loads}, $before->{loads}, '... from memory');
is($node->stop, 0, 'the node stops');

# A part that cannot be loaded: fenced, and why, on both sides; it comes back by itself when it can.
query('ALTER VIEW amoro_meta.device_object RENAME TO gone');
start();
$node->wait_until('says why it is fenced', sub { $node->status->{reason} =~ /device/ });
AmoroCluster::poll('the server is told why', sub { detail() =~ /^reload failed: .*device/ });
is($node->get('/healthz')->{status}, 503, 'it is fenced, though the tables could be loaded');
like($node->get('/healthz')->{body}, qr/device.* does not exist/, '... and health says why');
is(query('SELECT lease_owed_for IS NULL FROM node_status WHERE current'), 't', 'no change waits for it');
query('ALTER VIEW amoro_meta.gone RENAME TO device_object');
$node->wait_for_serving;
is(device($node, 'root.site.d500')->{status}, 200, 'then it serves');
is($node->status->{reason}, '', '... and has nothing to say');
is($node->stop, 0, 'the node stops');
done_testing();
