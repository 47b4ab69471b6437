# No call about catalogs, groups, blockers, optimizers, processes, tasks or sessions walks over a table that grows with use: the
# server explains every statement that their functions run, those inside of functions included. A few look at all optimizers,
# or sessions, of which there are never so many, and whose times are in no index because they change all the time.
use strict;
use warnings;
use AmoroCluster qw(poll);
use Test::More;

my $server = AmoroCluster->create('main', conf => <<'CONF');
amoro_meta.refresh_interval = 1d
amoro_meta.optimizing_check_interval = 1d
amoro_meta.optimizer_heartbeat_timeout = 1d
amoro_meta.max_terminal_sessions = 5000
autovacuum = off
CONF
sub sql { return $server->safe_psql('postgres', @_) }

# Rows in everything that grows.
sql("SELECT count(create_optimizer_group('g' || n)) FROM generate_series(1, 1000) n; SELECT create_optimizer_group('default')");
sql("SELECT count(create_optimizer_container('k' || n, 'x')) FROM generate_series(1, 1000) n");
sql("SELECT count(create_catalog('c' || n, 'pushed', '{\"max-removed-share\": \"10\"}')) FROM generate_series(1, 1000) n");
sql("SELECT count(report_listing('c1', 'd' || d, (SELECT jsonb_agg(jsonb_build_object('name', 't' || t)) FROM generate_series(1, 100) t), true)) FROM generate_series(1, 20) d");
sql("SELECT count(acquire_blocker('c' || n % 100, 'd', 'blocked' || n, '{OPTIMIZE}', '1 day')) FROM generate_series(1, 2000) n");
my $token = sql("SELECT min(token::text) FROM (SELECT register_optimizer('g' || n, 2, 1) AS token FROM generate_series(1, 1000) n) o");
$token = sql("SELECT register_optimizer('default', 64, 1)");
my $optimizer = sql("SELECT optimizer_id FROM optimizers WHERE group_name = 'default'");
sql("SELECT count(start_process('x', 'd', 't' || n, 'MINOR', '[{}]')) FROM generate_series(1, 1000) n");
sql("SELECT count(cancel_process(process_id)) FROM (SELECT process_id FROM processes LIMIT 500) p");
sql("SELECT count(settle_processes()) FROM generate_series(1, 10)");
sql("SELECT count(start_process('y', 'd', 't' || n, 'MINOR', '[]')) FROM generate_series(1, 500) n");
my $large = sql("SELECT start_process('c1', 'd1', 't1', 'MINOR', (SELECT jsonb_agg('{}'::jsonb) FROM generate_series(1, 5000)), priority => 1, quota => 50)");
sql("SELECT count(ack_task('$token', n % 32, p.process_id, p.task_id, p.attempt)), count(complete_task('$token', n % 32, p.process_id, p.task_id, p.attempt, metrics => '{\"a\": 1}'))"
	. " FROM generate_series(1, 1500) n, LATERAL poll_task('$token', n % 32) p");
my $session = sql("SELECT min(id) FROM (SELECT open_terminal_session('c1') AS id FROM generate_series(1, 900)) s");
sql("SELECT count(*) FROM generate_series(1, 50) n, LATERAL execute_in_terminal(open_terminal_session('c1', jsonb_build_object('n', n::text)), repeat('select 1;', 20))");
sql("SELECT count(*) FROM execute_in_terminal('$session', repeat('select 1;', 20))");
sql('VACUUM ANALYZE');
my %large = map { $_ => 1 } split /\n/, sql("SELECT relname FROM pg_class WHERE relnamespace = 'amoro_meta'::regnamespace AND relkind = 'r' AND reltuples >= 500");
is(join(' ', sort grep { !$large{$_} } qw(blocker blocker_head catalog listed_table optimizer optimizer_container optimizer_group process task task_claim
	task_input task_result table_runtime terminal_session terminal_statement)), '', 'everything has grown');

