# The scenarios of test/patroni/run, and the check of what was seen. Scenarios, in this order:
#   switchover          the leader hands over in good order
#   postmaster          kill -9 of the leader's postmaster
#   member              kill -9 of Patroni and of the postmaster of the leader
#   patroni             kill -9 of Patroni alone: the old leader's Postgres goes on as a second primary
#   isolation           the leader is cut off from etcd and from the standbys, not from nodes and clients
use strict;
use warnings;
use File::Basename qw(dirname);
use lib dirname(__FILE__);
use AmoroHttp;
use AmoroNode;
use AmoroReader;
use JSON::PP;
use PatroniCluster;
use POSIX qw(:sys_wait_h);
use Time::HiRes qw(sleep time);

my ($work, @wanted) = @ARGV;
my $lease = 6;
my $failures = 0;
$| = 1;

sub say_line { printf "%s\n", join '', @_ }

sub check
{
	my ($holds, $what) = @_;
	$failures++ unless $holds;
	say_line($holds ? 'ok      ' : 'NOT OK  ', $what);
	return $holds;
}

my $cluster = PatroniCluster->create($work, lease => "${lease}s", heartbeat => '500ms', ack_timeout => '2s');
my @names = $cluster->names;
my $begin = time;
$cluster->start_member('m1');
PatroniCluster::poll('the first member leads', sub { $cluster->is_primary('m1') }, 60);
$cluster->start_member($_) for qw(m2 m3);
$cluster->wait_until_whole;
defined $cluster->query('m1', q{CREATE EXTENSION amoro_meta; SELECT create_catalog('c')}) or die 'CREATE EXTENSION fails';
my $table = '{"format": "iceberg", "columns": [{"name": "id", "type": "long"}]}';

# Submits a change under a request id until it is known to have ended, whoever leads meanwhile; returns the id of the
# procedure, how it ended, in which term, and for a drop the id of the table and when the step committed that took it
# away; 0 and an error code when there is nothing to change.
sub change
{
	my ($call) = @_;
	my $request = uuid();
	my @order = @names;
	while (1)
	{
		my $conninfo = $cluster->conninfo(@order) . ' target_session_attrs=read-write';
		my ($id, $error) = $cluster->psql($conninfo, "SELECT $call, request_id => '$request')", 4);
		return (0, $1) if !defined $id && $error =~ /ERROR:\s+(42704|42710):/;
		my $end = defined $id && $cluster->psql($conninfo,
			"SELECT wait_for_procedure($id, '6 s'); SELECT concat_ws(' ', (SELECT outcome FROM procedures WHERE procedure_id = $id),
			(SELECT term FROM amoro_meta.coordinator), (SELECT object_id || ' ' || extract(epoch FROM pg_xact_commit_timestamp(xmin))
			 FROM amoro_meta.change WHERE procedure_id = $id AND operation = 'drop'))", 9);
		$end =~ s/^.*\n// if defined $end;
		return ($id, split / /, $end) if defined $end && $end =~ /^(done|rolled_back|quarantined) /;
		push @order, shift @order;
		sleep 0.1;
	}
}

sub uuid
{
	open my $in, '<', '/proc/sys/kernel/random/uuid' or die $!;
	chomp(my $uuid = <$in>);
	return $uuid;
}

change("create_database('c', 'd'");
change("create_table('c', 'd', 'kept', '$table'");

# n1 to n3 know all members, in different orders; only_m1 to only_m3 know one
my %node;
for my $i (0 .. 2)
{
	my @order = @names[ $i .. 2, 0 .. $i - 1 ];
	$node{"n" . ($i + 1)} = AmoroNode->start(name => "n" . ($i + 1), conninfo => $cluster->conninfo(@order), no_wait => 1);
	$node{"only_$order[0]"} = AmoroNode->start(name => "only_$order[0]", conninfo => $cluster->conninfo($order[0]), no_wait => 1);
}
$_->wait_until('listens', sub { $_->address }) for values %node;
my @everywhere = map { $node{$_} } qw(n1 n2 n3);
$_->wait_for_serving(60) for @everywhere;
my %kept = map { ($_ => AmoroReader->start($node{$_}, '/v1/tables/c/d/kept')) } keys %node;
my %churn = map { ($_ => AmoroReader->start($node{$_}, '/v1/tables/c/d/churn')) } keys %node;

