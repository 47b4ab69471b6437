# A drop of more devices than one step deletes, with real nodes: from the point of no return on no node serves any of them,
# neither those that are gone nor those that still have their rows, nor after a crash between two batches; and none
# comes back as a ghost: not on a node that was cut off meanwhile, not when a path is used again.
use strict;
use warnings;
use AmoroCluster qw(poll);
use AmoroNode;
use AmoroProcedure qw(stand_still go_on wait_for_end nothing_left);
use AmoroProxy;
use Test::More;

my $server = AmoroCluster->create('main');
my $socket = $server->host . '/.s.PGSQL.' . $server->port;
my $proxy = AmoroProxy->start($socket);
my $measurements = q{'{"measurements": [{"name": "speed", "type": "INT32"}]}'};
my @paths = map { "root.big.t$_" } 1000, 2500, 4999;

sub query { return $server->safe_psql('postgres', $_[0]) }

sub run_through
{
	my ($call) = @_;
	is(wait_for_end($server, query("SELECT $call")), 'done', $call);
	return;
}

sub status_of { my ($node, $path) = @_; return $node->get("/v1/devices/lake/d/$path")->{status} }

# Which of the paths a node serves.
sub served { my ($node) = @_; return join ', ', grep { status_of($node, $_) == 200 } @paths }

sub wait_for_answer
{
	my ($node, $path, $status) = @_;
	$node->wait_until("answers $status for $path", sub { status_of($node, $path) == $status });
	return;
}

query("SELECT create_catalog('lake')");
run_through(q{create_database('lake', 'd')});
query(<<'SQL');
INSERT INTO amoro_meta.device (device_id, database_id, device_path, state, definition, version)
	SELECT amoro_meta.next_id(), database_id, 'root.big.t' || n, 'normal',
		amoro_meta.device_definition('{"measurements": [{"name": "speed", "type": "INT32"}]}'), 1
	FROM amoro_meta.database, generate_series(1, 5000) n
SQL
my $near = AmoroNode->start(name => 'near', conninfo => $server->connstr('postgres') . ' user=' . query('SELECT current_user'));
my $far = AmoroNode->start(name => 'far',
	conninfo => 'host=127.0.0.1 port=' . $proxy->port . ' dbname=postgres user=' . query('SELECT current_user'));
$_->wait_for_serving for $near, $far;
for my $node ($near, $far)
{
	wait_for_answer($node, $_, 200) for @paths;
}

# one node is cut off with all of them in memory
$proxy->set(up => 'hold', down => 'hold');
stand_still($server);
my $procedure = query(q{SELECT drop_devices('lake', 'd', 'root.big.**')});
go_on($server, 'drop_devices.dropping.commit');
is(served($far), '', 'the node that is cut off serves none of them once the first are deleted');
is(served($near), '', 'the live node serves neither those that are gone nor those that are not');
cmp_ok(query('SELECT count(*) FROM devices'), '>', 0, 'there are some left to delete');
cmp_ok(query('SELECT count(*) FROM devices'), '<', 5000, 'and some are deleted');
is(query(q{SELECT string_agg(DISTINCT state, ', ') FROM devices}), 'pre_drop', 'those that are left carry the marker');

$server->stop('immediate');
$server->start;
go_on($server, undef);
is(wait_for_end($server, $procedure), 'done', 'after the crash the drop goes on to its end');
is(query('SELECT count(*) FROM devices'), '0', 'all are deleted');
is(query(qq{SELECT detail->>'devices' FROM amoro_meta.change WHERE procedure_id = $procedure ORDER BY version DESC LIMIT 1}), '5000',
	'the log says how many there were, those before the crash and those after it');
nothing_left($server, 'the crash between two batches');

# no ghosts
$proxy->set(up => 'pass', down => 'pass');
$_->wait_for_serving for $near, $far;
for my $node ($near, $far)
{
	wait_for_answer($node, $_, 404) for @paths;
}
run_through(qq{create_device('lake', 'd', '$paths[0]', '{"measurements": [{"name": "fresh", "type": "TEXT"}]}')});
for my $node ($near, $far)
{
	wait_for_answer($node, $paths[0], 200);
	my $answer = $node->get("/v1/devices/lake/d/$paths[0]", raw => 1);
	like($answer->{body}, qr/"fresh"/, "node $node->{name} serves the new device");
	unlike($answer->{body}, qr/"speed"/, "node $node->{name} serves no measurement of the old one");
	is(status_of($node, $paths[1]), 404, "node $node->{name}: the others stay away");
}
# a measurement that is dropped and made again under its name is the new one
run_through(qq{alter_device('lake', 'd', '$paths[0]', '[{"op": "add_measurement", "name": "speed", "type": "BOOLEAN"}]')});
for my $node ($near, $far)
{
	like($node->get("/v1/devices/lake/d/$paths[0]", raw => 1)->{body}, qr/"speed", "type": "BOOLEAN"/, "node $node->{name} serves the measurement that is there now");
}
$_->stop for $near, $far;
done_testing();
