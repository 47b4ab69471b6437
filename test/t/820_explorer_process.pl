# The explorer as a process: while it waits for an answer it holds nothing, and leaves at once when it is told to.
use strict;
use warnings;
use AmoroCatalog;
use AmoroCluster qw(poll);
use File::Basename qw(dirname);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $shim = PostgreSQL::Test::Utils::tempdir() . '/hanging_resolver.so';
my $noted = "$shim.noted";
system_or_bail('gcc', '-shared', '-fPIC', '-O1', '-Wall', '-Werror', '-o', $shim, dirname(__FILE__) . '/hanging_resolver.c', '-ldl', '-lpthread');
local $ENV{LD_PRELOAD} = $shim;
local $ENV{AMORO_RESOLVER} = $noted;
my $server = AmoroCluster->create('main', conf => <<'CONF');
amoro_meta.http_allowed_hosts = '127.0.0.1, hang.test'
amoro_meta.explore_interval = 1h
amoro_meta.http_timeout = 600s
log_statement = none
CONF
my $catalog = AmoroCatalog->start;
my $second = 1000;

# Waits until a question to a silent catalog is under way in the database; the process that asks.
sub ask
{
	my ($database) = @_;
	$server->safe_psql($database, "SELECT explore_catalog('silent')");
	my $pid = poll('the question is under way', sub {
		$server->safe_psql($database, "SELECT pid FROM amoro_stat_explorer WHERE catalog_name = 'silent' AND phase = 'config' AND pid IS NOT NULL") });
	poll('it waits for the answer', sub { grep { /^\s*\d+: \S+ \S+ 01 / } connections($pid) });
	return $pid;
}