# The changes: one table is created and dropped all the time; what was acknowledged is written down.
my $journal = "$work/acknowledged";
my $writer = fork // die "fork: $!";
if ($writer == 0)
{
	open my $out, '>', $journal or die $!;
	$out->autoflush(1);
	while (1)
	{
		# what change() is given ends where the request id is put
		for my $call ("create_table('c', 'd', 'churn', '$table'", q{drop_table('c', 'd', 'churn'})
		{
			my ($id, $outcome, $term, $table_id, $committed) = change($call);
			printf $out "%.6f %s %s %s %s %s\n", time, $id, $outcome, $term // 0, $table_id // 0, $committed // 0;
		}
	}
}

sub acknowledged
{
	open my $in, '<', $journal or return ();
	my @rows;
	while (my $line = <$in>)
	{
		my ($time, $id, $outcome, $term, $table_id, $committed) = $line =~ /^(\S+) (\d+) (\S+) (\d+) (\d+) (\S+)\n/ or next;
		push @rows, { time => $time, id => $id, outcome => $outcome, term => $term, table_id => $table_id, committed => $committed };
	}
	return @rows;
}

# Whether a change was acknowledged that was submitted after the moment: two more, since the first may be older.
sub wait_for_changes
{
	my ($moment) = @_;
	return PatroniCluster::poll('changes go on', sub { (grep { $_->{time} > $moment && $_->{outcome} eq 'done' } acknowledged()) >= 2 }, 60);
}

my %scenario = (
	switchover => sub {
		my ($leader) = @_;
		my $members = $cluster->members;
		my ($candidate) = grep { $members->{$_}{role} eq 'sync_standby' } keys %$members;
		my $body = encode_json({ leader => $leader, candidate => $candidate });
		system('curl', '-sS', '-o', '/dev/null', '-X', 'POST', '-d', $body, 'http://' . $cluster->address($leader) . ':8008/switchover');
		$cluster->wait_for_new_leader($leader);
	},
	postmaster => sub {
		my ($leader) = @_;
		kill 'KILL', $cluster->postmaster_pid($leader);
		$cluster->wait_for_new_leader($leader);
	},
	member => sub {
		my ($leader) = @_;
		my $postmaster = $cluster->postmaster_pid($leader);
		$cluster->kill_patroni($leader);
		kill 'KILL', $postmaster;
		$cluster->wait_for_new_leader($leader);
		sleep 1;
		unlink "$work/$leader/postmaster.pid";
		$cluster->start_member($leader);
	},
	patroni => sub {
		my ($leader) = @_;
		$cluster->kill_patroni($leader);
		my $new = $cluster->wait_for_new_leader($leader);
		my $moment = time;
		wait_for_changes($moment);
		sleep 1 while time < $moment + 2 * $lease;
		check($cluster->is_primary($leader) && $cluster->is_primary($new), 'two members are primaries at once');
		check($node{"only_$leader"}->get('/healthz')->{status} == 503, 'the node that reaches only the old one is fenced');
		$cluster->start_member($leader);
	},
	isolation => sub {
		my ($leader) = @_;
		$cluster->isolate($leader);
		$cluster->wait_for_new_leader($leader);
		my $moment = time;
		wait_for_changes($moment);
		check($node{"only_$leader"}->get('/healthz')->{status} == 503, 'the node that reaches only the isolated one is fenced');
		$cluster->join_again($leader);
	});

my @gaps;
for my $name (grep { my $s = $_; !@wanted || grep { $_ eq $s } @wanted } qw(switchover postmaster member patroni isolation))
{
	$cluster->wait_until_whole;
	$_->wait_for_serving(30) for @everywhere;
	my $leader = $cluster->leader;
	wait_for_changes(time);
	my $start = time;
	$scenario{$name}->($leader);
	my $new = PatroniCluster::poll('there is a leader', sub { $cluster->leader });
	$_->wait_for_serving(60) for @everywhere;
	wait_for_changes(time);
	my $end = time;
	my @times = ($start, (grep { $_ > $start && $_ <= $end } map { $_->{time} } acknowledged()), $end);
	my $changes = (sort { $b <=> $a } map { $times[$_] - $times[ $_ - 1 ] } 1 .. $#times)[0];
	push @gaps, sprintf '%-12s  lookups %5.2f s  changes %5.2f s', $name,
	  (sort { $b <=> $a } map { $kept{$_}->longest_gap(200, $start, $end) } qw(n1 n2 n3))[0], $changes;
	check(1, sprintf '%s: %s leads after %s, nodes serve and changes go on (%.1f s)', $name, $new, $leader, $end - $start);
}

# The check. The history is that of the members that are left; a commit on a server that was deposed is no part of it.
$cluster->wait_until_whole;
kill 'KILL', $writer;
waitpid $writer, 0;
$_->stop for values %kept, values %churn;
sleep 1;
my $leader = $cluster->leader;
# The log of changes begins anew with a timeline, so the writer has kept what it saw of it; for the rest the end of the procedure counts.
my $history = $cluster->query($leader, <<'SQL', 30) // die 'the history cannot be read';
SELECT object_id, kind, extract(epoch FROM ended_at) FROM amoro_meta.procedure
WHERE kind IN ('create_table', 'drop_table') AND outcome = 'done'
SQL
my (%dropped, %created);
for (split /\n/, $history)
{
	my ($id, $kind, $moment) = split /\|/;
	$created{$id} = 1;
	$dropped{$id} = $moment if $kind eq 'drop_table';
}
$dropped{ $_->{table_id} } = $_->{committed} for grep { $_->{committed} } acknowledged();
my ($seen, $stale, $unknown) = (0, 0, 0);
for my $name (sort keys %churn)
{
	for my $answer (grep { $_->{status} == 200 } $churn{$name}->answers)
	{
		my $id = $answer->{table_id};
		$seen++;
		say_line("unknown: $name served table $id at $answer->{begin}") if !$created{$id} && $unknown++ < 10;
		next unless defined $dropped{$id} && $answer->{begin} > $dropped{$id};
		say_line(sprintf 'violation: %s served table %s at %.6f, %.3f s after its drop committed', $name, $id, $answer->{begin}, $answer->{begin} - $dropped{$id})
		  if $stale++ < 10;
	}
}
check($seen > 100, "the readers have seen the table that comes and goes ($seen answers)");
check($stale == 0, "no node served a table after its drop had committed ($stale)");
check($unknown == 0, "nor one that is in nobody's history ($unknown)");
my $missing = 0;
$missing += grep { $_->{status} == 404 } $_->answers for values %kept;
check($missing == 0, 'a table that is there all the time was never said to be missing');

my @acknowledged = grep { $_->{id} } acknowledged();
my @backwards = grep { $acknowledged[$_]{id} <= $acknowledged[ $_ - 1 ]{id} || $acknowledged[$_]{term} < $acknowledged[ $_ - 1 ]{term} } 1 .. $#acknowledged;
check(@acknowledged > 4 && !@backwards, sprintf 'ids and terms only ever grew over %d changes', scalar @acknowledged);
my %outcome = map { split /\|/ } split /\n/, $cluster->query($leader, 'SELECT procedure_id, outcome FROM procedures', 30) // '';
my @lost = grep { ($outcome{ $_->{id} } // 'absent') ne $_->{outcome} } @acknowledged;
check(!@lost, 'every change that was acknowledged is there' . (@lost ? ": $lost[0]{id} $lost[0]{outcome} is " . ($outcome{ $lost[0]{id} } // 'absent') : ''));
my $versions = $cluster->query($leader, 'SELECT count(*) = count(DISTINCT (version, ordinal)) FROM amoro_meta.change', 30) // '';
check($versions eq 't', 'no version was given out twice');
my @crashed = grep { my $file = $_; open my $in, '<', $file; grep { /PANIC|TRAP|Segmentation|signal 11/ } <$in> } glob "$work/m?.log";
check(!@crashed, "nothing crashed that was not killed @crashed");

say_line('', '');
say_line("longest time without, with a lease of $lease s, a ttl of 5 s and loop_wait of 1 s:");
say_line("  $_") for @gaps;
say_line(sprintf '%s in %.0f s', $failures ? "$failures checks failed" : 'all checks passed', time - $begin);
exit($failures ? 1 : 0);
