# P01: the server is killed at every step of kinds of procedures, on the way forward and on the way back. Every
# procedure ends, as it would have without the kill, and has left the same changes: no step's effect is there twice or half.
#
# The steps are the rows of procedure_machine; what has them happen is in KillScenario.
package KillEveryStep;

use strict;
use warnings;
use AmoroCluster qw(poll);
use AmoroProcedure qw(stand_still go_on wait_for_end nothing_left changes_of activate_node);
use AmoroSession;
use Exporter 'import';
use KillScenario qw(kinds scenario);
use Test::More;

our @EXPORT_OK = qw(kill_every_step);

my ($server, %changes);
my $offset = 0;
my $round = 0;

sub query { return $server->safe_psql('postgres', $_[0]) }

# Makes calls one after the other, in one session: that is most of the time that a test takes.
sub run_through
{
	my (@calls) = @_;
	return if !@calls;
	my @outcomes = split /\n/, query(join '', map { "SELECT $_ AS id \\gset\nSELECT wait_for_procedure(:id, '30 s');\n" } @calls);
	for my $i (0 .. $#calls) { die "$calls[$i]: $outcomes[$i]" if $outcomes[$i] ne 'done' }
	return;
}

sub named { return $_[0] =~ s/NAME/round_$round/gr }

# Ends every lease there is.
sub end_leases
{
	$offset += 100_000;
	$server->configure('amoro_meta.debug_clock_offset_ms' => $offset);
	return;
}

# Makes what a procedure needs; the coordinator then stands still.
sub prepare
{
	my ($scenario) = @_;
	$round++;
	run_through(map { named($_) } @{ $scenario->{before} // [] });
	# from here on a sweep would submit what we want to
	stand_still($server);
	query("SELECT " . named($scenario->{sql})) if $scenario->{sql};
	activate_node($server, named($_)) for @{ $scenario->{nodes} // [] };
	return;
}

sub submit { return query("SELECT " . named($_[0]->{submit})) }

# Kills the server and starts it again, to stand still nowhere; nodes that were there are owed nothing any more.
sub restart
{
	$server->stop('immediate');
	$server->append_conf('postgresql.auto.conf', "amoro_meta.debug_stop_at = ''\n");
	$server->start;
	return if query('SELECT count(*) FROM nodes') == 0;
	# with its term begins what nodes are owed
	$server->wait_for_state('running');
	end_leases();
	return;
}

sub check_end
{
	my ($name, $scenario, $procedure, $outcome, $changes) = @_;
	is(wait_for_end($server, $procedure), $outcome, "$name: $outcome");
	is(changes_of($server, $procedure), $changes, "$name: every change is logged once");
	poll("$name: a sweep does it again", sub { query("SELECT " . named($scenario->{done})) eq 't' && query(
		'SELECT NOT EXISTS (SELECT FROM procedures WHERE outcome IS NULL)') eq 't' }) if $scenario->{again};
	is(query("SELECT " . named($scenario->{done})), $outcome eq 'done' || $scenario->{again} ? 't' : 'f', "$name: the object is as it should be");
	nothing_left($server, $name);
	return;
}

# Kills the server before and after what a step does.
sub kill_forward
{
	my ($kind, $state) = @_;
	my $scenario = scenario($kind);

	# what it logs when nothing happens
	if (!defined $changes{$kind})
	{
		prepare($scenario);
		my $procedure = submit($scenario);
		end_leases() if $scenario->{nodes};
		go_on($server, undef);
		is(wait_for_end($server, $procedure), 'done', "$kind without a kill");
		$changes{$kind} = changes_of($server, $procedure);
	}

	for my $point ("$kind.$state", "$kind.$state.commit")
	{
		prepare($scenario);
		my $procedure = submit($scenario);
		end_leases() if $scenario->{nodes};
		go_on($server, $point);
		restart();
		check_end("killed at $point", $scenario, $procedure, 'done', $changes{$kind});
	}
	return;
}

# The same on the way back: a node that holds a lease and says nothing makes a procedure wait, and it is cancelled meanwhile.
sub kill_backward
{
	my ($kind, $state) = @_;
	my $scenario = scenario($kind);

	for my $point ("$kind.$state.undo", "$kind.$state.undo.commit")
	{
		prepare($scenario);
		activate_node($server, named('silent NAME'));
		my $procedure = submit($scenario);
		if ($state ne 'submitted')
		{
			go_on($server, undef);
			poll("$kind is in state $state",
				sub { query("SELECT state FROM procedure_status($procedure)") eq $state });
			stand_still($server);
		}
		is(query("SELECT cancel_procedure($procedure)"), 't', "$kind can be cancelled in state $state");
		go_on($server, $point);
		my $logged = changes_of($server, $procedure);
		restart();
		my $rollback = $state eq 'submitted' || $kind eq 'remove_node' ? '' :
		  ', ' . ($scenario->{rollback} // ($kind =~ /(database|bucket|partition)/ ? "$1 rollback" : 'table rollback'));
		check_end("killed at $point", $scenario, $procedure, 'rolled_back', "$logged$rollback");
		like(query("SELECT error_code, error_message FROM procedure_status($procedure)"), qr/^57014\|procedure was cancelled/,
			"killed at $point: the procedure says why it was rolled back");
		run_through(named("remove_node('silent NAME')"));
	}
	return;
}

# All steps of the kinds of a file; and each kind there is belongs to one file.
sub kill_every_step
{
	my ($file) = @_;
	# A lease that no test waits for: the lease clock is shifted instead.
	$server = AmoroSession->create('main', conf => "amoro_meta.metadata_lease_fence_ms = 60s\namoro_meta.assignment_interval = 1h\n");
	query("SELECT create_catalog('lake')");
	run_through(map { "create_database('lake', '$_')" } 'd', 'e');

	is(join(' ', kinds()), query("SELECT string_agg(DISTINCT kind, ' ' ORDER BY kind) FROM procedure_machine"), 'each kind is in the list of one file');
	my @steps = map { [ split /\|/ ] } split /\n/, query(
		"SELECT kind, state, undo IS NOT NULL FROM procedure_machine WHERE kind = ANY ('{" . join(',', kinds($file)) . "}') ORDER BY kind, state");
	kill_forward(@$_) for @steps;
	for my $step (@steps)
	{
		my ($kind, $state, $undoable) = @$step;
		kill_backward($kind, $state) if $undoable eq 't';
	}
	return;
}

1;
