# Copies of the data: dumps of every kind hold everything, and no copy coordinates before it is adopted.
use strict;
use warnings;
use AmoroCluster qw(poll);
use PostgreSQL::Test::Utils;
use Test::More;

my $incarnation = '11111111-1111-4111-8111-111111111111';
my $request = '22222222-2222-4222-8222-222222222222';

# A lease so long that no test can wait for it; its end is staged with the clock.
sub make_server
{
	my ($name) = @_;
	my $server = AmoroCluster->create($name, extension => 0, conf => "amoro_meta.metadata_lease_fence_ms = 60s\n"
		. "amoro_meta.refresh_interval = 1h\namoro_meta.optimizing_check_interval = 1h\n");
	# roles are not part of the dump of a database
	$server->safe_psql('postgres', 'CREATE ROLE lake_reader; CREATE ROLE lake_node LOGIN; CREATE ROLE lake_writer');
	return $server;
}

# Every table and sequence of the extension that is dumped, or those that CREATE EXTENSION alone fills ($constant), as text, so that what differs between two copies differs here. Of the
# coordinator only the longest lease: one that starts while a dump is restored may have begun a later term on its own, and
# may expect nodes it does not know (node 0), and that older processes of those it knows hold a lease; of the era of the blockers
# nothing, since each restore begins another one.
sub contents
{
	my ($server, $database, $constant) = @_;
	return $server->safe_psql($database, <<'SQL' =~ s/CONSTANT/$constant ? 'NOT' : ''/er);
SELECT c.relname, x.line
FROM pg_extension e JOIN pg_depend d ON d.refobjid = e.oid AND d.deptype = 'e' AND d.classid = 'pg_class'::regclass
	JOIN pg_class c ON c.oid = d.objid AND c.relkind IN ('r', 'S'),
	xmltable('/table/row' PASSING query_to_xml(
		format('SELECT %s AS line FROM %s AS t %s', CASE WHEN c.relkind = 'S' THEN 'last_value::text'
			WHEN c.relname = 'coordinator' THEN 'ROW(longest_lease_us, longest_owed_us)::text'
			WHEN c.relname = 'superseded_incarnation' THEN 'ROW(node_id, incarnation, registered_by, superseded_at)::text'
			WHEN c.relname = 'blocker_era' THEN '''''' ELSE 't::text' END, c.oid::regclass,
			CASE c.relname WHEN 'superseded_incarnation' THEN 'WHERE node_id <> 0'
			-- who has been silent for how long: the coordinator of the original goes on
			WHEN 'absent_node' THEN 'WHERE false' END),
		true, false, '') COLUMNS line text PATH 'line') AS x
WHERE e.extname = 'amoro_meta' AND CONSTANT c.oid = ANY (e.extconfig) ORDER BY 1, 2
SQL
}

sub fails_with
{
	my ($server, $database, $query, $code, $pattern, $name) = @_;
	my ($state, $error) = $server->outcome($query, $database);
	is($state, $code, $name);
	like($error, qr/$pattern/, "$name: it says why");
	return;
}

sub finish_procedure
{
	my ($server, $database, $call) = @_;
	return $server->safe_psql($database, "SELECT $call AS id \\gset\nSELECT wait_for_procedure(:id, '30 s')");
}

# The original: a catalog with tables, roles with access, a node that has just got a lease, a drop that waits for that node.
my $original = make_server('original');
$original->safe_psql('postgres', 'CREATE DATABASE lake');
$original->safe_psql('lake', 'CREATE EXTENSION amoro_meta');
$original->wait_for_state('running', 'lake');
$original->safe_psql('lake', <<'SQL');
SELECT grant_access('lake_reader', 'reader'), grant_access('lake_node', 'node');
SELECT create_catalog('c', properties => '{"owner": "ops"}', auth_config => '{"token": "secret"}');
SQL
my $definition = '{"format": "iceberg", "columns": [{"name": "id", "type": "long"}]}';
is(finish_procedure($original, 'lake', "create_database('c', 'd', '{\"k\": \"v\"}')"), 'done', 'a database');
is(finish_procedure($original, 'lake', "create_table('c', 'd', '$_', '$definition')"), 'done', "a table $_")
  for qw(dropped kept);
