# The configuration of nginx in docs/operations.md as it stands there, in front of two front ends: which of them answers, with
# and without ip_hash, and who answers when one of them is gone, or says that it cannot.
use strict;
use warnings;
use AmoroCluster qw(poll);
use AmoroHttp;
use AmoroNode;
use AmoroProxy;
use File::Basename qw(dirname);
use IO::Socket::INET;
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;

my $directory = PostgreSQL::Test::Utils::tempdir();
my %running;    # by process id

# Runs a program until the end of this test; what it prints is in a file.
sub start
{
	my ($name, @command) = @_;
	my $pid = fork // die "fork: $!";
	if ($pid == 0)
	{
		open STDIN, '<', '/dev/null';
		open STDOUT, '>', "$directory/$name.out";
		open STDERR, '>&', \*STDOUT;
		exec @command or POSIX::_exit(127);
	}
	$running{$pid} = 1;
	return $pid;
}

sub end
{
	my ($pid, $signal) = @_;
	kill $signal // 'KILL', $pid;
	waitpid $pid, 0;
	delete $running{$pid};
	return;
}

system_or_bail('openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', 2, '-subj', '/CN=front_ends',
	'-keyout', "$directory/front_ends.key", '-out', "$directory/front_ends.crt");
my ($example) = slurp_file(dirname(__FILE__) . '/../../docs/operations.md') =~ /^```nginx\n(.*?)^```\n/ms or die 'docs/operations.md has no configuration of nginx';
my $port = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1')->sockport;

# nginx as the document says, in front of those addresses; its process.
sub start_nginx
{
	my ($balancing, @addresses) = @_;
	my $configuration = $example;
	$configuration =~ s/\bleast_conn;/$balancing;/ or die 'no least_conn';
	$configuration =~ s/\bserver fe$_:8080 /server $addresses[$_ - 1] / or die "no server fe$_" for 1, 2;
	$configuration =~ s/\blisten 443 /listen 127.0.0.1:$port / or die 'no port';
	$configuration =~ s{/etc/nginx/}{$directory/}g;
	unlink "$directory/nginx.conf";
	append_to_file("$directory/nginx.conf", "daemon off;\nmaster_process off;\npid $directory/nginx.pid;\nerror_log $directory/nginx.log;\nevents {}\nhttp {\naccess_log off;\n"
		. join('', map { "${_}_temp_path $directory/$_;\n" } qw(client_body proxy fastcgi uwsgi scgi)) . "$configuration}\n");
	my @command = ('nginx', '-e', "$directory/nginx.log", '-c', "$directory/nginx.conf");
	is(system("@command -t -q 2>>$directory/nginx.checked"), 0, "nginx takes the configuration, with $balancing") or diag slurp_file("$directory/nginx.checked");
	my $pid = start('nginx', @command);
	poll('nginx listens', sub { kill(0, $pid) or die slurp_file("$directory/nginx.log"); IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) });
	return $pid;
}

# Status and body of what nginx answers.
sub ask
{
	my ($path, @options) = @_;
	my $answer = `curl -s --cacert $directory/front_ends.crt --connect-to front_ends:443:127.0.0.1:$port @options -w '\\n%{http_code}' 'https://front_ends$path'`;
	my ($body, $status) = $answer =~ /\A(.*)\n(\d+)\z/s or die "no answer: $answer";
	return ($status, $body);
}

sub name_of { my ($status, $body) = ask('/v1/status'); return $status == 200 && $body =~ /"node_name":"(\w+)"/ ? $1 : "status $status" }
sub names { my %seen = map { name_of() => 1 } 1 .. $_[0]; return join ' ', sort keys %seen }

