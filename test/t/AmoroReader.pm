# A process that asks a node for one table all the time and writes down what it is told, and when.
package AmoroReader;

use strict;
use warnings;
use AmoroChild qw(child_started end_child);
use AmoroHttp;
use POSIX ();
use Time::HiRes qw(sleep time);

my $count = 0;

# Starts to read path, "/v1/tables/c/d/t", from an AmoroNode.
sub start
{
	my ($class, $node, $path) = @_;
	my $self = bless { file => sprintf('%s/reader-%d-%d', $ENV{TESTLOGDIR} // '.', $$, ++$count) }, $class;
	my $address = $node->address;
	open my $file, '>', $self->{file} or die "$self->{file}: $!";
	my $pid = fork // die "fork: $!";
	if ($pid == 0)
	{
		$file->autoflush(1);
		_read($address, $path, $file);
		POSIX::_exit(0);
	}
	$self->{pid} = $pid;
	child_started($pid);
	return $self;
}

# One line a request: begin, end, status, metadata version, id of the table.
sub _read
{
	my ($address, $path, $file) = @_;
	my $socket;
	while (1)
	{
		my $begin = time;
		my $response = eval { $socket //= http_connect($address); http_exchange($socket, $path, timeout => 10) };
		if (!$response)
		{
			undef $socket;
			sleep 0.05;
			next;
		}
		printf $file "%.6f %.6f %d %s %s\n", $begin, time, $response->{status}, $response->{headers}{'amoro-metadata-version'} // 0,
		  $response->{json}{table_id} // 0;
		undef $socket if ($response->{headers}{connection} // '') eq 'close';
		sleep 0.004;
	}
	return;
}

# What it was told so far: hashes with begin, end, status, version, table_id.
sub answers
{
	my ($self) = @_;
	open my $file, '<', $self->{file} or die "$self->{file}: $!";
	my @answers;
	while (my $line = <$file>)
	{
		my ($begin, $end, $status, $version, $id) = $line =~ /^(\S+) (\S+) (\d+) (\d+) (\d+)\n/ or next;
		push @answers, { begin => $begin, end => $end, status => $status, version => $version, table_id => $id };
	}
	return @answers;
}

# How many requests that began after a moment were answered with that status.
sub count_after
{
	my ($self, $moment, $status) = @_;
	return scalar grep { $_->{begin} > $moment && $_->{status} == $status } $self->answers;
}

# The longest time, in seconds, in which no request was answered with that status, between two moments.
sub longest_gap
{
	my ($self, $status, $from, $to) = @_;
	my ($last, $longest) = ($from, 0);
	for ($self->answers)
	{
		next if $_->{status} != $status || $_->{end} < $from || $_->{end} > $to;
		$longest = $_->{end} - $last if $_->{end} - $last > $longest;
		$last = $_->{end};
	}
	return $to - $last > $longest ? $to - $last : $longest;
}

sub stop { my ($self) = @_; return end_child($self->{pid}) }

1;
