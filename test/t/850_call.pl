# Calls to the leader of a service: what is sent, what comes back, and every way in which a leader can be none.
use strict;
use warnings;
use AmoroCatalog;
use AmoroCluster qw(poll);
use AmoroNode;
use File::Basename qw(dirname);
use File::Spec;
use IO::Socket::INET;
use LeaseClock qw(long_lease);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $server = AmoroCluster->create('main', conf => long_lease() . <<'CONF');
amoro_meta.http_allowed_hosts = '127.0.0.1'
amoro_meta.explore_interval = 1h
amoro_meta.http_timeout = 3s
CONF
$server->safe_psql('postgres', "SELECT create_optimizer_group('default')");
my $directory = PostgreSQL::Test::Utils::tempdir();
my (%pid, %incarnation);

# A leader: its HTTP server, and a node that says where it is.
sub start_leader
{
	my ($name) = @_;
	my $pid = fork // die "fork: $!";
	if ($pid == 0)
	{
		open STDIN, '<', '/dev/null';
		exec('/usr/bin/python3', dirname(__FILE__) . '/../explorer/leader_server.py', '--directory', $directory, '--name', $name) or POSIX::_exit(1);
	}
	$pid{$name} = $pid;
	poll("$name listens", sub { -e "$directory/$name.port" });
	my $port = slurp_file("$directory/$name.port");
	$incarnation{$name} = sprintf '%08x-0000-4000-8000-%012x', $$, scalar keys %pid;
	register($name, "http://127.0.0.1:$port/");
	return;
}

sub register
{
	my ($name, $endpoint) = @_;
	$server->safe_psql('postgres', "SELECT register_node('$name', '$incarnation{$name}', endpoint => '$endpoint')");
	return;
}

# Activates the node, at whatever version, and makes it the leader of a service; returns the token.
sub lead
{
	my ($name, $service) = @_;
	return poll("$name leads $service", sub { $server->safe_psql('postgres', <<SQL) });
SELECT activate_node(s.node_id, s.incarnation, amoro_meta.current_term(), s.lease_epoch, s.metadata_version) FROM node_status s WHERE s.node_name = '$name' AND s.state <> 'active';
SELECT a.token FROM nodes n, acquire_leadership('$service', n.node_id, n.incarnation) a WHERE n.node_name = '$name'
SQL
}

sub token_of { my ($answer) = @_; return (split /\n/, $answer)[-1] }

sub call { my ($arguments, %options) = @_; return $server->safe_psql('postgres', "SELECT call_leader($arguments)", %options) }