# two nodes, which keep nothing that the other one has not
my $server = AmoroCluster->create('main');
for my $call ("create_catalog('lake')", "create_database('lake', 'sales')")
{
	my $id = $server->safe_psql('postgres', "SELECT $call");
	$server->safe_psql('postgres', "SELECT wait_for_procedure($id)") if $call =~ /database/;
}
my $link = AmoroProxy->start($server->host . '/.s.PGSQL.' . $server->port);
my $one = AmoroNode->start(name => 'one', conninfo => 'host=127.0.0.1 port=' . $link->port . ' dbname=postgres');
my $two = AmoroNode->start(name => 'two', conninfo => $server->connstr('postgres'));
$_->wait_for_serving for $one, $two;
my $nginx = start_nginx('least_conn', $one->address, $two->address);
is(names(10), 'one two', 'each front end is asked');
my ($status, $body) = ask('/v1/tables/lake/sales/none');
is($status, 404, 'and answers');
# one is cut off: it fences itself, and what it says then is nobody's answer
$link->set(up => 'drop', down => 'drop');
$one->wait_for_fenced;
is(join(' ', map { (ask('/v1/tables/lake/sales/none'))[0] } 1 .. 6), '404 404 404 404 404 404', 'what a fenced node answers is asked of the other one');
$link->set(up => 'pass', down => 'pass');
$one->wait_for_serving;
end($nginx, 'TERM');

$nginx = start_nginx('ip_hash', $one->address, $two->address);
my $first = names(10);
like($first, qr/^(?:one|two)$/, 'with ip_hash a client stays with one');
my ($gone, $other) = $first eq 'one' ? ($one, $two) : ($two, $one);
$gone->stop;
is(names(3), $other->name, 'until that is gone');
end($nginx, 'TERM');
$other->stop;

# front ends that may have done what they were asked when they die
my (%front_end, %port_of);
sub start_front_end
{
	my ($name) = @_;
	unlink "$directory/$name.port";
	$front_end{$name} = start($name, '/usr/bin/python3', dirname(__FILE__) . '/../explorer/leader_server.py', '--directory', $directory, '--name', $name, '--port', $port_of{$name} // 0);
	$port_of{$name} = poll("$name listens", sub { -e "$directory/$name.port" && slurp_file("$directory/$name.port") });
	return;
}
sub seen { my ($name, $path) = @_; return -e "$directory/$name.log" && slurp_file("$directory/$name.log") =~ /"path": "\Q$path\E"/ }
start_front_end($_) for 'a', 'b';
$nginx = start_nginx('least_conn', map { "127.0.0.1:$port_of{$_}" } 'a', 'b');

# Has the front end killed that was sent a request; the status of what the client is told, and whether the other one has had it.
sub kill_in_the_middle
{
	my ($path, @options) = @_;
	append_to_file("$directory/$_.hold", '') for 'a', 'b';
	my $client = fork // die "fork: $!";
	if ($client == 0)
	{
		append_to_file("$directory/answer$path", (ask("/slow/$path", @options))[0]);
		POSIX::_exit(0);
	}
	my $name = poll('one has it', sub { (grep { seen($_, "/slow/$path") } 'a', 'b')[0] });
	end($front_end{$name});
	my $other = $name eq 'a' ? 'b' : 'a';
	unlink "$directory/$_.hold" for 'a', 'b';
	waitpid $client, 0;
	start_front_end($name);
	return slurp_file("$directory/answer$path") . (seen($other, "/slow/$path") ? ' from the other one' : '');
}
is(kill_in_the_middle('get'), '200 from the other one', 'a GET is sent to another one');
is(kill_in_the_middle('post', '-X POST -d x'), '502', 'a POST is not: the client is told, and repeats it with the request_id it had');
end($front_end{a});
is(join(' ', map { (ask("/echo/$_", '-X POST -d x'))[0] } 1 .. 6), '200 200 200 200 200 200', 'what could not be sent is sent to the other one, POST too');

END
{
	my $code = $?;
	kill 'KILL', keys %running;
	waitpid $_, 0 for keys %running;
	$? = $code;
}
$server->stop;
done_testing();
