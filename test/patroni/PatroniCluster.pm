# Three members under Patroni and one etcd, each member in a network namespace of its own, joined by a bridge.
package PatroniCluster;

use strict;
use warnings;
use AmoroHttp;
use Carp;
use File::Basename qw(dirname);
use JSON::PP;
use POSIX qw(:sys_wait_h);
use Time::HiRes qw(sleep time);

my $clients = '10.231.0.1';    # nodes and those who make changes
my $etcd = '10.231.0.2';
my %address = (m1 => '10.231.0.11', m2 => '10.231.0.12', m3 => '10.231.0.13');

sub names { return sort keys %address }
sub address { return $address{ $_[1] } }

sub run { system(@_) == 0 or croak "failed: @_" }

# Polls until the code returns something true, which is returned; dies with the description otherwise.
sub poll
{
	my ($description, $code, $timeout) = @_;
	my $deadline = time + ($timeout // 60);
	while (1)
	{
		my $result = eval { $code->() };
		return $result if $result;
		croak "timed out waiting until $description" . ($@ ? ": $@" : '') if time > $deadline;
		sleep 0.05;
	}
}

# Makes the networks and starts etcd. Settings: lease, heartbeat, ack_timeout.
sub create
{
	my ($class, $work, %settings) = @_;
	my $self = bless { work => $work, settings => \%settings, pids => {} }, $class;
	# not visible outside of our mount namespace
	mkdir '/run/netns';
	run(qw(mount -t tmpfs tmpfs /run/netns));
	run(qw(ip link set lo up));
	run(qw(ip link add name br0 type bridge));
	run(qw(ip addr add), "$clients/24", qw(dev br0));
	run(qw(ip addr add), "$etcd/24", qw(dev br0));
	run(qw(ip link set br0 up));
	for my $name (names())
	{
		run(qw(ip netns add), $name);
		run(qw(ip link add), "v$name", qw(type veth peer name eth0 netns), $name);
		run(qw(ip link set), "v$name", qw(master br0 up));
		run('ip', '-n', $name, qw(link set lo up));
		run('ip', '-n', $name, qw(addr add), "$address{$name}/24", qw(dev eth0));
		run('ip', '-n', $name, qw(link set eth0 up));
	}
	$self->spawn('etcd', 'runuser', '-u', $ENV{SERVER_USER}, '--', 'etcd', '--data-dir', "$work/etcd", '--listen-client-urls', "http://$etcd:2379",
		'--advertise-client-urls', "http://$etcd:2379", '--listen-peer-urls', "http://$etcd:2380", '--log-level', 'error',
		'--unsafe-no-fsync');
	poll('etcd answers', sub { http_get("$etcd:2379", '/health')->{status} == 200 });
	return $self;
}

# Starts a program; its output goes to a file of its name.
sub spawn
{
	my ($self, $name, @command) = @_;
	my $pid = fork // die "fork: $!";
	if ($pid == 0)
	{
		open STDIN, '<', '/dev/null';
		open STDOUT, '>>', "$self->{work}/$name.log" or die $!;
		open STDERR, '>&', \*STDOUT;
		exec @command or POSIX::_exit(127);
	}
	$self->{pids}{$name} = $pid;
	return $pid;
}

sub start_member
{
	my ($self, $name) = @_;
	my $file = "$self->{work}/$name.yml";
	my %value = (
		NAME => $name, ADDRESS => $address{$name}, ETCD => "$etcd:2379", NETWORK => '10.231.0.0/24',
		WORK => $self->{work}, BIN => $ENV{STAGED_BIN}, LEASE => $self->{settings}{lease},
		HEARTBEAT => $self->{settings}{heartbeat}, ACK_TIMEOUT => $self->{settings}{ack_timeout});
	open my $template, '<', dirname(__FILE__) . '/member.yml' or die $!;
	open my $out, '>', $file or die "$file: $!";
	while (my $line = <$template>)
	{
		$line =~ s/\b([A-Z_]{3,})\b/$value{$1} \/\/ $1/ge;
		print $out $line;
	}
	close $out;
	if (!-d "$self->{work}/$name.socket")
	{
		mkdir "$self->{work}/$name.socket" or die $!;
		run('chown', $ENV{SERVER_USER}, "$self->{work}/$name.socket");
	}
	$self->spawn($name, qw(ip netns exec), $name, 'runuser', '-u', $ENV{SERVER_USER}, '--', 'patroni', $file);
	return;
}

# The processes of a member: Patroni itself, and its postmaster.
sub patroni_pid
{
	my ($self, $name) = @_;
	for my $file (glob '/proc/[0-9]*/cmdline')
	{
		open my $in, '<', $file or next;
		my @words = split /\0/, <$in> // '';
		return $file =~ m{(\d+)} ? $1 : undef if ($words[0] // '') =~ /python/ && ($words[-1] // '') eq "$self->{work}/$name.yml";
	}
	return undef;
}

sub postmaster_pid
{
	my ($self, $name) = @_;
	open my $file, '<', "$self->{work}/$name/postmaster.pid" or return undef;
	my $pid = <$file>;
	chomp $pid;
	return $pid;
}

# Kills Patroni with SIGKILL and waits until it is gone.
sub kill_patroni
{
	my ($self, $name) = @_;
	my $pid = $self->patroni_pid($name) // croak "$name has no Patroni";
	kill 'KILL', $pid;
	poll("Patroni of $name is gone", sub { waitpid(-1, WNOHANG); !defined $self->patroni_pid($name) });
	return;
}

# What a member of the cluster that can be reached says of all: name => {role, state, timeline}
sub members
{
	my ($self, $not) = @_;
	for my $name (grep { $_ ne ($not // '') } names())
	{
		my $json = eval { decode_json(`curl -s -m 1 http://$address{$name}:8008/cluster`) } or next;
		return { map { ($_->{name} => $_) } @{ $json->{members} } };
	}
	return {};
}

# The leader according to the members, leaving out one that is not to be asked.
sub leader
{
	my ($self, $not) = @_;
	my $members = $self->members($not);
	my ($leader) = grep { $members->{$_}{role} eq 'leader' && $members->{$_}{state} eq 'running' } keys %$members;
	return $leader;
}

sub wait_for_new_leader
{
	my ($self, $old) = @_;
	return poll("another than $old leads", sub {
		my $leader = $self->leader($old);
		defined $leader && $leader ne $old && $self->is_primary($leader) && $leader }, 60);
}

# All members run, one is the synchronous standby.
sub wait_until_whole
{
	my ($self) = @_;
	return poll('all members run and one is the synchronous standby', sub {
		my $members = $self->members;
		my @running = grep { $_->{state} =~ /running|streaming/ } values %$members;
		my %timelines = map { ($_->{timeline} // 0) => 1 } @running;
		@running == 3 && keys %timelines == 1 && (grep { $_->{role} eq 'sync_standby' } @running) == 1 }, 90);
}

# The result of a statement at one member, through its own namespace's address; undef when it cannot be had in time.
sub query
{
	my ($self, $name, $statement, $timeout) = @_;
	return $self->psql("host=$address{$name} port=5432 user=postgres dbname=postgres connect_timeout=2", $statement, $timeout);
}

# A statement through any connection string; (result, error text), the result undef when it failed or ran out of time.
sub psql
{
	my ($self, $conninfo, $statement, $timeout) = @_;
	$timeout //= 10;
	my $out = "$self->{work}/psql.$$.out";
	my $err = "$self->{work}/psql.$$.err";
	my $pid = fork // die "fork: $!";
	if ($pid == 0)
	{
		open STDOUT, '>', $out or POSIX::_exit(126);
		open STDERR, '>', $err or POSIX::_exit(126);
		exec 'timeout', '-s', 'KILL', $timeout, "$ENV{STAGED_BIN}/psql", '-XAtq', '-v', 'ON_ERROR_STOP=1', '-v', 'VERBOSITY=verbose',
		  '-d', $conninfo, '-c', $statement or POSIX::_exit(127);
	}
	waitpid $pid, 0;
	my $status = $?;
	my $result = _slurp($out);
	chomp $result;
	my $error = _slurp($err);
	return wantarray ? ($status == 0 ? $result : undef, $error) : $status == 0 ? $result : undef;
}

sub _slurp
{
	my ($file) = @_;
	open my $in, '<', $file or return '';
	local $/;
	return <$in> // '';
}

sub is_primary
{
	my ($self, $name) = @_;
	return ($self->query($name, 'SELECT pg_is_in_recovery()', 3) // '') eq 'f';
}

# Cuts a member off from etcd and from the other members; clients and nodes still reach it.
sub isolate
{
	my ($self, $name) = @_;
	run('ip', '-n', $name, qw(route add blackhole), $_) for $etcd, map { $address{$_} } grep { $_ ne $name } names();
	return;
}

sub join_again
{
	my ($self, $name) = @_;
	run('ip', '-n', $name, qw(route del blackhole), $_) for $etcd, map { $address{$_} } grep { $_ ne $name } names();
	return;
}

sub conninfo
{
	my ($self, @names) = @_;
	return sprintf 'host=%s port=5432 user=postgres dbname=postgres connect_timeout=2', join ',', map { $address{$_} } @names;
}

1;
