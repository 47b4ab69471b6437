# amoro-node as a program: options, environment, exit codes, log, signals. No database is needed for that.
use strict;
use warnings;
use AmoroHttp;
use AmoroNode;
use IO::Socket::INET;
use IPC::Run qw(run);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $nowhere = 'host=/nonexistent connect_timeout=2';

# Runs amoro-node to its end; returns exit code, stdout, stderr.
sub outcome
{
	my ($environment, @arguments) = @_;
	my ($out, $err) = ('', '');
	local %ENV = (%ENV, %$environment);
	run [ $ENV{AMORO_NODE}, @arguments ], '<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout(30);
	return ($? >> 8, $out, $err);
}

my ($code, $out, $err) = outcome({}, '--help');
is($code, 0, '--help succeeds');
like($out, qr/--conninfo=CONNINFO/, '--help lists the options');
like($out, qr/default: 127\.0\.0\.1:8080/, '--help names the defaults');
like($out, qr/Exit codes: 0 .* 2 wrong options, 3 cannot listen, 4 refused/, '--help lists the exit codes');
is($err, '', '--help writes nothing to stderr');
($code, $out) = outcome({}, '--version');
is($code, 0, '--version succeeds');
like($out, qr/^amoro-node \d+\.\d+/, '--version prints the version');

my @wrong = (
	[ 'no name', [], qr/a name is needed: --name NAME/ ],
	[ 'an empty name', [ '--name', '' ], qr/a name is needed/ ],
	[ 'a name with a line feed', [ '--name', "n\n1" ], qr{--name has a control character} ],
	[ 'a name that is too long', [ '--name', 'n' x 10000, '--listen', '127.0.0.1:0' ], qr/--name is longer than 255 characters/ ],
	[ 'a name that is not UTF-8', [ '--name', "n\xff" ], qr/--name is not valid UTF-8/ ],
	[ 'an unknown option', [ '--name', 'n1', '--frobnicate' ], qr/frobnicate/ ],
	[ 'an option without its value', [ '--name' ], qr/requires an argument/ ],
	[ 'a stray argument', [ '--name', 'n1', 'stray' ], qr/unexpected argument "stray"/ ],
	[ 'a conninfo that is none', [ '--name', 'n1', '--conninfo', 'nonsense' ], qr/--conninfo: / ],
	[ 'an unknown conninfo keyword', [ '--name', 'n1', '--conninfo', 'hots=x' ], qr/hots/ ],
	[ 'no HTTP thread', [ '--name', 'n1', '--http-threads', '0' ], qr/--http-threads must be an integer from 1 to 256, not "0"/ ],
	[ 'a negative number', [ '--name', 'n1', '--loader-connections', '-1' ], qr/--loader-connections must be/ ],
	[ 'a number that overflows', [ '--name', 'n1', '--load-timeout-ms', '99999999999999999999' ], qr/--load-timeout-ms must be/ ],
	[ 'a number with a tail', [ '--name', 'n1', '--client-timeout-ms', '1000x' ], qr/--client-timeout-ms must be/ ],
	[ 'a size without a number', [ '--name', 'n1', '--cache-bytes', 'GB' ], qr/--cache-bytes must be a number of bytes/ ],
	[ 'a negative size', [ '--name', 'n1', '--cache-bytes', '-1' ], qr/--cache-bytes must be/ ],
	[ 'a size that overflows', [ '--name', 'n1', '--cache-bytes', '99999999999TB' ], qr/--cache-bytes must be/ ],
	[ 'an unknown unit', [ '--name', 'n1', '--cache-bytes', '1XB' ], qr/--cache-bytes must be/ ],
	[ 'an unknown log level', [ '--name', 'n1', '--log-level', 'loud' ], qr/--log-level must be error, warning, info or debug/ ]);
for (@wrong)
{
	my ($what, $arguments, $message) = @$_;
	($code, $out, $err) = outcome({}, @$arguments);
	is($code, 2, "$what: exit code for wrong options");
	like($err, $message, "$what: says why");
}
($code, $out, $err) = outcome({ AMORO_NODE_HTTP_THREADS => 'many' }, '--name', 'n1');
is($code, 2, 'a wrong environment variable: exit code');
like($err, qr/AMORO_NODE_HTTP_THREADS must be an integer/, 'a wrong environment variable is named');

# Addresses that cannot be listened on.
my $taken = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1') or die $!;
for my $case (
	[ '127.0.0.1:' . $taken->sockport, qr/cannot listen on .*in use/ ],
	[ '192.0.2.1:8080', qr/cannot listen on .*assign/ ],
	[ 'nocolon', qr/"nocolon" is not HOST:PORT/ ],
	[ '127.0.0.1:', qr/is not HOST:PORT/ ],
	[ '127.0.0.1:http-no-such-port', qr/cannot resolve/ ])
{
	($code, $out, $err) = outcome({}, '--name', 'n1', '--conninfo', $nowhere, '--listen', $case->[0]);
	is($code, 3, "listen on $case->[0]: exit code");
	like($err, $case->[1], "listen on $case->[0]: says why");
}

