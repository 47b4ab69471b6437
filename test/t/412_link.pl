# The link between node and server: late answers, silence without an end, flapping (faults L06, L15, L17).
use strict;
use warnings;
use AmoroCluster;
use AmoroHttp;
use AmoroLake;
use AmoroNode;
use AmoroProxy;
use PostgreSQL::Test::Utils;
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

my $server = AmoroCluster->create('main');
create_lake($server, 't', 'flap0', 'flap1', 'flap2');
my $proxy = AmoroProxy->start(socket_path($server));
my $lease = lease_seconds();

sub start_node
{
	my ($name) = @_;
	my $node = AmoroNode->start(conninfo => conninfo($server, proxy => $proxy), name => $name);
	$node->wait_for_serving;
	$node->lookup('c', 'd', 't')->{status} == 200 or die;
	return $node;
}

# Until when, by our clock, the server owes the node its lease.
sub owed_until
{
	my ($name) = @_;
	my $owed = $server->safe_psql('postgres',
		"SELECT extract(epoch FROM lease_owed_for) FROM node_status WHERE node_name = '$name'");
	return time + ($owed || 0);
}

# L06: the answer to a heartbeat is held up for most of a lease. It counts from when the request was sent.
my $node = start_node('late');
$proxy->set(down => 'hold');
my $held = time;    # what is answered later was asked before
sleep $lease * 0.6;
my $owed = owed_until('late');
sleep $lease * 0.2;
$proxy->set(up => 'drop');
$proxy->set(down => 'pass');
my ($answered, $refused) = $node->served_until(AmoroNode::table_path('c', 'd', 't'), $lease + slack_seconds());
cmp_ok($answered - $held, '<', $lease, 'a late answer does not make the lease longer than its length after the request');
cmp_ok($answered, '<', $owed, 'the node stops before the server stops owing');
$proxy->cut;
$proxy->heal;
$node->wait_for_serving($lease + slack_seconds());
pass('it recovers when the link is back');

# Held up longer than the lease: the answer, when it comes, revives nothing.
$proxy->set(down => 'hold');
$node->wait_for_fenced($lease + slack_seconds());
sleep 0.3;
my $recoveries = $node->status->{recoveries};
$proxy->heal;
$node->wait_for_serving($lease + slack_seconds());
is($node->status->{recoveries}, $recoveries + 1, 'an answer that comes after the lease does not revive it: the node recovers');
is($node->status->{caches}{table}{entries}, 0, 'with nothing of what it had in memory');

# L15: bytes vanish, nobody says so. The node stops on time, leaves the dead connection, comes back over a new one.
$node->lookup('c', 'd', 't')->{status} == 200 or die;
$proxy->set(up => 'drop', down => 'drop');
my $silent = time;
my $ends = $silent + $node->status->{lease_remaining_ms} / 1000;
($answered, $refused) = $node->served_until(AmoroNode::table_path('c', 'd', 't'), $lease + slack_seconds());
cmp_ok($answered - $silent, '<', $lease, 'silence without an end: the node is fenced on time');
cmp_ok($refused, '>', $ends - 0.001, '... and not before its lease is over');
my $refusal = $node->lookup('c', 'd', 't');
is($refusal->{json}{error}{type}, 'MetadataLeaseFencedException', 'a lookup is refused as fenced');
is($node->get('/metrics')->{status}, 200, 'metrics are there all the same');
is(run_procedure($server, q(alter_table('c', 'd', 't', '[{"op":"add_column","column":"meanwhile","type":"int"}]'))), 'done',
	'a change goes on without the node');
sleep $lease;
cmp_ok(time - $silent, '>', $lease, 'the silence lasts');
my $healed = time;
$proxy->set(up => 'pass', down => 'pass');    # for the old connections too, but what was sent over them is lost
$node->wait_for_serving(2 * $lease + slack_seconds());
diag sprintf 'serving %.1f s after the end of a silence of %.1f s', time - $healed, $healed - $silent;
like($node->lookup('c', 'd', 't')->{body}, qr/"meanwhile"/, 'back, it serves the change');
wait_for_query($server, q(SELECT count(*) <= 6 FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()), 30);
pass('dead connections do not pile up at the server');

