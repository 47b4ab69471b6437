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
local $ENV{AMORO_HOSTS} = "$shim.hosts";
append_to_file("$shim.hosts", "two.test 127.0.0.2 127.0.0.1\nturn.test 127.0.0.1\n");
my $server = AmoroCluster->create('main', conf => <<'CONF');
amoro_meta.http_allowed_hosts = '127.0.0.1, hang.test'
amoro_meta.explore_interval = 1h
amoro_meta.http_timeout = 600s
log_statement = none
CONF
my $catalog = AmoroCatalog->start;

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
my $session = $server->elapsed(sub { $server->safe_psql('postgres', 'SELECT 1') });
my $took = $server->elapsed(sub { $server->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
	poll('it asks again', sub { grep { m{^GET /silent} } $catalog->requests }) });
$server->is_prompt('cancel, until it asks again', $took, $session);
is($server->safe_psql('postgres', 'SELECT amoro_meta.explorer_pid()'), $pid, 'the process stays');
like($server->log_text, qr/explorer ERROR:  canceling statement/, 'and says so');
# terminate: another one takes its place
$took = $server->elapsed(sub { $server->safe_psql('postgres', "SELECT pg_terminate_backend($pid)"); gone($pid) });
$server->is_prompt('pg_terminate_backend', $took, $session);
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
$took = $server->elapsed(sub { $server->safe_psql('postgres', 'DROP EXTENSION amoro_meta') });
my $went = $server->elapsed(sub { gone($pid) });
$server->safe_psql('postgres', 'CREATE EXTENSION amoro_meta');
$server->wait_for_state('running');
poll('an explorer works there', sub { $server->safe_psql('postgres', 'SELECT amoro_meta.explorer_pid()') ne '' });
$server->is_prompt('DROP EXTENSION', $took, $server->elapsed(sub { $server->safe_psql('postgres', 'DROP EXTENSION amoro_meta') }));
$server->is_prompt('until the explorer is gone', $went, 0);
$server->safe_psql('postgres', 'CREATE EXTENSION amoro_meta');
$server->wait_for_state('running');
$catalog->write_lake('good', '{"namespaces": {"a": ["t"]}}');
AmoroCatalog::create($server, 'good', $catalog->uri('lake/good'));
is(AmoroCatalog::wait_for_round($server, 'good', 1)->{tables}, 1, 'a new one works in the new extension');
# D11: of two addresses one may be connected to; that the other one is refused is no reason for what comes after
AmoroCatalog::create($server, 'closed', $catalog->uri('redirect-closed', 'two.test'));
like(AmoroCatalog::wait_for_round($server, 'closed', 1)->{last_error}, qr/^configuration: .*connect/i, 'a redirect to where nobody listens says so');
AmoroCatalog::create($server, 'two', $catalog->uri('lake/good', 'two.test'));
is(AmoroCatalog::wait_for_round($server, 'two', 1)->{last_error}, '', 'a name with two addresses, one of them in a network where nobody is to be asked');
# a name that means something else the next time
AmoroCatalog::create($server, 'turn', $catalog->uri('lake/good', 'turn.test'));
is(AmoroCatalog::wait_for_round($server, 'turn', 1)->{last_error}, '', 'a name of where we may go');
unlink "$shim.hosts";
append_to_file("$shim.hosts", "turn.test 127.0.0.2\n");
# what it has resolved it knows for a minute
$pid = $server->safe_psql('postgres', 'SELECT amoro_meta.explorer_pid()');
$server->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
poll('there is another explorer', sub { my $next = $server->safe_psql('postgres', 'SELECT amoro_meta.explorer_pid()'); $next ne '' && $next ne $pid });
like(AmoroCatalog::explore($server, 'turn')->{last_error}, qr/^configuration: its address is not a public one/, 'has turned to where we may not');
is(AmoroCatalog::tables($server, 'turn'), 'a/t', 'nothing is lost');
$server->safe_psql('postgres', "SELECT drop_catalog(c) FROM unnest('{two, closed, turn}'::text[]) c");
# dropped in a transaction that is rolled back: it works on
$server->safe_psql('postgres', 'BEGIN; DROP EXTENSION amoro_meta; ROLLBACK');
is(AmoroCatalog::explore($server, 'good')->{last_error}, '', 'a DROP EXTENSION that is rolled back changes nothing');

