# Copies of the data: dumps of every kind hold everything, and no copy coordinates before it is adopted.
use strict;
use warnings;
use AmoroCluster qw(poll);
use AmoroFlight qw(board land);
use AmoroInventory qw(stock inventory documents numbers go_on_above same_text);
use PostgreSQL::Test::Utils;
use Test::More;

my $incarnation = '11111111-1111-4111-8111-111111111111';
my $request = '22222222-2222-4222-8222-222222222222';

# A lease so long that no test can wait for it; its end is staged with the clock.
sub make_server
{
	my ($name) = @_;
	my $server = AmoroCluster->create($name, extension => 0, conf => AmoroInventory::settings());
	# roles are not part of the dump of a database
	$server->safe_psql('postgres', 'CREATE ROLE lake_reader; CREATE ROLE lake_node LOGIN; CREATE ROLE lake_writer; ' . AmoroInventory::roles());
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
			CASE c.relname WHEN 'superseded_incarnation' THEN 'WHERE node_id <> 0' END),
		true, false, '') COLUMNS line text PATH 'line') AS x
WHERE e.extname = 'amoro_meta' AND CONSTANT c.oid = ANY (e.extconfig)
	-- hints, which are made anew
	AND NOT EXISTS (SELECT FROM unnest(e.extconfig, e.extcondition) AS r (oid, condition) WHERE r.oid = c.oid AND r.condition = 'WHERE false') ORDER BY 1, 2
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
stock($original, 'lake');

# Procedures in flight of every kind, among them a drop that waits for a node that has just got a lease.
my $drop;

sub begin_drop
{
	$original->safe_psql('lake', <<SQL);
SET ROLE lake_node;
SELECT * FROM register_node('n', '$incarnation') \\gset
SELECT * FROM activate_node(:node_id, '$incarnation', :term, :lease_epoch, :metadata_version);
-- one that was started twice
SELECT FROM register_node('m', gen_random_uuid());
SELECT FROM register_node('m', gen_random_uuid());
SQL
	$drop = $original->safe_psql('lake', "SELECT drop_table('c', 'd', 'dropped', request_id => '$request')");
	return poll('the drop waits for the node',
		sub { $original->safe_psql('lake', "SELECT wait_version IS NOT NULL FROM procedure_status($drop)") eq 't' });
}
my @flights = board($original, 'lake', \&begin_drop);

# What is managed beside the metadata: a leader of whom nobody has been told yet, a group in a container, listed tables with their runtimes,
# a process with a task that is done, one that an optimizer works on, and one that waits, a blocker, a session.
my $node = $original->safe_psql('lake', "SELECT node_id FROM nodes WHERE node_name = 'n'");
$original->safe_psql('lake', "SET ROLE lake_node; SELECT acquire_leadership('sweeping', $node, '$incarnation')");
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

my $dump = $original->backup_dir . '/lake.dump';
mkdir $original->backup_dir;
command_ok([ 'pg_dump', '--format=custom', '--file', $dump, '--dbname', $original->connstr('lake') ], 'dump');
my $dumped = contents($original, 'lake');
my $seen = inventory($original, 'lake');
my $told = documents($original, 'lake');
my $term = $original->coordinator('lake')->{term};
# what the original gives after that
$original->safe_psql('lake', 'SELECT amoro_meta.next_id(), amoro_meta.next_runtime_version() FROM generate_series(1, 1000)');
my @numbers = numbers($original, 'lake');
like($dumped, qr/^procedure\|.*\Q$request\E/m, 'the dump has the procedure in flight');
for my $table (split /\n/, $original->safe_psql('lake', <<'SQL'))
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

sub check_copy
{
	my ($server, $database, $how) = @_;
	$server->wait_for_state('not_adopted', $database);
	same_text(contents($server, $database), $dumped, "$how: everything is there, and the coordinator leaves it alone");
	return;
}

# What users see of it
sub look_at_copy
{
	my ($server, $database, $how) = @_;
	same_text(inventory($server, $database), $seen, "$how: everybody sees the same there");
	same_text(documents($server, $database), $told, "$how: and is told the same of every object");
	return;
}

