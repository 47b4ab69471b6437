# TLS to a catalog: who is believed, and as whom we come (D11).
use strict;
use warnings;
use AmoroCatalog;
use AmoroCluster qw(poll);
use IO::Socket::INET;
use POSIX ();
use PostgreSQL::Test::Utils;
use Socket qw(SOL_SOCKET SO_LINGER);
use Test::More;

my $directory = PostgreSQL::Test::Utils::tempdir();

# An authority, and what it signs: certificate($name, $subject, extensions, days)
sub openssl { system_or_bail('openssl', @_) }
sub authority
{
	my ($name) = @_;
	openssl('req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', 2, '-subj', "/CN=$name", '-keyout', "$directory/$name.key", '-out', "$directory/$name.crt");
}
sub certificate
{
	my ($name, $authority, $extensions) = @_;
	open my $file, '>', "$directory/$name.ext" or die $!;
	print $file "$extensions\n";
	close $file;
	openssl('req', '-new', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-subj', "/CN=$name", '-keyout', "$directory/$name.key", '-out', "$directory/$name.csr");
	openssl('x509', '-req', '-in', "$directory/$name.csr", '-CA', "$directory/$authority.crt", '-CAkey', "$directory/$authority.key", '-CAcreateserial', '-days', 1,
		'-extfile', "$directory/$name.ext", '-out', "$directory/$name.crt");
}
authority($_) for 'ours', 'theirs';
certificate('server', 'ours', 'subjectAltName = IP:127.0.0.1');
certificate('elsewhere', 'ours', 'subjectAltName = DNS:catalog.example');
certificate('self', 'theirs', 'subjectAltName = IP:127.0.0.1');
certificate('client', 'ours', 'extendedKeyUsage = clientAuth');

sub pem { my ($name) = @_; return slurp_file("$directory/$name") =~ s/\n/\\n/gr }
sub start_catalog
{
	my ($name, @more) = @_;
	my $catalog = AmoroCatalog->start('--certificate', "$directory/$name.crt", '--key', "$directory/$name.key", @more);
	$catalog->write_lake('l', '{"namespaces": {"a": ["t"]}}');
	return $catalog;
}
my $catalog = start_catalog('server');
my $elsewhere = start_catalog('elsewhere');
my $self = start_catalog('self');
my $strict = start_catalog('server', '--client-ca', "$directory/ours.crt");

my $server = AmoroCluster->create('main', conf => <<'CONF');
amoro_meta.http_allowed_hosts = '127.0.0.1'
amoro_meta.explore_interval = 1h
amoro_meta.http_timeout = 20s
log_statement = none
CONF
my $ours = '"ca-certificate": "' . pem('ours.crt') . '"';
my $client = '"client-certificate": "' . pem('client.crt') . '", "client-key": "' . pem('client.key') . '"';

sub outcome_of
{
	my ($name, $uri, $auth) = @_;
	AmoroCatalog::create($server, $name, $uri, "{$auth}");
	return AmoroCatalog::wait_for_round($server, $name, 1)->{last_error};
}
my $refused = qr/^configuration: SSL/;
is(outcome_of('good', $catalog->uri('lake/l'), $ours), '', 'an authority of the catalog');
is(AmoroCatalog::tables($server, 'good'), 'a/t', 'the tables are there');
like(outcome_of('unknown', $catalog->uri('lake/l'), ''), $refused, 'an authority that nobody knows');
like(outcome_of('wrong name', $elsewhere->uri('lake/l'), $ours), $refused, 'a certificate for another host');
like(outcome_of('wrong authority', $self->uri('lake/l'), $ours), $refused, 'a certificate of another authority');
like(outcome_of('no tls', $catalog->uri('lake/l') =~ s/^https/http/r, $ours), qr/^configuration: /, 'a server that wants TLS');
like(outcome_of('anonymous', $strict->uri('lake/l'), $ours), qr/^configuration: /, 'a server that wants to know who asks');
is(outcome_of('known', $strict->uri('lake/l'), "$ours, $client"), '', 'is told so by our certificate');
like(outcome_of('no key', $strict->uri('lake/l'), "$ours, \"client-certificate\": \"" . pem('client.crt') . '"'), qr/^configuration: /, 'a certificate without its key');
like(outcome_of('nonsense', $catalog->uri('lake/l'), '"ca-certificate": "nonsense"'), qr/^configuration: /, 'an authority that is none');
# a connection that another catalog has made with its certificate is not used for one without
like(outcome_of('still anonymous', $strict->uri('lake/l'), $ours), qr/^configuration: /, 'others still have to say who they are');

# D19: servers that end in the middle of an answer, or of the handshake after a few words
my %error_of = map { $_ => qr/^tables of "n": / } 'cut', 'longer';
$error_of{$_} = qr/^configuration: ./ for 'garbage', 'redirect-nowhere';
my %said = ('nothing' => '', 'half a record' => "\x16\x03\x03\x40\x00\x02\x00", 'an alert' => "\x15\x03\x03\x00\x02\x02\x28",
	'something else' => "HTTP/1.1 400 Bad Request\r\n\r\n", 'a reset' => undef);
my @children;
END
{
	my $status = $?;
	kill 'KILL', @children;
	$? = $status;
}
AmoroCatalog::create($server, $_, $catalog->uri($_), "{$ours}") for sort keys %error_of;
for my $what (sort keys %said)
{
	my $listener = IO::Socket::INET->new(Listen => 5, LocalAddr => '127.0.0.1') or die $!;
	my $child = fork // die $!;
	if ($child == 0)
	{
		while (my $client = $listener->accept)
		{
			$client->sysread(my $hello, 100);
			# with this option a connection is reset
			setsockopt($client, SOL_SOCKET, SO_LINGER, pack('II', 1, 0)) unless defined $said{$what};
			$client->syswrite($said{$what} // '');
			$client->close;
		}
		POSIX::_exit(0);
	}
	push @children, $child;
	$error_of{"handshake, $what"} = qr/^configuration: ./;
	AmoroCatalog::create($server, "handshake, $what", 'https://127.0.0.1:' . $listener->sockport, "{$ours}");
}
like(AmoroCatalog::wait_for_round($server, $_, 1)->{last_error}, $error_of{$_}, "a server that is gone in the middle: $_") for sort keys %error_of;
kill 'KILL', @children;
waitpid $_, 0 for splice @children;
is(AmoroCatalog::explore($server, 'good')->{last_error}, '', 'after all that one that behaves is explored');

# a file of authorities for all
$server->configure('amoro_meta.http_ca_file' => "$directory/ours.crt");
poll('the file is read', sub { AmoroCatalog::explore($server, 'unknown')->{last_error} eq '' });
is(AmoroCatalog::tables($server, 'unknown'), 'a/t', 'the authorities of a file');

# what a stopped server leaves is no loss
$catalog->stop;
like(AmoroCatalog::explore($server, 'good')->{last_error}, qr/^configuration: Failed to connect/, 'a server that is away');
is(AmoroCatalog::tables($server, 'good'), 'a/t', 'nothing is lost');
unlike($server->log_text, qr/BEGIN|PRIVATE|\b(PANIC|FATAL)\b/, 'no key in the log');
$server->stop;
done_testing;
