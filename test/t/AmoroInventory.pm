# At least one of each kind of thing that a database keeps, and all that a user can see of them, as text that can be compared.
package AmoroInventory;

use strict;
use warnings;
use AmoroCluster qw(poll);
use AmoroFlight qw(activate run_through);
use Exporter 'import';
use Test::More;

our @EXPORT_OK = qw(settings roles stock inventory documents numbers go_on_above same_text);

# Nothing of what there is expires, or is swept, while somebody looks.
sub settings
{
	return join '', map { "amoro_meta.$_\n" } 'metadata_lease_fence_ms = 300s', 'refresh_interval = 1h', 'assignment_interval = 1h',
	  'optimizer_heartbeat_timeout = 1h', 'task_ack_timeout = 1h', 'terminal_session_timeout = 1h', 'explore_interval = 1h';
}

# The roles that rows speak of; they are no part of the dump of a database.
sub roles { return 'CREATE ROLE stock_reader; CREATE ROLE stock_writer; CREATE ROLE stock_optimizer' }

# Procedures, one list after the other, each list at once.
my @procedures = (
	[ q{create_database('lake', 'd', '{"owner": "ops"}')}, q{create_database('lake', 'e')}, q{create_database('lake', 'timed')}, q{create_database('lake', 'spare')} ],
	[
		q{create_table('lake', 'd', 'orders', '{"format": "iceberg", "columns": [{"name": "id", "type": "long"}, {"name": "day", "type": "date", "comment": "of the order"}],
			"location": "s3://lake/orders", "properties": {"k": "v"}}', request_id => '33333333-3333-4333-8333-333333333333')},
		q{create_user('ann', 'correct horse', properties => '{"team": "a"}')}, q{create_user('bob', disabled => true)}, q{create_role('staff')}, q{create_role('boss')},
		q{create_template('lake', 'd', 'spare', '{"measurements": [{"name": "m", "type": "INT32"}]}')}, q{create_template('lake', 'd', 'pump', '{"measurements": [{"name": "flow", "type": "DOUBLE"}]}')},
		q{create_device('lake', 'd', 'root.site1.turbine7', '{"aligned": true, "measurements": [{"name": "speed", "type": "FLOAT", "alias": "v", "tags": {"unit": "m/s"},
			"attributes": {"x": "y"}}, {"name": "on", "type": "BOOLEAN"}]}')},
		q{set_ttl('lake', 'timed', '30 days')}, q{set_ttl('lake', 'd', '1 day', path_pattern => 'root.site1.**')} ],
	[
		q{create_view('lake', 'e', 'shown', '{"base": {"database": "d", "table": "orders"}, "columns": ["id"], "comment": "some"}')},
		q{set_template('lake', 'd', 'pump', 'root.site3')}, q{grant_role('staff', 'ann', admin_option => true)}, q{grant_role('staff', 'boss')},
		q{grant_privilege('{SELECT, INSERT}', 'ann', 'lake', 'd', 'orders', grant_option => true)},
		q{grant_privilege('{READ}', 'staff', 'lake', 'd', path => 'root.site1.**')}, q{set_ttl('lake', 'd', '2 days', table_name => 'orders')} ],
	[
		q{activate_template('lake', 'd', 'pump', '{root.site3.a,root.site3.b}')}, q{set_ttl('lake', 'e', '3 days', table_name => 'shown')},
		q{grant_privilege('{SELECT}', 'bob', 'lake', 'd', 'orders', granted_by => 'ann')} ]);

# What needs a node that lives: it owns the buckets and the slots.
my @assignments = (q{create_service_buckets('planning', 3, 'planner')}, q{create_partitions('lake', 'e', 3, 1, 'planner')});

my $rest = <<'SQL';
SELECT grant_access('stock_reader', 'reader'), grant_access('stock_writer', 'writer'), grant_access('stock_optimizer', 'optimizer');
SELECT create_optimizer_container('crate', 'Crate', '{"memory": "1"}'), create_optimizer_container('spare', 'Spare'),
	create_optimizer_group('heavy', 'crate', '{"k": "v"}'), create_optimizer_group('light'), create_optimizer_group('spare'), create_optimizer_group('default');
SELECT create_catalog('shop', 'pushed', '{"max-removed-share": "50", "table.self-optimizing.group": "heavy", "table.k": "v"}'),
	create_catalog('rest', 'iceberg_rest', '{"uri": "http://127.0.0.1:9/"}', '{"region": "r"}', '{"token": "secret"}');
SELECT FROM report_listing('shop', 'web', '[{"name": "clicks"}, {"name": "views"}, {"name": "buys"}, {"name": "gone"}, {"name": "lost"}, {"name": "away"}]', true);
SELECT FROM report_listing('shop', 'web', '[{"name": "clicks", "properties": {"p": "q"}}, {"name": "views"}]', true);

