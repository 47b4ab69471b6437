# A transaction pooler in a process of its own: every client shares two sessions of the server, and each round trip gets
# the next one in turn, so that what a session keeps (prepared statements, settings) is lost or leaks.
#
# Options of start: honest => n: the clients are told the process id of the first session, and their first n round trips
# go to it: a pooler that cannot be told from the server until a prepared statement is missing.
package AmoroPooler;

use strict;
use warnings;
use AmoroChild qw(child_started end_child);
use IO::Select;
use IO::Socket::INET;
use IO::Socket::UNIX;
use POSIX ();


sub start
{
	my ($class, $target, %options) = @_;
	my $listener = IO::Socket::INET->new(Listen => 32, LocalAddr => '127.0.0.1', ReuseAddr => 1) or die "listen: $@";
	my $self = bless { port => $listener->sockport }, $class;
	my $pid = fork // die "fork: $!";
	if ($pid == 0)
	{
		$SIG{PIPE} = 'IGNORE';
		eval { _run($listener, $target, $options{user}, $options{honest} // 0); 1 } or print STDERR "pooler: $@";
		POSIX::_exit(0);
	}
	$self->{pid} = $pid;
	child_started($pid);
	return $self;
}

sub port { return $_[0]{port} }

sub _read_exactly
{
	my ($socket, $size) = @_;
	my $buffer = '';
	while (length $buffer < $size)
	{
		my $read = sysread $socket, $buffer, $size - length $buffer, length $buffer;
		return undef unless $read;
	}
	return $buffer;
}

# One message: its type and the whole of it.
sub _read_message
{
	my ($socket) = @_;
	my $head = _read_exactly($socket, 5) // return;
	my ($type, $size) = unpack 'a N', $head;
	my $body = $size > 4 ? _read_exactly($socket, $size - 4) // return : '';
	return ($type, $head . $body);
}

sub _write { my ($socket, $bytes) = @_; return print {$socket} $bytes }

# Everything up to the server's being ready again.
sub _read_until_ready
{
	my ($socket) = @_;
	my $answer = '';
	while (my ($type, $message) = _read_message($socket))
	{
		$answer .= $message;
		return $answer if $type eq 'Z';
	}
	die 'the server ended the session';
}

sub _log_in
{
	my ($target, $user) = @_;
	my $session = IO::Socket::UNIX->new(Peer => $target) or die "$target: $!";
	$session->autoflush(1);
	my $body = pack('N', 196608) . "user\0$user\0database\0postgres\0client_encoding\0UTF8\0application_name\0pooler\0\0";
	_write($session, pack('N', 4 + length $body) . $body);
	my $answer = _read_until_ready($session);
	# type K, length 12, process id, secret
	my ($key) = $answer =~ /(K\0\0\0\x0c.{8})/s;
	return { socket => $session, pid => unpack 'N', substr $key, 5, 4 };
}

# The start of a client: refuse encryption, take any user, say what a server says.
sub _greet
{
	my ($client, $pid) = @_;
	while (1)
	{
		my $head = _read_exactly($client, 4) // return 0;
		my $body = _read_exactly($client, unpack('N', $head) - 4) // return 0;
		my $code = unpack 'N', $body;
		if ($code == 80877103 || $code == 80877104) { _write($client, 'N'); next }
		last;
	}
	my $parameters = join '', map { my $b = join("\0", @$_) . "\0"; 'S' . pack('N', 4 + length $b) . $b }
	  [ server_version => '15.0' ], [ client_encoding => 'UTF8' ], [ standard_conforming_strings => 'on' ];
	_write($client, 'R' . pack('N N', 8, 0) . $parameters . 'K' . pack('N N N', 12, $pid, 1) . 'Z' . pack('N', 5) . 'I');
	return 1;
}

# One round trip of a client over a session; false at the client's end.
sub _round_trip
{
	my ($client, $session) = @_;
	my $batch = '';
	while (my ($type, $message) = _read_message($client))
	{
		return 0 if $type eq 'X';
		$batch .= $message;
		next unless $type eq 'S' || $type eq 'Q';
		_write($session->{socket}, $batch);
		_write($client, _read_until_ready($session->{socket}));
		return 1;
	}
	return 0;
}

sub _run
{
	my ($listener, $target, $user, $honest) = @_;
	my @sessions = map { _log_in($target, $user) } 1, 2;
	my $select = IO::Select->new($listener);
	my %trips;
	my $turn = 0;

	while (my @ready = $select->can_read)
	{
		for my $socket (@ready)
		{
			if ($socket == $listener)
			{
				my $client = $listener->accept or next;
				$client->autoflush(1);
				$trips{$client} = 0;
				_greet($client, $honest ? $sessions[0]{pid} : 4711) ? $select->add($client) : close $client;
				next;
			}
			my $session = $trips{$socket}++ < $honest ? $sessions[0] : $sessions[ $turn++ % 2 ];
			next if _round_trip($socket, $session);
			$select->remove($socket);
			close $socket;
		}
	}
	return;
}

sub stop { my ($self) = @_; return end_child($self->{pid}) }

1;
