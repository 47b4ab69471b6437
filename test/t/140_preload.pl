# Without shared_preload_libraries, with it later, and with a library of another version.
use strict;
use warnings;
use AmoroCluster qw(poll);
use PostgreSQL::Test::Utils;
use Test::More;

my $server = AmoroCluster->create('main', conf => "shared_preload_libraries = ''\n", extension => 0);

# W14: it can be created, says what is missing, and what needs no coordinator works
my ($code, $out, $err) = $server->psql('postgres', 'CREATE EXTENSION amoro_meta');
is($code, 0, 'CREATE EXTENSION works without preload');
like($err, qr/WARNING:  amoro_meta has no coordinator: the library is not preloaded/, 'and warns');
like($err, qr/HINT:  Add amoro_meta to shared_preload_libraries/, 'with the setting to change');
is($server->coordinator->{state}, 'not_preloaded', 'the view says it too');
for my $preload ('RESET session_preload_libraries', "SET session_preload_libraries = 'amoro_meta'")
{
	# loading it into a session is not enough: there is no shared memory
	$server->safe_psql('postgres', "ALTER DATABASE postgres $preload");
	for my $statement (
		"SELECT register_node('n1', gen_random_uuid())",
		"SELECT node_heartbeat(1, gen_random_uuid(), 1, 1, 0)",
		"SELECT create_database('c', 'd')",
		"SELECT drop_database('c', 'd')")
	{
		my ($state, $error) = $server->outcome($statement);
		is($state, 'AM005', "$statement needs a coordinator") or diag $error;
		like($error, qr/HINT:.*shared_preload_libraries/, 'and names the setting');
	}
}
is(($server->outcome('SELECT * FROM node_status'))[0], '00000', 'node_status is empty');
is($server->safe_psql('postgres', 'SELECT create_catalog(\'c\') > 0'), 't', 'catalogs need no coordinator');
is($server->safe_psql('postgres', q{SELECT assert_blocker(b.blocker_id) = b.blocker_id, release_blocker(b.blocker_id), purge_blockers() FROM acquire_blocker('c', 'd', 't', '{OPTIMIZE}') b}),
	't|t|0', 'nor do table blockers');
is($server->safe_psql('postgres', 'SELECT acquired IS NULL FROM amoro_stat_blocker'), 't', 'whose counters are not there');
is($server->safe_psql('postgres', <<'SQL'), "SUCCESS|success\nSUCCESS", 'nor do groups, optimizers and tasks');
SELECT create_optimizer_group('default') \g /dev/null
SELECT register_optimizer('default', thread_count => 1, memory_mb => 64) AS token,
	start_process('c', 'd', 't', 'MINOR', '[{}]') AS process \gset
SELECT task_id, attempt FROM poll_task(:'token', 0) \gset
SELECT ack_task(:'token', 0, :process, :task_id, :attempt) \g /dev/null
SELECT complete_task(:'token', 0, :process, :task_id, :attempt) AS answer \gset
SELECT state, :'answer' FROM tasks;
SELECT finish_process(:process);
SQL
is($server->safe_psql('postgres', <<'SQL'), "show catalogs|Finished\nt", 'nor do terminal sessions');
SELECT open_terminal_session('c') AS session \gset
SELECT command, state FROM execute_in_terminal(:'session', 'show catalogs');
SELECT close_terminal_session(:'session') IS NOT NULL;
SQL
is($server->safe_psql('postgres', 'SELECT adopt_database()'), 't', 'a database can be adopted before there is a coordinator');
is($server->safe_psql('postgres', 'SELECT adopt_database()'), 'f', 'once');
is(($server->outcome('SELECT amoro_stat_reset()'))[0], '00000', 'a reset of the statistics does nothing');
is($server->safe_psql('postgres', 'SELECT amoro_meta_version() = extversion FROM pg_extension WHERE extname = \'amoro_meta\''),
	't', 'library and extension are of one version');
is(($server->outcome('SET amoro_meta.no_such_setting = 1'))[0], '42602', 'the prefix is reserved');

# preloaded after a restart, it starts by itself
$server->safe_psql('postgres', 'ALTER DATABASE postgres RESET session_preload_libraries');
$server->append_conf('postgresql.conf', "shared_preload_libraries = 'amoro_meta'\n");
$server->restart;
my $row = $server->wait_for_state('running');
is($server->safe_psql('postgres', "SELECT (register_node('n1', gen_random_uuid())).answer"), 'reload', 'and nodes can register');

# U05: SQL of another version than the library: it waits and says so once
my $log = $server->log_position;
$server->safe_psql('postgres', "UPDATE pg_extension SET extversion = '9.9' WHERE extname = 'amoro_meta'");
$server->wait_for_state('other_version');
is($server->coordinator->{pid}, $row->{pid}, 'the process stays');
my $cycles = $server->coordinator->{cycles};
poll('three more cycles', sub { $server->coordinator->{cycles} >= $cycles + 3 });
is(() = $server->log_text($log) =~ /the extension is not of version/g, 1, 'one line in the log');
$server->safe_psql('postgres', "UPDATE pg_extension SET extversion = amoro_meta.library_version() WHERE extname = 'amoro_meta'");
$server->wait_for_state('running');
is($server->coordinator->{term}, $row->{term}, 'it goes on under the same term');
$server->stop;
done_testing();
