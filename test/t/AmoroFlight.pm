# Procedures in flight, of every kind there is, in a database that is about to be copied, moved or lost; and how each of them ends.
#
# A node that holds a lease and says nothing has them all wait. Of each kind one or more stand, by stage:
#   late      its irreversible step is behind it, and not yet known to every node (kinds that set a marker, but remove_node)
#   forward   at the first state in which it waits: most have set a marker
#   backward  the same with its cancellation requested; kinds that set no marker have not begun
# What each kind is and how it is had is in KillScenario.
package AmoroFlight;

use strict;
use warnings;
use AmoroCluster qw(poll);
use AmoroProcedure qw(nothing_left stand_still);
use Exporter 'import';
use KillScenario qw(kinds scenario);
use Test::More;

our @EXPORT_OK = qw(board land activate run_through);

sub named { my ($text, $flight) = @_; return $text =~ s/NAME/$flight->{kind}_$flight->{stage}/gr }

# Has nodes, given as names with kinds, register and hold a lease, at the newest version.
sub activate
{
	my ($server, $database, %kinds) = @_;
	$server->safe_psql($database, join '', map { <<SQL } sort keys %kinds);
SELECT FROM register_node('$_', md5('$_')::uuid, '$kinds{$_}');
SELECT FROM node_status s, activate_node(s.node_id, s.incarnation, (SELECT term FROM amoro_stat_coordinator WHERE datname = current_database()),
	s.lease_epoch, s.metadata_version) WHERE s.node_name = '$_' AND s.current;
SQL
	return;
}

# Whatever the procedures wait for is known to all nodes.
sub acknowledge
{
	my ($server, $database) = @_;
	$server->safe_psql($database, <<'SQL');
SELECT FROM node_status s, node_heartbeat(s.node_id, s.incarnation, (SELECT term FROM amoro_stat_coordinator WHERE datname = current_database()),
	s.lease_epoch, s.metadata_version) WHERE s.state = 'active' AND s.current;
SQL
	return;
}

# Runs calls that return procedures, all at once, and waits for all; dies unless all are done.
sub run_through
{
	my ($server, $database, @calls) = @_;
	my $ids = join ', ', split /\n/, $server->safe_psql($database, join '', map { "SELECT $_;\n" } @calls);
	poll('all have ended', sub {
		acknowledge($server, $database);
		$server->safe_psql($database, "SELECT count(*) FROM procedures WHERE procedure_id IN ($ids) AND outcome IS NULL") == 0 });
	my $failed = $server->safe_psql($database,
		"SELECT kind, catalog_name, database_name, object_name, outcome, error_message FROM procedures WHERE procedure_id IN ($ids) AND outcome <> 'done'");
	die $failed if $failed ne '';
	return;
}

sub submit
{
	my ($server, $database, @flights) = @_;
	for my $key ('sql', 'submit')
	{
		my @ids = split /\n/, $server->safe_psql($database,
			join '', map { my $sql = scenario($_->{kind})->{$key}; defined $sql ? 'SELECT ' . named($sql, $_) . ";\n" : () } @flights);
		next if $key eq 'sql';
		$flights[$_]{procedure} = $ids[$_] for 0 .. $#flights;
	}
	return;
}

sub ids { return join ', ', map { $_->{procedure} } @_ }

# Waits until procedures stand where they wait for nodes, and where there is a way back or ($late) none.
sub wait_until_standing
{
	my ($server, $database, $late, @flights) = @_;
	my $ids = ids(@flights);
	my $moving;
	eval { poll('they stand', sub { ($moving = $server->safe_psql($database, <<SQL)) eq '' }) } or die "they do not stand:\n$moving";
SELECT kind, state, outcome, wait_version, error_message FROM procedures p LEFT JOIN procedure_machine m USING (kind, state)
WHERE procedure_id IN ($ids) AND (outcome IS NOT NULL OR state = 'submitted' OR (wait_version IS NULL AND state <> 'leaving') OR (m.undo IS NULL) <> $late)
SQL
	return;
}