# Each function of the API: one call of it, which is undone. (A procedure commits; what it calls is among these.)
my $held = "(SELECT blocker_id FROM get_blockers('c1', 'd', 'blocked1'))";
my %calls = (
	create_catalog => "create_catalog('new', properties => '{\"table.self-optimizing.group\": \"g1\"}')",
	alter_catalog => "alter_catalog('c2', '{\"table.self-optimizing.group\": \"g2\"}')",
	drop_catalog => "drop_catalog('c3')",
	catalog_auth_config => "catalog_auth_config('c1')",
	explore_catalog => "explore_catalog('c1')",
	report_listing => "report_listing('c1', 'd1', '[{\"name\": \"t1\"}, {\"name\": \"new\"}]', true)",
	confirm_removal => "confirm_removal('c1') FROM report_listing('c1', 'd2', '[]', true)",
	acquire_blocker => "acquire_blocker('c1', 'd', 'blocked2', '{BATCH_WRITE}', request_id => gen_random_uuid())",
	renew_blocker => "renew_blocker($held)",
	release_blocker => "release_blocker($held)",
	force_release_blocker => "force_release_blocker($held)",
	assert_blocker => "assert_blocker($held)",
	get_blockers => "get_blockers('c1', 'd', 'blocked1')",
	purge_blockers => 'purge_blockers()',
	create_optimizer_container => "create_optimizer_container('new', 'x')",
	alter_optimizer_container => "alter_optimizer_container('k1', 'y')",
	drop_optimizer_container => "drop_optimizer_container('k1')",
	create_optimizer_group => "create_optimizer_group('new', 'k1')",
	alter_optimizer_group => "alter_optimizer_group('g1', 'k2')",
	drop_optimizer_group => "drop_optimizer_group('default')",
	optimizer_group_references => "optimizer_group_references('default')",
	refresh_table_runtimes => 'refresh_table_runtimes()',
	set_table_status => "set_table_status(table_id, version, 600, 1) FROM (SELECT table_id, version FROM amoro_meta.table_runtime"
		. " WHERE process_id IS NULL ORDER BY table_id LIMIT 1) r",
	register_optimizer => "register_optimizer('g1', 1, 1)",
	touch_optimizer => "touch_optimizer('$token')",
	drain_optimizer => "drain_optimizer($optimizer)",
	unregister_optimizer => "unregister_optimizer('$token')",
	expire_optimizers => 'expire_optimizers()',
	poll_task => "poll_task('$token', n % 64) FROM generate_series(1, 40) n",
	ack_task => "ack_task('$token', 0, p.process_id, p.task_id, p.attempt) FROM poll_task('$token', 0) p",
	complete_task => "complete_task('$token', 0, p.process_id, p.task_id, p.attempt, error => 'x') FROM"
		. " (SELECT p.*, ack_task('$token', 0, p.process_id, p.task_id, p.attempt) FROM poll_task('$token', 0) p OFFSET 0) p",
	reset_tasks => 'reset_tasks()',
	start_process => "start_process('c1', 'd2', 't2', 'MINOR', '[{}]')",
	finish_process => "finish_process($large, 'x')",
	cancel_process => "cancel_process($large)",
	delegate_process => "delegate_process($large, 'optimizing')",
	settle_processes => 'settle_processes()',
	purge_history => 'purge_history()',
	open_terminal_session => "open_terminal_session('c1')",
	terminal_context => "terminal_context('$session')",
	execute_in_terminal => "execute_in_terminal('$session', 'use c1.d1; set a = 1; select 1; show tables; show blockers in t1; show optimizers in g1; describe t1')",
	report_terminal_statement => "report_terminal_statement('$session', (SELECT statement_id FROM execute_in_terminal('$session', 'select 2')))",
	close_terminal_session => "close_terminal_session('$session')",
	end_terminal_session => "end_terminal_session((SELECT (terminal_context('$session')->>'session_number')::bigint))",
	purge_terminal_sessions => 'purge_terminal_sessions()',
);
# what has to be so before, not explained
my %before = (
	reset_tasks => "SELECT poll_task('$token', 3); UPDATE amoro_meta.task SET claimed_at = '2000-01-01' WHERE state = 'SCHEDULED'",
	expire_optimizers => "SELECT poll_task('$token', 3); UPDATE amoro_meta.optimizer SET touched_at = '2000-01-01' WHERE token = '$token'",
	settle_processes => "SELECT cancel_process($large)",
	purge_history => "UPDATE amoro_meta.process SET ended_at = '2000-01-01' WHERE settled",
	purge_blockers => "UPDATE amoro_meta.blocker_head SET optimize_expires_at = '2000-01-01'; UPDATE amoro_meta.blocker SET check_at = '2000-01-01' WHERE blocker_id % 400 = 0",
	purge_terminal_sessions => "UPDATE amoro_meta.terminal_session SET last_used_at = '2000-01-01';"
		. " UPDATE amoro_meta.terminal_statement SET state = 'Finished', ended_at = created_at WHERE statement_id % 2 = 0",
);
my %looks_at_all = (
	expire_optimizers => 'optimizer', reset_tasks => 'optimizer',
	open_terminal_session => 'terminal_session', purge_terminal_sessions => 'terminal_session');
my @functions = split /\n/, sql(<<'SQL');
SELECT DISTINCT p.proname FROM pg_depend d JOIN pg_proc p ON p.oid = d.objid JOIN pg_extension e ON e.oid = d.refobjid
WHERE e.extname = 'amoro_meta' AND d.classid = 'pg_proc'::regclass AND d.refclassid = 'pg_extension'::regclass AND p.pronamespace = e.extnamespace AND p.prokind = 'f'
	AND p.proname !~ '^metadata' AND p.proname ~ 'catalog|listing|removal|blocker|optimizer|task|process|terminal|runtime|table_status|history' ORDER BY 1
SQL
is(join(' ', grep { !$calls{$_} } @functions), '', 'a call of each function');
is(join(' ', grep { my $name = $_; !grep { $_ eq $name } @functions } sort keys %calls), '', 'and of no others');

for my $name (sort keys %calls)
{
	my ($code, $out, $err) = $server->psql('postgres', <<SQL);
BEGIN;
@{[$before{$name} // '']};
LOAD 'auto_explain';
SET auto_explain.log_min_duration = 0;
SET auto_explain.log_analyze = on;
SET auto_explain.log_timing = off;
SET auto_explain.log_nested_statements = on;
SET auto_explain.log_verbose = on;
SET auto_explain.log_level = notice;
SELECT count(*) FROM (SELECT $calls{$name} OFFSET 0) c;
ROLLBACK;
SQL
	my @walks;
	my $query = '';
	for my $line (split /\n/, $err)
	{
		$query = $1 if $line =~ /^Query Text: (.*)/;
		next if $line !~ /Seq Scan on amoro_meta\.(\w+)(?!.*never executed)/ || !$large{$1} || $1 eq ($looks_at_all{$name} // '');
		push @walks, "$1: $query";
	}
	is(join("\n", @walks), '', "$name walks over no table");
	like($err, qr/Query Text/, "$name was explained") if $err !~ /plan:/;
	unlike($err, qr/^ERROR:  (?!.*in use)/m, "$name was called");
}
$server->stop;
done_testing();
