# A node that was stopped in its tracks: what it had in memory is never heard of again (faults L01, L02, L03).
use strict;
use warnings;
use AmoroCluster;
use AmoroHttp;
use AmoroLake;
use AmoroNode;
use AmoroProxy;
use File::Basename;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $server = AmoroCluster->create('main');
create_lake($server, 't', 'u');
my $link = AmoroProxy->start(socket_path($server));
my $paused = AmoroNode->start(conninfo => conninfo($server, proxy => $link), name => 'paused');
my $live = AmoroNode->start(conninfo => conninfo($server), name => 'live');
$_->wait_for_serving for $paused, $live;
$_->lookup('c', 'd', 't')->{status} == 200 or die for $paused, $live;
my $path = AmoroNode::table_path('c', 'd', 't');

# L01: the requests are there the moment it wakes; nothing may be answered from the memory of before.
my @sockets = map { http_connect($paused->address) } 1 .. 100;
http_exchange($_, '/healthz') for @sockets;
$paused->signal('STOP');
my $started = time;
my $drop = $server->safe_psql('postgres', "SELECT drop_table('c', 'd', 't')");
$live->wait_until('hears of the drop', sub { $live->lookup('c', 'd', 't')->{status} != 200 });
my $in_transition = $live->lookup('c', 'd', 't');
is($in_transition->{status}, 409, 'while the drop waits for the silent node, the live one says: in transition');
is($in_transition->{json}{error}{type}, 'TableInTransitionException', '... in the body too');
is($server->safe_psql('postgres', "SELECT wait_for_procedure($drop, '60 s')"), 'done', 'the drop succeeds all the same');
my $waited = time - $started;
cmp_ok($waited, '>', lease_seconds() * 0.5, 'not before the lease of the silent node can be over');
cmp_ok($waited, '<', lease_seconds() + 0.2 + slack_seconds(), 'and not much later');
is($live->lookup('c', 'd', 't')->{status}, 404, 'on the live node the table is gone');
create_table($server, 'c', 'd', 't', 'id', 'another');
syswrite $_, "GET $path HTTP/1.1\r\n\r\n" for @sockets;
# it cannot be back before it comes to the last of them
$link->set(down => 'hold');
$paused->signal('CONT');
my @answers = map { my $buffer = ''; http_read_response($_, \$buffer) } @sockets;
my @refused = grep { $_->{status} == 503 && $_->{json}{error}{type} eq 'MetadataLeaseFencedException' } @answers;
is(scalar @refused, 100, 'waking, it refuses each of a hundred requests, as fenced')
  or diag explain [ map { "$_->{status} " . substr($_->{body}, 0, 100) } @answers[ 0, 1, 98, 99 ] ];
$link->heal;
$paused->wait_for_serving(10);
like($paused->lookup('c', 'd', 't')->{body}, qr/"another"/, 'it recovers by itself and serves the new table');
is($paused->status->{fences}, 1, 'it was fenced once');
is($live->status->{fences}, 0, 'the live node never');

# A short pause is nobody's business.
$paused->signal('STOP');
sleep 0.4;
$paused->signal('CONT');
is($paused->lookup('c', 'd', 't')->{status}, 200, 'after a pause shorter than the lease it serves on');
is($paused->status->{fences}, 1, 'without having been fenced');
$paused->stop;
$link->stop;

# L02: a lookup has found the table in memory under a valid lease, and is held up before it answers.
my $library = "$PostgreSQL::Test::Utils::tmp_check/stall.so";
my $stall = "$PostgreSQL::Test::Utils::tmp_check/stall";
system_or_bail('gcc', '-shared', '-fPIC', '-O1', '-Wall', '-Werror', '-o', $library, dirname(__FILE__) . '/stall.c', '-ldl');

# Begins a lookup of t that is held up after the lease was tested; returns its connection.
sub stalled_lookup
{
	my ($node) = @_;
	$node->lookup('c', 'd', 't')->{status} == 200 or die 'table t is not served';
	my $socket = http_connect($node->address);
	append_to_file($stall, '');
	syswrite $socket, "GET $path HTTP/1.1\r\n\r\n";
	$node->wait_until('is held up', sub { -e "$stall.stalled" });
	return $socket;
}