sub result
{
	my ($id, $timeout) = @_;
	return $server->safe_psql('postgres', "SELECT state, status, body FROM call_result($id, " . ($timeout // "'60 s'") . ')');
}

sub column { my ($id, $column) = @_; return $server->safe_psql('postgres', "SELECT $column FROM amoro_meta.call WHERE call_id = $id") }

# What a leader has seen, as it notes it: lines of JSON.
sub seen { my ($name, $what) = @_; return grep { /$what/ } -e "$directory/$name.log" ? split /\n/, slurp_file("$directory/$name.log") : () }

start_leader($_) for 'one', 'two';

# nobody leads: it waits, and is delivered once somebody does
my $waiting = call("'s', 'POST', '/echo/a?b=c%20d', '{\"x\": 1}'");
is(result($waiting, "'100 ms'"), 'waiting||', 'a call waits as long as nobody leads');
my $start = time;
my $token = token_of(lead('one', 's'));
like(result($waiting), qr/^answered\|200\|/, 'and is delivered once somebody does');
cmp_ok(time - $start, '<', 2, 'at once');
my ($line) = seen('one', '/echo/a');
like($line, qr{"method": "POST", "path": "/echo/a\?b=c%20d", "body": "\{\\"x\\": 1\}"}, 'method, path and body come as they were given');
like($line, qr/"token": "$token", "type": "application\/json"/, 'with the token of the leader');
like($line, qr/"key": "\Q@{[column($waiting, 'request_id')]}\E"/, 'and the key of the call');

# methods
for my $method ('GET', 'PUT', 'PATCH', 'DELETE')
{
	my $body = $method eq 'GET' ? 'NULL' : "'b'";
	like(result(call("'s', '$method', '/echo/$method', $body, 'text/plain'")), qr/^answered\|200\|.*"method": "$method"/, $method);
}
is(scalar(seen('one', '"method": "GET".*"type": null')), 1, 'what has no body has no type');

# every status below 500 is the leader's answer; the others are not
is(result(call("'s', 'GET', '/status/$_'")), "answered|$_|status $_", "status $_") for 202, 404, 409;
my $flaky = call("'s', 'POST', '/flaky/f/3/500', 'x'");
is(result($flaky), 'answered|200|at last', 'a leader that fails is asked again');
is(column($flaky, 'attempts'), 4, 'as often as it takes');
my @keys = map { /"key": "([^"]+)"/ } seen('one', '/flaky/f');
is(scalar(@keys), 4, 'it has seen them all');
is(scalar(grep { $_ eq $keys[0] } @keys), 4, 'each with the same key');
is(result(call("'s', 'POST', '/cut/c/1', 'x'")), 'answered|200|whole', 'an answer that is cut off is none');
my $busy = call("'s', 'GET', '/busy'");
$start = time;
is(result($busy), 'answered|200|later', 'a leader that is busy is asked again');
cmp_ok(time - $start, '>', 0.9, 'when it wants to be');
is(result(call("'s', 'GET', '/mute/m', timeout => '700 ms'")), 'expired|500|status 500', 'at the deadline there is the last answer, if the attempts after it brought none');

# silence: nobody waits for longer than the deadline
$start = time;
my $silent = call("'s', 'GET', '/silent', timeout => '1 s'");
is(result($silent), 'expired||', 'a leader that says nothing');
cmp_ok(time - $start, '<', 2, 'is not waited for beyond the deadline');
like(column($silent, 'error'), qr/timeout|silent|longer/, 'and the call says why');

# sizes and bytes
is($server->safe_psql('postgres', "SELECT length(body), truncated FROM call_result(@{[call(q{'s', 'GET', '/large/2000000'})]})"), '1048576|t', 'of a large answer the first MB is kept');
is(result(call("'s', 'GET', '/bytes'")), 'answered|200|a?b??c', 'bytes that are no text are shown as such');

# who waits for long, while others come to their end, keeps nothing of what he has looked at
my $grown = call("'s', 'GET', '/grown/g', timeout => '1 h'");
poll('a large answer has come that is none', sub { column($grown, 'status') eq '500' });
my $waiter = $server->background_psql('postgres', on_error_stop => 0);
$waiter->query_until(qr/begun/, "\\echo begun\nSELECT call_result($grown);\n");
my $backend = poll('somebody waits for the next one', sub { $server->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE query LIKE 'SELECT call_result($grown)%' AND wait_event_type = 'Extension'") });
my $memory = sub { slurp_file("/proc/$backend/status") =~ /^RssAnon:\s+(\d+)/m; $1 };
my $before_others = $memory->();
$server->safe_psql('postgres', q{DO $$DECLARE id bigint; BEGIN FOR i IN 1 .. 100 LOOP id := call_leader('s', 'GET', '/echo/other'); COMMIT; PERFORM call_result(id); END LOOP; END$$});
cmp_ok($memory->() - $before_others, '<', 30000, 'a hundred calls later he has as much memory');
$server->safe_psql('postgres', "SELECT pg_cancel_backend($backend); DELETE FROM amoro_meta.call WHERE call_id = $grown");
$waiter->quit;

# a redirect inward is not followed
like(result(call("'s', 'GET', '/redirect', timeout => '500 ms'")), qr/^expired\|/, 'a redirect to where it must not go is no answer');

# a redirect gives it no more time
is(result(call("'s', 'GET', '/round/0.6', timeout => '1 s'")), 'expired||', 'a redirect that comes slowly');
cmp_ok(scalar(seen('one', '/round')), '<=', 3, 'is not followed beyond the deadline');

# the same request
my $id = call("'s', 'POST', '/echo/once', 'x', request_id => '11111111-0000-0000-0000-000000000000'");
is(call("'s', 'POST', '/echo/once', 'x', request_id => '11111111-0000-0000-0000-000000000000'"), $id, 'a retry with the same request_id is the same call');
result($id);
is(scalar(seen('one', '/echo/once')), 1, 'which the leader sees once');

# it is of the transaction that made it
$server->psql('postgres', "BEGIN; SELECT call_leader('s', 'GET', '/echo/rolledback'); ROLLBACK");
is(($server->outcome("BEGIN; SELECT call_result(call_leader('s', 'GET', '/echo/own'))"))[0], '25001', 'nobody waits for a call of his own transaction');

# the leader changes while it is at it: the next one gets the call, the answer of the old one does not count
append_to_file("$directory/one.hold", '');
my $slow = call("'s', 'POST', '/slow', 'x', timeout => '30 s'");
poll('the first leader has it', sub { seen('one', '/slow') });
$server->safe_psql('postgres', "SELECT release_leadership('s', node_id, incarnation, token) FROM leaders WHERE service = 's'");
my $second = token_of(lead('two', 's'));
is(result($slow), 'answered|200|slowly', 'a call goes to the next leader at once');
is(column($slow, 'token'), $second, 'whose token it has');
like((seen('two', '/slow'))[0], qr/"token": "$second"/, 'as it was sent');
is((map { /"key": "([^"]+)"/ } seen('two', '/slow'))[0], (map { /"key": "([^"]+)"/ } seen('one', '/slow'))[0], 'under the same key');
unlink "$directory/one.hold";
is(scalar(seen('one', 'rolledback')) + scalar(seen('two', 'rolledback')), 0, 'a call that was rolled back is not made');

# where a leader must not be, it is not called
$server->safe_psql('postgres', "SELECT release_leadership('s', node_id, incarnation, token) FROM leaders WHERE service = 's'");
register('one', 'http://10.0.0.1:80');
lead('one', 's');
my $inward = call("'s', 'GET', '/x', timeout => '1 s'");
like(result($inward), qr/^expired\|/, 'an endpoint in a private network is not called');
like(column($inward, 'error'), qr/not a public one; see amoro_meta.http_allowed_hosts/, 'and the call says why');
$server->safe_psql('postgres', "SELECT register_node('one', '$incarnation{one}')");
my $deaf = call("'s', 'GET', '/x', timeout => '300 ms'");
is(result($deaf), 'expired||', 'a leader that does not say where it is cannot be called');
is(column($deaf, 'error'), 'the leader has no endpoint', 'and the call says so');
register('one', 'file:///etc/passwd');
$inward = call("'s', 'GET', '/etc/passwd', timeout => '1 s'");
like(result($inward), qr/^expired\|/, 'nor one that is no URL of HTTP');
register('one', 'http://127.0.0.1:' . slurp_file("$directory/one.port"));

# the explorer ends in the middle: the call is made again, with the same key
append_to_file("$directory/one.hold", '');
$slow = call("'s', 'POST', '/slow/again', 'x', timeout => '30 s'");
poll('the leader has it', sub { seen('one', '/slow/again') });
$server->safe_psql('postgres', 'SELECT pg_terminate_backend(amoro_meta.explorer_pid())');
poll('it has it again', sub { seen('one', '/slow/again') == 2 });
unlink "$directory/one.hold";
is(result($slow), 'answered|200|slowly', 'an explorer that ends in the middle costs nothing but time');
is(scalar(keys %{ { map { /"key": "([^"]+)"/ ? ($1 => 1) : () } seen('one', '/slow/again') } }), 1, 'and the leader can tell that it is the same call');

# many at once
my $count = $server->safe_psql('postgres', "SELECT count(call_leader('s', 'GET', '/echo/many/' || i)) FROM generate_series(1, 200) i");
is($server->safe_psql('postgres', "SELECT count(*) FROM calls c, call_result(c.call_id) r WHERE c.path LIKE '/echo/many/%' AND r.state = 'answered'"), 200, '200 calls at once');
is(scalar(seen('one', '/echo/many')), 200, 'each is made once');

# those that wait for a place, because a leader is slow, cost nothing meanwhile
append_to_file("$directory/one.hold", '');
$server->safe_psql('postgres', "SELECT count(call_leader('s', 'GET', '/slow/place/' || i)) FROM generate_series(1, 40) i");
poll('16 are under way', sub { seen('one', '/slow/place') >= 16 });
my $explorer = $server->safe_psql('postgres', 'SELECT amoro_meta.explorer_pid()');
my $slept = sub { slurp_file("/proc/$explorer/status") =~ /^voluntary_ctxt_switches:\s+(\d+)/m; $1 };
my ($before, $until) = ($slept->(), time + 1);
poll('a second has passed', sub { time > $until });
cmp_ok($slept->() - $before, '<', 8, 'the explorer sleeps while nothing can be begun');
is(scalar(seen('one', '/slow/place')), 16, 'a leader is asked 16 things at a time');
unlink "$directory/one.hold";
is($server->safe_psql('postgres', "SELECT count(*) FROM calls c, call_result(c.call_id) r WHERE c.path LIKE '/slow/place/%' AND r.state = 'answered'"), 40, 'then the others');

# leaders that hang, of more services than there are places for: these are dealt out evenly, and a service that has none yet gets one at once.
# No attempt ends by itself meanwhile.
$server->configure('amoro_meta.http_timeout' => '1h');
start_leader('hung');
lead('hung', "hung $_") for 1 .. 9;
$server->safe_psql('postgres', "SELECT count(call_leader('hung ' || s, 'GET', '/silent/' || s, timeout => '1 h')) FROM generate_series(1, 9) s, generate_series(1, 16)");
my $places = sub { my ($what) = @_; $server->safe_psql('postgres', "SELECT $what FROM (SELECT count(*) FILTER (WHERE attempts > 0) AS begun, sum(attempts) AS attempts FROM calls
	WHERE service LIKE 'hung%' GROUP BY service) c") };
poll('all places are taken', sub { $places->('sum(begun)') == 128 });
is($places->('min(begun), max(begun)'), '14|15', 'each service has its share of the places');
my $beside = call("'s', 'GET', '/echo/beside'");
like(result($beside, "'60 s'"), qr/^answered\|200\|/, 'a service whose leader answers is called all the same');
is(column($beside, 'attempts'), 1, 'by one attempt');
poll('the place is taken again', sub { $places->('sum(attempts)') == 129 });
is($places->('min(begun) >= 14'), 't', 'it was one of those of which there were most');
is(result(call("'s', 'GET', '/large/2000000'"), "'60 s'") =~ s/x+/x/r, 'answered|200|x', 'and again');
kill 'KILL', $pid{hung};
waitpid delete $pid{hung}, 0;
$server->safe_psql('postgres', "DELETE FROM amoro_meta.call WHERE service LIKE 'hung%'");

# however many calls wait for a place, whoever looks for what to begin looks at some of them (in a transaction that nobody else sees)
lead('one', "backlog $_") for 1 .. 3;
my @looked = split /\n/, $server->safe_psql('postgres', <<'SQL');
BEGIN;
INSERT INTO amoro_meta.call (call_id, service, method, path, request_id, requested_by, created_at, deadline, next_at)
	SELECT -i, 'backlog ' || i % 3 + 1, 'GET', '/silent', gen_random_uuid(), current_user::regrole, now(), now() + '1 h', now() - i * interval '1 ms' FROM generate_series(1, 3000) i;
SELECT count(*) FROM amoro_meta.claim_calls('{}', 0, 128);
SELECT amoro_meta.next_call('{}', 0) > 0;
SELECT idx_tup_fetch + seq_tup_read FROM pg_stat_xact_user_tables WHERE relid = 'amoro_meta.call'::regclass;
ROLLBACK;
SQL
is("@looked[0, 1]", '48 t', 'of a backlog as much is begun as there are places');
cmp_ok($looked[2], '<', 1000, "the others are not looked at ($looked[2] rows were, of 3000)");

# catalogs that have all the memory there is for answers
my $catalog = AmoroCatalog->start;
$server->configure('amoro_meta.http_max_body' => '64kB');
AmoroCatalog::create($server, "stalled$_", $catalog->uri('stalled')) for 1 .. 9;
poll('there is no memory for another catalog', sub { $server->safe_psql('postgres',
	"SELECT count(*) FROM amoro_stat_explorer WHERE last_error LIKE '%too many large answers at once'") > 0 });
is(result(call("'s', 'GET', '/large/60000', timeout => '10 s'")) =~ s/x+/x/r, 'answered|200|x', 'answers of leaders have memory of their own');
$catalog->stop;
$server->safe_psql('postgres', "SELECT count(drop_catalog(catalog_name)) FROM catalogs WHERE catalog_name LIKE 'stalled%'");
$server->configure('amoro_meta.http_timeout' => undef, 'amoro_meta.http_max_body' => undef);

# catalogs the explorer has a lot to do with, all at the same time: whatever is written about each waits for a lock for most of a second
$catalog = AmoroCatalog->start;
$catalog->write_lake('locked', '{"namespaces": {"n": []}}');
AmoroCatalog::create($server, "locked$_", $catalog->uri('lake/locked')) for 1 .. 8;
AmoroCatalog::wait_for_round($server, "locked$_", 1) for 1 .. 8;
$catalog->write_lake('locked', '{"namespaces": {"n": ["t"]}}');
my $lock = $server->background_psql('postgres');
$lock->query_safe('BEGIN; SELECT count(*) FROM (SELECT FROM amoro_meta.catalog FOR UPDATE) c');
$server->safe_psql('postgres', 'UPDATE amoro_meta.exploration SET next_at = NULL; SELECT amoro_meta.wake_explorer()');
my $explored = sub { my ($what) = @_; $server->safe_psql('postgres', "SELECT count(*) FROM amoro_stat_explorer WHERE catalog_name LIKE 'locked%' AND $what") };
poll('the explorer waits for the lock', sub { $server->safe_psql('postgres',
	'SELECT wait_event_type FROM pg_stat_activity WHERE pid = amoro_meta.explorer_pid()') eq 'Lock' });
like(result(call("'s', 'GET', '/echo/between'"), "'60 s'"), qr/^answered\|200\|/, 'a call has its turn');
cmp_ok($explored->('rounds = 2'), '<', 8, 'before all catalogs have had theirs');
$lock->query_safe('ROLLBACK');
$lock->quit;
poll('the catalogs are explored', sub { $explored->("phase = 'waiting' AND rounds >= 2") == 8 });
$catalog->stop;
$server->safe_psql('postgres', "SELECT count(drop_catalog(catalog_name)) FROM catalogs WHERE catalog_name LIKE 'locked%'");

# what somebody has locked holds up those alone who need it
$catalog = AmoroCatalog->start;
$catalog->write_lake('apart', '{"namespaces": {"n": ["t"]}}');
AmoroCatalog::create($server, 'apart', $catalog->uri('lake/apart'));
AmoroCatalog::wait_for_round($server, 'apart', 1);
$lock = $server->background_psql('postgres');
$lock->query_safe('BEGIN; LOCK TABLE amoro_meta.call');
is(AmoroCatalog::explore($server, 'apart')->{last_error}, '', 'catalogs are explored while no call can be looked at');
$lock->query_safe('ROLLBACK; BEGIN; LOCK TABLE amoro_meta.exploration');
append_to_file("$directory/one.hold", '');
my $apart = call("'s', 'POST', '/slow/apart', 'x', timeout => '1 h'");
poll('the leader has the call', sub { seen('one', '/slow/apart') });
$server->safe_psql('postgres', 'SELECT amoro_meta.wake_explorer()');
poll('the explorer waits for the lock', sub { $server->safe_psql('postgres',
	'SELECT wait_event_type FROM pg_stat_activity WHERE pid = amoro_meta.explorer_pid()') eq 'Lock' });
poll('and has given up to wait', sub { $server->safe_psql('postgres',
	'SELECT wait_event_type FROM pg_stat_activity WHERE pid = amoro_meta.explorer_pid()') ne 'Lock' });
unlink "$directory/one.hold";
is(result($apart), 'answered|200|slowly', 'calls are answered while no catalog can be looked at');
is(scalar(seen('one', '/slow/apart')), 1, 'and none is made again for that');
$lock->query_safe('ROLLBACK');
$lock->quit;
$catalog->stop;
$server->safe_psql('postgres', "SELECT drop_catalog('apart')");

# cancel_process asks the leader that runs it, and tells what it has answered
my $process = $server->safe_psql('postgres', "SELECT start_process('c', 'd', 't', 'compact', '[]')");
$server->safe_psql('postgres', "SELECT delegate_process($process, 's')");
my $answer = $server->safe_psql('postgres', "SELECT cancel_process($process, 'too slow')");
like($answer, qr/^asked: call \d+$/, 'a process that a leader runs is not cancelled here');
($id) = $answer =~ /(\d+)/;
like(result($id), qr/^answered\|200\|/, 'but by its leader');
like((seen('one', "/v1/processes/$process/cancel"))[0], qr/"method": "POST".*too slow/, 'who is told which and why');
is($server->safe_psql('postgres', "SELECT status, runner_service, reason FROM processes WHERE process_id = $process"), 'CANCELED|s|too slow', 'then it has ended, and why');
is($server->safe_psql('postgres', "SELECT cancel_process($process)"), 'already finished: CANCELED', 'which is decided here');
my $other = $server->safe_psql('postgres', "SELECT start_process('c', 'd', 't', 'compact', '[]')");
is($server->safe_psql('postgres', "SELECT cancel_process($other)"), 'cancelled', 'one that optimizers run is cancelled here');

# cancel_process_and_wait returns what the leader has decided
sub delegate
{
	my ($service) = @_;
	$process = $server->safe_psql('postgres', "SELECT start_process('c', 'd', 't', 'compact', '[]')");
	$server->safe_psql('postgres', "SELECT delegate_process($process, '$service')");
	return $process;
}
# What CALL answers, and what has become of the process.
sub cancel_and_wait
{
	my ($arguments, $id) = @_;
	return join ' ', $server->safe_psql('postgres', "CALL cancel_process_and_wait($arguments)") =~ s/\|\d+\|/|#|/r,
		$server->safe_psql('postgres', "SELECT status FROM processes WHERE process_id = " . ($id // $process));
}
delegate('s');
is(cancel_and_wait("$process, 'too slow'"), 'cancelled|#|200|{"cancelled": true} CANCELED', 'a leader that cancels: cancelled');
is(cancel_and_wait($process), 'already finished: CANCELED||| CANCELED', 'then it has finished');
is(cancel_and_wait(-1, -1), 'unknown||| ', 'one that is not there is unknown');
delegate('s');
is(cancel_and_wait("$process, 'status 404'"), 'refused: status 404|#|404|status 404 RUNNING', 'a leader that does not know it: refused, with its answer');
is(cancel_and_wait("$process, 'status 409'"), 'refused: status 409|#|409|status 409 RUNNING', 'one that will not: too');
like(cancel_and_wait("$process, 'status 503', '1500 ms'"), qr/^no answer: status 503\|#\|503\|status 503 RUNNING$/, 'one that cannot is asked until the time is over');
# what ends while the leader thinks about it has ended, whatever the leader says
for my $status (200, 409)
{
	delegate('s') if $status == 409;
	append_to_file("$directory/one.hold", '');
	my $session = $server->background_psql('postgres');
	$session->query_until(qr/begun/, "\\echo begun\nCALL cancel_process_and_wait($process, 'status $status');\n");
	poll('the leader is asked', sub { seen('one', "/v1/processes/$process/cancel.*status $status") });
	is($server->safe_psql('postgres', "SELECT finish_process($process)"), 'SUCCESS', 'while the leader is asked nothing is locked');
	unlink "$directory/one.hold";
	like($session->query_safe(''), qr/^already finished: SUCCESS\|\d+\|$status\|status $status$/, "a process that has finished before the answer ($status) came");
	$session->quit;
}
# nobody leads: no answer, at the deadline
delegate('nobody');
$start = time;
is(cancel_and_wait("$process, timeout => '700 ms'"), 'no answer: nobody leads the service|#|| RUNNING', 'without a leader there is no answer');
cmp_ok(time - $start, '<', 10, 'and nobody waits for much longer than that');
# of whom somebody else has asked it already
$server->safe_psql('postgres', "CREATE ROLE another LOGIN; SELECT grant_access('another', 'operator')");
like($server->safe_psql('postgres', "SELECT cancel_process($process, timeout => '1 h')"), qr/^asked: call \d+$/, 'the leader is being asked');
like($server->safe_psql('postgres', "CALL cancel_process_and_wait($process, timeout => '100 ms')"), qr/^asked: call \d+\|\d+\|\|$/, 'whoever waits for less than that learns no more');
is($server->safe_psql('postgres', "CALL cancel_process_and_wait($process, timeout => '100 ms')", extra_params => [ '-U', 'another' ]) =~ s/\d+/#/r,
	'no answer: nobody leads the service|#||', 'another role asks for itself');
is($server->safe_psql('postgres', "SET default_transaction_isolation = 'repeatable read'; CALL cancel_process_and_wait($process, timeout => '100 ms')", extra_params => [ '-U', 'another' ]) =~ s/\d+/#/r,
	'no answer: nobody leads the service|#||', 'at any isolation level');
$server->safe_psql('postgres', "SELECT finish_process($process)");
# whoever gives up the wait takes nothing back
delegate('s');
append_to_file("$directory/one.hold", '');
is(($server->outcome("SET statement_timeout = '300 ms'; CALL cancel_process_and_wait($process)"))[0], '57014', 'the wait can be interrupted');
unlink "$directory/one.hold";
poll('the leader cancels all the same', sub { $server->safe_psql('postgres', "SELECT status FROM processes WHERE process_id = $process") eq 'CANCELED' });

# the same with a leader that is a node and what its hook has started
my $port = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1')->sockport;
my $hook = "$directory/hook";
append_to_file($hook, "#!/bin/sh\nexec /usr/bin/python3 '" . File::Spec->rel2abs(dirname(__FILE__)) . "/../explorer/leader_server.py' --directory '$directory' --name real --port $port\n");
chmod 0755, $hook;
delegate('compactor');
my $node = AmoroNode->start(name => 'real', conninfo => $server->connstr('postgres'), options => [ '--service', 'compactor', '--endpoint', "http://127.0.0.1:$port", '--on-gain', $hook ]);
is(cancel_and_wait("$process, 'by a node'"), 'cancelled|#|200|{"cancelled": true} CANCELED', 'a node that leads is asked as soon as it does');
delegate('compactor');
is(cancel_and_wait("$process, 'status 409'"), 'refused: status 409|#|409|status 409 RUNNING', 'and may refuse');
is($node->stop, 0, 'the node stops');
is(cancel_and_wait("$process, timeout => '300 ms'"), 'no answer: nobody leads the service|#|| RUNNING', 'then nobody leads');
$server->safe_psql('postgres', "SELECT finish_process($process)");

# ended calls go with the history
$server->safe_psql('postgres', "UPDATE amoro_meta.call SET ended_at = ended_at - interval '31 d'");
poll('they are purged', sub { $server->safe_psql('postgres', 'SELECT purge_calls(); SELECT count(*) FROM calls WHERE ended_at IS NOT NULL') =~ /\b0$/ });
is(($server->outcome("SELECT call_result($id)"))[0], '42704', 'a call that is long over is not known any more');

# what waits for an answer is in nobody's way: whoever wants the explorer gone waits for less than a second
append_to_file("$directory/one.hold", '');
sub under_way
{
	my ($what, $database) = @_;
	$server->safe_psql($database // 'postgres', "SELECT call_leader('s', 'POST', '/slow/$what', 'x', timeout => '1 h')");
	return poll("the call '$what' is under way", sub { seen('one', "/slow/$what") });
}
# Its own database, with the extension and a leader in it.
sub create_calling
{
	$server->safe_psql('postgres', q(CREATE DATABASE calling ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0));
	$server->safe_psql('calling', 'CREATE EXTENSION amoro_meta');
	$server->wait_for_state('running', 'calling', undef, 'calling');
	poll('the explorer runs there', sub { $server->safe_psql('calling', 'SELECT amoro_meta.explorer_pid()') ne '' });
	return;
}
sub lead_in_calling
{
	my $port = slurp_file("$directory/one.port");
	return poll('one leads there', sub { $server->safe_psql('calling', <<SQL) });
SELECT answer FROM register_node('one', '$incarnation{one}', endpoint => 'http://127.0.0.1:$port');
SELECT activate_node(s.node_id, s.incarnation, amoro_meta.current_term(), s.lease_epoch, s.metadata_version) FROM node_status s WHERE s.state <> 'active';
SELECT a.token FROM nodes n, acquire_leadership('s', n.node_id, n.incarnation) a;
SQL
}
sub took { my ($database, $statement) = @_; return $server->elapsed(sub { $server->safe_psql($database, $statement) }) }

my %idle = (session => took('postgres', 'SELECT 1'));
create_calling();
$idle{database} = took('postgres', 'DROP DATABASE calling');
create_calling();
lead_in_calling();
# it is in another encoding than what goes over the network
is($server->safe_psql('calling', q{SELECT call_leader('s', 'POST', '/text', E'th\u00e9', 'text/plain') AS call \gset
	SELECT encode(convert_to(body, 'UTF8'), 'escape') FROM call_result(:call, '60 s')}), 'caf\303\251 ? th\303\251', 'a body is UTF-8 on its way');
under_way('dropped', 'calling');
$server->is_prompt('DROP DATABASE of its own database', took('postgres', 'DROP DATABASE calling'), $idle{database});

under_way('cancel');
my $cancel = $server->elapsed(sub {
	$server->safe_psql('postgres', 'SELECT pg_cancel_backend(amoro_meta.explorer_pid())');
	poll('the call is made again', sub { seen('one', '/slow/cancel') >= 2 });
});
$server->is_prompt('a cancel of the explorer, until the call is made again', $cancel, $idle{session});
$server->safe_psql('postgres', 'CREATE DATABASE other');
my $other_database = took('postgres', 'DROP DATABASE other');
my $extension = took('postgres', 'DROP EXTENSION amoro_meta CASCADE');
$server->safe_psql('postgres', 'CREATE EXTENSION amoro_meta');
$server->wait_for_state('running');
poll('the explorer runs', sub { $server->safe_psql('postgres', 'SELECT amoro_meta.explorer_pid()') ne '' });
$server->safe_psql('postgres', 'CREATE DATABASE other');
$server->is_prompt('DROP DATABASE of another database', $other_database, took('postgres', 'DROP DATABASE other'));
$server->is_prompt('DROP EXTENSION', $extension, took('postgres', 'DROP EXTENSION amoro_meta CASCADE'));
$server->safe_psql('postgres', 'CREATE EXTENSION amoro_meta');
$server->wait_for_state('running');
register('one', 'http://127.0.0.1:' . slurp_file("$directory/one.port"));
lead('one', 's');
under_way('stopped');
my $stop = $server->elapsed(sub { $server->stop('fast') });
$server->start;
$server->wait_for_state('running');
$server->is_prompt('pg_ctl stop', $stop, $server->elapsed(sub { $server->stop('fast') }));

END
{
	my $status = $?;
	kill 'KILL', values %pid;
	waitpid $_, 0 for values %pid;
	$? = $status;
}

done_testing();
