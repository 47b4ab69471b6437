# Roles swapped back and forth under nodes that are up all the time: H09, H10.
use strict;
use warnings;
use AmoroCluster qw(poll);
use AmoroNode;
use AmoroReader;
use AmoroReplica;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $primary = create_primary('a', tables => [ 'kept', 'first' ]);
my $standby = create_standby($primary, 'b');
my @nodes = (
	AmoroNode->start(name => 'n1', conninfo => conninfo_of($primary, $standby)),
	AmoroNode->start(name => 'n2', conninfo => conninfo_of($standby, $primary)));
$_->wait_for_serving for @nodes;
my @readers = map { AmoroReader->start($_, '/v1/tables/c/d/kept') } @nodes;

# What must only ever grow
sub numbers
{
	my ($server) = @_;
	return split /\|/, $server->safe_psql('postgres', <<'SQL');
SELECT (SELECT term FROM amoro_meta.coordinator), (SELECT version FROM amoro_meta.metadata_version), amoro_meta.next_id(),
	(SELECT max(procedure_id) FROM amoro_meta.procedure)
SQL
}

sub tables
{
	my ($server) = @_;
	return split /\n/, $server->safe_psql('postgres', 'SELECT table_name FROM tables ORDER BY 1');
}

my @before = numbers($primary);
my $previous = 'first';
my @gaps;
for my $round (1 .. 4)
{
	# every other time the old primary crashes, and comes back through pg_rewind
	my $crash = $round % 2 == 0;
	my $start = time;
	$primary->wait_for_catchup($standby, 'replay') if $crash;
	$primary->stop($crash ? 'immediate' : 'fast');
	fail_over($standby);
	($primary, $standby) = ($standby, $primary);
	run_procedure($primary, AmoroReplica::create_table_call("t$round"));
	run_procedure($primary, "drop_table('c', 'd', '$previous')");
	$previous = "t$round";
	for my $node (@nodes)
	{
		$node->wait_for_serving(15);
		for my $table ('first', map { "t$_" } 1 .. $round)
		{
			my $expected = $table eq $previous ? 200 : 404;
			$node->wait_until("agrees about $table in round $round",
				sub { $node->lookup('c', 'd', $table)->{status} == $expected }, 5);
		}
	}
	my @now = numbers($primary);
	is(scalar(grep { $now[$_] <= $before[$_] } 0 .. $#now), 0, "round $round: term, version and ids have grown");
	is(join(' ', tables($primary)), "kept $previous", "round $round: the tables are what the changes made of them");
	is(scalar(grep { $_->status->{term} != $now[0] } @nodes), 0, "round $round: every node is in the new term");
	@before = @now;
	push @gaps, $_->longest_gap(200, $start, time) for @readers;
	if ($crash) { rewind_to($standby, $primary) }
	else
	{
		follow($standby, $primary);
		$primary->wait_for_catchup($standby, 'replay');
	}
}
is(scalar(grep { !$_->is_running } @nodes), 0, 'no node ended');
is(scalar(map { grep { $_->{status} == 404 } $_->answers } @readers), 0, 'a table that was there all the time was never said to be missing');
cmp_ok((sort { $a <=> $b } @gaps)[-1], '<', 10, 'and was served again soon each time');
note(sprintf 'longest time without an answer from memory, by node and round: %s s', join ' ', map { sprintf '%.2f', $_ } @gaps);
is($_->safe_psql('postgres', 'SELECT count(*) FROM amoro_meta.node'), 2, 'no node was registered twice') for $primary;
unlike($_->log_text, qr/PANIC|TRAP|terminated by signal/, 'nothing crashed') for $primary, $standby;
done_testing();
