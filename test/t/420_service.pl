# amoro-node campaigns for a service: hooks that run and stop in time, whoever is stopped, killed, hung or restarted.
use strict;
use warnings;
use AmoroCluster qw(poll);
use AmoroNode;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

# L = 2 s: a lease is owed for 2.202 s, a node leads for at most 1.498 s after it was last heard, and stops until 1.998 s
my $owed = 2.202;
my $server = AmoroCluster->create('main');
my $directory = PostgreSQL::Test::Utils::tempdir();

# A hook as a script. The gain hook of a service says all the time that it lives; with the file "deaf" it hears no signal.
sub script
{
	my ($name, $text) = @_;
	my $file = "$directory/$name";
	open my $out, '>', $file or die $!;
	print $out "#!$^X\nuse Time::HiRes qw(sleep time); my \$d = '$directory';\nsub note { open my \$o, '>>', \"\$d/record\"; printf \$o \"%s %s %.6f %d %s\\n\", \$_[0], \$ENV{AMORO_TOKEN}, time, \$\$, \$ENV{AMORO_SERVICE} }\n$text";
	close $out;
	chmod 0755, $file;
	return $file;
}
my $gain = script('gain', <<'PERL');
if (-e "$d/fail") { note('failed'); exit 3; }
note('gain');
$SIG{TERM} = -e "$d/deaf" ? sub { note('deaf') } : sub { note('term'); exit 0 };
# a process that the hook leaves behind belongs to the service as well
if (fork == 0) { while (1) { note('child'); select undef, undef, undef, 0.02 } }
while (1) { note('alive'); select undef, undef, undef, 0.01 }
PERL
my $loss = script('loss', <<'PERL');
note('loss');
if (-e "$d/deaf") { $SIG{TERM} = 'IGNORE'; sleep 3600; }
PERL

sub record { return map { [ split / / ] } split /\n/, -e "$directory/record" ? slurp_file("$directory/record") : '' }

# The last moment of one kind of record under a token, or the first.
sub last_of { my ($what, $token) = @_; return (map { $_->[2] } grep { $_->[0] =~ /^(?:$what)$/ && $_->[1] == $token } record())[-1] }
sub first_of { my ($what, $token) = @_; return (map { $_->[2] } grep { $_->[0] =~ /^(?:$what)$/ && $_->[1] == $token } record())[0] }
sub processes { my ($token) = @_; my %pids = map { $_->[3] => 1 } grep { $_->[1] == $token } record(); return grep { kill 0, $_ } keys %pids }

my @log_options = ('--log-level', 'debug', '--stop-timeout-ms', '500');

sub campaign
{
	my ($name, %options) = @_;
	return AmoroNode->start(name => $name, conninfo => $server->connstr('postgres'), %options,
		options => [ '--service', 's', '--endpoint', "http://$name", '--on-gain', $gain, '--on-loss', $loss, @log_options ]);
}

sub leader { return $server->safe_psql('postgres', "SELECT coalesce((SELECT node_name || ' ' || token FROM leaders WHERE service = 's' AND state = 'led'), '')") }

