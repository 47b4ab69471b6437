# Nodes and front ends behind pgbouncer in transaction mode (faults B15, V08).
use strict;
use warnings;
use AmoroCluster qw(poll);
use AmoroLake;
use AmoroNode;
use AmoroPgbouncer;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $server = AmoroCluster->create('main');
my $pgbouncer = AmoroPgbouncer->new($server)->start;
create_lake($server, 't');

# A front end of its own connection for every statement, each of which may be served by another session.
sub front_end
{
	my ($statement) = @_;
	my ($out, $err);
	run_command_ok($statement, \$out, \$err);
	chomp $out;
	return $out;
}

sub run_command_ok
{
	my ($statement, $out, $err) = @_;
	IPC::Run::run([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $pgbouncer->conninfo, '-c', $statement ], '>', $out, '2>', $err)
	  or die "$statement: $$err";
	return;
}

my @nodes = map { AmoroNode->start(conninfo => $pgbouncer->conninfo, name => "n$_") } 1 .. 4;
$_->wait_for_serving for @nodes;
is($server->safe_psql('postgres', "SELECT count(*) FROM node_status WHERE current AND state = 'active'"), 4,
	'four nodes with five connections each are active over three sessions');
for my $round (1 .. 5)
{
	my $started = time;
	my $procedure = front_end(sprintf q(SELECT alter_table('c', 'd', 't', '[{"op":"set_properties","properties":{"round":"%d"}}]')), $round);
	is(front_end("SELECT wait_for_procedure($procedure, '30 s')"), 'done', "round $round: a front end changes a table");
	is(scalar(grep { $_->lookup('c', 'd', 't')->{body} =~ /"round": ?"$round"/ } @nodes), 4, "round $round: every node serves it");
	cmp_ok(time - $started, '<', lease_seconds() + slack_seconds(), "round $round: nobody waited for a lease to end");
}
cmp_ok($server->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"),
	'<=', 3, 'the server has no more sessions than the pool');

# The pooler dies: no node answers longer than its lease, and nobody waits for them longer.
$pgbouncer->kill;
my $cut = time;
my $procedure = $server->safe_psql('postgres', q(SELECT alter_table('c', 'd', 't', '[{"op":"set_properties","properties":{"round":"cut"}}]')));
is($server->safe_psql('postgres', "SELECT wait_for_procedure($procedure, '30 s')"), 'done', 'without the pooler a change ends');
cmp_ok(time - $cut, '<', lease_seconds() + slack_seconds(), 'once the leases have');
is(scalar(grep { $_->lookup('c', 'd', 't')->{status} == 503 } @nodes), 4, 'every node refuses by then');
$pgbouncer->start;
$_->wait_for_serving for @nodes;
is(scalar(grep { $_->lookup('c', 'd', 't')->{body} =~ /"round": ?"cut"/ } @nodes), 4, 'with the pooler back they serve what is new');
is($_->stop, 0, 'a node ends in good order') for @nodes;
is($server->safe_psql('postgres', "SELECT count(*) FROM node_status WHERE current AND state = 'released'"), 4, 'and has released its lease');
done_testing();
