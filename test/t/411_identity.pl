# One name, several processes: restarts, crashes, twins, removal (faults L12, L13).
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
create_lake($server, 't');
my $conninfo = conninfo($server);
my $path = AmoroNode::table_path('c', 'd', 't');

# L13, clean stops: the lease is given back, so a change right after waits for nobody.
my $node = AmoroNode->start(conninfo => $conninfo);
my $columns = 0;
my ($slowest, $ends) = (0, '');
for my $round (1 .. 8)
{
	$node->wait_for_serving;
	$node->lookup('c', 'd', 't');
	$ends .= $node->stop;
	my $start = time;
	my $change = sprintf q([{"op":"add_column","column":"clean_%d","type":"int"}]), ++$columns;
	run_procedure($server, "alter_table('c', 'd', 't', '$change')") eq 'done' or die;
	my $took = time - $start;
	$slowest = $took if $took > $slowest;
	$node = AmoroNode->start(conninfo => $conninfo);
}
is($ends, '0' x 8, 'eight clean stops');
cmp_ok($slowest, '<', lease_seconds() * 0.75, 'after a clean stop a change does not wait for the lease');

# L13, kills: a new process of the name is let in at once, and starts empty; the old one counts until its lease is over.
my $recovered = 0;
for my $round (1 .. 8)
{
	$node->wait_for_serving;
	$node->lookup('c', 'd', 't');
	my $change = sprintf q([{"op":"add_column","column":"killed_%d","type":"int"}]), ++$columns;
	my $procedure = $server->safe_psql('postgres', "SELECT alter_table('c', 'd', 't', '$change')") if $round % 2;
	$node->signal('KILL');
	is($node->wait_for_exit, -9, "round $round: killed") if $round == 1;
	$node->wait_for_exit;
	$node = AmoroNode->start(conninfo => $conninfo);
	my $start = time;
	$node->wait_for_serving;
	$recovered = time - $start if time - $start > $recovered;
	is($node->status->{caches}{table}{entries}, 0, "round $round: it starts empty") if $round == 1;
	next unless $round % 2;
	$server->safe_psql('postgres', "SELECT wait_for_procedure($procedure, '60 s')") eq 'done' or die "round $round";
	like($node->lookup('c', 'd', 't')->{body}, qr/"killed_$columns"/, "round $round: the change in flight is done and seen");
}
cmp_ok($recovered, '<', lease_seconds() + slack_seconds(), 'a new process does not wait for the lease of the killed one');
is($server->safe_psql('postgres', "SELECT count(*) FROM node_status WHERE node_name = 'n1' AND current"), 1,
	'one current registration is left');

# L12: the first process is stopped while the second registers; the change waits for both, the first is fenced for good.
my $second_log = '';
$node->wait_for_serving;
$node->lookup('c', 'd', 't');
my @sockets = map { http_connect($node->address) } 1 .. 50;
http_exchange($_, '/healthz') for @sockets;
my $granted = time;
$node->signal('STOP');
my $second = AmoroNode->start(conninfo => $conninfo);
$second->wait_for_serving;
isnt($second->status->{incarnation}, '', 'the second process has an incarnation');
my $drop = $server->safe_psql('postgres', "SELECT drop_table('c', 'd', 't')");
$second->wait_until('hears of the drop', sub { $second->lookup('c', 'd', 't')->{status} == 409 });
is($server->safe_psql('postgres', "SELECT wait_for_procedure($drop, '60 s')"), 'done', 'the drop succeeds');
cmp_ok(time - $granted, '>', lease_seconds() * 0.5,
	'but the acknowledgement of the second did not stand for the first, which had a lease');
syswrite $_, "GET $path HTTP/1.1\r\n\r\n" for @sockets;
$node->signal('CONT');
my @answers = map { my $buffer = ''; http_read_response($_, \$buffer) } @sockets;
is(scalar(grep { $_ && $_->{status} == 503 } @answers), 50, 'the first, waking, refuses every request');
is($node->wait_for_exit, 5, 'learns that it was superseded, and ends with the exit code for that');
like($node->log_text, qr/ error n1: ending for good: .*superseded/, 'having said so');
is($second->lookup('c', 'd', 't')->{status}, 404, 'the second serves on');
is($second->status->{fences}, 0, 'and was never fenced');

# A superseded process that is not stopped ends as well.
my $third = AmoroNode->start(conninfo => $conninfo);
is($second->wait_for_exit, 5, 'a running process that is superseded ends with that code');
$third->wait_for_serving;

# An operator removes a node that runs: it is told to leave, and the removal ends at once.
my $start = time;
is(run_procedure($server, "remove_node('n1', null, null)"), 'done', 'a running node is removed');
is($third->wait_for_exit, 6, 'the process ends with the exit code for that');
is($server->safe_psql('postgres', "SELECT count(*) FROM node_status WHERE node_name = 'n1'"), 0, 'nothing is left of it');

# One that does not run is removed too; when it goes on, the process that has the name by then stays.
my $sleeper = AmoroNode->start(conninfo => $conninfo);
$sleeper->wait_for_serving;
kill 'STOP', $sleeper->pid;
is(run_procedure($server, "remove_node('n1', null, null)"), 'done', 'a node that is stopped is removed');
my $fourth = AmoroNode->start(conninfo => $conninfo);
$fourth->wait_for_serving;
kill 'CONT', $sleeper->pid;
is($sleeper->wait_for_exit, 5, 'when it goes on, it ends');
like($sleeper->log_text, qr/is not the current one/, 'because it is no longer the one of that name');
is($fourth->get('/healthz')->{status}, 200, 'and the newer process serves on');
is($fourth->stop, 0, 'until it is stopped');

# Privilege is checked when a node registers, and a name belongs to the role that registered it.
$server->safe_psql('postgres', 'CREATE ROLE stranger LOGIN');
my $stranger = AmoroNode->start(conninfo => conninfo($server, user => 'stranger'), name => 'n2', no_wait => 1);
is($stranger->wait_for_exit, 4, 'a role without the privilege: the exit code for refused');
like($stranger->log_text, qr/permission denied|42501/, 'and the reason in the log');
$server->safe_psql('postgres', "SELECT grant_access('stranger', 'node')");
my $first_owner = AmoroNode->start(conninfo => $conninfo, name => 'n3');
$first_owner->wait_for_serving;
$stranger = AmoroNode->start(conninfo => conninfo($server, user => 'stranger'), name => 'n3', no_wait => 1);
is($stranger->wait_for_exit, 4, "a role cannot take another's name");
is($first_owner->get('/healthz')->{status}, 200, 'whose node serves on');
my $allowed = AmoroNode->start(conninfo => conninfo($server, user => 'stranger'), name => 'n2');
$allowed->wait_for_serving;
is($allowed->lookup('c', 'd', 't')->{status}, 404, 'with the privilege it serves');
is($_->stop, 0, 'stops in good order') for $allowed, $first_owner;
done_testing();