is(finish_procedure($original, 'lake', $_), 'done', $_)
  for q{create_user('ann', 'correct horse')}, q{create_role('staff')}, q{grant_role('staff', 'ann')}, q{grant_privilege('{SELECT}', 'staff', 'c')},
	q{create_device('c', 'd', 'root.site1.turbine7', '{"measurements": [{"name": "speed", "type": "FLOAT"}]}')},
	q{create_template('c', 'd', 'pump', '{"measurements": [{"name": "flow", "type": "DOUBLE"}]}')}, q{set_template('c', 'd', 'pump', 'root.site3')},
	q{create_view('c', 'd', 'shown', '{"base": {"table": "kept"}}')}, q{set_ttl('c', 'd', '1 day')}, q{set_ttl('c', 'd', '1 hour', path_pattern => 'root.site1.**')};
$original->safe_psql('lake', <<SQL);
SET ROLE lake_node;
SELECT * FROM register_node('n', '$incarnation') \\gset
SELECT * FROM activate_node(:node_id, '$incarnation', :term, :lease_epoch, :metadata_version);
SELECT * FROM acquire_leadership('planning', :node_id, '$incarnation');
-- one that was started twice
SELECT FROM register_node('m', gen_random_uuid());
SELECT FROM register_node('m', gen_random_uuid());
RESET ROLE;
SQL
my $drop = $original->safe_psql('lake', "SELECT drop_table('c', 'd', 'dropped', request_id => '$request')");
poll('the drop waits for the node',
	sub { $original->safe_psql('lake', "SELECT wait_version IS NOT NULL FROM procedure_status($drop)") eq 't' });

# What is managed beside the metadata: a group in a container, listed tables with their runtimes, a process with a task that
# is done, one that an optimizer works on, and one that waits, a blocker, a session.
my ($session, $blocker, $token, $process) = split /\n/, $original->safe_psql('lake', <<'SQL');
SELECT FROM grant_access('lake_writer', 'writer'), create_optimizer_container('box', 'Box'), create_optimizer_group('g', 'box');
SELECT FROM create_catalog('e', 'pushed', '{"max-removed-share": "100", "table.self-optimizing.group": "g"}'), report_listing('e', 'web', '[{"name": "clicks"}, {"name": "views"}, {"name": "gone"}]', true);
SELECT FROM report_listing('e', 'web', '[{"name": "clicks"}, {"name": "views"}]', true);
SET ROLE lake_writer;
SELECT open_terminal_session('c', '{"k": "v"}') AS session \gset
SELECT FROM execute_in_terminal(:'session', 'use d; set my.password = hush; select 1');
SELECT :'session';
SELECT blocker_id FROM acquire_blocker('c', 'd', 'kept', '{OPTIMIZE}', '1 hour');
RESET ROLE;
SELECT register_optimizer('g', 1, 1024) AS token \gset
SELECT :'token';
SELECT start_process('e', 'web', 'clicks', 'MINOR', '[{"n": 1}, {"n": 2}, {"n": 3}]');
SELECT FROM poll_task(:'token', 0) p, ack_task(:'token', 0, p.process_id, p.task_id, p.attempt),
	complete_task(:'token', 0, p.process_id, p.task_id, p.attempt, output => 'merged', metrics => '{"files": 1}');
SELECT FROM poll_task(:'token', 0) p, ack_task(:'token', 0, p.process_id, p.task_id, p.attempt);
SQL
is($original->safe_psql('lake', "SELECT count(*) FROM table_runtimes WHERE group_name = 'g'"), '2', 'the listed tables have runtimes');

# what is gone soon: news, when they have been announced, and markers of patterns, which here are those of no procedure
$original->safe_psql('lake', <<'SQL');
INSERT INTO amoro_meta.leadership_news SELECT service, token, 'gain' FROM amoro_meta.leadership ON CONFLICT DO NOTHING;
INSERT INTO amoro_meta.device_pattern VALUES (-1, -1, 'root.site2.**', 'pre_drop');
SQL

