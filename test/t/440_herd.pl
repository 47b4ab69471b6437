# Many nodes that lose and find the server in the same moment: Z04.
use strict;
use warnings;
use AmoroCluster qw(poll);
use AmoroLake;
use AmoroNode;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $count = 50;
my $bound = 3 * lease_seconds() + slack_seconds();
my $server = AmoroCluster->create('main', conf => "max_connections = 250\n");
create_lake($server, 'kept', 'first', 'second');

# Waits until all nodes are active in the present term; returns how long that took.
sub wait_for_all
{
	my $start = time;
	wait_for_query($server, "SELECT count(*) = $count FROM node_status WHERE current AND state = 'active'
		AND lease_owed_for IS NOT NULL", 60);
	return time - $start;
}

my @nodes = map { AmoroNode->start(conninfo => conninfo($server), name => "n$_", no_wait => 1) } 1 .. $count;
my %took = (start => wait_for_all());
cmp_ok($took{start}, '<', $bound, "$count nodes that start at once serve soon");
for my $node (@nodes) { $node->wait_until('listens', sub { $node->address }) }
is(scalar(grep { $_->lookup('c', 'd', 'kept')->{status} == 200 } @nodes), $count, 'every one of them');

# A restart that takes less than a lease: nobody is fenced by it for long, and a change meanwhile waits for all.
$server->restart;
$took{restart} = wait_for_all();
cmp_ok($took{restart}, '<', $bound, 'they are back soon after a restart');
is(run_procedure($server, "drop_table('c', 'd', 'first')"), 'done', 'a drop after it');
is(scalar(grep { $_->lookup('c', 'd', 'first')->{status} == 200 } @nodes), 0, '... leaves nobody with the table');

# An outage longer than a lease: all of them are fenced, and load again.
$server->stop('immediate');
$_->wait_for_fenced(lease_seconds() + slack_seconds()) for @nodes;
$server->start;
my $drop = AmoroCluster::poll('a drop is submitted', sub {
	my ($status, $result) = $server->psql('postgres', "SELECT drop_table('c', 'd', 'second')");
	return $status == 0 && $result;
});
$took{outage} = wait_for_all();
cmp_ok($took{outage}, '<', $bound, 'and after an outage that fenced them all');
is($server->safe_psql('postgres', "SELECT wait_for_procedure($drop, '60 s')"), 'done', 'a drop submitted before they were back is done');
is(scalar(grep { $_->lookup('c', 'd', 'second')->{status} == 200 } @nodes), 0, '... and nobody has the table');
is(scalar(grep { $_->lookup('c', 'd', 'kept')->{status} == 200 } @nodes), $count, 'all serve what is there');
is($server->safe_psql('postgres', 'SELECT count(*) FROM nodes'), $count, 'nobody has registered twice');
diag join ', ', map { sprintf '%s %.2f s', $_, $took{$_} } qw(start restart outage);

$_->signal('TERM') for @nodes;
is(scalar(grep { $_->wait_for_exit == 0 } @nodes), $count, 'they stop in good order');
unlike($server->log_text, qr/PANIC|TRAP|terminated by signal [^2359]|too many (clients|connections)/, 'nothing crashed, and there was room');
done_testing();
