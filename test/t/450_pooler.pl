# Nodes behind a transaction pooler: everything works, at the pace of the heartbeats (faults B15, V08).
use strict;
use warnings;
use AmoroCluster qw(poll);
use AmoroLake;
use AmoroNode;
use AmoroPooler;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $server = AmoroCluster->create('main');
create_lake($server, 't', 'u');
my $user = $server->safe_psql('postgres', 'SELECT current_user');

sub heartbeats_of
{
	my ($node) = @_;
	return $server->safe_psql('postgres', "SELECT heartbeats FROM node_status WHERE current AND node_name = '" . $node->name . "'");
}

# A table is looked up, dropped and made again; the node follows, without ever being fenced.
sub follows_changes
{
	my ($node, $table, $name) = @_;
	is($node->lookup('c', 'd', $table)->{status}, 200, "$name: a table is read");
	is($node->lookup('c', 'd', 'none')->{status}, 404, "$name: one that does not exist is not");
	is(run_procedure($server, "drop_table('c', 'd', '$table')"), 'done', "$name: it is dropped");
	is($node->lookup('c', 'd', $table)->{status}, 404, "$name: the node knows");
	create_table($server, 'c', 'd', $table, 'again');
	like($node->lookup('c', 'd', $table)->{body}, qr/"again"/, "$name: and of the new one too");
	is($node->status->{fences}, 0, "$name: it was never fenced");
	return;
}

# Heartbeats that waited for news would hold a shared session; these come and go once an interval.
sub keeps_pace
{
	my ($node, $name) = @_;
	my $before = heartbeats_of($node);
	sleep 2;
	my $beats = heartbeats_of($node) - $before;
	cmp_ok($beats, '>=', 4, "$name: heartbeats keep their pace");
	cmp_ok($beats, '<=', 14, "$name: and are no more than that");
	is($server->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pooler' AND state = 'active'"),
		0, "$name: none of them waits in a session of the pool");
	return;
}

my $pooler = AmoroPooler->start(socket_path($server), user => $user);
my $node = AmoroNode->start(conninfo => 'host=127.0.0.1 port=' . $pooler->port . ' dbname=postgres', name => 'pooled');
$node->wait_for_serving;
follows_changes($node, 't', 'pooler');
keeps_pace($node, 'pooler');
is($server->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND application_name <> 'pooler'"),
	0, 'the server has no session but those of the pool');
unlike($server->log_text, qr/prepared statement/, 'no statement was ever prepared in a session of the pool');
is($node->stop, 0, 'the node ends cleanly');
is($server->safe_psql('postgres', "SELECT state FROM node_status WHERE node_name = 'pooled' AND current"), 'released',
	'and has released its lease through the pooler');
$pooler->stop;

# A pooler that shows the server's own process id: the node finds out when its statements are gone.
$pooler = AmoroPooler->start(socket_path($server), user => $user, honest => 4);
$node = AmoroNode->start(conninfo => 'host=127.0.0.1 port=' . $pooler->port . ' dbname=postgres', name => 'deceived');
$node->wait_for_serving;
poll('the node has lost a prepared statement', sub { $server->log_text =~ /prepared statement "amoro_node_\w+" does not exist/ });
follows_changes($node, 'u', 'honest pooler');
keeps_pace($node, 'honest pooler');
is( $server->safe_psql('postgres',
		"SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE l.locktype = 'advisory' AND a.application_name = 'pooler'"),
	0, 'no advisory locks are left in a session of the pool');
$node->stop;
$pooler->stop;

done_testing();