# commands that need the database empty: with a question under way there, and with none
my @statements = ('CREATE DATABASE copy TEMPLATE lake', 'ALTER DATABASE lake RENAME TO sea', 'DROP DATABASE sea');
my %duration;
for my $asks (0, 1)
{
	$server->safe_psql('postgres', 'DROP DATABASE IF EXISTS copy');
	$server->safe_psql('postgres', 'CREATE DATABASE lake');
	$server->safe_psql('lake', 'CREATE EXTENSION amoro_meta');
	$server->wait_for_state('running', 'lake');
	$server->safe_psql('lake', "SELECT create_catalog('silent', 'iceberg_rest', jsonb_build_object('uri', '" . $catalog->uri('silent') . "'))") if $asks;
	for my $statement (@statements)
	{
		my $database = $statement =~ /sea$/ && $statement =~ /^DROP/ ? 'sea' : 'lake';
		$pid = poll('it works there', sub { my $pid = $server->safe_psql($database, 'SELECT amoro_meta.explorer_pid()'); $pid ne '' && $pid });
		$pid = ask($database) if $asks;
		$duration{$statement}[$asks] = $server->elapsed(sub { $server->safe_psql('postgres', $statement) });
		ok(gone($pid), 'the explorer has left');
	}
}
$server->is_prompt($_, $duration{$_}[1], $duration{$_}[0]) for @statements;
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
$server->is_prompt('pg_terminate_backend while a name is resolved', $took, $session);
poll('another one', sub { $server->safe_psql('postgres', 'SELECT amoro_meta.explorer_pid()') ne '' });
AmoroCatalog::create($server, 'silent', $catalog->uri('silent'));
ask('postgres');
my $stop = $server->elapsed(sub { $server->stop('fast') });
unlike($server->log_text, qr/\b(PANIC|TRAP)\b|signal 11|signal 6/, 'and nothing crashed');

# D19: at random moments of a round
$server->start;
$server->wait_for_state('running');
$server->safe_psql('postgres', "SELECT drop_catalog('hang'), drop_catalog('silent')");
AmoroCatalog::create($server, 'big', $catalog->uri('big-30-20'));
srand 20;
my $log = $server->log_position;
my $moments = $ENV{AMORO_MOMENTS} // 25;
for (1 .. $moments)
{
	my $moment = time + rand 0.15;
	my $number = $_;
	$server->psql('postgres', "SELECT explore_catalog('big')");
	poll('the moment is there', sub { time > $moment });
	$server->psql('postgres', 'SELECT ' . ($number % int($moments / 5) ? 'pg_cancel_backend' : 'pg_terminate_backend') . '(amoro_meta.explorer_pid())');
}
my $row = AmoroCatalog::explore($server, 'big');
is("$row->{tables} $row->{last_error}", '600 ', 'after all that a round is whole');
is($server->safe_psql('postgres', "SELECT count(*), count(DISTINCT table_name) FROM external_tables WHERE catalog_name = 'big'"), '600|20', 'nothing twice');
unlike($server->log_text($log), qr/\b(PANIC|TRAP)\b|terminated by signal/, 'nothing crashed');
# D03: no round lasts for ever: a day on the clock that goes on whatever the time is
AmoroCatalog::create($server, 'silent', $catalog->uri('silent'));
ask('postgres');
$server->configure('amoro_meta.debug_clock_offset_ms' => '25h');
like(AmoroCatalog::wait_for_round($server, 'silent', 1)->{last_error}, qr/^the round took longer than a day$/, 'a round ends after a day');

$server->is_prompt('pg_ctl stop', $stop, $server->elapsed(sub { $server->stop('fast') }));
done_testing;
