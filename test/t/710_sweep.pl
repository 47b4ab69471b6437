# Sweeps: what the coordinator does again and again. An error in one is its own, a kill loses nothing, and whatever
# was missed is made up for.
use strict;
use warnings;
use AmoroCluster qw(poll);
use AmoroProcedure qw(definition);
use PostgreSQL::Test::Utils;
use Test::More;

my $server = AmoroCluster->create('main');
my $sweep = 'refresh_table_runtimes';
my $definition = definition();

sub sweep_row
{
	my ($columns, $name) = @_;
	return $server->safe_psql('postgres', "SELECT $columns FROM amoro_stat_sweep WHERE sweep_name = '" . ($name // $sweep) . "'");
}

# Waits until a condition on the row of the sweep holds.
sub wait_for_sweep
{
	my ($condition) = @_;
	return poll("$sweep: $condition", sub { sweep_row($condition) eq 't' });
}

sub run_procedure
{
	my ($call) = @_;
	my $id = $server->safe_psql('postgres', "SELECT $call");
	return $server->safe_psql('postgres', "SELECT wait_for_procedure($id, '60 s')");
}

# Tables as an older version of the extension would have left them: without runtimes.
sub add_bare_tables
{
	my ($prefix, $count) = @_;
	$server->safe_psql('postgres', "INSERT INTO amoro_meta.table_metadata"
		. " SELECT amoro_meta.next_id(), d.database_id, '$prefix' || i, 'normal', NULL, amoro_meta.table_definition($definition), 1"
		. " FROM amoro_meta.database d, generate_series(1, $count) i WHERE d.database_name = 'd'");
}

sub stale { return $server->safe_psql('postgres', 'SELECT cardinality(table_ids) FROM amoro_meta.stale_runtimes(0, 1000000)') }

wait_for_sweep('runs > 0');
is(sweep_row('interval_ms, errors, last_error IS NULL'), '60000|0|t', 'a sweep runs when its coordinator has started');
poll('all sweeps have run', sub { $server->safe_psql('postgres', 'SELECT bool_and(runs > 0) FROM amoro_stat_sweep') eq 't' });

# a commit may ask for one: nobody waits for the interval
$server->safe_psql('postgres', "SELECT create_catalog('lake')");
is(run_procedure("create_database('lake', 'd')"), 'done', 'a database');
is(run_procedure("create_table('lake', 'd', 't', $definition)"), 'done', 'and a table');
$server->safe_psql('postgres', "SELECT create_optimizer_group('default')");
poll('the table has joined the group', sub {
	$server->safe_psql('postgres', "SELECT group_name FROM table_runtimes WHERE table_name = 't'") eq 'default' });
pass('a table joins a group as soon as there is one');

# more than a batch is done at once, in batches
my $rows = sweep_row('rows');
add_bare_tables('bare', 2500);
is(stale(), 2500, 'tables without runtimes');
$server->configure('amoro_meta.refresh_interval' => '500ms');
poll('all of them have runtimes', sub { stale() eq '' });
is($server->safe_psql('postgres', "SELECT count(*) FROM table_runtimes WHERE group_name = 'default' AND status = 'IDLE'"), 2501,
	'an interval that is made shorter holds at once; 2500 tables get their runtimes');
poll('the round is over', sub { $server->safe_psql('postgres', 'SELECT table_id FROM amoro_meta.refresh_position') eq '0' });
cmp_ok(sweep_row('rows'), '>=', $rows + 2500, 'they are counted');

# the defaults of a catalog change for all of them, also while one is in somebody's hands
my $leader = $server->background_psql('postgres');
$leader->query_safe("BEGIN; SELECT set_table_status(table_id, version, 600, 1) FROM table_runtimes WHERE table_name = 'bare7'");
$server->safe_psql('postgres', q{SELECT alter_catalog('lake', '{"table.mark": "x"}')});
sub marked { return $server->safe_psql('postgres', "SELECT count(*) FROM table_runtimes WHERE config->>'mark' = 'x'") }
poll('all others have the new defaults', sub { marked() == 2500 });
$leader->query_safe('COMMIT');
$leader->quit;
poll('that one too, when it is free', sub { marked() == 2501 });
is($server->safe_psql('postgres', "SELECT status, leader_term FROM table_runtimes WHERE table_name = 'bare7'"), 'PENDING|1',
	'new defaults reach thousands of tables, and take nothing from a leader');

# an error: recorded, logged once, in nobody's way, and gone with its cause
my $log = $server->log_position;
$server->safe_psql('postgres', 'ALTER TABLE amoro_meta.refresh_position RENAME TO nowhere');
wait_for_sweep('consecutive_failures >= 2');
is(sweep_row('last_error_code, last_error'), '42P01|relation "amoro_meta.refresh_position" does not exist', 'an error is shown');
is($server->coordinator->{state}, 'running', 'the coordinator goes on');
is($server->coordinator->{consecutive_failures}, 0, 'and counts nothing against itself');
is(run_procedure("create_table('lake', 'd', 'meanwhile', $definition)"), 'done', 'procedures go on');
is(() = $server->log_text($log) =~ /sweep $sweep\(\) of amoro_meta failed/g, 1, 'one line in the log');
$server->safe_psql('postgres', 'ALTER TABLE amoro_meta.nowhere RENAME TO refresh_position');
wait_for_sweep('consecutive_failures = 0');
is(sweep_row('errors >= 2, last_error_at IS NOT NULL'), 't|t', 'what was is still shown');
$server->safe_psql('postgres', 'SELECT amoro_stat_reset()');
is(sweep_row('errors, last_error IS NULL'), '0|t', 'until it is reset');

# a row that makes trouble keeps the others from nothing
$server->safe_psql('postgres', <<'SQL');
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.table_name = 'bad2' THEN RAISE 'not this one'; END IF; RETURN NEW; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON amoro_meta.table_runtime FOR EACH ROW EXECUTE FUNCTION public.refuse();
SQL
add_bare_tables('bad', 3);
poll('the others have runtimes', sub { stale() eq '1' });
is(sweep_row('errors'), 0, 'the sweep itself has not failed');
$server->safe_psql('postgres', 'DROP FUNCTION public.refuse() CASCADE');
poll('so has it, in the end', sub { stale() eq '' });

# one that takes for ever is ended, so that verdicts and procedures get their turn
my $source = $server->safe_psql('postgres', "SELECT pg_get_functiondef('refresh_table_runtimes()'::regprocedure)");
$server->safe_psql('postgres', $source =~ s/\n\s*BEGIN\b.*/\nBEGIN PERFORM pg_sleep(3600); RETURN 0; END; \$function\$/sr =~ s/\bDECLARE\b.*?\nBEGIN/\nBEGIN/sr);
wait_for_sweep("last_error_code = '57014'");
is(run_procedure("create_table('lake', 'd', 'later', $definition)"), 'done', 'a sweep that does not end is cancelled');
$server->safe_psql('postgres', $source);
wait_for_sweep('consecutive_failures = 0');
my $errors = sweep_row('errors');

# a table that somebody has locked is left for later
add_bare_tables('locked', 1);
my $session = $server->background_psql('postgres');
$session->query_safe("BEGIN; SELECT table_id FROM amoro_meta.table_metadata WHERE table_name = 'bare1' FOR UPDATE;"
	. " UPDATE amoro_meta.table_metadata SET version = 7 WHERE table_name = 'bare1'");
poll('the newer table has a runtime', sub { stale() eq '' });
$session->query_safe('COMMIT');
$session->quit;
poll('the locked one too, afterwards', sub { stale() eq '' });
is(sweep_row('errors'), $errors, 'nobody has waited for a lock in vain');

# killed in the middle of a batch
add_bare_tables('killed', 50);
$server->configure('amoro_meta.debug_stop_at' => "sweep.$sweep.commit");
poll('it stands before the commit', sub { ($server->coordinator->{stopped_at} // '') eq "sweep.$sweep.commit" });
$server->stop('immediate');
$server->append_conf('postgresql.auto.conf', "amoro_meta.debug_stop_at = ''");
$server->start;
$server->wait_for_state('running');
poll('all is made up for', sub { stale() eq '' });
is($server->safe_psql('postgres', 'SELECT count(*) = count(DISTINCT table_id) FROM table_runtimes'), 't', 'a kill loses nothing, and doubles nothing');

# the coordinator is terminated in the middle of one
add_bare_tables('terminated', 5);
$server->configure('amoro_meta.debug_stop_at' => "sweep.$sweep");
poll('it stands in the sweep', sub { ($server->coordinator->{stopped_at} // '') eq "sweep.$sweep" });
# what it goes by is not replaced meanwhile, as by a dump that is restored: the sweep would change what is not its own
is(($server->outcome("BEGIN; SET lock_timeout = '100ms'; LOCK TABLE amoro_meta.$_ IN SHARE ROW EXCLUSIVE MODE"))[0], '55P03', "$_ stays what it is until a sweep ends")
  for qw(coordinator identity);
my $pid = $server->coordinator->{pid};
$server->configure('amoro_meta.debug_stop_at' => undef);
$server->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
$server->wait_for_successor($pid);
poll('all is made up for', sub { stale() eq '' });

# without a coordinator an operator does it
$server->configure('amoro_meta.databases' => 'elsewhere');
poll('there is no coordinator', sub { !defined $server->coordinator->{pid} });
add_bare_tables('manual', 1200);
$server->safe_psql('postgres', 'DO $$ BEGIN LOOP EXIT WHEN refresh_table_runtimes() < amoro_meta.sweep_batch(); END LOOP; END $$');
is(stale(), '', 'an operator sweeps by hand where there is no coordinator');
is($server->safe_psql('postgres', 'SELECT count(*) FROM amoro_stat_sweep'), $server->safe_psql('postgres', 'SELECT count(*) FROM amoro_meta.sweeps()'),
	'the view is there all the same');

done_testing();
