# HTTP as the tests need it: whole exchanges, and raw bytes where a client misbehaves.
package AmoroHttp;

use strict;
use warnings;
use Exporter 'import';
use IO::Select;
use IO::Socket::INET;
use JSON::PP;
use Time::HiRes qw(time);

our @EXPORT = qw(http_connect http_exchange http_get http_raw http_read_response);

# A connection to "host:port".
sub http_connect
{
	my ($address) = @_;
	my $socket = IO::Socket::INET->new(PeerAddr => $address, Proto => 'tcp', Timeout => 10)
	  or die "cannot connect to $address: $@";
	binmode $socket;
	return $socket;
}

# Reads more bytes into $$buffer; false at the end of the stream or after the deadline.
sub _read_more
{
	my ($socket, $buffer, $deadline) = @_;
	while ((my $remaining = $deadline - time) > 0)
	{
		# none: it is over, or a signal came
		next unless IO::Select->new($socket)->can_read($remaining);
		return sysread($socket, $$buffer, 1 << 16, length $$buffer) // 0;
	}
	return 0;
}

# Reads one response from a connection; what was read beyond it stays in $$buffer. Undef when none came in time.
# A hash: status, headers (names in lower case), body, and json (the decoded body, when it is JSON
# and the option raw is not given).
sub http_read_response
{
	my ($socket, $buffer, %options) = @_;
	my $deadline = time + ($options{timeout} // 20);
	until ($$buffer =~ /\r\n\r\n/)
	{
		return undef unless _read_more($socket, $buffer, $deadline);
	}
	$$buffer =~ s/\A(.*?)\r\n\r\n//s;
	my ($status_line, @lines) = split /\r\n/, $1;
	my ($status) = $status_line =~ m{^HTTP/1\.1 (\d{3})} or die "not a status line: $status_line";
	my %headers = map { /^([^:]+):\s*(.*)$/ ? (lc $1, $2) : () } @lines;
	my $length = $headers{'content-length'} // 0;
	$length = 0 if $options{head} || $status == 304;
	while (length $$buffer < $length)
	{
		return undef unless _read_more($socket, $buffer, $deadline);
	}
	my $response = { status => $status + 0, headers => \%headers, body => substr($$buffer, 0, $length, '') };
	$response->{json} = decode_json($response->{body})
	  if !$options{raw} && ($headers{'content-type'} // '') eq 'application/json' && $length > 0;
	return $response;
}

# One request on an open connection, and its response. Options: method, headers (a reference to a hash), body, timeout.
sub http_exchange
{
	my ($socket, $path, %options) = @_;
	my $method = $options{method} // 'GET';
	my $body = $options{body} // '';
	my %headers = (host => 'test', (length $body ? ('content-length' => length $body) : ()), %{ $options{headers} // {} });
	my $request = "$method $path HTTP/1.1\r\n" . join('', map { "$_: $headers{$_}\r\n" } sort keys %headers) . "\r\n$body";
	my $buffer = '';
	while (length $request)
	{
		my $written = syswrite($socket, $request) // return undef;
		substr($request, 0, $written, '');
	}
	return http_read_response($socket, \$buffer, head => $method eq 'HEAD', timeout => $options{timeout});
}

# One request on a connection of its own. Dies when there is no response.
sub http_get
{
	my ($address, $path, %options) = @_;
	my $socket = http_connect($address);
	my $response = http_exchange($socket, $path, %options) // die "no response from $address to $path";
	close $socket;
	return $response;
}

# Sends bytes as they are and returns all that comes back until the server closes, or until the timeout (undef).
sub http_raw
{
	my ($address, $bytes, %options) = @_;
	my $socket = http_connect($address);
	my $deadline = time + ($options{timeout} // 20);
	my $received = '';
	local $SIG{PIPE} = 'IGNORE';

	while (length $bytes)
	{
		my $written = syswrite($socket, $bytes) // last;
		substr($bytes, 0, $written, '');
	}
	while (time < $deadline)
	{
		next unless IO::Select->new($socket)->can_read($deadline - time);
		my $count = sysread($socket, $received, 1 << 16, length $received);
		return $received unless $count;
	}
	return undef;
}

1;
