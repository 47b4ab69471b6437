# Terminal sessions: in use at the edge of their timeout under a sweep that never rests (S02); after a crash, on a
# standby, after its promotion, and where the newest of it was lost (S05); many front ends in one session at once.
use strict;
use warnings;
use AmoroCluster qw(poll);
use AmoroReplica;
use IPC::Run ();
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = create_primary('primary', conf => "amoro_meta.terminal_session_timeout = 1s\namoro_meta.refresh_interval = 10ms\n");

# psql in the background that runs a script; finish_all waits for them and returns what they printed.
my @running;

sub in_background
{
	my ($script) = @_;
	my ($out, $err) = ('', '');
	my $run = { out => \$out, err => \$err };
	$run->{handle} = IPC::Run::start([ 'psql', '-XAtq', '-d', $primary->connstr('postgres') ], '<', \$script, '>', $run->{out}, '2>', $run->{err});
	push @running, $run;
	return;
}

sub finish_all
{
	my @printed;
	for my $run (splice @running)
	{
		$run->{handle}->finish;
		push @printed, ${ $run->{out} } . ${ $run->{err} };
	}
	return @printed;
}

sub sweeps
{
	my ($row) = $primary->safe_psql('postgres', "SELECT runs, rows, errors FROM amoro_stat_sweep WHERE sweep_name = 'purge_terminal_sessions'");
	return split /\|/, $row;
}

# S02: ten sessions, each used every 0.6 s for a while. Whoever is told that a session is gone must have been late.
my ($runs_before) = sweeps();
in_background(<<'SQL') for 1 .. 10;
DO $$
DECLARE
	session text := open_terminal_session('c');
	used_at timestamptz := clock_timestamp();
	asked_at timestamptz;
	late integer := 0;
BEGIN
	COMMIT;
	FOR i IN 1 .. 8 LOOP
		PERFORM pg_sleep(0.6);
		asked_at := clock_timestamp();
		BEGIN
			PERFORM execute_in_terminal(session, 'set i = ' || i);
			used_at := asked_at;
		EXCEPTION WHEN SQLSTATE 'AM501' THEN
			IF clock_timestamp() - used_at < interval '1 second' THEN
				RAISE EXCEPTION 'lost after %', clock_timestamp() - used_at;
			END IF;
			late := late + 1;
			session := open_terminal_session('c');
			used_at := asked_at;
		END;
		COMMIT;
	END LOOP;
	RAISE NOTICE 'late % times', late;
END;
$$;
SQL
my @printed = finish_all();
is(scalar(grep { /late \d+ times/ && !/ERROR/ } @printed), 10, 'no session is lost while it is used in time') or diag("@printed");
my ($runs_after, undef, $errors) = sweeps();
cmp_ok($runs_after - $runs_before, '>', 20, 'meanwhile the sweep ran again and again');
is($errors, 0, 'without an error');
poll('the sweep has removed all of them', sub { $primary->safe_psql('postgres', 'SELECT count(*) FROM amoro_meta.terminal_session') eq '0' });
is($primary->safe_psql('postgres', "SELECT count(*) FROM terminal_statements WHERE state = 'Finished'") > 40, 1, 'what was executed in them stays in the log');

# An expired session is expired, nothing else
my $short = $primary->safe_psql('postgres', "SELECT open_terminal_session('c')");
poll('it has expired', sub { ($primary->outcome("SELECT terminal_context('$short')"))[0] eq 'AM501' });
is(($primary->outcome("SELECT execute_in_terminal('$short', 'set')"))[0], 'AM501', 'and does not come back');

