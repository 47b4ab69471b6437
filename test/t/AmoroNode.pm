# One process amoro-node under test.
package AmoroNode;

use strict;
use warnings;
use AmoroChild qw(child_started child_ended);
use AmoroHttp;
use Carp;
use POSIX qw(:sys_wait_h);
use Time::HiRes qw(sleep time);

# PostgreSQL::Test::Utils of version 18 has a handler otherwise, which ends every sleep and every wait for a socket of
# this test whenever a node is stopped or goes on.
BEGIN { $SIG{CHLD} = 'DEFAULT' }

my $count = 0;

# Starts amoro-node and waits until it listens. Options: name, conninfo, options (more command line, a reference to an
# array), under (a command it runs under, ditto), listen, environment (a reference to a hash), stderr (a handle, instead
# of a file of the test's log directory), no_wait (returns before it listens).
sub start
{
	my ($class, %options) = @_;
	my $name = $options{name} // 'n1';
	my $directory = $ENV{TESTLOGDIR} // '.';
	my $self = bless {
		name => $name,
		log => "$directory/amoro-node-" . ($name =~ s/\W/_/gr) . "-" . ++$count . ".$$.log",
	}, $class;
	my @command = (
		@{ $options{under} // [] },
		$ENV{AMORO_NODE} // croak('AMORO_NODE is not set'),
		'--name', $name,
		'--listen', $options{listen} // '127.0.0.1:0',
		'--conninfo', $options{conninfo} // '',
		@{ $options{options} // [] });

	$self->_spawn(\@command, $options{environment} // {}, $options{stderr});
	return $self if $options{no_wait};
	$self->wait_until('listens', sub { $self->address }, $options{timeout} // 60);
	return $self;
}

sub _spawn
{
	my ($self, $command, $environment, $stderr) = @_;
	my $pid = fork // die "fork: $!";
	if ($pid == 0)
	{
		local %ENV = (%ENV, %$environment);
		open STDIN, '<', '/dev/null' or die $!;
		open STDERR, $stderr ? '>&' : '>', $stderr // $self->{log} or die "$self->{log}: $!";
		open STDOUT, '>&', \*STDERR or die $!;
		exec @$command or POSIX::_exit(127);
	}
	$self->{pid} = $pid;
	child_started($pid);
	return;
}

sub name { return $_[0]{name} }
sub pid { return $_[0]{pid} }

# What the process has logged so far.
sub log_text
{
	my ($self) = @_;
	open my $file, '<', $self->{log} or return '';
	local $/;
	return <$file> // '';
}

# "host:port" that it serves on, once it does.
sub address
{
	my ($self) = @_;
	$self->{address} //= $self->log_text =~ / listening on (\S+)/ ? $1 : undef;
	return $self->{address};
}

sub get { my ($self, $path, %options) = @_; return http_get($self->address, $path, %options) }

sub status { my ($self) = @_; return $self->get('/v1/status')->{json} }

# Looks a table up; names are encoded here.
sub lookup
{
	my ($self, @names) = @_;
	return $self->get(table_path(@names));
}

# The path of a table: every byte that is not plainly harmless is percent-encoded.
sub table_path
{
	my @names = @_;
	for (@names)
	{
		utf8::encode($_);
		s/([^A-Za-z0-9_])/sprintf '%%%02X', ord $1/ge;
	}
	return '/v1/tables/' . join('/', @names);
}

# Polls until the code returns something true, which is returned; dies with the description and the log otherwise.
sub wait_until
{
	my ($self, $description, $code, $timeout) = @_;
	my $deadline = time + ($timeout // 60);
	while (1)
	{
		my $result = $code->();
		return $result if $result;
		last if time > $deadline;
		croak "node $self->{name} ended while waiting until it $description:\n" . $self->log_text
		  if !$self->is_running && !$self->{expect_end};
		sleep 0.01;
	}
	croak "timed out waiting until node $self->{name} $description:\n" . $self->log_text;
}

sub wait_for_serving
{
	my ($self, $timeout) = @_;
	return $self->wait_until('serves', sub { $self->get('/healthz')->{status} == 200 }, $timeout);
}

sub wait_for_fenced
{
	my ($self, $timeout) = @_;
	return $self->wait_until('is fenced', sub { $self->get('/healthz')->{status} == 503 }, $timeout);
}

# Asks for what the node has in memory, until it is refused: when the last request that was answered was sent, so that the node
# served at least until then, and when the refusal was there, by when it was fenced. How late we are to notice does not matter.
sub served_until
{
	my ($self, $path, $timeout) = @_;
	my $socket = http_connect($self->address);
	my $deadline = time + $timeout;
	my $last = 0;
	while (time < $deadline)
	{
		my $sent = time;
		my $status = http_exchange($socket, $path)->{status};
		return ($last, time) if $status == 503;
		die "unexpected status $status" if $status != 200;
		$last = $sent;
		sleep 0.003;
	}
	die "$self->{name} was not fenced";
}

sub is_running
{
	my ($self) = @_;
	return 0 unless defined $self->{pid} && !defined $self->{exit};
	return 1 if waitpid($self->{pid}, WNOHANG) == 0;
	$self->{exit} = $? & 127 ? -($? & 127) : $? >> 8;
	child_ended($self->{pid});
	return 0;
}

sub signal { my ($self, $signal) = @_; return kill $signal, $self->{pid} }

# Waits for the end of the process; returns its exit code, or minus the signal that ended it.
sub wait_for_exit
{
	my ($self, $timeout) = @_;
	local $self->{expect_end} = 1;
	$self->wait_until('ends', sub { !$self->is_running }, $timeout // 30);
	return $self->{exit};
}

sub stop
{
	my ($self, $signal) = @_;
	$self->signal($signal // 'TERM');
	return $self->wait_for_exit;
}

# Kilobytes of memory that the process has resident, and the most that it ever had.
sub resident_kilobytes { return $_[0]->_memory('VmRSS') }
sub peak_kilobytes { return $_[0]->_memory('VmHWM') }

sub _memory
{
	my ($self, $what) = @_;
	open my $file, '<', "/proc/$self->{pid}/status" or die $!;
	while (<$file>) { return $1 if /^$what:\s+(\d+) kB/ }
	die "no $what";
}

sub descriptor_count
{
	my ($self) = @_;
	my @descriptors = glob "/proc/$self->{pid}/fd/*";
	return scalar @descriptors;
}

1;
