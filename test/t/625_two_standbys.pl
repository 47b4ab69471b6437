# One synchronous and one asynchronous standby: the promotion of each.
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
my $first = create_primary('a', tables => [ 'kept', 'first', 'second' ], conf => "amoro_meta.require_synchronous_tick = on\n");
my $second = create_standby($first, 'b');
my $third = create_standby($first, 'c');
$first->configure(synchronous_standby_names => 'b');
wait_for_tick($first);
my @nodes = map { AmoroNode->start(name => "n$_", conninfo => conninfo_of($first, $second, $third)) } 1 .. 2;
$_->wait_for_serving for @nodes;
for my $node (@nodes) { $node->lookup('c', 'd', $_)->{status} == 200 or die for qw(kept first second) }
my @readers = map { AmoroReader->start($_, '/v1/tables/c/d/first') } @nodes;

# The asynchronous one may be away: nobody waits for it
$third->stop('fast');
run_procedure($first, AmoroReplica::create_table_call('while_away'));
wait_for_tick($first);
pass('without the asynchronous standby everything goes on');
$third->start;
$first->wait_for_catchup($third, 'replay');

# The primary dies, the synchronous one is promoted, the other one follows it and confirms from then on
my $start = time;
$first->stop('immediate');
append_to_file($second->data_dir . '/postgresql.auto.conf', "synchronous_standby_names = 'c'\n");
$second->reload;
$second->promote;
follow($third, $second);
$third->restart;
my $row = $second->wait_for_state('running', 'postgres', 30);
$_->wait_for_serving(20) for @nodes;
wait_for_tick($second);
my $drop = run_procedure($second, q{drop_table('c', 'd', 'first')});
is($readers[0]->count_after(drop_commit_time($second, $drop), 200) + $readers[1]->count_after(drop_commit_time($second, $drop), 200), 0,
	'after the promotion of the synchronous standby no node serves what was dropped');
is($_->lookup('c', 'd', 'while_away')->{status}, 200, $_->name . ' has what was acknowledged') for @nodes;
note(sprintf 'longest time without an answer: %.2f s',
	(sort { $b <=> $a } map { $_->longest_gap(200, $start, drop_commit_time($second, $drop)) } @readers)[0]);

# An asynchronous standby is promoted beside a primary that goes on: nodes that reach both follow the higher term, a node
# that reaches the old one alone goes on with it. That is what rule 11 is for, and it does not cover this.
$second->configure(synchronous_standby_names => '', 'amoro_meta.require_synchronous_tick' => 'off');
poll('no tick is required any more', sub { !defined $second->coordinator->{tick_ms} });
append_to_file($third->data_dir . '/postgresql.auto.conf', "amoro_meta.require_synchronous_tick = off\n");
$third->reload;
my $alone = AmoroNode->start(name => 'alone', conninfo => conninfo_of($second));
$alone->wait_for_serving;
$second->wait_for_catchup($third, 'replay');
my $newest = fail_over($third);
is($newest->{term} >> 32, 3, 'the asynchronous standby begins a term on a timeline of its own');
run_procedure($third, q{drop_table('c', 'd', 'second')});
sleep $lease + 0.5;
is($alone->lookup('c', 'd', 'second')->{status}, 200, 'a node that reaches the old primary alone goes on with it');
is($second->safe_psql('postgres', "SELECT state FROM node_status WHERE node_name = 'alone' AND current"), 'active', 'which has no way to know');
# their connection to the old primary breaks: they find the new one, and never go back
my $sessions = q{FROM pg_stat_activity WHERE query ~ 'node_heartbeat|activate_node|metadata_lookup' AND pid <> pg_backend_pid()};
for my $node (@nodes)
{
	$node->wait_until('follows the higher term', sub {
		$second->safe_psql('postgres', "SELECT count(pg_terminate_backend(pid, 1000)) $sessions") if $node->status->{term} < $newest->{term};
		sleep 0.3;
		$node->status->{term} == $newest->{term} }, 20);
	$node->wait_for_serving(10);
	is($node->lookup('c', 'd', 'second')->{status}, 404, $node->name . ': the drop on the new primary holds');
}
sleep $lease;
is($_->status->{term}, $newest->{term}, $_->name . ' stays there') for @nodes;
$second->stop('fast');
$alone->wait_for_fenced($lease + 2);
pass('with the old primary its node ends serving');
unlike($_->log_text, qr/PANIC|TRAP|terminated by signal/, 'nothing crashed') for $first, $second, $third;
done_testing();