# A server that accepts and never answers: connecting has its own, short, end.
$proxy->set(up => 'drop', down => 'drop');
$proxy->cut;
sleep $lease + 0.5;
$proxy->set(up => 'pass', down => 'pass');
$node->wait_for_serving(2 * $lease + slack_seconds());
pass('a connection attempt that hangs does not hold up the next one');

# A server that refuses connections, for longer than the lease.
$proxy->refuse;
$proxy->cut;
$node->wait_for_fenced($lease + slack_seconds());
$proxy->heal;
$node->wait_for_serving($lease + slack_seconds());
pass('a refused connection is tried again');

# L17: the link flaps for a while under a stream of changes, with lookups all along. Nothing goes backwards, and nothing
# from before a change is answered once the change is done.
my $changes_file = "$PostgreSQL::Test::Utils::tmp_check/changes";
my $writer = fork // die $!;
if ($writer == 0)
{
	my $file;
	eval {
		open $file, '>', $changes_file or die $!;
		$file->autoflush(1);
		for (my $i = 0;; $i++)
		{
			my $table = 'flap' . $i % 3;
			my $change = sprintf q([{"op":"set_properties","properties":{"turn":"%d"}}]), $i;
			my $outcome = run_procedure($server, "alter_table('c', 'd', '$table', '$change')");
			printf $file "%.6f %s %d %s\n", time, $table, $i, $outcome;
		}
	};
	print STDERR $@;
	POSIX::_exit(1);
}
my (@answers, %seen);
my ($until, $next_flip, $cut) = (time + 14, time, 0);
my %socket;
while (time < $until)
{
	if (time > $next_flip)
	{
		if ($cut) { $proxy->heal }
		elsif (int rand 2) { $proxy->refuse; $proxy->cut }
		else { $proxy->set(map { $_ => int rand 2 ? 'hold' : 'drop' } qw(up down)) }
		$cut = !$cut;
		$next_flip = time + $lease * (0.5 + rand);
	}
	my $table = 'flap' . int rand 3;
	my $begun = time;
	my $answer = $node->lookup('c', 'd', $table);
	$seen{ $answer->{status} }++;
	push @answers, [ $begun, $table, ($answer->{body} =~ /"turn": ?"(\d+)"/ ? $1 : -1) ] if $answer->{status} == 200;
	sleep 0.005;
}
$proxy->heal;
$node->wait_for_serving(2 * $lease + slack_seconds());
pass('after the last flap it serves again');
kill 'KILL', $writer;
waitpid $writer, 0;
my @changes = map { [ split ' ' ] } split /\n/, slurp_file($changes_file);
diag sprintf '%d changes, answers: %s', scalar @changes, join ', ', map { "$seen{$_} of $_" } sort keys %seen;
cmp_ok(scalar @changes, '>=', 5, 'changes went on');
is(scalar(grep { $_->[3] ne 'done' } @changes), 0, 'every change ended well');
cmp_ok($seen{200} // 0, '>', 20, 'there were answers');
cmp_ok($seen{503} // 0, '>', 0, 'and refusals');
my ($stale, $backwards, %latest) = (0, 0);
for my $answer (@answers)
{
	my ($begun, $table, $turn) = @$answer;
	$backwards++ if $turn < ($latest{$table} // -1);
	$latest{$table} = $turn;
	my ($done) = reverse grep { $_->[1] eq $table && $_->[0] < $begun } @changes;
	$stale++ if $done && $turn < $done->[2];
}
is($stale, 0, 'no answer is older than a change that was done before it was asked for');
is($backwards, 0, 'no table went backwards');

is($node->stop, 0, 'it stops in good order');
$proxy->stop;
done_testing();