# Fills the catalog lake, with databases d and e, with procedures in flight; returns them, as hashes with kind, stage, procedure.
# The leases that this grants must outlast the test. The coordinator stands still from then on; what else it is to do, $before does.
sub board
{
	my ($server, $database, $before) = @_;
	my %marks = map { $_ => 1 } split /\n/, $server->safe_psql($database,
		'SELECT kind FROM procedure_machine GROUP BY kind HAVING count(undo) > 1');
	my @flights = map { my $kind = $_; map { { kind => $kind, stage => $_ } } 'forward', 'backward', $marks{$kind} && $kind ne 'remove_node' ? 'late' : () } kinds();
	my %at = map { my $stage = $_; $stage => [ grep { $_->{stage} eq $stage } @flights ] } qw(late forward backward);
	for my $round (0 .. 9)
	{
		my @calls = map { my $call = (scenario($_->{kind})->{before} // [])->[$round]; defined $call ? named($call, $_) : () } @flights;
		last if !@calls;
		run_through($server, $database, @calls);
	}
	activate($server, $database, silent => 'node', map { my $flight = $_; map { named($_, $flight) => 'node' } @{ scenario($_->{kind})->{nodes} // [] } } @flights);

	submit($server, $database, @{ $at{late} });
	wait_until_standing($server, $database, 'false', @{ $at{late} });
	acknowledge($server, $database);
	wait_until_standing($server, $database, 'true', @{ $at{late} });
	submit($server, $database, @{ $at{forward} });
	wait_until_standing($server, $database, 'true', grep { !$marks{ $_->{kind} } } @{ $at{forward} });
	my @marking = grep { $marks{ $_->{kind} } } @{ $at{backward} };
	submit($server, $database, @marking);
	wait_until_standing($server, $database, 'false', @marking, grep { $marks{ $_->{kind} } } @{ $at{forward} });
	$before->() if $before;
	stand_still($server, $database);
	submit($server, $database, grep { !$marks{ $_->{kind} } } @{ $at{backward} });
	$server->safe_psql($database, "SELECT cancel_procedure(p) FROM unnest(ARRAY[" . ids(@{ $at{backward} }) . ']) p') !~ /f/
	  or die 'a procedure cannot be cancelled';
	return @flights;
}

# How procedures end that go on somewhere: those that were cancelled are rolled back, the others done, and nothing is left behind.
sub land
{
	my ($server, $database, $name, @flights) = @_;
	eval { poll('they have ended', sub { $server->safe_psql($database,
		'SELECT count(*) FROM procedures WHERE outcome IS NULL AND procedure_id IN (' . ids(@flights) . ')') == 0 }) } or diag $@;
	my @outcomes = split /\n/, $server->safe_psql($database, join '', map { "SELECT wait_for_procedure($_->{procedure}, '0 s');\n" } @flights);
	my @done = split /\n/, $server->safe_psql($database, join '', map { 'SELECT ' . named(scenario($_->{kind})->{done}, $_) . ";\n" } @flights);
	my @wrong;
	for my $i (0 .. $#flights)
	{
		my ($flight, $back) = ($flights[$i], $flights[$i]{stage} eq 'backward');
		push @wrong, "$flight->{kind} $flight->{stage}: $outcomes[$i]" if $outcomes[$i] ne ($back ? 'rolled_back' : 'done');
		# where a sweep does the same again, that may have been
		next if $back && scenario($flight->{kind})->{again};
		push @wrong, "$flight->{kind} $flight->{stage}: done is $done[$i]" if $done[$i] ne ($back ? 'f' : 't');
	}
	is(join("\n", @wrong), '', sprintf '%s: %d procedures end as they should', $name, scalar @flights);
	nothing_left($server, $name, $database);
	return;
}

1;