# A node that cannot reach its database runs, fenced, and says so.
my $node = AmoroNode->start(
	name => 'n 1 "é"',
	conninfo => $nowhere,
	environment => { AMORO_NODE_KIND => 'compute', AMORO_NODE_ENDPOINT => 'http://example', AMORO_NODE_LOG_LEVEL => 'error' },
	options => [ '--log-level', 'debug', '--http-threads', '3' ]);
like($node->log_text, qr/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z info n 1 "é": listening on 127\.0\.0\.1:\d+$/m,
	'port 0: the log names the port; the command line wins over the environment');
my $status = $node->status;
is($status->{node_kind}, 'compute', 'an option may be an environment variable');
is($status->{endpoint}, 'http://example', 'so may another');
ok(!$status->{serving}, 'without a database it does not serve');
isnt($status->{state}, 'active', 'nor is it active');
is($status->{lease_remaining_ms}, 0, 'nor has it a lease');
my $health = $node->get('/healthz');
is($health->{status}, 503, 'health is bad');
like($health->{body}, qr/^(connecting|fenced)/, 'health names the state');
$node->wait_until('says why it is fenced', sub { $node->status->{reason} ne '' });
my $lookup = $node->lookup('c', 'd', 't');
is($lookup->{status}, 503, 'a lookup is refused');
is($lookup->{json}{error}{type}, 'MetadataLeaseFencedException', '... as fenced');
is($lookup->{headers}{'retry-after'}, 1, '... with a time to retry');
ok(!exists $lookup->{headers}{'amoro-metadata-version'}, '... and says nothing of the metadata');
is(scalar(() = $node->log_text =~ / listening on /g), 1, 'it says once that it listens');

# Every thread serves: connections beyond the first land on any of them.
my @sockets = map { http_connect($node->address) } 1 .. 24;
is(scalar(grep { http_exchange($_, '/healthz')->{status} == 503 } @sockets), 24, 'all connections are served');

# SIGTERM ends it at once though clients are connected and idle; SIGINT does the same.
my $started = time;
is($node->stop('TERM'), 0, 'SIGTERM: exit code 0');
cmp_ok(time - $started, '<', 5, 'SIGTERM ends it promptly with idle clients connected');
like($node->log_text, qr/info n 1 "é": stopping: Terminated\n/, 'the reason is logged');
like($node->log_text, qr/info n 1 "é": stopped\n\z/, 'the end is the last line of the log');
$node = AmoroNode->start(conninfo => $nowhere);
my $half = http_connect($node->address);
syswrite $half, "GET /healthz HT";
is($node->stop('INT'), 0, 'SIGINT: exit code 0, though a client is in the middle of a request');

$node = AmoroNode->start(conninfo => $nowhere);
is($node->stop('HUP'), 0, 'SIGHUP (the terminal went away): exit code 0, too');

# A reader of the log that is slow, and then gone, holds up nothing.
pipe my $reader, my $writer or die $!;
$node = AmoroNode->start(conninfo => $nowhere, stderr => $writer, options => [ '--log-level', 'debug' ], no_wait => 1);
close $writer;
my $first = '';
$node->wait_until('listens', sub { sysread($reader, $first, 4096, length $first); $first =~ / listening on (\S+)\n/ });
$node->{address} = $1 if $first =~ / listening on (\S+)/;
close $reader;
is($node->get('/healthz')->{status}, 503, 'it answers after the reader of its log went away');
is($node->stop, 0, 'and stops in good order');

# Text that is not UTF-8, or cut in the middle of a character, does not spoil the status.
for my $shift ('', 'x')
{
	$node = AmoroNode->start(
		conninfo => "host=/$shift" . 'é' x 300 . ' connect_timeout=2', options => [ '--kind', "k\xff", '--endpoint', "\xc3" ]);
	my $reason = $node->wait_until('says why it is fenced', sub { $node->status->{reason} });
	cmp_ok(length $reason, '>', 10, 'a reason that is cut off is shown');
	is($node->status->{node_kind}, 'k?', 'as are options that are not UTF-8');
	is($node->get('/healthz')->{status}, 503, 'health is answered');
	is($node->stop, 0, 'it stops');
}

# Addresses.
$node = AmoroNode->start(conninfo => $nowhere, listen => '*:0');
my ($every, $port) = $node->address =~ /^(.*):(\d+)$/;
like($every, qr/^(0\.0\.0\.0|\[::\])$/, 'an asterisk is every address');
is(http_get("127.0.0.1:$port", '/healthz')->{status}, 503, 'among them that of IPv4 clients');
is($node->stop, 0, 'it stops');
$node = AmoroNode->start(conninfo => $nowhere, listen => 'localhost:0');
like($node->address, qr/^(127\.0\.0\.1|\[::1\]):\d+$/, 'a host may be a name');
is($node->stop, 0, 'it stops');

# The foreign text of a message cannot forge a line.
$node = AmoroNode->start(conninfo => "host='/non\nexistent' connect_timeout=2", options => [ '--log-level', 'debug' ]);
$node->wait_until('says why it is fenced', sub { $node->status->{reason} ne '' });
unlike($node->log_text, qr/^(?!\d{4}-)/m, 'every line of the log begins with its time, whatever the message quotes');
is($node->stop, 0, 'it stops');

done_testing();
