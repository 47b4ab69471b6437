# A coordinator that is paused, and one that finds that its term is over: H07, H08.
use strict;
use warnings;
use AmoroCluster qw(poll);
use AmoroNode;
use AmoroReader;
use AmoroReplica;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $lease = 2;
my $server = create_primary('main', tables => [ 'kept', 'a', 'b' ]);
my $node = AmoroNode->start(name => 'n1', conninfo => conninfo_of($server));
$node->wait_for_serving;
$node->lookup('c', 'd', 'kept')->{status} == 200 or die;
my $reader = AmoroReader->start($node, '/v1/tables/c/d/kept');
my $row = $server->coordinator;
my $start = time;

# H08: paused for longer than two leases, again and again: no node notices, changes wait, it goes on as if nothing had been
for my $table (qw(a b))
{
	kill 'STOP', $row->{pid};
	my $drop = $server->safe_psql('postgres', "SELECT drop_table('c', 'd', '$table')");
	sleep 2 * $lease + 0.2;
	is($server->safe_psql('postgres', "SELECT wait_for_procedure($drop, '0 s')"), 'running', "$table: changes wait for a coordinator that is paused");
	is($node->get('/healthz')->{status}, 200, "$table: nodes do not");
	kill 'CONT', $row->{pid};
	is($server->safe_psql('postgres', "SELECT wait_for_procedure($drop, '10 s')"), 'done', "$table: woken up it goes on");
}
is($server->coordinator->{pid}, $row->{pid}, 'the process is the same');
is($server->coordinator->{term}, $row->{term}, 'and so is its term');
is($reader->count_after($start, 503), 0, 'the node has served all the time');
cmp_ok($reader->count_after($start, 200), '>', 0, '... when it was asked');

# H07: while it is paused another one begins a term: what it wakes up with is refused, not carried out
kill 'STOP', $row->{pid};
my $id = $server->safe_psql('postgres', 'SELECT ' . AmoroReplica::create_table_call('later'));
$server->safe_psql('postgres', 'UPDATE amoro_meta.coordinator SET term = term + 1, boot_counter = boot_counter + 1');
my $other = $row->{term} + 1;
kill 'CONT', $row->{pid};
my $now = poll('it has begun a term of its own', sub { my $now = $server->coordinator; ($now->{term} // 0) > $other && $now }, 20);
cmp_ok($now->{term}, '>', $other, 'its term is above that of the other one');
is($server->safe_psql('postgres', "SELECT wait_for_procedure($id, '10 s')"), 'done', 'the change is made in that term');
is($server->safe_psql('postgres', "SELECT last_step_term >= $now->{term} FROM amoro_meta.procedure WHERE procedure_id = $id"), 't', 'by nobody else');
$node->wait_until('is in the new term', sub { $node->status->{term} == $now->{term} });
is($node->lookup('c', 'd', 'later')->{status}, 200, 'and the node knows of it');

# A clean stop gives way at once: the next start need not wait for anything
my $ms = $server->elapsed(sub { $server->restart; $server->wait_for_state('running') });
cmp_ok($ms, '<', 5000, sprintf 'after a clean restart a coordinator runs at once (%d ms)', $ms);
cmp_ok($server->coordinator->{term}, '>', $now->{term}, 'in a new term');
done_testing();
