# The coordinator of a database: when it is there, what ends it and what does not.
use strict;
use warnings;
use AmoroCluster qw(poll);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $server = AmoroCluster->create('main', extension => 0);
my $log = $server->log_position;

sub workers
{
	return $server->safe_psql('postgres',
		"SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'amoro_meta coordinator'");
}

sub postmaster_start { return $server->safe_psql('postgres', 'SELECT pg_postmaster_start_time()') }
my $started = postmaster_start();

# W14: preloaded, but no extension: quiet, and it starts by itself when there is one
is(workers(), 0, 'without the extension there is no coordinator');
$server->safe_psql('postgres', 'BEGIN; CREATE EXTENSION amoro_meta; ROLLBACK');
is(workers(), 0, 'nor after a CREATE EXTENSION that is rolled back');
unlike($server->log_text($log), qr/FATAL|WARNING|is running/, 'nothing of this is worth a line in the log');
$server->safe_psql('postgres', 'CREATE EXTENSION amoro_meta');
my $row = $server->wait_for_state('running', 'postgres', 5);
is($row->{term} >> 32, 1, 'the first term is of timeline 1');
cmp_ok(abs(($row->{term} & 0xffffffff) - (time - 1577836800)), '<', 600, 'its number is the time: greater than any of an extension before');
is(() = $server->log_text($log) =~ /is running/g, 1, 'one line in the log says that it runs');
is($server->safe_psql('postgres', "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 36 AND granted"),
	1, 'the lock of its own is held once');

# DROP EXTENSION, rolled back and committed (W15: at once, not at the next tick)
$server->safe_psql('postgres', 'BEGIN; DROP EXTENSION amoro_meta; ROLLBACK');
is($server->wait_for_state('running')->{pid}, $row->{pid}, 'a DROP EXTENSION that is rolled back changes nothing');
my $term = $row->{term};
my @ms;
for (1 .. 5)
{
	# what the same commands take on this machine, at this moment, when nobody has to notice anything
	my $machine = $server->elapsed(sub {
		$server->safe_psql('postgres', 'BEGIN; DROP EXTENSION amoro_meta; CREATE EXTENSION amoro_meta; ROLLBACK');
		$server->coordinator for 1 .. 3;
	});
	push @ms, -$machine + $server->elapsed(sub {
		$server->safe_psql('postgres', 'DROP EXTENSION amoro_meta');
		poll('the coordinator has gone', sub { workers() == 0 });
		$server->safe_psql('postgres', 'CREATE EXTENSION amoro_meta');
		$row = $server->wait_for_state('running');
	});
	cmp_ok($row->{term}, '>', $term, 'a term is never used twice, not even by an extension that is created anew');
	$term = $row->{term};
}
@ms = sort { $a <=> $b } @ms;
# without a wake-up the drop would be noticed by the tick, a second after the coordinator has begun
cmp_ok($ms[0], '<', 700, "DROP and CREATE EXTENSION are noticed at once (@ms ms)");
$server->safe_psql('postgres', 'DROP EXTENSION amoro_meta; CREATE EXTENSION amoro_meta');
$row = poll('a new term after DROP and CREATE in one go',
	sub { my $now = $server->wait_for_state('running'); $now->{term} > $term && $now });
$term = $row->{term};

# DROP EXTENSION under load waits for the step and is not overtaken by another
for (1 .. 10)
{
	$server->psql('postgres', 'SELECT amoro_meta.recheck_identity()') for 1 .. 3;
	is(($server->outcome('DROP EXTENSION amoro_meta'))[0], '00000', 'DROP EXTENSION under load');
	is(($server->outcome('CREATE EXTENSION amoro_meta'))[0], '00000', 'and CREATE EXTENSION');
}
$row = $server->wait_for_state('running');
$term = $row->{term};
unlike($server->log_text($log), qr/relation .* does not exist|cache lookup failed|PANIC|TRAP/, 'no half dropped table was seen');

# W03: terminated politely it comes back, the same term goes on
$server->safe_psql('postgres', 'SELECT amoro_stat_reset()');
for (1 .. 5)
{
	my $pid = $row->{pid};
	$server->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
	$row = $server->wait_for_successor($pid, 'postgres', 5);
}
is($row->{starts}, 5, 'five terminations, five starts, within 5 s each');
is($row->{term}, $term, 'the term goes on: shared memory has lived on');

# A cancellation ends what it does, not the process
for (1 .. 5)
{
	$server->safe_psql('postgres', "SELECT pg_cancel_backend($row->{pid})");
	my $cycles = $server->coordinator->{cycles};
	poll('it goes on after a cancellation', sub { $server->coordinator->{cycles} > $cycles });
}
is($server->coordinator->{pid}, $row->{pid}, 'pg_cancel_backend does not end the coordinator');

