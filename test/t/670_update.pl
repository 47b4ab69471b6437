# Library and SQL of different versions, and updates while nodes and procedures are at work: U05, U06, U08.
use strict;
use warnings;
use AmoroCluster qw(poll);
use AmoroNode;
use AmoroReader;
use AmoroReplica;
use File::Basename qw(basename dirname);
use File::Path qw(make_path);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

# A copy of the installation with a second version of the SQL: programs find their files relative to themselves.
my ($bin) = map { chomp; $_ } `pg_config --bindir`;
my ($share) = map { chomp; $_ } `pg_config --sharedir`;
my $real = dirname((grep { -x "$_/postgres" } split /:/, $ENV{PATH})[0]);
my $copy = PostgreSQL::Test::Utils::tempdir();
my $root = $real =~ s/\Q@{[dirname($bin)]}\E$//r;
my $target = $copy . dirname($bin);
make_path("$target/bin", "$copy$share/extension");
system_or_bail('cp', glob("$real/bin/*"), "$target/bin/");
symlink "$real/lib", "$target/lib" or die $!;
symlink $_, "$copy$share/" . basename($_) for grep { !/\/extension$/ } glob "$root$share/*";
symlink $_, "$copy$share/extension/" . basename($_) for glob "$root$share/extension/*";
my $lease = 2;
my ($version) = slurp_file("$root$share/extension/amoro_meta.control") =~ /default_version = '([^']+)'/;

sub script
{
	my ($name, $content) = @_;
	append_to_file("$copy$share/extension/amoro_meta--$name.sql", $content);
	return;
}
script("$version--99", "ALTER TABLE amoro_meta.node ADD COLUMN of_the_future text;\nCREATE FUNCTION of_the_future() RETURNS text LANGUAGE sql AS 'SELECT 1::text';\n");
script("99--$version", "ALTER TABLE amoro_meta.node DROP COLUMN of_the_future;\nDROP FUNCTION of_the_future();\n");
script("$version--98", "ALTER TABLE amoro_meta.node ADD COLUMN half text;\nSELECT 1 / 0;\n");

my $server = AmoroCluster->new('main', install_path => $target);
$server->init;
$server->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'amoro_meta'
max_worker_processes = 16
max_connections = 60
fsync = off
log_line_prefix = '%m [%p] %b '
amoro_meta.metadata_lease_fence_ms = 2s
amoro_meta.ack_timeout = 500ms
amoro_meta.heartbeat_interval = 200ms
CONF
$server->start;
$server->safe_psql('postgres', 'CREATE EXTENSION amoro_meta');
$server->wait_for_state('running');
$server->safe_psql('postgres', "SELECT create_catalog('c')");
run_procedure($server, "create_database('c', 'd')");
run_procedure($server, AmoroReplica::create_table_call($_)) for qw(kept dropped renamed);
my @nodes = map { AmoroNode->start(name => "n$_", conninfo => conninfo_of($server)) } 1 .. 2;
my $paused = AmoroNode->start(name => 'paused', conninfo => conninfo_of($server));
$_->wait_for_serving for @nodes, $paused;
$nodes[0]->lookup('c', 'd', 'kept')->{status} == 200 or die;
my $reader = AmoroReader->start($nodes[0], '/v1/tables/c/d/kept');
my $start = time;

# In flight: two procedures that wait for a node that is paused
$paused->signal('STOP');
my @waiting = map { $server->safe_psql('postgres', "SELECT $_") } q{drop_table('c', 'd', 'dropped')}, q{rename_table('c', 'd', 'renamed', 'd', 'other')};
poll('they wait', sub { $server->safe_psql('postgres', 'SELECT count(*) FROM procedures WHERE outcome IS NULL AND wait_version IS NOT NULL') == 2 });

# An update that fails, and one that is rolled back, leave everything as it was
is(($server->outcome("ALTER EXTENSION amoro_meta UPDATE TO '98'"))[0], '22012', 'an update that fails half way');
is(($server->outcome("BEGIN; SET lock_timeout = '5s'; ALTER EXTENSION amoro_meta UPDATE TO '99'; ROLLBACK"))[0], '00000', 'an update that is rolled back');
is($server->safe_psql('postgres', "SELECT count(*) FROM pg_attribute WHERE attrelid = 'amoro_meta.node'::regclass AND attname IN ('half', 'of_the_future') AND NOT attisdropped"),
	0, 'leave nothing behind');
is($server->safe_psql('postgres', "SELECT extversion FROM pg_extension WHERE extname = 'amoro_meta'"), $version, 'the version is as before');

