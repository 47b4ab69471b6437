# A TCP proxy in a process of its own, between nodes and a server's socket, whose faults the test turns on and off.
#
# Each direction ("up": from the node to the server, "down": back) is in one mode:
#   pass        bytes go through, after the delay of the direction
#   hold        bytes are taken but kept; no end of stream is passed on either (a half-open connection)
#   drop        bytes are taken and thrown away
# and new connections are accepted, or refused.
package AmoroProxy;

use strict;
use warnings;
use AmoroChild qw(child_started end_child);
use IO::Select;
use IO::Socket::INET;
use IO::Socket::UNIX;
use POSIX ();
use Socket qw(SOL_SOCKET SO_REUSEADDR);
use Time::HiRes qw(time);


# Starts a proxy to a unix socket; it listens on a free port of 127.0.0.1. Options: address, port.
sub start
{
	my ($class, $target, %options) = @_;
	my $listener = IO::Socket::INET->new(
		Listen => 128, LocalAddr => $options{address} // '127.0.0.1', LocalPort => $options{port} // 0, ReuseAddr => 1) or die "listen: $@";
	my ($reader, $writer, $answers, $answer_writer);
	pipe $reader, $writer or die "pipe: $!";
	pipe $answers, $answer_writer or die "pipe: $!";
	my $self = bless { port => $listener->sockport, commands => $writer, answers => $answers }, $class;
	my $pid = fork // die "fork: $!";
	if ($pid == 0)
	{
		close $writer;
		close $answers;
		eval { _run($listener, $target, $reader, $answer_writer); 1 } or print STDERR "proxy: $@";
		POSIX::_exit(0);
	}
	close $reader;
	close $answer_writer;
	$self->{pid} = $pid;
	child_started($pid);
	return $self;
}

sub port { return $_[0]{port} }

# Returns once the proxy does what the command says, with its answer.
sub _command
{
	my ($self, $command) = @_;
	syswrite($self->{commands}, "$command\n") or die "proxy: $!";
	my $answer = readline $self->{answers};
	die 'the proxy ended' unless defined $answer;
	chomp $answer;
	return $answer;
}

# set(up => 'hold'), set(down => 'drop'), set(down_delay => seconds)
sub set
{
	my ($self, %modes) = @_;
	$self->_command("set $_ $modes{$_}") for sort keys %modes;
	return;
}

sub refuse { return $_[0]->_command('refuse') }
sub accept { return $_[0]->_command('accept') }
# Closes every connection, as a reset link would.
sub cut { return $_[0]->_command('cut') }
sub connection_count { return $_[0]->_command('count') }
# Everything passes again, what was held first.
sub heal { my ($self) = @_; $self->set(up => 'pass', down => 'pass', up_delay => 0, down_delay => 0); return $self->accept }

sub stop { my ($self) = @_; return end_child($self->{pid}) }

# From here on: the proxy's own process.

my (%mode, %links, $accepting);

sub _run
{
	my ($listener, $target, $commands, $answers) = @_;
	%mode = (up => 'pass', down => 'pass', up_delay => 0, down_delay => 0);
	$accepting = 1;
	$SIG{PIPE} = 'IGNORE';
	while (1)
	{
		my $readable = IO::Select->new($commands, $accepting ? $listener : (),
			map { my $link = $_; map { $link->{ended}{$_} ? () : $link->{from}{$_} } qw(up down) } values %links);
		for my $handle ($readable->can_read(_next_wait()))
		{
			if ($handle == $commands)
			{
				my $line = readline $commands;
				return unless defined $line;
				syswrite $answers, _obey(split ' ', $line) . "\n";
			}
			elsif ($handle == $listener)
			{
				_open_link(scalar $listener->accept, $target);
			}
			else
			{
				_read_from($handle);
			}
		}
		_forward($_) for values %links;
	}
}

sub _obey
{
	my ($command, @arguments) = @_;
	if ($command eq 'set') { $mode{ $arguments[0] } = $arguments[1]; _forward($_) for values %links }
	elsif ($command eq 'refuse') { $accepting = 0 }
	elsif ($command eq 'accept') { $accepting = 1 }
	elsif ($command eq 'cut') { _close_link($_) for values %links }
	elsif ($command eq 'count') { return scalar keys %links }
	return 'done';
}

sub _open_link
{
	my ($client, $target) = @_;
	my $server = IO::Socket::UNIX->new(Peer => $target);
	return close $client unless $server;
	my $link = {
		from => { up => $client, down => $server },
		to => { up => $server, down => $client },
		queue => { up => [], down => [] },
		ended => {},
	};
	$_->blocking(0) for $client, $server;
	$links{ fileno $client } = $link;
	return;
}

sub _close_link
{
	my ($link) = @_;
	delete $links{ fileno $link->{from}{up} };
	close $_ for values %{ $link->{from} };
	return;
}

sub _read_from
{
	my ($handle) = @_;
	for my $link (values %links)
	{
		for my $direction (qw(up down))
		{
			next unless $link->{from}{$direction} == $handle;
			my $count = sysread $handle, my $bytes, 1 << 16;
			return if !defined $count && $!{EAGAIN};
			# an undefined entry is the end of the stream; it waits its turn as bytes do
			$link->{ended}{$direction} = 1 unless $count;
			return if $count && $mode{$direction} eq 'drop';
			push @{ $link->{queue}{$direction} }, [ time + $mode{"${direction}_delay"}, $count ? $bytes : undef ];
			return;
		}
	}
	return;
}

# Seconds until the next delayed bytes are due; undef when nothing is.
sub _next_wait
{
	my $wait;
	for my $link (values %links)
	{
		for my $direction (grep { $mode{$_} eq 'pass' && @{ $link->{queue}{$_} } } qw(up down))
		{
			my $due = $link->{queue}{$direction}[0][0] - time;
			$due = 0.001 if $due < 0.001;
			$wait = $due if !defined $wait || $due < $wait;
		}
	}
	return $wait;
}

sub _forward
{
	my ($link) = @_;
	for my $direction (grep { $mode{$_} eq 'pass' } qw(up down))
	{
		my $queue = $link->{queue}{$direction};
		while (@$queue && $queue->[0][0] <= time)
		{
			return _close_link($link) unless defined $queue->[0][1];
			my $written = syswrite $link->{to}{$direction}, $queue->[0][1];
			return _close_link($link) if !defined $written && !$!{EAGAIN};
			last unless $written;
			substr($queue->[0][1], 0, $written, '');
			shift @$queue unless length $queue->[0][1];
		}
	}
	return;
}

1;
