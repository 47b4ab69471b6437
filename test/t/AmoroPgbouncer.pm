# pgbouncer in transaction mode, in front of a server of a test.
package AmoroPgbouncer;

use strict;
use warnings;
use AmoroChild qw(child_started end_child);
use AmoroCluster;
use IO::Socket::INET;
use IO::Socket::UNIX;
use PostgreSQL::Test::Utils;
use POSIX ();


# Options: pool_size, the sessions it holds at the server.
sub new
{
	my ($class, $server, %options) = @_;
	my $directory = PostgreSQL::Test::Utils::tempdir_short();
	my $probe = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1') or die "listen: $@";
	my $self = bless { directory => $directory, port => $probe->sockport }, $class;
	close $probe;
	my $user = $server->safe_psql('postgres', 'SELECT current_user');
	append_to_file("$directory/pgbouncer.ini", <<"INI");
[databases]
postgres = host=@{[ $server->host ]} port=@{[ $server->port ]} dbname=postgres user=$user
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $self->{port}
unix_socket_dir = $directory
auth_type = any
pool_mode = transaction
default_pool_size = @{[ $options{pool_size} // 3 ]}
max_client_conn = 1000
server_login_retry = 1
logfile = $PostgreSQL::Test::Utils::log_path/pgbouncer.$self->{port}.log
INI
	return $self;
}

sub start
{
	my ($self) = @_;
	my $pid = fork // die "fork: $!";
	if ($pid == 0)
	{
		open STDOUT, '>', '/dev/null';
		open STDERR, '>', '/dev/null';
		exec 'pgbouncer', '-q', "$self->{directory}/pgbouncer.ini" or POSIX::_exit(127);
	}
	$self->{pid} = $pid;
	child_started($pid);
	AmoroCluster::poll('pgbouncer listens', sub { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $self->{port}) }, 30);
	return $self;
}

sub kill { my ($self) = @_; return end_child($self->{pid}) }

sub conninfo { return "host=127.0.0.1 port=$_[0]{port} dbname=postgres" }

1;