my $dump = $original->backup_dir . '/lake.dump';
mkdir $original->backup_dir;
command_ok([ 'pg_dump', '--format=custom', '--file', $dump, '--dbname', $original->connstr('lake') ], 'dump');
my $dumped = contents($original, 'lake');
my $term = $original->coordinator('lake')->{term};
like($dumped, qr/^procedure\|.*\Q$request\E/m, 'the dump has the procedure in flight');
# those of running nodes are filled by nothing here
my %filled_elsewhere = map { $_ => 1 } qw(absent_node bucket_service call partition partition_set service_bucket);
for my $table (grep { !$filled_elsewhere{$_} } split /\n/, $original->safe_psql('lake', <<'SQL'))
SELECT c.relname FROM pg_extension e, unnest(e.extconfig, e.extcondition) AS r (oid, condition) JOIN pg_class c USING (oid)
WHERE e.extname = 'amoro_meta' AND r.condition <> 'WHERE false' ORDER BY 1
SQL
{
	like($dumped, qr/^$table\|/m, "the dump has rows of $table");
}
unlike($dumped, qr/\Q$session\E/, 'and no id of a session');

# A restored copy, on another server.
my $copy = make_server('copy');

sub restore
{
	my ($database, @options) = @_;
	return command_ok(
		[ 'pg_restore', '--exit-on-error', @options, '--dbname', $copy->connstr($database), $dump ], "restore @options");
}

# As is(), of contents(): a failure shows the lines that differ.
sub same_contents
{
	my ($got, $expected, $name) = @_;
	my %count;
	$count{$_}++ for split /\n/, $got;
	$count{$_}-- for split /\n/, $expected;
	ok($got eq $expected, $name) or diag(map { sprintf "%s %s\n", $count{$_} > 0 ? 'too much:' : 'missing: ', $_ } grep { $count{$_} } sort keys %count);
	return;
}

sub check_copy
{
	my ($server, $database, $how) = @_;
	$server->wait_for_state('not_adopted', $database);
	same_contents(contents($server, $database), $dumped, "$how: everything is there, and the coordinator leaves it alone");
	return;
}

# As docs/operations.md says: no coordinator until the data has been restored that says whose it is.
$copy->safe_psql('postgres', "CREATE DATABASE $_") for qw(whole parallel sections data_only);
$copy->configure('amoro_meta.databases' => 'none');
restore('whole');
restore('parallel', '--jobs=4');
restore('sections', "--section=$_") for qw(pre-data data post-data);
$copy->configure('amoro_meta.databases' => undef);
check_copy($copy, 'whole', 'restore');
check_copy($copy, 'parallel', 'restore with -j');
check_copy($copy, 'sections', 'restore by sections');
# one that runs has nothing left to tidy up, and its next sweeps are far off
$copy->safe_psql('data_only', 'CREATE EXTENSION amoro_meta');
$copy->wait_for_state('running', 'data_only');
poll('each sweep has run', sub { $copy->safe_psql('data_only', 'SELECT min(runs) > 0 FROM amoro_stat_sweep') eq 't' });
restore('data_only', '--data-only');
check_copy($copy, 'data_only', 'restore of the data under a running coordinator');

same_contents(contents($copy, 'whole', 1), contents($original, 'lake', 1), 'what no dump carries is what CREATE EXTENSION makes');
is($copy->safe_psql('whole', "SELECT has_function_privilege('lake_node', 'register_node(text, uuid, text, text, integer)', 'EXECUTE')"),
	't', 'access that was granted is restored');
fails_with($copy, 'whole', "SELECT register_node('n2', gen_random_uuid())", 'AM005', 'adopt_database',
	'a node cannot register with a copy, and is told why');
fails_with($copy, 'whole', "SELECT drop_table('c', 'd', 'kept')", 'AM005', 'adopt_database', 'nor can anything be dropped there');
$copy->restart;
check_copy($copy, 'whole', 'after a restart');