my $stalling = AmoroNode->start(
	conninfo => conninfo($server), name => 'stalling', environment => { LD_PRELOAD => $library, AMORO_STALL => $stall });
$stalling->wait_for_serving;
my $socket = stalled_lookup($stalling);
is(run_procedure($server, q(alter_table('c', 'd', 't', '[{"op":"add_column","column":"overtaking","type":"int"}]'))), 'done',
	'a change is done everywhere while one lookup is held up before its answer');
unlink "$stall.stalled";
my $buffer = '';
my $answer = http_read_response($socket, \$buffer);
is($answer->{status}, 200, 'the lookup is answered');
like($answer->{body}, qr/"overtaking"/, '... with what holds after the change');

# The same with the whole process held up, past its lease.
$socket = stalled_lookup($stalling);
$stalling->signal('STOP');
is(run_procedure($server, "drop_table('c', 'd', 't')"), 'done', 'the table is dropped while the whole process is held up');
unlink "$stall.stalled";
$stalling->signal('CONT');
$buffer = '';
$answer = http_read_response($socket, \$buffer);
is($answer->{status}, 503, 'the lookup is refused');
is($answer->{json}{error}{type}, 'MetadataLeaseFencedException', '... as fenced');
is($stalling->stop, 0, 'it stops');
create_table($server, 'c', 'd', 't');

# L02 once more, on the way from the database: what was read there arrives long after the lease; meanwhile the table goes.
my $proxy = AmoroProxy->start(socket_path($server));
my $node = AmoroNode->start(conninfo => conninfo($server, proxy => $proxy), name => 'held', options => [ '--load-timeout-ms', '60000' ]);
$node->wait_for_serving;
$socket = http_connect($node->address);
$proxy->set(down => 'hold');
syswrite $socket, 'GET ' . AmoroNode::table_path('c', 'd', 'u') . " HTTP/1.1\r\n\r\n";
$node->wait_for_fenced(lease_seconds() + slack_seconds());
is(run_procedure($server, "drop_table('c', 'd', 'u')"), 'done', 'a table is dropped while a node holds up an answer that it read before');
$proxy->heal;
$buffer = '';
$answer = http_read_response($socket, \$buffer, timeout => 70);
isnt($answer->{status}, 200, 'the answer of before is not given');
like($answer->{status}, qr/^(404|503)$/, '... but fenced, or what holds now') or diag $answer->{body};
$node->wait_for_serving(20);
is($node->lookup('c', 'd', 'u')->{status}, 404, 'nor was it kept');
$node->stop;
$proxy->stop;

# L03: contact is back, the recovery takes its time (every answer of the server is slow): nothing is answered before it
# is done, whatever heartbeats say.
$proxy = AmoroProxy->start(socket_path($server));
$node = AmoroNode->start(conninfo => conninfo($server, proxy => $proxy), name => 'slow');
$node->wait_for_serving;
$node->lookup('c', 'd', 't')->{status} == 200 or die;
$proxy->set(down => 'drop');
$proxy->cut;
$node->wait_for_fenced(lease_seconds() + slack_seconds());
$proxy->heal;
$proxy->set(down_delay => 0.1);
my ($refused, $wrong, $until) = (0, 0, time + 30);
while (time < $until)
{
	my $before = $node->status;
	last if $before->{serving};
	my $lookup = http_get($node->address, AmoroNode::table_path('c', 'd', 't'));
	my $after = $node->status;
	next if $after->{serving};
	$lookup->{status} == 503 && $lookup->{json}{error}{type} eq 'MetadataLeaseFencedException' ? $refused++ : $wrong++;
}
cmp_ok($refused, '>', 10, 'while it recovers, lookups are refused');
is($wrong, 0, 'every one of them, until it serves');
$proxy->heal;
is($node->lookup('c', 'd', 't')->{status}, 200, 'recovered, it serves');

is($_->stop, 0, 'stops in good order') for $node, $live;
done_testing();
