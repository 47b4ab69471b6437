# Everybody at once: groups come and go while optimizers register, catalogs and tables change their groups, leaders move
# the status of tables and sweeps run. At every moment nobody refers to a group that is not there, and nobody deadlocks.
use strict;
use warnings;
use AmoroCluster qw(poll);
use PostgreSQL::Test::Utils;
use Test::More;

my $seconds = $ENV{AMORO_SOAK_SECONDS} // 8;
my $clients = $ENV{AMORO_SOAK_CLIENTS} // 8;
my $server = AmoroCluster->create('main', conf => "amoro_meta.refresh_interval = 50ms\nmax_connections = 100\ndeadlock_timeout = 200ms\n");
my $log = $server->log_position;

# What may go wrong in each call, and nothing else: the group is in use or gone or there, another writer was faster.
$server->safe_psql('postgres', <<'SQL');
CREATE TABLE outcome (act text, code text);
CREATE FUNCTION attempt(act text, statement text, VARIADIC allowed text[] DEFAULT '{}') RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	detail text;
	place text;
BEGIN
	EXECUTE statement;
	INSERT INTO outcome VALUES (act, '00000');
EXCEPTION WHEN OTHERS THEN
	INSERT INTO outcome VALUES (act, SQLSTATE);
	IF NOT SQLSTATE = ANY (allowed) THEN
		GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, place = PG_EXCEPTION_CONTEXT;
		RAISE LOG 'unexpected: % %: %', act, SQLSTATE, SQLERRM USING DETAIL = detail || E'\n' || place;
	END IF;
END;
$$;
-- one statement, so one snapshot
CREATE VIEW reference_to_nothing AS
	SELECT 'optimizer' AS reason, o.group_name FROM amoro_meta.optimizer o
		WHERE NOT EXISTS (SELECT FROM amoro_meta.optimizer_group g WHERE g.group_name = o.group_name)
	UNION ALL SELECT 'table', r.group_name FROM amoro_meta.table_runtime r
		WHERE r.group_name IS NOT NULL AND NOT EXISTS (SELECT FROM amoro_meta.optimizer_group g WHERE g.group_name = r.group_name)
	UNION ALL SELECT 'catalog', c.properties->>'table.self-optimizing.group' FROM amoro_meta.catalog c
		WHERE c.properties ? 'table.self-optimizing.group'
			AND NOT EXISTS (SELECT FROM amoro_meta.optimizer_group g WHERE g.group_name = c.properties->>'table.self-optimizing.group')
	UNION ALL SELECT 'process', p.group_name FROM amoro_meta.process p
		WHERE p.ended_at IS NULL AND NOT EXISTS (SELECT FROM amoro_meta.optimizer_group g WHERE g.group_name = p.group_name)
	UNION ALL SELECT 'container', g.container_name FROM amoro_meta.optimizer_group g
		WHERE g.container_name NOT IN (SELECT container_name FROM amoro_meta.optimizer_container UNION ALL SELECT 'external');
SELECT create_catalog('lake' || n, 'pushed', '{"max-removed-share": "100"}') FROM generate_series(1, 3) n;
SQL