# Rows speak of roles by name. Where the roles are missing, the tables with such rows are not restored, and the restore says
# which role it is; once it is there, the data can be restored again.
my $elsewhere = AmoroCluster->create('elsewhere', extension => 0, conf => "amoro_meta.databases = 'none'\n");
$elsewhere->safe_psql('postgres', "CREATE DATABASE $_") for qw(strange known);
my ($out, $errors) = ('', '');
IPC::Run::run([ 'pg_restore', '--dbname', $elsewhere->connstr('strange'), $dump ], '>', \$out, '2>', \$errors);
like($errors, qr/role "lake_\w+" does not exist\nCONTEXT:\s+COPY (?:node|access_grant)/, 'a dump whose roles are missing says so');
is($elsewhere->safe_psql('strange', 'SELECT (SELECT count(*) FROM nodes), (SELECT count(*) FROM amoro_meta.access_grant), (SELECT count(*) FROM tables) > 0'),
	'0|0|t', 'the rows that speak of them are missing, the others are there');
my $roles = $original->backup_dir . '/roles.sql';
command_ok([ 'pg_dumpall', '--roles-only', '--file', $roles, '--dbname', $original->connstr('postgres') ], 'dump of the roles');
IPC::Run::run([ 'psql', '-X', '-q', '-f', $roles, '-d', $elsewhere->connstr('postgres') ], '>', \$out, '2>', \$errors);
command_ok([ 'pg_restore', '--exit-on-error', '--dbname', $elsewhere->connstr('known'), $dump ], 'with the roles first all is restored');
same_contents(contents($elsewhere, 'known'), $dumped, 'and all is there');
$elsewhere->safe_psql('known', 'ALTER ROLE lake_reader RENAME TO lake_viewer');
is($elsewhere->safe_psql('known', "SELECT revoke_access('lake_viewer', 'reader')"), 't', 'a renamed role is the same to the copy too');
$elsewhere->stop;

# The copy is adopted: it owes the node of the original one longest lease, then the procedure goes on.
is($copy->safe_psql('whole', 'SELECT adopt_database()'), 't', 'the copy is adopted');
$copy->wait_for_state('running', 'whole');
is($copy->safe_psql('whole', 'SELECT adopt_database()'), 'f', 'once is enough');
is($copy->safe_psql('whole', "SELECT term > $term FROM amoro_stat_coordinator WHERE datname = 'whole'"), 't', 'in a new term');
is($copy->safe_psql('whole', "SELECT term >> 32 > $term >> 32 FROM amoro_stat_coordinator WHERE datname = 'whole'"), 't',
	'as of a later timeline: nodes that saw what the original did after the dump forget it');
is( $copy->safe_psql('whole', <<SQL), 'WAIT|{(unregistered),m,m,n}', 'it waits for the nodes that were registered, and for those that the dump does not know of');
SELECT verdict, ARRAY(SELECT unnest(v.waits_for) ORDER BY 1) FROM procedure_status($drop) AS p, broadcast_verdict(p.wait_version) AS v
SQL
is($copy->safe_psql('whole', "SELECT drop_table('c', 'd', 'dropped', request_id => '$request')"),
	$drop, 'the request is known');
$copy->configure('amoro_meta.debug_clock_offset_ms' => '61s');
is($copy->safe_psql('whole', "SELECT wait_for_procedure($drop, '30 s')"), 'done', 'its lease over, the drop is done');
is($copy->safe_psql('whole', "SELECT string_agg(table_name, ' ') FROM tables"), 'kept', 'the other table is there');
is( $copy->safe_psql('whole', <<'SQL'), 't', 'ids go on where the original was');
SELECT amoro_meta.next_id() > max(id) FROM (SELECT max(procedure_id) AS id FROM amoro_meta.procedure
	UNION ALL SELECT max(table_id) FROM amoro_meta.table_metadata UNION ALL SELECT max(node_id) FROM amoro_meta.node) AS ids
SQL
is(finish_procedure($copy, 'whole', "create_table('c', 'd', 'new', '$definition')"), 'done', 'and it works');
fails_with($copy, 'whole', "SELECT acquire_blocker('c', 'd', 'kept', '{OPTIMIZE}')", 'AM101', 'lake_writer', 'the blocker holds');
cmp_ok($copy->safe_psql('whole', "SELECT blocker_id FROM acquire_blocker('c', 'd', 'kept', '{BATCH_WRITE}')"), '>', $blocker,
	'and fencing tokens go on above it');