# Many front ends in one session: no update is lost
$primary->configure('amoro_meta.terminal_session_timeout' => '30min');
poll('the timeout is longer', sub { $primary->safe_psql('postgres', 'SHOW amoro_meta.terminal_session_timeout') eq '30min' });
my $shared = $primary->safe_psql('postgres', "SELECT open_terminal_session('c')");
for my $front_end (1 .. 8)
{
	in_background(join '', map { "SELECT state FROM execute_in_terminal('$shared', 'set f$front_end.$_ = $_; use d');\n" } 1 .. 25);
}
@printed = finish_all();
is(scalar(grep { /ERROR/ } @printed), 0, 'eight front ends in one session get no errors');
is($primary->safe_psql('postgres', "SELECT count(*) FROM jsonb_each_text(terminal_context('$shared')->'properties')"), 200, 'and none of their updates is lost');
is($primary->safe_psql('postgres', 'SELECT count(DISTINCT statement_id) FROM terminal_statements WHERE session_number = '
	. $primary->safe_psql('postgres', "SELECT terminal_context('$shared')->'session_number'")), 400, 'every statement is in the log');

# S05: a crash
my $context = "SELECT terminal_context('$shared') - 'expires_at'";
my $before = $primary->safe_psql('postgres', $context);
my $running = $primary->safe_psql('postgres', "SELECT statement_id FROM execute_in_terminal('$shared', 'select 1')");
$primary->safe_psql('postgres', "SELECT report_terminal_statement('$shared', $running, 'Running')");
$primary->stop('immediate');
$primary->start;
is($primary->safe_psql('postgres', $context), $before, 'after a crash the session is as it was');
is($primary->safe_psql('postgres', "SELECT state FROM terminal_statements WHERE statement_id = $running"), 'Running', 'and so are its statements');
is($primary->safe_psql('postgres', "SELECT relpersistence FROM pg_class WHERE oid = 'amoro_meta.terminal_session'::regclass"), 'p', 'its table is permanent');

# a standby: it can be looked at, and not used
my $standby = create_standby($primary, 'standby', conf => "amoro_meta.terminal_session_timeout = 30min\n");
is($standby->safe_psql('postgres', $context), $before, 'a standby knows the session');
is(($standby->outcome("SELECT execute_in_terminal('$shared', 'set a = 1')"))[0], '25006', 'and does not let it be used');
is(($standby->outcome("SELECT open_terminal_session('c')"))[0], '25006', 'nor opened');
is(($standby->outcome('SELECT purge_terminal_sessions()'))[0], '25006', 'nor purged');
is($standby->safe_psql('postgres', 'SELECT count(*) FROM terminal_sessions'), 1, 'its views can be read');

# the failover loses what was not replicated, and no number is given out twice
$standby->stop;
my $lost = $primary->safe_psql('postgres', "SELECT max(statement_id) FROM execute_in_terminal('$shared', 'set lost = 1; select 2')");
my $lost_session = $primary->safe_psql('postgres', "SELECT open_terminal_session('c')");
$primary->stop('immediate');
$standby->start;
fail_over($standby);
is($standby->safe_psql('postgres', $context), $before, 'after the failover the session is as it was replicated');
is(($standby->outcome("SELECT terminal_context('$lost_session')"))[0], 'AM501', 'one that was lost is unknown');
my $next = $standby->safe_psql('postgres', "SELECT max(statement_id) FROM execute_in_terminal('$shared', 'set after = 1; select 3')");
cmp_ok($next, '>', $lost, 'statements go on with numbers that were never given out');
is(($standby->outcome("SELECT report_terminal_statement('$shared', $lost)"))[0], '42704', 'the end of a statement that was lost is nobody else\'s');
is($standby->safe_psql('postgres', "SELECT report_terminal_statement('$shared', $running)"), 't', 'the engine reports where the session is now');

# a key of very many parts costs memory for its length, not for the square of it
my ($taken) = $standby->safe_psql('postgres', <<'SQL') =~ /(\d+)\Z/;
SELECT open_terminal_session('c') AS id, (regexp_match(pg_read_file('/proc/self/status'), 'VmHWM:\s+(\d+)'))[1]::integer AS before \gset
SELECT count(*) FROM execute_in_terminal(:'id', 'set ' || repeat('a.', 20000) || 'a = 1');
SELECT (regexp_match(pg_read_file('/proc/self/status'), 'VmHWM:\s+(\d+)'))[1]::integer - :before;
SQL
cmp_ok($taken, '<', 100000, "a key of 20000 parts: $taken kB");
$standby->stop;
done_testing();