my %scripts = (
	group => <<'SQL',
\set n random(1, 4)
\set c random(1, 2)
SELECT attempt('create group', format('SELECT create_optimizer_group(%L, %L)', 'g:n', CASE :c WHEN 1 THEN 'k:n' END), '42710', '42704');
SELECT attempt('drop group', 'SELECT drop_optimizer_group(''g:n'')', 'AM201', '42704');
SELECT attempt('alter group', format('SELECT alter_optimizer_group(''g:n'', %L)', CASE :c WHEN 1 THEN 'k:n' ELSE 'external' END), '42704');
SELECT attempt('create container', 'SELECT create_optimizer_container(''k:n'', ''x'')', '42710');
SELECT attempt('drop container', 'SELECT drop_optimizer_container(''k:n'')', '2BP01', '42704');
SQL
	optimizer => <<'SQL',
\set n random(1, 4)
SELECT attempt('register', 'SELECT register_optimizer(''g:n'', 1, 0)', '42704');
SELECT attempt('unregister', format('SELECT unregister_optimizer(%L)', (SELECT token FROM amoro_meta.optimizer ORDER BY random() LIMIT 1)), '22004');
SELECT attempt('let die', 'UPDATE amoro_meta.optimizer SET touched_at = ''2000-01-01'' WHERE optimizer_id = (SELECT min(optimizer_id) FROM amoro_meta.optimizer)');
SELECT attempt('poll', format('SELECT poll_task(%L, 0)', (SELECT token FROM amoro_meta.optimizer ORDER BY random() LIMIT 1)), 'AM301', '22004', '42704');
SQL
	process => <<'SQL',
\set c random(1, 3)
\set t random(1, 40)
SELECT attempt('start', 'SELECT start_process(''lake:c'', ''d'', ''t:t'', ''MINOR'', ''[{"n": 1}]'')', '42710', '42704', '40001');
SELECT attempt('cancel', format('SELECT cancel_process(%L)', (SELECT process_id FROM amoro_meta.process WHERE ended_at IS NULL ORDER BY random() LIMIT 1)));
SQL
	catalog => <<'SQL',
\set n random(1, 4)
\set c random(1, 3)
SELECT attempt('alter catalog', format('SELECT alter_catalog(''lake:c'', %L)', CASE :n WHEN 4 THEN '{"max-removed-share": "100"}'
	ELSE '{"table.self-optimizing.group": "g:n", "max-removed-share": "100"}' END), '42704');
SELECT attempt('unset', 'SELECT alter_catalog(''lake:c'', ''{"max-removed-share": "100"}'')', '42704');
SQL
	listing => <<'SQL',
\set n random(1, 5)
\set c random(1, 3)
\set t random(1, 40)
SELECT attempt('list', format('SELECT report_listing(%L, %L, %L, true)', 'lake:c', 'd',
	(SELECT jsonb_agg(jsonb_build_object('name', 't' || t, 'properties',
		CASE WHEN t % 3 = 0 THEN jsonb_build_object('self-optimizing.group', 'g:n') ELSE '{}' END)) FROM generate_series(1, :t) t)));
SQL
	leader => <<'SQL',
\set s random(0, 2)
SELECT attempt('status', format('SELECT set_table_status(%s, %s, %s, 1)', r.table_id, r.version, (ARRAY[600, 500, 700])[:s + 1]), '40001', '55000', '42704')
	FROM table_runtimes r ORDER BY random() LIMIT 1;
SQL
	sweep => <<'SQL',
SELECT attempt('sweep', 'SELECT refresh_table_runtimes()');
SELECT attempt('check', 'DO $do$ BEGIN IF EXISTS (SELECT FROM reference_to_nothing) THEN RAISE ''a reference to nothing''; END IF; END $do$');
SQL
);
my @arguments;
for my $name (sort keys %scripts)
{
	my $file = $server->basedir . "/$name.sql";
	append_to_file($file, $scripts{$name});
	push @arguments, '-f', $file;
}
my ($out, $err);
IPC::Run::run(['pgbench', '-n', '-c', $clients, '-j', 2, '-T', $seconds, '--max-tries=1', @arguments, '-h', $server->host, '-p', $server->port,
	'postgres'], '>', \$out, '2>', \$err);
like($out, qr/number of failed transactions: 0 /, 'no client has failed') or diag("$out$err");

my $text = $server->log_text($log);
is(() = $text =~ /^.*(?:LOG:  unexpected: |deadlock detected).*$/mg, 0, 'only what may happen has happened') or diag(join "\n", (grep { defined } ($text =~ /^.*(?:LOG:  unexpected: |deadlock).*$/mg)[0 .. 9]));
is($server->safe_psql('postgres', 'SELECT * FROM reference_to_nothing'), '', 'nobody refers to a group that is not there');
is($server->safe_psql('postgres', "SELECT count(*) FROM outcome WHERE act = 'check' AND code <> '00000'"), 0, 'nor at any moment before');
is($server->safe_psql('postgres', "SELECT errors FROM amoro_stat_sweep WHERE sweep_name = 'refresh_table_runtimes'"), 0, 'no sweep has failed');
my $both = $server->safe_psql('postgres', "SELECT string_agg(act, ', ' ORDER BY act) FROM (SELECT act FROM outcome GROUP BY act HAVING count(*) FILTER (WHERE code = '00000') = 0) n");
is($both, '', 'everything has succeeded at times') or diag($server->safe_psql('postgres', 'SELECT act, code, count(*) FROM outcome GROUP BY 1, 2 ORDER BY 1, 2'));
cmp_ok($server->safe_psql('postgres', "SELECT count(*) FROM outcome WHERE code = 'AM201'"), '>', 0, 'and drops were refused');

# when all is quiet the runtimes come to what the tables say
$server->safe_psql('postgres', "SELECT create_optimizer_group('g' || n) FROM generate_series(1, 5) n"
	. " WHERE NOT EXISTS (SELECT FROM optimizer_groups WHERE group_name = 'g' || n)");
poll('the runtimes are as the tables are', sub { $server->safe_psql('postgres',
	"SELECT (SELECT table_ids IS NULL FROM amoro_meta.stale_runtimes(0, 100000)) AND NOT EXISTS (SELECT FROM table_runtimes WHERE group_name IS NULL AND wanted_group <> 'default')") eq 't' });
pass('in the end every table is where it wants to be');
note($server->safe_psql('postgres', 'SELECT act, code, count(*) FROM outcome GROUP BY 1, 2 ORDER BY 1, 2'));

done_testing();