is($copy->safe_psql('whole', <<SQL), "d|hush|t", 'the session goes on for whoever has its id, with numbers above those it had');
SET ROLE lake_writer;
SELECT e.context->>'database', e.context->'properties'->>'my.password', e.statement_id > (SELECT max(statement_id) FROM terminal_statements)
	FROM execute_in_terminal('$session', 'select 2') e;
SQL
is($copy->safe_psql('whole', <<SQL), "3\nt", 'the optimizer goes on with its token: the last task, and a process with a number above all that it had');
SELECT task_id FROM poll_task('$token', 0);
SELECT start_process('e', 'web', 'views', 'MINOR', '[{}]') > greatest($process, (SELECT max(process_id) FROM processes));
SQL
fails_with($copy, 'whole', "SELECT drop_optimizer_group('g')", 'AM201', 'clicks|table', 'the group is in use');
same_contents(contents($copy, 'parallel'), $dumped, 'the other copies are still as they were');
$copy->stop;

# A clone in the same server: the coordinator steps aside for it, and does not follow it.
$original->safe_psql('postgres', 'CREATE DATABASE clone TEMPLATE lake');
$original->wait_for_state('not_adopted', 'clone');
$original->wait_for_state('running', 'lake');
same_contents(contents($original, 'clone'), $dumped, 'a clone has everything');
is($original->safe_psql('lake', "SELECT term FROM amoro_stat_coordinator WHERE datname = 'lake'"),
	$term, 'the original goes on in its term');
fails_with($original, 'clone', "SELECT register_node('n2', gen_random_uuid())", 'AM005', 'adopt_database', 'the clone is passive');

# CREATE EXTENSION does not take over what somebody put there before it.
my $objects = <<'SQL';
SELECT 'class', count(*) FROM pg_class UNION ALL SELECT 'proc', count(*) FROM pg_proc UNION ALL SELECT 'type', count(*) FROM pg_type
UNION ALL SELECT 'namespace', count(*) FROM pg_namespace UNION ALL SELECT 'trigger', count(*) FROM pg_trigger
UNION ALL SELECT 'constraint', count(*) FROM pg_constraint UNION ALL SELECT 'init_privs', count(*) FROM pg_init_privs
UNION ALL SELECT 'description', count(*) FROM pg_description UNION ALL SELECT 'depend', count(*) FROM pg_depend
UNION ALL SELECT 'event_trigger', count(*) FROM pg_event_trigger UNION ALL SELECT 'seclabel', count(*) FROM pg_seclabel
SQL
for my $squat (
	[ '42P06', 'CREATE SCHEMA amoro_meta' ],
	[ '42723', q{CREATE FUNCTION public.adopt_database() RETURNS boolean LANGUAGE sql AS 'SELECT true'} ],
	[ '42710', 'CREATE TYPE public.node_grant AS (stolen text)' ])
{
	my ($code, $statement) = @$squat;
	$original->safe_psql('postgres', 'CREATE DATABASE squatted');
	$original->safe_psql('squatted', $statement);
	my $before = $original->safe_psql('squatted', $objects);
	fails_with($original, 'squatted', 'CREATE EXTENSION amoro_meta', $code, 'already exists', "refused after: $statement");
	is($original->safe_psql('squatted', $objects), $before, 'and nothing was left behind');
	$original->safe_psql('postgres', 'DROP DATABASE squatted');
}

# DROP EXTENSION leaves nothing, and the extension can be made again.
$original->safe_psql('postgres', 'CREATE DATABASE bare');
my $before = $original->safe_psql('bare', $objects);
for my $round (1 .. 2)
{
	$original->safe_psql('bare', 'CREATE EXTENSION amoro_meta');
	$original->wait_for_state('running', 'bare');
	$original->safe_psql('bare', "SELECT create_catalog('c')");
	is(finish_procedure($original, 'bare', "create_database('c', 'd')"), 'done', "round $round: it works");
	$original->safe_psql('bare', 'DROP EXTENSION amoro_meta');
	is($original->safe_psql('bare', $objects), $before, "round $round: DROP EXTENSION leaves nothing behind");
	poll('the coordinator has left',
		sub { $original->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE datname = 'bare'") eq '0' });
}
$original->stop;
done_testing();