SELECT register_optimizer('heavy', 2, 1024, resource_id => 'r1', properties => '{"k": "v"}') AS token \gset
SET ROLE stock_optimizer;
SELECT register_optimizer('light', 1, 512);
RESET ROLE;
SELECT drain_optimizer(optimizer_id) FROM optimizers WHERE group_name = 'light';
SELECT FROM start_process('shop', 'web', 'clicks', 'MINOR', '[{"n": 1}, {"n": 2}, {"n": 3}, {"n": 4}]', quota => 10);
SELECT start_process('shop', 'web', 'views', 'FULL', '[]') AS finished \gset
SELECT FROM finish_process(:finished);
SELECT start_process('shop', 'web', 'views', 'MAJOR', '[{}]', priority => -1) AS cancelled \gset
SELECT FROM cancel_process(:cancelled, 'not now');
SELECT start_process('elsewhere', 'd', 't', 'MINOR', '[{}]') AS delegated \gset
SELECT FROM delegate_process(:delegated, 'compaction');
SELECT FROM poll_task(:'token', 0) p, ack_task(:'token', 0, p.process_id, p.task_id, p.attempt),
	complete_task(:'token', 0, p.process_id, p.task_id, p.attempt, output => 'merged', metrics => '{"files": 1}');
SELECT FROM poll_task(:'token', 0) p, ack_task(:'token', 0, p.process_id, p.task_id, p.attempt),
	complete_task(:'token', 0, p.process_id, p.task_id, p.attempt, error => 'no room');
SELECT FROM poll_task(:'token', 0) p, ack_task(:'token', 0, p.process_id, p.task_id, p.attempt);
SELECT FROM poll_task(:'token', 1);

SET ROLE stock_writer;
SELECT FROM acquire_blocker('lake', 'd', 'orders', '{OPTIMIZE}', '1 day', '{"who": "w"}', '44444444-4444-4444-8444-444444444444');
SELECT blocker_id FROM acquire_blocker('lake', 'd', 'released', '{BATCH_WRITE}', '1 day') \gset
SELECT FROM release_blocker(:blocker_id);
SELECT open_terminal_session('lake', '{"k": "v"}') AS session, open_terminal_session('lake') AS closed \gset
SELECT max(statement_id) AS statement FROM execute_in_terminal(:'session', 'use d; set my.password = hush; select 1') \gset
SELECT FROM report_terminal_statement(:'session', :statement, 'Failed', 'no such table');
SELECT FROM execute_in_terminal(:'session', 'select 2') a, execute_in_terminal(:'closed', 'select 3') b;
SELECT FROM close_terminal_session(:'closed');
RESET ROLE;
SELECT open_terminal_session('lake') AS own \gset
SELECT FROM execute_in_terminal(:'own', 'select 4');
SELECT 'session ' || :'own';
SELECT set_table_status(table_id, version, 600, 1, '{"s": 1}') FROM table_runtimes WHERE table_name = 'views';
SQL

# The node that lives leads: calls to it wait, since it says no endpoint, one that it has answered, and one that came to nothing.
my $led = <<'SQL';
SELECT node_id, incarnation FROM nodes WHERE node_name = 'planner' \gset
SELECT FROM acquire_leadership('compaction', :node_id, :'incarnation');
SELECT token FROM acquire_leadership('ingestion', :node_id, :'incarnation') \gset
SELECT FROM release_leadership('ingestion', :node_id, :'incarnation', :token);
-- one that was started twice, and of which nobody has heard since
SELECT FROM register_node('twice', gen_random_uuid());
SELECT FROM register_node('twice', gen_random_uuid(), 'planner', 'http://twice', 1);
SELECT FROM note_absent_nodes();
SET ROLE stock_writer;
SELECT FROM call_leader('compaction', 'POST', '/wait', '{}', timeout => '1 day', request_id => '55555555-5555-4555-8555-555555555555');
SELECT call_leader('compaction', 'GET', '/answered', timeout => '1 day') AS answered, call_leader('compaction', 'GET', '/expired', timeout => '1 ms') AS expired \gset
RESET ROLE;
UPDATE amoro_meta.call SET attempts = 1, token = l.token FROM amoro_meta.leadership l WHERE l.service = 'compaction' AND call_id = :answered;
SELECT amoro_meta.record_call(call_id, token, 200, 'yes', false, NULL, NULL) FROM amoro_meta.call WHERE call_id = :answered;
SELECT FROM call_result(:expired, '10 s');
SQL