$copy->safe_psql('postgres', "CREATE DATABASE $_") for qw(whole parallel sections plain data_only begun);
restore('whole');
check_copy($copy, 'whole', 'restore');
look_at_copy($copy, 'whole', 'restore');
restore('parallel', '--jobs=4');
check_copy($copy, 'parallel', 'restore with -j');
restore('sections', "--section=$_") for qw(pre-data data post-data);
check_copy($copy, 'sections', 'restore by sections');
my $script = $original->backup_dir . '/lake.sql';
command_ok([ 'pg_restore', '--file', $script, $dump ], 'the dump as plain text');
command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-o', '/dev/null', '-f', $script, '-d', $copy->connstr('plain') ], 'restore by psql');
check_copy($copy, 'plain', 'restore of plain text');
$copy->safe_psql($_, 'CREATE EXTENSION amoro_meta') for qw(data_only begun);
$copy->wait_for_state('running', $_) for qw(data_only begun);
# a restore that has just begun, and a catalog that would be explored
restore('begun', '--data-only', '--table=catalog');
$copy->wait_for_state('not_adopted', 'begun');
is($copy->safe_psql('begun', "SELECT count(*), count(rounds) FROM amoro_stat_explorer WHERE catalog_name = 'rest'"), '1|0', 'nobody works on what has come so far');
restore('data_only', '--data-only');
check_copy($copy, 'data_only', 'restore of the data under a running coordinator');
look_at_copy($copy, 'data_only', 'restore of the data under a running coordinator');

same_text(contents($copy, 'whole', 1), contents($original, 'lake', 1), 'what no dump carries is what CREATE EXTENSION makes');
is($copy->safe_psql('whole', "SELECT has_function_privilege('lake_node', 'register_node(text, uuid, text, text, integer)', 'EXECUTE')"),
	't', 'access that was granted is restored');
fails_with($copy, 'whole', "SELECT register_node('n2', gen_random_uuid())", 'AM005', 'adopt_database',
	'a node cannot register with a copy, and is told why');
fails_with($copy, 'whole', "SELECT drop_table('c', 'd', 'kept')", 'AM005', 'adopt_database', 'nor can anything be dropped there');
$copy->restart;
check_copy($copy, 'whole', 'after a restart');

# Rows speak of roles by name. Where the roles are missing, the tables with such rows are not restored, and the restore says
# which role it is; once it is there, the data can be restored again.
my $elsewhere = AmoroCluster->create('elsewhere', extension => 0);
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
same_text(contents($elsewhere, 'known'), $dumped, 'and all is there');
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
is( $copy->safe_psql('whole', <<SQL), 'WAIT|{(unregistered),m,m,n,silent}', 'it waits for the nodes that were registered, and for those that the dump does not know of');
SELECT verdict, ARRAY(SELECT w FROM unnest(v.waits_for) w WHERE w IN ('(unregistered)', 'm', 'n', 'silent') ORDER BY 1) FROM procedure_status($drop) AS p, broadcast_verdict(p.wait_version) AS v
SQL
is($copy->safe_psql('whole', "SELECT drop_table('c', 'd', 'dropped', request_id => '$request')"),
	$drop, 'the request is known');
$copy->configure('amoro_meta.debug_clock_offset_ms' => '301s');
is($copy->safe_psql('whole', "SELECT wait_for_procedure($drop, '30 s')"), 'done', 'its lease over, the drop is done');
is($copy->safe_psql('whole', "SELECT string_agg(table_name, ' ') FROM tables WHERE catalog_name = 'c'"), 'kept', 'the other table is there');
land($copy, 'whole', 'an adopted copy', @flights);
go_on_above($copy, 'whole', 'an adopted copy', @numbers);
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
same_text(contents($copy, 'parallel'), $dumped, 'the other copies are still as they were');
$copy->stop;

# A clone in the same server: the coordinator steps aside for it, and does not follow it; nor does a new name change anything.
$original->safe_psql('postgres', 'CREATE DATABASE clone TEMPLATE lake');
same_text(contents($original, 'clone'), contents($original, 'lake'), 'a clone has everything');
same_text(inventory($original, 'clone'), $seen, 'and everybody sees the same there');
$original->safe_psql('postgres', 'ALTER DATABASE lake RENAME TO sea');
poll('the coordinator is back', sub { ($original->coordinator('sea')->{stopped_at} // '') eq 'cycle' });
same_text(inventory($original, 'sea'), $seen, 'a database that was renamed has everything');
$original->configure('amoro_meta.debug_stop_at' => undef);
$original->wait_for_state('not_adopted', 'clone');
fails_with($original, 'clone', "SELECT register_node('n2', gen_random_uuid())", 'AM005', 'adopt_database', 'the clone is passive');
is($original->safe_psql('clone', 'SELECT adopt_database()'), 't', 'the clone is adopted');
my %term = map { $_ => $original->wait_for_state('running', $_)->{term} } qw(clone sea);
is($term{sea}, $term, 'the original goes on in its term');
cmp_ok($term{clone} >> 32, '>', $term >> 32, 'the clone on a later timeline');
$original->configure('amoro_meta.debug_clock_offset_ms' => '301s');
land($original, $_, $_, @flights) for qw(clone sea);
go_on_above($original, 'clone', 'the clone', @numbers);

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
