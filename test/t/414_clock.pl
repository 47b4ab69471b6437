# The clocks of a node's machine: a suspended machine, and a wall clock that jumps (faults L07, L08).
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
create_lake($server, 't');
my $path = AmoroNode::table_path('c', 'd', 't');
my $lease = lease_seconds();

my $library = "$PostgreSQL::Test::Utils::tmp_check/clock.so";
my $clock = "$PostgreSQL::Test::Utils::tmp_check/clock";
system_or_bail('gcc', '-shared', '-fPIC', '-O1', '-Wall', '-Werror', '-o', $library, dirname(__FILE__) . '/clock.c', '-ldl');

# Moves the node's clocks, in seconds from the true ones.
sub set_clocks
{
	my (%seconds) = @_;
	open my $file, '+>>', $clock or die $!;
	close $file;
	open $file, '+<', $clock or die $!;
	syswrite $file, pack 'qq', map { ($seconds{$_} // 0) * 1_000_000_000 } qw(wall boot);
	return close $file;
}

set_clocks();
my $link = AmoroProxy->start(socket_path($server));
my $node = AmoroNode->start(conninfo => conninfo($server, proxy => $link), environment => { LD_PRELOAD => $library, AMORO_CLOCK => $clock });
$node->wait_for_serving;
$node->lookup('c', 'd', 't')->{status} == 200 or die;

# L08: the wall clock is an hour ahead, behind, and jumps all the time. Nobody is fenced who is in touch …
set_clocks(wall => 86400 * 3650);
my ($year) = $node->get('/healthz')->{headers}{date} =~ / (\d{4}) /;
cmp_ok($year, '>', (gmtime)[5] + 1900 + 8, "the node's wall clock can be moved");
my ($refused, $round) = (0, 0);
for my $offset (3600, -3600, 600, -600, 86400 * 365, 0, 20, -20)
{
	set_clocks(wall => $offset);
	for (1 .. 10)
	{
		$refused++ if $node->lookup('c', 'd', 't')->{status} != 200;
		sleep 0.02;
	}
	run_procedure($server, sprintf q(alter_table('c', 'd', 't', '[{"op":"set_properties","properties":{"round":"%d"}}]')), ++$round) eq 'done' or die;
	like($node->lookup('c', 'd', 't')->{body}, qr/"round": ?"$round"/, "wall clock moved by $offset s: a change is served");
}
is($refused, 0, 'no lookup was refused');
is($node->status->{fences}, 0, 'nor was the node fenced');

# … and who is not in touch is, on time, whatever the wall clock says.
set_clocks(wall => 3600);
$server->stop('immediate');
my $cut = time;
set_clocks(wall => -3600);
my ($last) = $node->served_until($path, $lease + slack_seconds());
cmp_ok($last - $cut, '<', $lease, 'a wall clock that goes back makes no lease longer');
$server->start;
set_clocks();
$node->wait_for_serving(30);
$node->lookup('c', 'd', 't')->{status} == 200 or die;

# L07: the machine sleeps for longer than the lease. Its monotonic clock stood still, its boot time did not.
my @sockets = map { http_connect($node->address) } 1 .. 20;
http_exchange($_, '/healthz') for @sockets;
my $before = $node->status;
$node->signal('STOP');
set_clocks(boot => 2 * $lease);
syswrite $_, "GET $path HTTP/1.1\r\n\r\n" for @sockets;
# it cannot be back before it comes to the last of them
$link->set(down => 'hold');
$node->signal('CONT');
my @answers = map { my $buffer = ''; http_read_response($_, \$buffer) } @sockets;
is(scalar(grep { $_->{status} == 503 } @answers), 20, 'after a sleep longer than the lease every lookup is refused');
$link->heal;
$node->wait_for_serving;
cmp_ok($node->status->{fences}, '>', $before->{fences}, 'the node counts itself fenced');
cmp_ok($node->status->{recoveries}, '>', $before->{recoveries}, 'and has recovered');

is($node->stop, 0, 'it stops in good order');
done_testing();