# Fills a database of a server that has settings() and roles(); returns the id of a terminal session of the superuser.
sub stock
{
	my ($server, $database) = @_;
	$server->safe_psql($database, q{SELECT create_catalog('lake', properties => '{"owner": "ops"}', storage_config => '{"s": "t"}', auth_config => '{"token": "secret"}')});
	run_through($server, $database, @$_) for @procedures;
	my ($session) = $server->safe_psql($database, $rest) =~ /session (\w+)/;
	activate($server, $database, planner => 'planner');
	run_through($server, $database, @assignments);
	$server->safe_psql($database, $led);
	poll('catalog rest was asked', sub { $server->safe_psql($database, q{SELECT failures FROM amoro_stat_explorer WHERE catalog_name = 'rest'}) eq '1' });
	poll('what leaders do is known', sub { $server->safe_psql($database, 'SELECT count(*) FROM amoro_meta.leadership_news') eq '0' });
	return $session;
}

# What is in the memory of a server, not in its database: leases, counters, how long something has lasted.
sub of_the_server { return qw(amoro_stat_coordinator amoro_stat_node amoro_stat_sweep amoro_stat_task amoro_stat_blocker node_status) }
my $of_the_moment = <<'JSON';
{"amoro_stat_explorer": ["pid"], "amoro_stat_optimizer": ["untouched_for"], "amoro_stat_procedure": ["state_seconds"],
 "leaders": ["state", "lease_owed_for"], "markers": ["age", "waits_for", "wait_reasons", "waits_until"],
 "procedures": ["waits_for", "wait_reasons", "waits_until"], "terminal_statements": ["duration"]}
JSON

# All rows of all views, in a fixed order.
sub inventory
{
	my ($server, $database) = @_;
	my $skipped = join ',', of_the_server();
	return $server->safe_psql($database, <<SQL);
SELECT c.relname, x.line
FROM pg_extension e JOIN pg_depend d ON d.refobjid = e.oid AND d.deptype = 'e' AND d.classid = 'pg_class'::regclass
	JOIN pg_class c ON c.oid = d.objid AND c.relkind = 'v' AND c.relnamespace = e.extnamespace,
	xmltable('/table/row' PASSING query_to_xml(format('SELECT to_jsonb(v) - ARRAY(SELECT jsonb_array_elements_text(%L)) AS line FROM %s AS v',
		coalesce('$of_the_moment'::jsonb->c.relname, '[]'), c.oid::regclass), true, false, '') COLUMNS line text PATH 'line') AS x
WHERE e.extname = 'amoro_meta' AND c.relname <> ALL ('{$skipped}') ORDER BY c.relname, x.line COLLATE "C"
SQL
}

# What nodes and clients are told of every object.
sub documents
{
	my ($server, $database) = @_;
	return $server->safe_psql($database, <<'SQL');
SELECT k, s.catalog_name, s.database_name, s.object_name, l.found, l.state, l.object_id, l.object_version, l.document
FROM unnest('{catalog,database,table,device,authority,bucket,partition}'::text[]) k, metadata_snapshot(k) s,
	metadata_lookup(k, s.catalog_name, s.database_name, s.object_name) l
ORDER BY 1, 2, 3, 4
SQL
}

# Whether two texts of many lines are the same, in whatever order; a failure shows the lines that differ.
sub same_text
{
	my ($got, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my %count;
	$count{$_}++ for split /\n/, $got;
	$count{$_}-- for split /\n/, $expected;
	my @lines = grep { $count{$_} } sort keys %count;
	return ok($got ne '' && !@lines, $name) || diag(map { sprintf "%s %s\n", $count{$_} > 0 ? 'too much:' : 'missing: ', $_ } @lines);
}

# The newest numbers that a database speaks of: term, version of the metadata, id of anything, version of a runtime.
sub numbers
{
	my ($server, $database) = @_;
	return split /\|/, $server->safe_psql($database, <<'SQL');
SELECT (SELECT term FROM amoro_meta.coordinator), (SELECT version FROM amoro_meta.metadata_version),
	(SELECT max(x.id) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid AND c.relkind = 'r' AND c.relnamespace = 'amoro_meta'::regnamespace,
		xmltable('/table/row' PASSING query_to_xml(format('SELECT max(%I) AS id FROM %s', a.attname, c.oid::regclass), false, false, '')
			COLUMNS id bigint PATH 'id') AS x
	 WHERE a.atttypid = 'bigint'::regtype AND a.attname ~ '(_id|turn|token|number)$'),
	(SELECT coalesce(max(version), 0) FROM amoro_meta.table_runtime)
SQL
}

# Whether what is given from now on is beyond the numbers that were there before; some change of the metadata must have come since.
sub go_on_above
{
	my ($server, $database, $name, @before) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my @now = split /\|/, $server->safe_psql($database, <<'SQL');
SELECT term, version, least(amoro_meta.next_id(), b.blocker_id), amoro_meta.next_runtime_version()
FROM amoro_meta.coordinator, amoro_meta.metadata_version, acquire_blocker('lake', 'd', gen_random_uuid()::text, '{OPTIMIZE}') b
SQL
	return is(join(' ', grep { $now[$_] <= $before[$_] } 0 .. 3), '', "$name: numbers go on above those that were given (@now, @before)");
}

1;