# Its TCP connections, as the kernel shows them.
sub connections
{
	my ($pid) = @_;
	my %sockets = map { my $target = readlink $_; defined $target && $target =~ /^socket:\[(\d+)\]/ ? ($1 => 1) : () } glob "/proc/$pid/fd/*";
	return grep { $sockets{ (split ' ')[9] // '' } } split /\n/, slurp_file("/proc/$pid/net/tcp");
}

sub gone { my ($pid) = @_; return poll("process $pid is gone", sub { !kill 0, $pid }) }

# D06
AmoroCatalog::create($server, 'silent', $catalog->uri('silent'));
my $pid = ask('postgres');
is($server->safe_psql('postgres', "SELECT xact_start IS NULL, backend_xmin IS NULL, backend_xid IS NULL, wait_event_type FROM pg_stat_activity WHERE pid = $pid"),
	't|t|t|Extension', 'no transaction is open while an answer is waited for');
is($server->safe_psql('postgres', "SELECT string_agg(locktype || ' ' || mode || ' ' || coalesce(objsubid::text, ''), ', ') FROM pg_locks WHERE pid = $pid"),
	'advisory ExclusiveLock 38', 'and no lock is held but that of being the only one');

# idle but for a question: it costs nothing
my $ticks = sub { (split / /, slurp_file("/proc/$pid/stat"))[13] + (split / /, slurp_file("/proc/$pid/stat"))[14] };
my $before = $ticks->();
my $switches = sub { slurp_file("/proc/$pid/status") =~ /^voluntary_ctxt_switches:\s+(\d+)/m; $1 };
my $slept = $switches->();
my $until = time + 3;
poll('three seconds have passed', sub { time > $until });
cmp_ok($ticks->() - $before, '<=', 2, 'it takes no time to wait');
cmp_ok($switches->() - $slept, '<', 30, 'and wakes up rarely') or diag $switches->() - $slept;

# D05: cancel: what is under way is given up and begun anew
$catalog->requests;
my $took = $server->elapsed(sub { $server->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
	poll('it asks again', sub { grep { m{^GET /silent} } $catalog->requests }) });
cmp_ok($took, '<', 2 * $second, "cancelled ($took ms)");
is($server->safe_psql('postgres', 'SELECT amoro_meta.explorer_pid()'), $pid, 'the process stays');
like($server->log_text, qr/explorer ERROR:  canceling statement/, 'and says so');
# terminate: another one takes its place
$took = $server->elapsed(sub { $server->safe_psql('postgres', "SELECT pg_terminate_backend($pid)"); gone($pid) });
cmp_ok($took, '<', $second, "terminated ($took ms)");
poll('there is another one', sub { my $next = $server->safe_psql('postgres', 'SELECT amoro_meta.explorer_pid()'); $next ne '' && $next ne $pid });
poll('the round of the old one is begun anew', sub { grep { m{^GET /silent} } $catalog->requests });
# kill -9 restarts the server; the round is begun anew
$pid = $server->safe_psql('postgres', 'SELECT amoro_meta.explorer_pid()');
$server->append_conf('postgresql.conf', 'restart_after_crash = on');
$server->reload;
kill 'KILL', $pid;
poll('the server is back', sub { my ($code, $out) = $server->psql('postgres', 'SELECT amoro_meta.explorer_pid()'); defined $code && $code == 0 && $out ne '' && $out ne $pid });
poll('and asks again', sub { grep { m{^GET /silent} } $catalog->requests });
$server->wait_for_state('running');

# D18: the extension is dropped and made again while an answer is waited for
$pid = ask('postgres');
$server->safe_psql('postgres', 'DROP EXTENSION amoro_meta');
$took = $server->elapsed(sub { gone($pid) });
cmp_ok($took, '<', $second, "gone after DROP EXTENSION ($took ms)");
$server->safe_psql('postgres', 'CREATE EXTENSION amoro_meta');
$server->wait_for_state('running');
$catalog->write_lake('good', '{"namespaces": {"a": ["t"]}}');
AmoroCatalog::create($server, 'good', $catalog->uri('lake/good'));
is(AmoroCatalog::wait_for_round($server, 'good', 1)->{tables}, 1, 'a new one works in the new extension');
# dropped in a transaction that is rolled back: it works on
$server->safe_psql('postgres', 'BEGIN; DROP EXTENSION amoro_meta; ROLLBACK');
is(AmoroCatalog::explore($server, 'good')->{last_error}, '', 'a DROP EXTENSION that is rolled back changes nothing');

# commands that need the database empty
$server->safe_psql('postgres', 'CREATE DATABASE lake');
$server->safe_psql('lake', 'CREATE EXTENSION amoro_meta');
$server->wait_for_state('running', 'lake');
$server->safe_psql('lake', "SELECT create_catalog('silent', 'iceberg_rest', jsonb_build_object('uri', '" . $catalog->uri('silent') . "'))");
my %command = (
	'CREATE DATABASE copy TEMPLATE lake' => 'lake',
	'ALTER DATABASE lake RENAME TO sea' => 'lake',
	'DROP DATABASE sea' => 'sea');
for my $statement ('CREATE DATABASE copy TEMPLATE lake', 'ALTER DATABASE lake RENAME TO sea', 'DROP DATABASE sea')
{
	my $database = $command{$statement};
	poll('it works there', sub { $server->safe_psql($database, 'SELECT amoro_meta.explorer_pid()') ne '' });
	$pid = ask($database);
	$took = $server->elapsed(sub { $server->safe_psql('postgres', $statement) });
	# the server itself waits five seconds for others to leave
	cmp_ok($took, '<', 4 * $second, "$statement ($took ms)");
	ok(gone($pid), 'the explorer has left');
}
# the copy is passive: it explores nothing
$server->wait_for_state('not_adopted', 'copy', undef, 'postgres');
is($server->safe_psql('copy', 'SELECT coalesce(amoro_meta.explorer_pid(), 0)'), 0, 'a copy explores nothing');
is($server->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'amoro_meta explorer'"), 1, 'one a database that coordinates');

# D05, D19: a name server that never answers
AmoroCatalog::create($server, 'hang', 'http://hang.test/');
poll('the name is being resolved', sub { -s $noted });
# newer versions of libcurl ask for each family of addresses in a thread of its own
like(slurp_file($noted), qr/\A(?:open signals: 0\n)+\z/, 'no signal reaches the thread that waits for it');
is(AmoroCatalog::explore($server, 'good', 20)->{last_error}, '', 'others are explored meanwhile');
$pid = $server->safe_psql('postgres', 'SELECT amoro_meta.explorer_pid()');
$took = $server->elapsed(sub { $server->safe_psql('postgres', "SELECT pg_terminate_backend($pid)"); gone($pid) });
cmp_ok($took, '<', $second, "terminated ($took ms)");
poll('another one', sub { $server->safe_psql('postgres', 'SELECT amoro_meta.explorer_pid()') ne '' });
AmoroCatalog::create($server, 'silent', $catalog->uri('silent'));
ask('postgres');
$took = $server->elapsed(sub { $server->stop('fast') });
cmp_ok($took, '<', 2 * $second, "pg_ctl stop ($took ms)");
unlike($server->log_text, qr/\b(PANIC|TRAP)\b|signal 11|signal 6/, 'and nothing crashed');

# D19: at random moments of a round
$server->start;
$server->wait_for_state('running');
$server->safe_psql('postgres', "SELECT drop_catalog('hang'), drop_catalog('silent')");
AmoroCatalog::create($server, 'big', $catalog->uri('big-30-20'));
srand 20;
my $log = $server->log_position;
for (1 .. 25)
{
	my $moment = time + rand 0.15;
	my $number = $_;
	$server->psql('postgres', "SELECT explore_catalog('big')");
	poll('the moment is there', sub { time > $moment });
	$server->psql('postgres', 'SELECT ' . ($number % 5 ? 'pg_cancel_backend' : 'pg_terminate_backend') . '(amoro_meta.explorer_pid())');
}
my $row = AmoroCatalog::explore($server, 'big');
is("$row->{tables} $row->{last_error}", '600 ', 'after all that a round is whole');
is($server->safe_psql('postgres', "SELECT count(*), count(DISTINCT table_name) FROM external_tables WHERE catalog_name = 'big'"), '600|20', 'nothing twice');
unlike($server->log_text($log), qr/\b(PANIC|TRAP)\b|terminated by signal/, 'nothing crashed');
$server->stop;
done_testing;
