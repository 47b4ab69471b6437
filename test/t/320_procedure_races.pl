# P01, P05, P06, P13, P15: many sessions at once, and the server and its coordinator killed at random under them.
use strict;
use warnings;
use AmoroCluster qw(poll);
use AmoroProcedure qw(wait_for_end nothing_left definition);
use IPC::Run qw(start run);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $server = AmoroCluster->create('main', conf => "max_connections = 120\n");
my $definition = definition();
my $scripts = 0;

sub query { return $server->safe_psql('postgres', $_[0]) }

sub all_end
{
	my ($name) = @_;
	poll("$name: every procedure ends", sub { query('SELECT count(*) FROM amoro_meta.procedure WHERE outcome IS NULL') == 0 }, 60);
	nothing_left($server, $name);
	is(query(<<'SQL'), '', "$name: no orphans");
SELECT table_name FROM amoro_meta.table_metadata t WHERE NOT EXISTS (SELECT FROM amoro_meta.database d WHERE d.database_id = t.database_id)
UNION ALL SELECT database_name FROM amoro_meta.database d WHERE NOT EXISTS (SELECT FROM amoro_meta.catalog c WHERE c.catalog_id = d.catalog_id)
SQL
	return;
}

# Every statement runs through attempt(), which notes how it ended: pgbench itself never sees an error.
query(<<'SQL');
CREATE TABLE attempted (tag text, sqlstate text, procedure_id bigint);
CREATE FUNCTION attempt(tag text, statement text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	id bigint;
BEGIN
	EXECUTE 'SELECT ' || statement INTO id;
	INSERT INTO attempted VALUES (tag, '00000', id);
	RETURN id;
EXCEPTION WHEN OTHERS THEN
	INSERT INTO attempted VALUES (tag, SQLSTATE, NULL);
	RETURN 0;
END;
$$;
CREATE FUNCTION ended(id bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF id <> 0 THEN PERFORM wait_for_procedure(id, '30 s'); END IF;
END;
$$;
-- submits, again and again while something else is in the way
CREATE FUNCTION insist(statement text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	id bigint;
BEGIN
	LOOP
		BEGIN
			EXECUTE 'SELECT ' || statement INTO id;
			RETURN id;
		EXCEPTION WHEN SQLSTATE 'AM401' THEN
			PERFORM pg_sleep(0.002 * random());
		END;
	END LOOP;
END;
$$;
SELECT create_catalog('lake');
SQL

sub pgbench
{
	my ($options, @scripts) = @_;
	my @command = ('pgbench', '-n', '-h', $server->host, '-p', $server->port, @$options);
	for my $script (@scripts)
	{
		my $file = PostgreSQL::Test::Utils::tempdir() . '/script_' . $scripts++;
		append_to_file($file, $script);
		push @command, '-f', $file;
	}
	return (@command, 'postgres');
}

sub run_pgbench
{
	my ($name, @arguments) = @_;
	my $output;
	ok(run([ pgbench(@arguments) ], '>&', \$output), $name) or diag($output);
	return;
}

sub run_through { return wait_for_end($server, query("SELECT $_[0]")) }
run_through("create_database('lake', '$_')") for 'd', 'e';

# P06: many create one name at once, others rename to it
for my $round (1 .. 8)
{
	run_through("create_table('lake', 'd', 'other', $definition)");
	run_pgbench("P06, round $round", [ '-c', '24', '-j', '2', '-t', '1' ],
		qq{SELECT attempt('same $round', \$\$create_table('lake', 'd', 'same', $definition)\$\$) AS id \\gset\nSELECT ended(:id);\n},
		qq{SELECT attempt('same $round', \$\$rename_table('lake', 'd', 'other', 'd', 'same')\$\$) AS id \\gset\nSELECT ended(:id);\n});
	poll('all have ended', sub { query('SELECT count(*) FROM amoro_meta.procedure WHERE outcome IS NULL') == 0 });
	is(query("SELECT count(*) FROM procedures p JOIN attempted a USING (procedure_id) WHERE a.tag = 'same $round' AND p.outcome = 'done'"),
		1, "P06, round $round: one of all has the name");
	is(query("SELECT count(*) FROM tables WHERE table_name = 'same'"), 1, "P06, round $round: one table has it");
	is(query("SELECT string_agg(DISTINCT sqlstate, ' ') FROM attempted WHERE tag = 'same $round' AND sqlstate NOT IN ('00000', '42710', '42704', 'AM401')"),
		'', "P06, round $round: the others were told why not");
	run_through("drop_table('lake', 'd', 'same')");
	run_through("drop_table('lake', 'd', 'other', if_exists => true)");
}
all_end('P06');

# P15: a hundred alters of one table at once: refused one by one, or all there
run_through("create_table('lake', 'd', 't', $definition)");
query('CREATE SEQUENCE k');
run_pgbench('P15', [ '-c', '20', '-j', '2', '-t', '5' ],
	q{SELECT nextval('k') AS k \gset
SELECT insist(format($$alter_table('lake', 'd', 't', '[{"op": "set_properties", "properties": {"k%s": "v"}}]')$$, :k)) AS id \gset
SELECT ended(:id);
});
is(query(q{SELECT count(*) FROM tables, jsonb_object_keys(definition->'properties') k WHERE table_name = 't' AND k LIKE 'k%'}), 100,
	'P15: no alteration is lost');
all_end('P15');

# P05: a database is dropped and made again while tables come and go in it, at three isolation levels
# how many of a kind were made under P05
sub made
{
	return query("SELECT count(*) FROM procedures p JOIN attempted a USING (procedure_id)"
		  . " WHERE a.tag = 'P05' AND outcome = 'done' AND kind = '$_[0]' AND database_name = 'e'");
}
my @p05 = (
	[ '-c', '12', '-j', '2', '-T', '3' ],
	q{SELECT attempt('P05', $$drop_database('lake', 'e', cascade => random() < 0.3)$$) AS id \gset
SELECT ended(:id);
SELECT attempt('P05', $$create_database('lake', 'e')$$) AS id \gset
SELECT ended(:id);
},
	map { qq{\\set n random(1, 3)
BEGIN ISOLATION LEVEL $_;
SELECT count(*) FROM tables;
SELECT attempt('P05', format(\$\$create_table('lake', 'e', 't%s', $definition)\$\$, :n)) AS id \\gset
COMMIT;
SELECT ended(:id);
SELECT attempt('P05', format(\$\$alter_table('lake', 'e', 't%s', '[{"op": "set_ttl", "ttl": 1}]')\$\$, :n)) AS id \\gset
SELECT ended(:id);
SELECT attempt('P05', format(\$\$rename_table('lake', 'd', 'r%s', 'e', 'r%s')\$\$, :n, :n)) AS id \\gset
SELECT ended(:id);
SELECT attempt('P05', format(\$\$drop_table('lake', 'e', 't%s')\$\$, :n)) AS id \\gset
SELECT ended(:id);
SELECT attempt('P05', format(\$\$create_table('lake', 'd', 'r%s', $definition)\$\$, :n)) AS id \\gset
SELECT ended(:id);
} } 'READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE');
for my $round (1 .. 10)
{
	run_pgbench("P05, round $round", @p05);
	last if $round > 1 && made('drop_database') && made('create_table');
}
cmp_ok(made('drop_database'), '>', 0, 'P05: some drops were made');
cmp_ok(made('create_table'), '>', 0, 'P05: some tables were made');
all_end('P05');
is(query("SELECT string_agg(DISTINCT sqlstate, ' ') FROM attempted WHERE tag = 'P05' AND sqlstate NOT IN ('00000', '42710', '42704', '2BP01', 'AM401', '40001')"),
	'', 'P05: only errors that are documented');
is(query(q{SELECT string_agg(DISTINCT coalesce(error_code, outcome), ' ') FROM procedures WHERE outcome <> 'done' AND error_code NOT IN ('42704', '42710', '2BP01', 'AM401')}),
	'', 'P05: nothing ends but done, or rolled back because of the other');
run_through("create_database('lake', 'e')") if query("SELECT count(*) FROM databases WHERE database_name = 'e'") == 0;

# P01, P13: killed at random under 16 sessions, of which some roll back
my $load = q{\set n random(1, 8)
\set m random(1, 8)
BEGIN;
SELECT attempt('kill', format($$create_table('lake', 'd', 'k%s', DEFINITION)$$, :n)) AS id \gset
ROLLBACK;
SELECT attempt('kill', format($$create_table('lake', 'd', 'k%s', DEFINITION)$$, :n)) AS id \gset
SELECT ended(:id);
SELECT attempt('kill', format($$alter_table('lake', 'd', 'k%s', '[{"op": "add_column", "column": "x", "type": "int"}]')$$, :m)) AS id \gset
SELECT ended(:id);
SELECT attempt('kill', format($$rename_table('lake', 'd', 'k%s', 'e', 'k%s')$$, :n, :m)) AS id \gset
SELECT ended(:id);
SELECT attempt('kill', format($$drop_table('lake', 'e', 'k%s')$$, :m)) AS id \gset
SELECT ended(:id);
} =~ s/DEFINITION/$definition/gr;
my $last = query('SELECT max(procedure_id) FROM procedures');
for my $round (1 .. 8)
{
	my $output;
	my $clients = start([ pgbench([ '-c', '16', '-j', '2', '-T', '60' ], $load) ], '>&', \$output);
	for (1 .. 3)
	{
		sleep(0.1 + rand(0.4));
		$server->psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'amoro_meta coordinator'");
	}
	sleep(rand(0.3));
	$server->stop('immediate');
	eval { $clients->finish };
	$server->start;
	poll('it runs again', sub { ($server->coordinator->{state} // '') eq 'running' });
}
all_end('P01');
cmp_ok(query("SELECT count(*) FROM procedures WHERE procedure_id > $last AND outcome = 'done'"), '>', 50, 'P01: there was something to kill');
is(query(<<SQL), '', 'P01: what is done has left all its changes, once; what is rolled back has taken them back');
SELECT p.procedure_id, p.kind, p.outcome, c.changes
FROM procedures p LEFT JOIN LATERAL
	(SELECT string_agg(c.operation, ' ' ORDER BY c.version, c.ordinal) AS changes FROM amoro_meta.change c WHERE c.procedure_id = p.procedure_id) c ON true
WHERE p.procedure_id > $last AND c.changes IS DISTINCT FROM CASE
	WHEN p.outcome = 'done' THEN CASE p.kind WHEN 'create_table' THEN 'pre_create create' WHEN 'alter_table' THEN 'pre_alter alter'
		WHEN 'rename_table' THEN 'pre_alter pre_create rename rename' WHEN 'drop_table' THEN 'pre_drop drop' END
	WHEN c.changes LIKE '%rollback' THEN c.changes END
SQL
is(query("SELECT count(*) FROM procedures WHERE outcome NOT IN ('done', 'rolled_back')"), 0, 'P01: each ends done or rolled back');
is(query(<<SQL), '', 'P01: the tables that are there are those that the log says');
WITH last AS (SELECT DISTINCT ON (object_id) object_id, operation FROM amoro_meta.change WHERE object_kind = 'table' AND operation IN ('create', 'drop')
	ORDER BY object_id, version DESC)
SELECT coalesce(l.object_id, t.table_id), l.operation, t.table_name FROM (SELECT * FROM last WHERE operation = 'create') l
	FULL JOIN amoro_meta.table_metadata t ON t.table_id = l.object_id WHERE l.object_id IS NULL OR t.table_id IS NULL
SQL
done_testing();
