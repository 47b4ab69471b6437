# Clients in great number, clients that are slow, clients that go away: the others notice nothing, nothing leaks.
use strict;
use warnings;
use AmoroCluster;
use AmoroHttp;
use AmoroLake;
use AmoroNode;
use IO::Socket::INET;
use PostgreSQL::Test::Utils;
use Socket qw(SOL_SOCKET SO_LINGER SO_RCVBUF IPPROTO_TCP);
use Test::More;
use Time::HiRes qw(sleep time);

my $idle_count = 10000;
my $path = AmoroNode::table_path('c', 'd', 't');
my $server = AmoroCluster->create('main');
create_lake($server, 't');

# The hard limit of descriptors is what the node takes; the shell raises ours before Perl starts.
sub open_idle
{
	my ($address, $count, $seconds) = @_;
	my $pid = open my $output, '-|', 'sh', '-c', 'ulimit -S -n "$(ulimit -H -n)"; exec "$@"', 'sh', $^X, '-MIO::Socket::INET', '-e', <<'PERL', $address, $count, $seconds
my ($address, $count, $seconds) = @ARGV;
my @sockets;
while (@sockets < $count)
{
	push @sockets, IO::Socket::INET->new(PeerAddr => $address) || last;
	syswrite $sockets[-1], "GET /healthz HTTP/1.1\r\n\r\n" if @sockets % 10 == 0;
}
my $answered = 0;
for (my $i = 9; $i < @sockets; $i += 10) { my $bytes; $answered++ if sysread($sockets[$i], $bytes, 4096) && $bytes =~ /200/ }
$| = 1;
print scalar(@sockets), " $answered\n";
sleep $seconds;
PERL
	  or die "cannot start the idle clients: $!";
	my $line = readline $output;
	return ($pid, $output, split(' ', $line // '0 0'));
}

my $node = AmoroNode->start(conninfo => conninfo($server), options => [ '--client-timeout-ms', '60000' ]);
$node->wait_for_serving;
$node->lookup('c', 'd', 't');
my ($pid, $output, $opened, $answered) = open_idle($node->address, $idle_count, 60);
is($opened, $idle_count, 'ten thousand clients are connected');
is($answered, $idle_count / 10, 'those that ask are answered');
my $socket = http_connect($node->address);
my @took = sort { $a <=> $b } map { my $start = time; http_exchange($socket, $path)->{status} == 200 or die; time - $start } 1 .. 200;
cmp_ok($took[100], '<', 0.05, 'with them connected a lookup is quick');
cmp_ok($node->status->{http_connections}, '>=', $idle_count, 'status counts them');
cmp_ok($node->resident_kilobytes, '<', 200_000, 'and they cost little memory');
is($node->get('/healthz')->{status}, 200, 'the node keeps its lease');
my $started = time;
is($node->stop, 0, 'with them connected it stops');
cmp_ok(time - $started, '<', 5, '... promptly');
kill 'KILL', $pid;
close $output;

# More clients than descriptors: those in excess wait their turn, without the node spinning or losing its lease.
$node = AmoroNode->start(conninfo => conninfo($server), under => [ 'sh', '-c', 'ulimit -n 150; exec "$@"', 'sh' ]);
$node->wait_for_serving;
my @crowd = map { http_connect($node->address) } 1 .. 300;
syswrite $_, "GET /healthz HTTP/1.1\r\n\r\n" for @crowd;
my @ready = grep { my $buffer = ''; http_read_response($_, \$buffer, timeout => 10) } @crowd[ 0 .. 39 ];
is(scalar @ready, 40, 'clients up to the limit are served');
my $cpu = sub { my @fields = split ' ', slurp_file('/proc/' . $node->pid . '/stat'); return $fields[13] + $fields[14] };
my $cpu_before = $cpu->();
sleep 2;
cmp_ok($cpu->() - $cpu_before, '<', 50, 'it does not spin while more clients wait');    # hundredths of a second, of 200
$server->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
	WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()");
sleep lease_seconds() + 0.5;
is(http_exchange($crowd[0], '/healthz')->{status}, 200, 'and finds a descriptor for the database when it has to connect again');
close $_ for splice @crowd, 0, 40;
my $late = 0;
for (@crowd)
{
	my $buffer = '';
	$late++ if http_read_response($_, \$buffer, timeout => 20);
	close $_;
}
is($late, 260, 'as some leave, the others are served');
is($node->status->{fences}, 0, 'the lease was never lost');
is($node->stop, 0, 'it stops');

# Slow clients are cut off; others are not disturbed.
$node = AmoroNode->start(conninfo => conninfo($server), options => [ '--client-timeout-ms', '1500' ]);
$node->wait_for_serving;
for my $case ([ 'sends nothing', '' ], [ 'sends half a request', "GET /healthz HTTP/1.1\r\nHost:" ],
	[ 'is idle after an answer', "GET /healthz HTTP/1.1\r\n\r\n" ])
{
	my $start = time;
	my $received = http_raw($node->address, $case->[1], timeout => 15);
	ok(defined $received, "a client that $case->[0] is cut off");
	cmp_ok(time - $start, '>', 1, '... not at once');
}
my $trickle = http_connect($node->address);
my $start = time;
my $sent = 0;
{
	local $SIG{PIPE} = 'IGNORE';
	while (time - $start < 15 && defined syswrite $trickle, $sent < 24 ? substr("GET /healthz HTTP/1.1\r\nX: ", $sent, 1) : 'x')
	{
		$sent++;
		sleep 0.1;
	}
}
cmp_ok(time - $start, '<', 10, 'a client that sends a byte now and then is cut off');

# A client that asks and asks but never reads: its answers do not pile up in the node.
my $deaf = IO::Socket::INET->new(Proto => 'tcp') or die $!;
setsockopt $deaf, SOL_SOCKET, SO_RCVBUF, pack('i', 4096);
my ($host, $port) = split /:/, $node->address;
connect $deaf, Socket::pack_sockaddr_in($port, Socket::inet_aton($host)) or die $!;
my $resident = $node->resident_kilobytes;
$deaf->blocking(0);
{
	local $SIG{PIPE} = 'IGNORE';
	my $request = "GET /metrics HTTP/1.1\r\n\r\n" x 100;
	my $end = time + 1;
	while (time < $end) { defined syswrite $deaf, $request or sleep 0.01 }
}
is($node->get('/healthz')->{status}, 200, 'others are served meanwhile');
$node->wait_until('cuts off the client that does not read', sub { $node->status->{http_connections} <= 1 }, 30);
cmp_ok($node->resident_kilobytes - $resident, '<', 20_000, 'its answers did not pile up');

# Clients that vanish while the database is asked, with and without a reset; the lookups end, nothing is kept of them.
my $descriptors = $node->descriptor_count;
my $blocker = $server->background_psql('postgres');
$blocker->query_safe('BEGIN; LOCK TABLE amoro_meta.table_metadata IN ACCESS EXCLUSIVE MODE');
for my $i (1 .. 200)
{
	my $client = http_connect($node->address);
	syswrite $client, "GET /v1/tables/c/d/absent_$i HTTP/1.1\r\n\r\n";
	setsockopt $client, SOL_SOCKET, SO_LINGER, pack('ii', 1, 0) if $i % 2;
	close $client;
}
my @patient = map { http_connect($node->address) } 1 .. 8;
syswrite $patient[$_], "GET /v1/tables/c/d/absent_$_ HTTP/1.1\r\n\r\n" for 0 .. 7;
$node->wait_until('asks the database', sub { $node->status->{caches}{table}{misses} > 0 });
$blocker->query_safe('COMMIT');
my @patient_status = map { my $buffer = ''; (http_read_response($_, \$buffer) // { status => 'none' })->{status} } @patient;
is("@patient_status", join(' ', (404) x 8), 'those that stayed are answered');
$node->wait_until('has let go of the others', sub { $node->status->{http_connections} <= 9 });
close $_ for @patient;
# four more are connections of the loaders
$node->wait_until('has closed every connection', sub { $node->descriptor_count <= $descriptors + 4 });
pass('those that left are forgotten');

# The database does not answer in time: 503, and 404 again when it does.
$node->stop;
$node = AmoroNode->start(conninfo => conninfo($server), options => [ '--load-timeout-ms', '500' ]);
$node->wait_for_serving;
$blocker->query_safe('BEGIN; LOCK TABLE amoro_meta.table_metadata IN ACCESS EXCLUSIVE MODE');
$start = time;
my $refused = $node->lookup('c', 'd', 'absent');
is($refused->{status}, 503, 'a database that does not answer in time: 503');
is($refused->{json}{error}{type}, 'ServiceUnavailableException', '... not as fenced');
is($refused->{headers}{'retry-after'}, 1, '... with a time to retry');
ok(!exists $refused->{headers}{'amoro-metadata-version'}, '... and nothing said of the metadata');
cmp_ok(time - $start, '<', 5, '... within the timeout');
$blocker->query_safe('COMMIT');
is($node->lookup('c', 'd', 'absent')->{status}, 404, 'when it answers again, so does the node');

# SIGTERM while an answer is due: it is given, then the node ends.
$node->stop;
$node = AmoroNode->start(conninfo => conninfo($server));
$node->wait_for_serving;
$blocker->query_safe('BEGIN; LOCK TABLE amoro_meta.table_metadata IN ACCESS EXCLUSIVE MODE');
my $waiting = http_connect($node->address);
syswrite $waiting, "GET $path HTTP/1.1\r\n\r\n";
$node->wait_until('asks the database', sub { $node->status->{caches}{table}{misses} > 0 });
$node->signal('TERM');
$node->wait_until('stops', sub { $node->log_text =~ / stopping: Terminated/ });
$blocker->query_safe('COMMIT');
my $buffer = '';
my $due = http_read_response($waiting, \$buffer);
is($due && $due->{status}, 200, 'SIGTERM while a lookup waits: it is answered');
is($node->wait_for_exit, 0, 'and then the node ends');
$blocker->quit;
done_testing();
