# Group C of the faults, P02 to P15 without the kills (300) and the races (320): procedures that cannot go on, rows that make no sense, writes that
# fail, callers that go away, names that pass to another table.
use strict;
use warnings;
use AmoroCluster qw(poll);
use AmoroProcedure qw(stand_still go_on wait_for_end nothing_left changes_of activate_node definition);
use IPC::Run qw(start finish);
use PostgreSQL::Test::Utils;
use Test::More;

# Leases that no test waits for: nodes are released, or the lease clock is shifted. Nor do its sweeps wake up the coordinator.
my $server = AmoroCluster->create('main', conf => <<'CONF');
amoro_meta.metadata_lease_fence_ms = 60s
amoro_meta.blocker_timeout = 1h
amoro_meta.refresh_interval = 1h
amoro_meta.optimizing_check_interval = 1h
amoro_meta.assignment_interval = 1h
CONF
my $definition = definition();

sub query { return $server->safe_psql('postgres', $_[0]) }

sub run_through
{
	my ($statement) = @_;
	my $procedure = query("SELECT $statement");
	is(wait_for_end($server, $procedure), 'done', $statement =~ s/\n.*//sr);
	return $procedure;
}

sub wait_for_state
{
	my ($procedure, $state) = @_;
	poll("procedure $procedure is in state $state",
		sub { query("SELECT state FROM procedure_status($procedure)") eq $state });
	return;
}

sub release { return query("SELECT release_node(node_id, incarnation) FROM node_status WHERE node_name = '$_[0]' AND current") }
sub coordinator_pid { return $server->coordinator->{pid} }

query("SELECT create_catalog('lake')");
run_through("create_database('lake', 'd')");
run_through("create_table('lake', 'd', '$_', $definition)") for 't', 'u', 'v';
my $pid = coordinator_pid();

# Steps that take longer than the coordinator goes on with procedures at a time: those that were submitted later have their turn as well.
{
	query(<<'SQL');
INSERT INTO amoro_meta.device (device_id, database_id, device_path, state, definition, version)
	SELECT amoro_meta.next_id(), database_id, 'root.slow.t' || n, 'normal',
		amoro_meta.device_definition('{"measurements": [{"name": "speed", "type": "INT32"}]}'), 1
	FROM amoro_meta.database, generate_series(1, 16000) n
SQL
	query(q{CREATE FUNCTION public.wait_a_moment() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.6); RETURN NULL; END'});
	query('CREATE TRIGGER slow AFTER DELETE ON amoro_meta.device FOR EACH STATEMENT EXECUTE FUNCTION public.wait_a_moment()');
	my $slow = query("SELECT drop_devices('lake', 'd', 'root.slow.**')");
	my $later = query("SELECT create_table('lake', 'd', 'later', $definition)");
	is(wait_for_end($server, $_), 'done', 'long steps: a procedure ends') for $later, $slow;
	is(query("SELECT l.ended_at < s.ended_at FROM procedures l, procedures s WHERE (l.procedure_id, s.procedure_id) = ($later, $slow)"), 't',
		'a procedure of short steps does not wait for the end of one of long steps that was submitted before it');
	query('DROP FUNCTION public.wait_a_moment CASCADE');
	run_through("drop_table('lake', 'd', 'later')");
}

# P03: a node is alive and does not apply; the drop fails. The table is as before, and can be dropped again.
{
	activate_node($server, 'stuck');
	my $procedure = query("SELECT drop_table('lake', 'd', 't', timeout => '3 s')");
	wait_for_state($procedure, 'pre_drop');
	is(query("SELECT state FROM metadata_lookup('table', 'lake', 'd', 't')"), 'pre_drop', 'P03: readers see the marker');
	is(wait_for_end($server, $procedure), 'rolled_back', 'P03: the drop that a live node holds up ends when its time is over');
	like(query("SELECT error_message, error_detail FROM procedure_status($procedure)"),
		qr/^procedure timed out\|.*waited for version \d+ on "stuck"/, 'P03: it says whom it waited for');
	is(query("SELECT found, state FROM metadata_lookup('table', 'lake', 'd', 't')"), 't|normal', 'P03: the table is as before');
	is(changes_of($server, $procedure), 'table pre_drop, table rollback', 'P03: the rollback is broadcast too (V14)');
	nothing_left($server, 'P03');
	my $second = query("SELECT drop_table('lake', 'd', 't')");
	wait_for_state($second, 'pre_drop');
	release('stuck');
	is(wait_for_end($server, $second), 'done', 'P03: the second drop is possible at once');
	run_through("create_table('lake', 'd', 't', $definition)");
}

# P02: the new value is written, not committed, and the server dies; then the procedure is rolled back
for my $round (1 .. 3)
{
	my $before = query("SELECT definition FROM tables WHERE table_name = 't'");
	stand_still($server);
	my $procedure =
	  query(qq{SELECT alter_table('lake', 'd', 't', '[{"op": "set_properties", "properties": {"owner": "somebody $round"}}, {"op": "set_ttl", "ttl": $round}]')});
	go_on($server, 'alter_table.pre_alter.commit');
	$server->append_conf('postgresql.conf', "amoro_meta.debug_stop_at = 'cycle'\n");
	query('ALTER SYSTEM RESET amoro_meta.debug_stop_at');
	$server->stop('immediate');
	$server->start;
	poll('the coordinator stands still', sub { ($server->coordinator->{stopped_at} // '') eq 'cycle' });
	is(query("SELECT cancel_procedure($procedure)"), 't', "P02, round $round: cancelled before the step is made again");
	$server->adjust_conf('postgresql.conf', 'amoro_meta.debug_stop_at', undef);
	$server->reload;
	is(wait_for_end($server, $procedure), 'rolled_back', "P02, round $round: rolled back");
	is(query("SELECT definition FROM tables WHERE table_name = 't'"), $before, "P02, round $round: the old value is back");
	query('SELECT release_node(node_id, incarnation) FROM node_status WHERE current');
}
nothing_left($server, 'P02');
$pid = coordinator_pid();

# P09: rows that make no sense. Each is quarantined, whoever waits learns it, the others go on. Nobody wakes the coordinator for them, and it does
# not wait for the next of its sweeps: it looks by itself, and again.
{
	my $look = sub { return split /\|/, query(q{SELECT (SELECT cycles FROM amoro_stat_coordinator WHERE datname = current_database()), sum(runs) FROM amoro_stat_sweep}) };
	my ($cycles, $runs);
	poll('P09: the coordinator has looked three times though no sweep was due', sub {
		my @seen = $look->();
		return $seen[0] >= $cycles + 3 if defined $runs && $seen[1] == $runs;
		($cycles, $runs) = @seen;
		return 0;
	});
	my $insert = q{INSERT INTO amoro_meta.procedure (procedure_id, kind, state, catalog_name, database_name, object_name, object_id, request_digest,
		arguments, submitted_by, submitted_at) SELECT amoro_meta.next_id(), 'drop_table', 'submitted', 'lake', 'd', 'x', 1, '', '{"format": 1, "purge": false}',
		'postgres'::regrole, clock_timestamp() RETURNING procedure_id};
	my %poison = (
		'unknown kind' => [ "'drop_table'", "'juggle'", qr/knows no state "submitted" of kind "juggle"/ ],
		'unknown state' => [ "'submitted'", "'XYZ'", qr/knows no state "XYZ"/ ],
		'arguments that are an array' => [ q('{"format": 1, "purge": false}'), "'[]'", qr/not an object/ ],
		'arguments that are null' => [ q('{"format": 1, "purge": false}'), "'null'", qr/not an object/ ],
		'a format of the future' => [ '"format": 1', '"format": 2', qr/format 2, this version reads 1/ ],
		'a format that is text' => [ '"format": 1', '"format": "1"', qr/no valid argument "format"/ ],
		'a format beyond numbers' => [ '"format": 1', '"format": 1e40', qr/out of range/ ],
		'a version that was never given out' => [ "submitted_at)", "submitted_at, wait_version)", qr/never given out/ ],
		'no object' => [ "'x', 1", "'x', NULL", qr/names no object/ ]);
	for my $name (sort keys %poison)
	{
		my ($from, $to, $reason) = @{ $poison{$name} };
		(my $statement = $insert) =~ s/\Q$from\E/$to/ or die $name;
		$statement =~ s/ RETURNING/, 1000000000 RETURNING/ if $to =~ /wait_version/;
		my $procedure = (split /\n/, query($statement))[0];
		is(wait_for_end($server, $procedure), 'quarantined', "P09: $name: quarantined");
		like(query("SELECT error_message FROM procedure_status($procedure)"), $reason, "P09: $name: with the reason");
	}
	is(($look->())[1], $runs, 'P09: all of that without a sweep');
	# one that is half way: its marker is taken back, its name is free
	activate_node($server, 'slow');
	my $procedure = query("SELECT drop_table('lake', 'd', 't')");
	wait_for_state($procedure, 'pre_drop');
	my $other = query("SELECT drop_table('lake', 'd', 'u')");
	query("UPDATE amoro_meta.procedure SET state = 'XYZ' WHERE procedure_id = $procedure");
	is(wait_for_end($server, $procedure), 'quarantined', 'P09: half way: quarantined');
	is(query("SELECT state FROM tables WHERE table_name = 't'"), 'normal', 'P09: half way: the marker is taken back');
	my $again = query("SELECT drop_table('lake', 'd', 't')");
	# what a step needs is missing: known only when it is made
	wait_for_state($again, 'pre_drop');
	query("UPDATE amoro_meta.procedure SET arguments = arguments - 'purge' WHERE procedure_id = $again");
	release('slow');
	is(wait_for_end($server, $other), 'done', 'P09: another procedure goes on');
	is(wait_for_end($server, $again), 'quarantined', 'P09: an argument is missing: quarantined');
	run_through("drop_table('lake', 'd', 't')");
	run_through("create_table('lake', 'd', '$_', $definition)") for 't', 'u';
	cmp_ok(query('SELECT metadata_version FROM metadata_lookup(\'catalog\', \'lake\')'), '<', 1000, 'P09: no node heard of the version');
	nothing_left($server, 'P09');
}

# P10: two procedures that claim to work on one table (somebody edited the rows): the younger one is rolled back. One that lost its
# claim is, too.
{
	activate_node($server, 'slow');
	my $first = query("SELECT drop_table('lake', 'd', 't')");
	wait_for_state($first, 'pre_drop');
	stand_still($server);
	my $second = query("SELECT drop_table('lake', 'd', 'u')");
	query("UPDATE amoro_meta.procedure p SET object_id = q.object_id, object_name = q.object_name FROM amoro_meta.procedure q"
		  . " WHERE p.procedure_id = $second AND q.procedure_id = $first");
	go_on($server, undef);
	is(wait_for_end($server, $second), 'rolled_back', 'P10: the younger of two on one table is rolled back');
	like(query("SELECT error_code, error_detail FROM procedure_status($second)"), qr/^AM401\|Procedure $first /, 'P10: it says which one is in the way');
	query("DELETE FROM amoro_meta.procedure_claim WHERE procedure_id = $first");
	query("SELECT cancel_procedure($first)");
	is(wait_for_end($server, $first), 'rolled_back', 'P10: the older one can still be undone');
	my $third = query("SELECT drop_table('lake', 'd', 'u')");
	wait_for_state($third, 'pre_drop');
	query("DELETE FROM amoro_meta.procedure_claim WHERE procedure_id = $third");
	release('slow');
	is(wait_for_end($server, $third), 'rolled_back', 'P10: a procedure without its claim is rolled back');
	nothing_left($server, 'P10');
}

# P11: the state cannot be written. Nothing happens that is not recorded; it is tried again later and later, and clears by itself.
{
	query(q{CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'disk is full of "%%s%%n"' USING ERRCODE = 'disk_full'; END$$});
	# the effect cannot be written: recorded on the row
	query('CREATE TRIGGER refuse BEFORE INSERT ON amoro_meta.change FOR EACH ROW EXECUTE FUNCTION refuse()');
	my $position = $server->log_position;
	my $procedure = query("SELECT drop_table('lake', 'd', 't')");
	poll('the step has failed three times', sub { query("SELECT attempts >= 3 FROM procedure_status($procedure)") eq 't' });
	is(query("SELECT state, error_code, error_message, not_before IS NOT NULL FROM procedure_status($procedure)"),
		'submitted|53100|disk is full of "%s%n"|t', 'P11: the failure is on the row, and when it is tried again');
	is(query("SELECT state FROM tables WHERE table_name = 't'"), 'normal', 'P11: no effect without its record');
	is(() = $server->log_text($position) =~ /failed in state/g, 1, 'P11: one line in the log for many attempts');
	is(query("SELECT deadline IS NOT NULL FROM procedure_status($procedure)"), 't', 'P11: it is not tried for ever');
	my $timed = query("SELECT drop_table('lake', 'd', 'u', timeout => '3 s')");
	is(wait_for_end($server, $timed), 'rolled_back', 'P11: it is not tried for longer than its time');
	like(query("SELECT error_message, error_detail FROM procedure_status($timed)"),
		qr/^procedure timed out\|.*attempts failed with 53100: disk is full/, 'P11: it says what was in the way');
	query('DROP TRIGGER refuse ON amoro_meta.change');
	is(wait_for_end($server, $procedure), 'done', 'P11: it goes on by itself when the cause is gone');
	run_through("create_table('lake', 'd', 't', $definition)");

	# not even the failure can be written
	query(q{CREATE TRIGGER refuse BEFORE UPDATE ON amoro_meta.procedure FOR EACH ROW WHEN (OLD.kind = 'alter_table' AND OLD.arguments <> '{}')
		EXECUTE FUNCTION refuse()});
	$position = $server->log_position;
	$procedure = query(q{SELECT alter_table('lake', 'd', 't', '[{"op": "set_ttl", "ttl": 7}]')});
	poll('it has been tried', sub { $server->log_text($position) =~ /could not record the failure/ });
	run_through("create_table('lake', 'd', 'w', $definition)");
	run_through("drop_table('lake', 'd', 'w')");
	is(query("SELECT state FROM tables WHERE table_name = 't'"), 'normal', 'P11: no effect without its record');
	is(() = $server->log_text($position) =~ /could not record the failure/g, 1, 'P11: one line in the log');
	query('DROP TRIGGER refuse ON amoro_meta.procedure');
	is(wait_for_end($server, $procedure), 'done', 'P11: it goes on by itself when the cause is gone');

	# settings that would stop the coordinator
	$server->safe_psql('template1', "ALTER DATABASE postgres SET $_") for 'default_transaction_read_only = on', 'statement_timeout = 1', 'lock_timeout = 1',
	  q{default_transaction_isolation = 'serializable'}, 'search_path = nowhere';
	$server->safe_psql('template1', 'SELECT pg_terminate_backend(' . $pid . ')');
	my $set = 'SET default_transaction_read_only = off; SET statement_timeout = 0; SET search_path = public; SET lock_timeout = 0;';
	$procedure = poll('it can be submitted again', sub {
		my ($code, $out) = $server->psql('postgres', qq{$set SELECT alter_table('lake', 'd', 't', '[{"op": "set_ttl", "ttl": 8}]')});
		return $code == 0 && $out;
	});
	is($server->safe_psql('postgres', "$set SELECT wait_for_procedure($procedure, '30 s')"), 'done', 'P11: settings of the database do not stop it');
	$server->safe_psql('template1', 'ALTER DATABASE postgres RESET ALL');
	$pid = poll('it runs', sub { coordinator_pid() });
}

# P11: a table that somebody keeps locked delays those who need it, and nobody else
{
	my $locker = $server->background_psql('postgres');
	$locker->query_safe('BEGIN; LOCK TABLE amoro_meta.table_metadata IN EXCLUSIVE MODE');
	my $procedure = query(q{SELECT alter_table('lake', 'd', 't', '[{"op": "set_ttl", "ttl": 9}]')});
	poll('its step has failed', sub { query("SELECT error_code FROM procedure_status($procedure)") eq '55P03' });
	run_through("create_database('lake', 'meanwhile')");
	$locker->query_safe('COMMIT');
	is(wait_for_end($server, $procedure), 'done', 'P11: it goes on when the lock is gone');
	# the same with the row of the procedure itself
	$locker->query_safe("BEGIN; SELECT FROM amoro_meta.table_metadata WHERE table_name = 't' FOR UPDATE");
	$procedure = query(q{SELECT alter_table('lake', 'd', 't', '[{"op": "set_ttl", "ttl": 10}]')});
	$locker->query_safe("SELECT FROM amoro_meta.procedure WHERE procedure_id = $procedure FOR UPDATE");
	run_through("drop_database('lake', 'meanwhile')");
	$locker->query_safe('COMMIT');
	is(wait_for_end($server, $procedure), 'done', 'P11: a procedure whose row was locked is not forgotten');
	$locker->quit;
	nothing_left($server, 'P11');
}

# P12: the caller goes away while it waits. The procedure ends all the same, and the same request finds it.
{
	my $request = "request_id => 'c0000000-0000-0000-0000-00000000000a'";
	activate_node($server, 'slow');
	my $procedure = query("SELECT drop_table('lake', 'd', 't', $request)");
	wait_for_state($procedure, 'pre_drop');
	my ($out, $err) = ('', '');
	my $client = start([ 'psql', '-X', '-d', $server->connstr('postgres'), '-c', "SELECT wait_for_procedure($procedure)" ],
		'<', '/dev/null', '>', \$out, '2>', \$err);
	poll('a caller waits', sub { query("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT wait_for_procedure%' AND pid <> pg_backend_pid()") });
	$client->signal('KILL');
	eval { $client->finish };
	is(($server->outcome("SET statement_timeout = '100 ms'; SELECT wait_for_procedure($procedure)"))[0], '57014', 'P12: waiting can be interrupted');
	is(query("SELECT drop_table('lake', 'd', 't', $request)"), $procedure, 'P12: the same request is the same procedure');
	release('slow');
	is(wait_for_end($server, $procedure), 'done', 'P12: it ends without its caller');
	is(query("SELECT drop_table('lake', 'd', 't', $request)"), $procedure, 'P12: also when it has ended');
	is(query("SELECT count(*) FROM tables WHERE table_name = 't'"), 0, 'P12: it was made once');
	run_through("create_table('lake', 'd', 't', $definition)");
}

# P07, P14: the name passes to another table, or to another database, after the snapshot of a transaction that works on it
{
	my $old = $server->background_psql('postgres', on_error_stop => 0);
	my $wide = q('{"format": "hudi", "columns": [{"name": "other", "type": "uuid"}]}');
	$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM tables');
	run_through("drop_table('lake', 'd', 't')");
	run_through("create_table('lake', 'd', 't', $wide)");
	my $before = query("SELECT table_id, definition FROM tables WHERE table_name = 't'");
	my $procedure = $old->query_safe(q{SELECT alter_table('lake', 'd', 't', '[{"op": "set_ttl", "ttl": 11}]')});
	$old->query_safe('COMMIT');
	is(wait_for_end($server, $procedure), 'rolled_back', 'P14: a procedure on the old table does not touch the new one');
	like(query("SELECT error_code, error_detail FROM procedure_status($procedure)"), qr/^42704\|The table with the id \d+ was dropped/, 'P14: it says why');
	is(query("SELECT table_id, definition FROM tables WHERE table_name = 't'"), $before, 'P14: the new table is as it was made');

	$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM tables');
	run_through("rename_table('lake', 'd', 't', 'd', 'renamed')");
	$procedure = $old->query_safe(q{SELECT alter_table('lake', 'd', 't', '[{"op": "set_ttl", "ttl": 12}]')});
	$old->query_safe('COMMIT');
	is(wait_for_end($server, $procedure), 'rolled_back', 'P14: nor the old table under its new name');
	is(query("SELECT definition->'ttl' FROM tables WHERE table_name = 'renamed'"), '', 'P14: it is as it was renamed');
	run_through("rename_table('lake', 'd', 'renamed', 'd', 't')");

	run_through("create_database('lake', 'e')");
	$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM tables');
	run_through("drop_database('lake', 'e')");
	run_through("create_database('lake', 'e')");
	my $answer = $old->query("SELECT create_table('lake', 'e', 'lost', $definition)");
	$old->query('COMMIT');
	is($answer, '', 'P07: a database that was dropped and made again is not the one that was meant');
	is(query("SELECT count(*) FROM tables WHERE table_name = 'lost'"), 0, 'P07: nothing is created in it');
	$old->quit;
	nothing_left($server, 'P14');
}

# Nobody polls: the commit wakes the coordinator, the end wakes who waits. A tick is a second, a fallback look of the waiter five.
{
	run_through("create_database('lake', 'quick $_')") for 1 .. 5;
	my $ms = query("SELECT 1000 * min(extract(epoch FROM ended_at - submitted_at)) FROM procedures WHERE database_name LIKE 'quick%'");
	cmp_ok($ms, '<', 500, "from submission to the end without a node: $ms ms");
	activate_node($server, 'slow');
	my $procedure = query("SELECT drop_database('lake', 'quick 1')");
	wait_for_state($procedure, 'pre_drop');
	my ($out, $err) = ('', '');
	my $client = start([ 'psql', '-XAt', '-d', $server->connstr('postgres'), '-c', "SELECT wait_for_procedure($procedure)" ],
		'<', '/dev/null', '>', \$out, '2>', \$err);
	poll('a caller sleeps', sub {
		query("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT wait_for_procedure%' AND wait_event_type = 'Extension'") });
	$ms = $server->elapsed(sub { release('slow'); $client->finish });
	is($out, "done\n", 'who waits is told the end');
	cmp_ok($ms, '<', 4000, "and wakes up with it ($ms ms)");
}

# Hundreds in flight: nothing is held for them, and they all end when the node gives way
{
	query("SELECT create_database('lake', 'many ' || n) FROM generate_series(1, 300) n");
	poll('all are done', sub { query('SELECT count(*) FROM procedures WHERE outcome IS NULL') == 0 });
	activate_node($server, 'slow');
	query("SELECT drop_database('lake', 'many ' || n) FROM generate_series(1, 300) n");
	poll('all wait', sub { query("SELECT count(*) FROM procedures WHERE outcome IS NULL AND state = 'pre_drop'") == 300 });
	poll('the coordinator holds nothing', sub {
		query("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'amoro_meta coordinator' AND xact_start IS NULL AND backend_xmin IS NULL") == 1;
	});
	is(query("SELECT count(*) FROM pg_locks WHERE pid = " . coordinator_pid() . " AND locktype IN ('relation', 'tuple', 'transactionid') AND granted"), 0,
		'hundreds of procedures wait without a lock');
	release('slow');
	my $ms = $server->elapsed(sub { poll('all are done', sub { query('SELECT count(*) FROM procedures WHERE outcome IS NULL') == 0 }) });
	cmp_ok($ms, '<', 15000, "300 procedures end when the node gives way ($ms ms)");
	is(query("SELECT count(*) FROM procedures WHERE kind = 'drop_database' AND outcome = 'done' AND database_name LIKE 'many%'"), 300, 'all of them are done');
	nothing_left($server, 'many');
}

is(coordinator_pid(), $pid, 'the coordinator has survived all this');
done_testing();