# Waits until that node leads and its gain hook lives; returns the token.
sub wait_for_leader
{
	my ($name, $above) = @_;
	my $token;
	poll("$name leads", sub { leader() =~ /^\Q$name\E (\d+)$/ && ($token = $1) > ($above // 0) }, 25);
	poll("the hook of $name lives", sub { first_of('alive', $token) });
	return $token;
}

# What must hold of two tenures that followed each other: the older hooks and all they have left behind ended before the newer began.
sub follows
{
	my ($old, $new, $how) = @_;
	my $end = last_of('gain|alive|child|term|deaf', $old);
	my $begin = first_of('gain', $new);
	cmp_ok($new, '>', $old, "$how: the token grows");
	cmp_ok($end, '<', $begin, sprintf "$how: nothing of the old tenure lives when the new one begins (%.0f ms between)", ($begin - $end) * 1000);
	is(scalar(processes($old)), 0, "$how: no process of it is left");
	return;
}

my $a = campaign('a');
my $token = wait_for_leader('a');
my $b = campaign('b');
$b->wait_for_serving;
$b->wait_until('knows who leads', sub { ($b->status->{leadership}{leader_name} // '') eq 'a' });
is($a->status->{leadership}{leading} . '', '1', 'the first one leads');
like($a->get('/metrics')->{body}, qr/^amoro_node_leading 1$/m, 'and says so to whoever watches');
like($b->get('/metrics')->{body}, qr/^amoro_node_leading 0$/m, 'the second one does not');

# a clean exit: changeover at once
my $start = time;
is($a->stop, 0, 'the leader is asked to stop');
my $next = wait_for_leader('b');
my $took = first_of('gain', $next) - last_of('loss', $token);
cmp_ok($took, '<', 0.8, sprintf 'the next one leads at once (%.0f ms after the loss hook began)', $took * 1000);
follows($token, $next, 'clean exit');
ok(last_of('term', $token), 'the gain hook was asked to end');
$token = $next;

# kill -9: the hooks are stopped by their keeper, the next one leads when the lease is surely over
$a = campaign('a');
$a->wait_for_serving;
$b->signal('KILL');
$start = time;
$b->wait_for_exit;
$next = wait_for_leader('a');
$took = first_of('gain', $next) - $start;
cmp_ok($took, '>', $owed - 0.4, sprintf 'kill -9: nobody leads before the lease is over (%.0f ms)', $took * 1000);
cmp_ok($took, '<', $owed + 1, 'and somebody does then');
cmp_ok(last_of('loss', $token), '<', $start + 0.5, 'the loss hook of the dead node was run at once');
follows($token, $next, 'kill -9');
$token = $next;

# SIGSTOP: the node cannot stop its hooks, its keeper does; the node refuses by itself when it goes on
$b = campaign('b');
$b->wait_for_serving;
$a->signal('STOP');
$start = time;
$next = wait_for_leader('b');
$took = first_of('gain', $next) - $start;
cmp_ok($took, '>', $owed - 0.4, sprintf 'SIGSTOP: nobody leads before the lease is over (%.0f ms)', $took * 1000);
cmp_ok($took, '<', $owed + 1, 'and somebody does then');
follows($token, $next, 'SIGSTOP');
# longer than the node would wait for its keeper, whose answer is there all the time
poll('it was stopped for long', sub { time > $start + 4.3 });
$a->signal('CONT');
$a->wait_until('knows who leads', sub { ($a->status->{leadership}{leader_name} // '') eq 'b' });
is(scalar(grep { $_->[0] eq 'gain' && $_->[1] == $token } record()), 1, 'it has not begun again');
is(leader(), "b $next", 'and has taken nothing back');
$token = $next;

# a node that was demoted leads again when it can
is($b->stop, 0, 'the other one stops');
$next = wait_for_leader('a');
follows($token, $next, 'back again');
$token = $next;

# hooks that hear no signal are killed before the lease ends
is($a->stop, 0, 'the leader is stopped, to begin again with deaf hooks');
append_to_file("$directory/deaf", '');
$a = campaign('a');
$token = wait_for_leader('a', $token);
$b = campaign('b');
$b->wait_for_serving;
$a->signal('STOP');
poll('the deaf loss hook is running', sub { first_of('loss', $token) });
unlink "$directory/deaf";
$next = wait_for_leader('b');
ok(last_of('deaf', $token), 'a hook that hears nothing was asked to end');
follows($token, $next, 'deaf hooks');
$a->signal('CONT');
$token = $next;

# the clean exit of a node with deaf hooks waits for nobody for longer than the lease
append_to_file("$directory/deaf", '');
is($b->stop, 0, 'a leader stops, whose loss hook hangs');
unlink "$directory/deaf";
$next = wait_for_leader('a');
follows($token, $next, 'a loss hook that hangs');
$token = $next;

# a restart of the server: one leader, a greater token
$b = campaign('b');
$b->wait_for_serving;
$server->restart;
$server->wait_for_state('running');
poll('somebody leads again', sub { leader() =~ / (\d+)$/ && $1 > $token && first_of('alive', $1) });
($next) = leader() =~ / (\d+)$/;
follows($token, $next, 'restart');
$token = $next;

# a gain hook that fails: the node gives up, and the other one has its turn
append_to_file("$directory/fail", '');
my ($leader, $other) = leader() =~ /^a/ ? ($a, $b) : ($b, $a);
$leader->stop;
poll('a hook has failed', sub { grep { $_->[0] eq 'failed' } record() });
my $failed = (map { $_->[1] } grep { $_->[0] eq 'failed' } record())[-1];
unlink "$directory/fail";
$next = wait_for_leader($other->name, $failed);
cmp_ok($next, '>', $failed, 'a node whose hook has failed gives up, and tries again later');
ok(first_of('loss', $failed), 'the loss hook was run');
$other->stop;

# names are data: no shell ever sees them, and wrong ones are found at the start
my $strange = q{$(touch /tmp/x) 'quoted' "twice" ; `id`};
my $c = AmoroNode->start(name => 'c', conninfo => $server->connstr('postgres'),
	options => [ '--service', $strange, '--on-gain', $gain, @log_options ]);
poll('the hook has the name as it is', sub { grep { join(' ', @$_[ 4 .. $#$_ ]) eq $strange } record() });
pass('a service may have any name');

# State and parent of a process, by /proc; nothing when there is none.
sub stat_of
{
	my ($pid) = @_;
	open my $file, '<', "/proc/$pid/stat" or return;
	return (readline($file) // '') =~ /^\d+ \(.*\) (\S) (\d+)/s;
}

sub state_of { return (stat_of($_[0]))[0] // '' }
sub children_of { my ($parent) = @_; return grep { ((stat_of($_))[1] // 0) == $parent } map { m{(\d+)$} } glob '/proc/[0-9]*' }

# a gain hook that ends well has left something behind: the ends of what that starts are noted for as long as the service is led
my $leaver = script('leaver', <<'PERL');
my $keeper = getppid;
exit 0 if fork;
sub is_null { return (readlink("/proc/$_[0]/fd/$_[1]") // '') eq '/dev/null' }
note('spare') if grep { is_null($$, $_) && !is_null($keeper, $_) } 3 .. 63;
for (1 .. 20) { if (fork == 0) { fork; exit 0 } wait }
note('left');
sleep 3600;
PERL
my $d = AmoroNode->start(name => 'd', conninfo => $server->connstr('postgres'), options => [ '--service', 't', '--on-gain', $leaver, @log_options ]);
poll('the service has started something', sub { grep { $_->[0] eq 'left' } record() });
is(scalar(grep { $_->[0] eq 'spare' } record()), 0, 'a hook has its input once');
my ($undertaker) = children_of($d->pid);
poll('nobody is left dead but the hook itself', sub { 2 > grep { state_of($_) eq 'Z' } children_of($undertaker) });
is($d->stop, 0, 'the node stops');

# whoever ends the keeper ends the leader
my ($keeper) = children_of($c->pid);
my ($hook) = map { $_->[3] } grep { $_->[0] eq 'gain' && $_->[4] =~ /^\$/ } record();
ok($keeper > 0 && kill('KILL', $keeper), 'the keeper of the hooks is killed');
is($c->wait_for_exit, 1, 'the node ends with the code for what should not happen');
poll('the hook ends, too', sub { !kill 0, $hook });
for ([ [ '--on-gain', $gain ], qr/hooks are for a service/ ], [ [ '--service', 's', '--on-gain', "$directory/none" ], qr/No such file/ ],
	[ [ '--service', "line\nfeed" ], qr/--service/ ], [ [ '--service', 's', '--stop-timeout-ms', '-1' ], qr/stop-timeout-ms/ ])
{
	my $node = AmoroNode->start(name => 'wrong', conninfo => $server->connstr('postgres'), options => $_->[0], no_wait => 1);
	is($node->wait_for_exit, 2, "wrong options: $_->[1]");
	like($node->log_text, $_->[1], 'and the node says so');
}
$server->stop;

done_testing();