# An error does not end it; it backs off, says so, and recovers
my $locker = $server->background_psql('postgres');
$locker->query_safe('BEGIN; LOCK TABLE amoro_meta.coordinator, amoro_meta.identity');
my $failing = poll('three cycles have failed', sub { my $now = $server->coordinator; $now->{errors} >= 3 && $now });
is($failing->{pid}, $row->{pid}, 'errors do not end the process');
is($failing->{last_error_code}, '55P03', 'the last error is shown with its SQLSTATE');
like($failing->{last_error}, qr/lock timeout/, 'and its text');
ok($failing->{backoff_until}, 'and until when it stays away');
$locker->query_safe('COMMIT');
$locker->quit;
poll('it recovers', sub { $server->coordinator->{consecutive_failures} == 0 });
is($server->coordinator->{pid}, $row->{pid}, 'by itself');

# W13: no transaction while it waits, and what it writes is reported
my $open = 0;
for (1 .. 25)
{
	$open++ if $server->safe_psql('postgres',
		"SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'amoro_meta%' AND wait_event_type = 'Extension'
		 AND (xact_start IS NOT NULL OR backend_xmin IS NOT NULL)") > 0;
}
is($open, 0, 'never in a transaction while it waits');
my $inserts = sub { return $server->safe_psql('postgres',
	"SELECT n_tup_ins FROM pg_stat_all_tables WHERE relid = 'amoro_meta.coordinator'::regclass") };
my $inserted = $inserts->();
$server->safe_psql('postgres', 'UPDATE amoro_meta.coordinator SET term = term + 1, boot_counter = boot_counter + 1');
poll('its writes are known to the statistics, and so to autovacuum', sub { $inserts->() > $inserted });
is($server->coordinator->{pid}, $row->{pid}, 'while it runs');
$term = $server->coordinator->{term};

# … and while there is nothing to do it writes nothing, nor do its sweeps. Nobody else does: autovacuum is off, and VACUUM
# leaves no reader a hint to set, which with checksums is WAL
$server->configure(autovacuum => 'off',
	map { ("amoro_meta.$_" => '200ms') } qw(assignment_interval blocker_timeout optimizing_check_interval refresh_interval));
poll('autovacuum is at rest', sub { $server->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'autovacuum worker'") == 0 });
$server->safe_psql('postgres', 'VACUUM');
my $idle = sub { return split /\|/, $server->safe_psql('postgres',
	"SELECT pg_snapshot_xmax(pg_current_snapshot()), pg_current_wal_insert_lsn() - '0/0', cycles, (SELECT min(runs) FROM amoro_stat_sweep)
	 FROM amoro_stat_coordinator WHERE datname = 'postgres'") };
my @idle_before = $idle->();
my @idle_after = @{ poll('five idle cycles, and each sweep', sub {
	my @now = $idle->();
	$now[2] >= $idle_before[2] + 5 && $now[3] >= $idle_before[3] + 3 && \@now }) };
is($idle_after[0], $idle_before[0], 'an idle coordinator takes no transaction id');
cmp_ok($idle_after[1] - $idle_before[1], '<', 1000, 'and writes no WAL but what the server itself does');
$server->configure(autovacuum => undef);

# What users set for the database does not reach it
my $errors = $server->coordinator->{errors};
$server->safe_psql('postgres', <<'SQL');
CREATE SCHEMA evil;
CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''evil''; END';
ALTER DATABASE postgres SET search_path = evil, public;
ALTER DATABASE postgres SET default_transaction_read_only = on;
ALTER DATABASE postgres SET default_transaction_isolation = 'serializable';
ALTER DATABASE postgres SET statement_timeout = '1ms';
ALTER DATABASE postgres SET lock_timeout = '1ms';
ALTER DATABASE postgres SET idle_in_transaction_session_timeout = '1ms';
ALTER DATABASE postgres SET synchronous_commit = off;
ALTER DATABASE postgres SET row_security = off;
ALTER DATABASE postgres SET role = 'pg_monitor';
SQL
my $reset = join '', map { "ALTER DATABASE postgres RESET $_;" }
	qw(search_path default_transaction_isolation statement_timeout lock_timeout idle_in_transaction_session_timeout synchronous_commit row_security role);
my $restarted = $server->log_position;
$server->safe_psql('template1', "SELECT pg_terminate_backend($row->{pid})");
$server->append_conf('postgresql.conf', 'amoro_meta.metadata_lease_fence_ms = 3s');
poll('it starts, and writes, under hostile settings of the database', sub {
	$server->reload;
	$server->psql('template1', "SELECT 1 FROM pg_stat_activity WHERE backend_type = 'amoro_meta coordinator'") == 0
	  && $server->log_text($restarted) =~ /is running, term $term/;
});
$server->safe_psql('template1', 'ALTER DATABASE postgres RESET default_transaction_read_only');
$server->safe_psql('template1', $reset);
poll('the longer lease was made durable', sub {
	$server->safe_psql('postgres', 'SELECT longest_lease_us FROM amoro_meta.coordinator') eq '3000000' });
is($server->coordinator->{lease_ms}, 3000, 'and is in force');
is($server->coordinator->{errors}, $errors, 'without an error on the way');

# rule 10: settings that do not fit together are refused, once, and the old ones stay in force
$log = $server->log_position;
$server->configure('amoro_meta.heartbeat_interval' => '1s');
poll('the refusal is logged', sub { $server->log_text($log) =~ /WARNING:  amoro_meta does not use its lease settings/ });
my $cycles = $server->coordinator->{cycles};
poll('two more cycles', sub { $server->coordinator->{cycles} > $cycles + 1 });
is(() = $server->log_text($log) =~ /does not use its lease settings/g, 1, 'once');
is($server->coordinator->{heartbeat_interval_ms}, 200, 'the old settings stay in force');
$server->configure('amoro_meta.heartbeat_interval' => '300ms');
poll('settings that fit are taken', sub { $server->coordinator->{heartbeat_interval_ms} == 300 });

# W17: a term that somebody else has begun ends this one, with a step that cannot commit
$server->safe_psql('postgres', 'UPDATE amoro_meta.coordinator SET term = term + 5, boot_counter = boot_counter + 5');
$row = poll('a new, higher term', sub { my $now = $server->coordinator; $now->{term} > $term + 5 && $now });

# … nor does a second coordinator come to be when launcher or configuration are touched
my $launcher = $server->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE backend_type = 'amoro_meta launcher'");
$server->safe_psql('postgres', "SELECT pg_terminate_backend($launcher)");
poll('the launcher is back',
	sub { $server->safe_psql('postgres',
		"SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'amoro_meta launcher' AND pid <> $launcher") == 1 }, 15);
$server->reload;
is(workers(), 1, 'one coordinator after a restart of the launcher and a reload');
is($server->coordinator->{pid}, $row->{pid}, 'the one that was there');
kill 'STOP', $row->{pid};
$server->reload;
is(workers(), 1, 'no second one beside one that hangs');
kill 'CONT', $row->{pid};
$server->safe_psql('postgres', "SELECT pg_terminate_backend($row->{pid})");
$row = $server->wait_for_successor($row->{pid});
is(workers(), 1, 'the new launcher restarts what the old one started');

# W12: memory of the process stays what it is, failing cycles included
sub memory
{
	my $position = $server->log_position;
	$server->safe_psql('postgres', "SELECT pg_log_backend_memory_contexts($row->{pid})");
	return poll('memory is logged', sub { $server->log_text($position) =~ /Grand total: (\d+) bytes/ && $1 });
}
sub exercise
{
	my $until = $server->coordinator->{cycles} + $_[0];
	poll("$_[0] cycles", sub {
		$server->safe_psql('postgres', join ';', ('SELECT amoro_meta.recheck_identity()') x 200);
		$server->coordinator->{cycles} >= $until;
	});
	$server->safe_psql('postgres', "SELECT pg_cancel_backend($row->{pid})") for 1 .. 5;
}
exercise(200);
# what its sweeps need the first times stays with it, and from the sixth on they have generic plans
my $runs = sub { return $server->safe_psql('postgres', 'SELECT min(runs) FROM amoro_stat_sweep') };
my $first_runs = $runs->();
poll('every sweep has run ten times in this process', sub { $runs->() >= $first_runs + 10 });
my $before = memory();
exercise(800);
my $after = memory();
cmp_ok($after - $before, '<', 100_000, "no memory is lost over 800 cycles ($before bytes before, $after after)");

# the stop points that other tests stage their races with
$server->configure('amoro_meta.debug_stop_at' => 'cycle');
poll('it stands at the stop point', sub { ($server->coordinator->{stopped_at} // '') eq 'cycle' });
$cycles = $server->coordinator->{cycles};
$server->safe_psql('postgres', 'SELECT amoro_meta.recheck_identity()');
is($server->coordinator->{cycles}, $cycles, 'and does nothing there');
$server->configure('amoro_meta.debug_stop_at' => undef);
poll('and goes on when released', sub { $server->coordinator->{cycles} > $cycles });

is(postmaster_start(), $started, 'the server was never restarted by a crash');
unlike($server->log_text, qr/PANIC|TRAP|terminated by signal|does not exist/, 'and nothing crashed');
$server->stop;
done_testing();
