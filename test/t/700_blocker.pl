# Table blockers under many callers: never two holders, tokens only grow, renewals and the sweep leave each other alone; and
# what needs a server to itself: settings, the coordinator's sweep, clients that are killed (B01, B06, B07, B09, B13, B15, Z06).
use strict;
use warnings;
use AmoroCluster qw(poll);
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $server = AmoroCluster->create('main', conf => <<'CONF');
max_connections = 60
amoro_meta.blocker_timeout = 700ms
amoro_meta.blocker_lock_timeout = 300ms
autovacuum = off
CONF
my $table = "'lake', 'db', 't'";
sub sql { my ($statement) = @_; return $server->safe_psql('postgres', $statement) }
sub acquire { my ($rest, $operation) = @_; return "SELECT blocker_id FROM acquire_blocker($table, '{" . ($operation // 'OPTIMIZE') . "}'" . ($rest // '') . ')' }

# The settings
is(sql("SELECT expires_at - created_at, properties->>'blocker.timeout' FROM acquire_blocker('lake', 'db', 'setting', '{OPTIMIZE}')"),
	'00:00:00.7|700', 'amoro_meta.blocker_timeout is the timeout of who names none');

# Idle in a transaction: others wait, and not for ever; when it ends they go on (B13)
my $idle = $server->background_psql('postgres');
$idle->query_safe('BEGIN');
$idle->query_safe(acquire(", '1 h'"));
my $start = time;
my ($code, $error) = $server->outcome(acquire());
is($code, '55P03', 'who meets an idle transaction is told after a while');
my $waited = time - $start;
cmp_ok($waited, '>', 0.29, sprintf 'it has waited for amoro_meta.blocker_lock_timeout (%.2f s)', $waited);
is(sql('SHOW lock_timeout'), '0', 'lock_timeout of the session is left alone');
$idle->query_safe('ROLLBACK');
is(sql('SELECT release_blocker((' . acquire() . '))'), 't', 'what was rolled back blocks nobody');
$idle->quit;

# A client that is killed: its blocker lists, expires by itself, and an operator can end it (B07)
my ($in, $out, $err) = (acquire(", '1 h'") . ";\nSELECT pg_backend_pid();\n", '', '');
my $client = IPC::Run::start([ 'psql', '-XAtq', '-d', $server->connstr('postgres') ], '<', \$in, '>', \$out, '2>', \$err);
poll('the client holds a blocker', sub { $client->pump_nb; $out =~ /^(\d+)\n\d+\n/ });
my ($orphan) = $out =~ /^(\d+)/;
$client->kill_kill(grace => 0);
is(sql("SELECT table_name, operations FROM blockers WHERE blocker_id = $orphan"), 't|{OPTIMIZE}', 'the blocker of a killed client is listed');
is(($server->outcome(acquire()))[0], 'AM101', 'and holds');
is(sql("SELECT force_release_blocker($orphan)"), 't', 'an operator ends it');
is(sql("SELECT assert_blocker(blocker_id) IS NULL FROM acquire_blocker($table, '{BATCH_WRITE}'); SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"),
	"f\n0", 'calls leave no advisory lock in the session (B15)');
my $short = sql(acquire(", '150 ms'"));
poll('it expires without anybody doing anything', sub { ($server->outcome(acquire(", '1 ms'")))[0] eq '00000' });

# The coordinator sweeps, names that no table has included
sql(q{SELECT count(acquire_blocker('nowhere', 'no', 'table ' || n, '{OPTIMIZE}', '1 ms')) FROM generate_series(1, 2500) n});
poll('the coordinator has removed what expired', sub { sql('SELECT count(*) FROM amoro_meta.blocker WHERE check_at < clock_timestamp()') eq '0' }, 30);
is(sql("SELECT errors FROM amoro_stat_sweep WHERE sweep_name = 'purge_blockers'"), '0', 'its sweep had no errors');

# What the callers of all rounds do. A holder is alone with the table "holder"; the resource refuses older tokens.
sql(<<'SQL');
CREATE TABLE holder (operation text PRIMARY KEY);
CREATE TABLE resource (token bigint NOT NULL);
INSERT INTO resource VALUES (0);
CREATE TABLE history (n bigserial, token bigint, operation text);
CREATE TABLE violation (what text);
CREATE FUNCTION contend(operations text[], timeout interval) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	RETURN (acquire_blocker('lake', 'db', 'contended', operations, timeout)).blocker_id;
EXCEPTION WHEN SQLSTATE 'AM101' OR lock_not_available THEN
	RETURN 0;
END;
$$;
-- fenced by the assertion: what is written after it is written by the newest holder
CREATE FUNCTION write_as(token bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	PERFORM assert_blocker(token);
	UPDATE resource r SET token = write_as.token WHERE r.token <= write_as.token;
	IF NOT FOUND THEN
		INSERT INTO violation VALUES ('an older holder wrote after a newer one: ' || token);
	END IF;
	RETURN true;
EXCEPTION WHEN SQLSTATE 'AM102' OR lock_not_available THEN
	RETURN false;
END;
$$;
-- one that cannot be released in time expires
CREATE FUNCTION let_go(token bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM release_blocker(token);
EXCEPTION WHEN lock_not_available THEN
END;
$$;
CREATE FUNCTION renewed_until(token bigint) RETURNS timestamptz LANGUAGE plpgsql AS $$
BEGIN
	RETURN (renew_blocker(token)).expires_at;
EXCEPTION WHEN SQLSTATE 'AM102' OR lock_not_available THEN
	RETURN '-infinity';
END;
$$;
SQL

# 32 callers, transaction by transaction: a holder that does not expire is alone
my $exclusive = <<'SQL';
SELECT contend(CASE :client_id % 3 WHEN 0 THEN '{OPTIMIZE,BATCH_WRITE}' WHEN 1 THEN '{OPTIMIZE}' ELSE '{BATCH_WRITE}' END::text[], '1 h') AS token \gset
\if :token
INSERT INTO holder SELECT unnest(operations) FROM blockers WHERE blocker_id = :token;
INSERT INTO history (token, operation) SELECT :token, unnest(operations) FROM blockers WHERE blocker_id = :token;
DELETE FROM holder WHERE operation IN (SELECT unnest(operations) FROM blockers WHERE blocker_id = :token);
SELECT release_blocker(:token);
\endif
SQL
# the same with blockers that expire under their holders
my $expiring = <<'SQL';
SELECT contend('{OPTIMIZE}', (random() * 8 + 1) * interval '1 ms') AS token \gset
\if :token
\sleep 4 ms
SELECT write_as(:token);
SELECT let_go(:token);
\endif
SQL
# renewals against a sweep that never stops
my $renewing = <<'SQL';
SELECT blocker_id AS token FROM acquire_blocker('lake', 'swept', gen_random_uuid()::text, '{OPTIMIZE}', '20 ms') \gset
\sleep 5 ms
SELECT extract(epoch FROM renewed_until(:token)) AS until \gset
INSERT INTO violation SELECT 'swept after a renewal: ' || :token
	WHERE CAST(':until' AS float8) > extract(epoch FROM clock_timestamp()) AND NOT EXISTS (SELECT FROM amoro_meta.blocker WHERE blocker_id = :token);
UPDATE amoro_meta.blocker SET check_at = '2000-01-01' WHERE blocker_id = :token;
SELECT extract(epoch FROM renewed_until(:token)) AS until \gset
INSERT INTO violation SELECT 'swept after a renewal: ' || :token
	WHERE CAST(':until' AS float8) > extract(epoch FROM clock_timestamp()) AND NOT EXISTS (SELECT FROM amoro_meta.blocker WHERE blocker_id = :token);
SQL
my $sweeping = "SELECT purge_blockers();\n";

sub run_callers
{
	my ($name, $clients, $seconds, $isolation, @scripts) = @_;
	my $directory = PostgreSQL::Test::Utils::tempdir();
	my @files;
	for my $i (0 .. $#scripts)
	{
		append_to_file("$directory/$i.sql", $scripts[$i]);
		push @files, '-f', "$directory/$i.sql";
	}
	local $ENV{PGOPTIONS} = "-c default_transaction_isolation=$isolation";
	my ($stdout, $stderr) = ('', '');
	IPC::Run::run([ 'pgbench', '-n', '-M', 'simple', '-c', $clients, '-T', $seconds, @files, '-d', $server->connstr('postgres') ], '>', \$stdout, '2>', \$stderr);
	unlike($stderr, qr/ERROR|aborted/, "$name: nobody met an error that was not foreseen") or diag(substr($stderr, 0, 2000));
	my ($done) = $stdout =~ /actually processed: (\d+)/;
	cmp_ok($done // 0, '>', $clients, "$name: " . ($done // 'no') . ' transactions');
	return $stdout;
}

$server->configure('amoro_meta.blocker_lock_timeout' => '30s');
run_callers('32 callers', 32, 3, 'read\\ committed', $exclusive);
cmp_ok(sql('SELECT count(*) FROM history'), '>', 10, 'blockers were granted');
# a token is recorded by its holder alone, so the order of the records is that of the grants, for each operation
is(sql('SELECT count(*) FROM (SELECT token, lag(token) OVER (PARTITION BY operation ORDER BY n) AS previous FROM history) h WHERE previous >= token'),
	'0', 'tokens grow from holder to holder');
is(sql("SELECT count(*) FROM get_blockers('lake', 'db', 'contended')"), '0', 'nothing is left');
for my $isolation ('repeatable\\ read', 'serializable')
{
	run_callers("32 callers, $isolation", 32, 1, $isolation, $exclusive =~ s/INSERT INTO history.*\n//r);
	sql("SELECT force_release_blocker(blocker_id) FROM get_blockers('lake', 'db', 'contended'); TRUNCATE holder");
}
run_callers('holders that expire', 32, 2, 'read\\ committed', $expiring);
run_callers('renewals and the sweep', 16, 2, 'read\\ committed', $renewing, $sweeping);
is(sql('SELECT string_agg(what, E\'\n\') FROM violation'), '', 'no older holder wrote after a newer one, and no renewed blocker was swept');
# tables of their own: nothing to wait for, and no conflict with callers of other tables (Z06); their rows are there
sql("SELECT count(release_blocker(blocker_id)) FROM generate_series(0, 15) n, acquire_blocker('lake', 'own', 't' || n, '{OPTIMIZE}')");
sql('ANALYZE amoro_meta.blocker_head, amoro_meta.blocker');
my $alone = run_callers('a table each', 16, 1, 'repeatable\\ read', <<'SQL');
SELECT blocker_id AS token FROM acquire_blocker('lake', 'own', 't' || :client_id, '{OPTIMIZE}') \gset
SELECT release_blocker(:token);
SQL
like($alone, qr/failed transactions: 0 /, 'a table each: no transaction failed');
unlike($server->log_text(0), qr/deadlock detected/, 'nobody was in a deadlock');
is(sql('SELECT count(*) FROM amoro_meta.blocker b LEFT JOIN amoro_meta.blocker_head h USING (head_id) WHERE h.head_id IS NULL'), '0', 'no blocker without a table');
done_testing();