# U05: the SQL is newer than the library: the coordinator waits and says so, nodes serve on, other statements do not notice
my $position = $server->log_position;
my $ms = $server->elapsed(sub { is(($server->outcome("SET lock_timeout = '5s'; ALTER EXTENSION amoro_meta UPDATE TO '99'"))[0], '00000', 'an update under load') });
cmp_ok($ms, '<', 5000, sprintf 'is not held up (%d ms)', $ms);
$server->wait_for_state('other_version');
push @waiting, $server->safe_psql('postgres', 'SELECT ' . AmoroReplica::create_table_call('during'));
like($server->log_text($position), qr/WARNING:.*the extension is not of version \Q$version\E of the library/, 'the log says what does not fit');
like($server->log_text($position), qr/HINT:.*ALTER EXTENSION amoro_meta UPDATE/, 'and what to do');
sleep $lease + 0.5;
is(() = $server->log_text($position) =~ /is not of version/g, 1, 'once');
is($_->get('/healthz')->{status}, 200, $_->name . ' has its leases all the same') for @nodes;
is($server->safe_psql('postgres', "SELECT wait_for_procedure($waiting[-1], '0 s')"), 'running', 'changes wait');
is($server->safe_psql('postgres', 'SELECT 1 + 1'), 2, 'other statements do not notice');
isnt($server->safe_psql('postgres', 'SELECT amoro_meta_version()'), '99', 'the version of the library can be asked for');
is($server->safe_psql('postgres', "SELECT extversion FROM pg_extension WHERE extname = 'amoro_meta'"), '99', 'and that of the SQL');
$server->restart;
$server->wait_for_state('other_version');
pass('a restart in between changes nothing');

# Back to what fits: everything goes on where it was, without a restart
is(($server->outcome("ALTER EXTENSION amoro_meta UPDATE TO '$version'"))[0], '00000', 'the SQL that fits');
$server->wait_for_state('running', 'postgres', 10);
is($server->safe_psql('postgres', "SELECT wait_for_procedure($_, '20 s')"), 'done', "procedure $_ ends") for @waiting;
$_->wait_for_serving for @nodes;
$nodes[0]->wait_until('knows of the drop', sub { $nodes[0]->lookup('c', 'd', 'dropped')->{status} == 404 }, 10);
is($nodes[0]->lookup('c', 'd', 'other')->{status}, 200, 'and of the rename');
$paused->signal('CONT');
$paused->wait_for_serving(20);
is($paused->lookup('c', 'd', 'dropped')->{status}, 404, 'so does the node that was paused');

# A node of another protocol version is refused with a code of its own, before it could do anything
is(($server->outcome(q{SELECT register_node('future', '11111111-1111-4111-8111-111111111111', protocol_version => 2)}))[0], '0A000',
	'an unknown protocol version');

# U08: what processes of different versions must agree on
my $locks = "SELECT string_agg(DISTINCT format('%s %s/%s', a.backend_type, l.classid, l.objsubid), ', ')
	FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE l.locktype = 'advisory' AND l.granted AND a.backend_type LIKE 'amoro_meta %'";
poll('the explorer runs, too', sub { $server->safe_psql('postgres', $locks) =~ /explorer/ });
is($server->safe_psql('postgres', $locks), 'amoro_meta coordinator 0/36, amoro_meta explorer 0/38', 'the classes of the locks');
is($server->safe_psql('postgres', <<'SQL'), <<'EXPECTED' =~ s/\n\z//r, 'what a node and the server say to each other');
SELECT p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ') ' || pg_get_function_result(p.oid)
FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e'
WHERE p.proname IN ('register_node', 'node_heartbeat', 'activate_node', 'release_node', 'metadata_changes', 'metadata_lookup')
UNION ALL
SELECT string_agg(a.attname || ' ' || format_type(a.atttypid, NULL), ', ' ORDER BY a.attnum)
FROM pg_attribute a WHERE a.attrelid = 'node_grant'::regclass
ORDER BY 1
SQL
activate_node(node_id bigint, incarnation uuid, term bigint, lease_epoch bigint, loaded_version bigint) node_grant
answer text, node_id bigint, term bigint, lease_epoch bigint, lease_ms integer, max_clock_drift_ppm integer, heartbeat_interval_ms integer, metadata_version bigint, reason text
metadata_changes(after_version bigint, max_rows integer) TABLE(version bigint, ordinal integer, object_kind text, operation text, catalog_name text, database_name text, table_name text, object_id bigint, detail jsonb)
metadata_lookup(kind text, catalog_name text, database_name text, table_name text) TABLE(metadata_version bigint, term bigint, found boolean, state text, object_id bigint, object_version bigint, document text)
node_heartbeat(node_id bigint, incarnation uuid, term bigint, lease_epoch bigint, applied_version bigint, wait interval, detail text) node_grant
register_node(node_name text, incarnation uuid, node_kind text, endpoint text, protocol_version integer) node_grant
release_node(node_id bigint, incarnation uuid) boolean
EXPECTED
done_testing();
