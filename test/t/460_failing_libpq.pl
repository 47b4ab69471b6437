# Each call of libpq that a node makes fails once: it does not crash, serves nothing old, and serves again by itself.
use strict;
use warnings;
use AmoroCluster;
use AmoroLake;
use AmoroNode;
use File::Basename;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my @functions = qw(PQconnectStartParams PQconnectPoll PQstatus PQsocket PQsetnonblocking PQsendQueryParams PQsendPrepare
  PQsendQueryPrepared PQflush PQconsumeInput PQgetResult PQresultStatus PQescapeIdentifier);
my $directory = $PostgreSQL::Test::Utils::tmp_check;
my $library = "$directory/failing_libpq.so";
my $include = `pkg-config --cflags libpq`;
system_or_bail('gcc', '-shared', '-fPIC', '-O1', '-Wall', '-Werror', split(' ', $include), '-o', $library,
	dirname(__FILE__) . '/failing_libpq.c', '-ldl');

my $server = AmoroCluster->create('main');
create_lake($server, 't');
my $round = 0;

# One number of the control file is one of: function, call, calls, failed.
sub control
{
	my ($file, @numbers) = @_;
	if (@numbers)
	{
		open my $out, '+>', $file or die "$file: $!";
		print $out pack 'l4', @numbers, 0, 0;
		close $out or die $!;
		return;
	}
	return (unpack 'l4', slurp_file($file))[3];
}

# Changed in place, for the node has it mapped.
sub arm
{
	my ($file, $function) = @_;
	open my $out, '+<', $file or die "$file: $!";
	print $out pack 'l4', $function, 1, 0, 0;
	close $out or die $!;
	return;
}

sub start_node
{
	my ($name, $file) = @_;
	return AmoroNode->start(
		name => $name,
		conninfo => conninfo($server),
		no_wait => 1,
		environment => { LD_PRELOAD => $library, AMORO_FAILING_LIBPQ => $file });
}

# The table is changed; as soon as that is done everywhere, a node answers with what is new, or refuses.
sub change
{
	my (@nodes) = @_;
	my $outcome = run_procedure($server,
		sprintf q(alter_table('c', 'd', 't', '[{"op":"set_properties","properties":{"round":"%d"}}]')), ++$round);
	die "alter_table: $outcome" unless $outcome eq 'done';
	return grep {
		my $answer = $_->lookup('c', 'd', 't');
		$answer->{status} == 200 && $answer->{body} !~ /"round": ?"$round"/
	} @nodes;
}

sub serves_the_newest
{
	my ($node) = @_;
	my $answer = $node->lookup('c', 'd', 't');
	return $answer->{status} == 200 && $answer->{body} =~ /"round": ?"$round"/;
}

# A node that serves: each function fails once, in whatever thread calls it next. Some are called only for a connection.
my $file = "$directory/steady";
control($file, 0, 0);
my $node = start_node('steady', $file);
$node->wait_until('listens', sub { $node->address });
$node->wait_for_serving;
my $stale = 0;
for my $place (1 .. @functions)
{
	my $name = $functions[ $place - 1 ];
	arm($file, $place);
	$stale += change($node);
	if (!control($file))
	{
		$server->safe_psql('postgres', q(SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()));
		$stale += change($node);
	}
	$node->wait_until("has seen $name fail", sub { $node->lookup('c', 'd', 't'); control($file) });
	$stale += change($node);
	ok($node->wait_until("serves after $name failed", sub { serves_the_newest($node) }), "$name: it serves again");
}
is($stale, 0, 'nothing old was served once a change was everywhere');
is($node->stop, 0, 'the node ends in good order');

# A node that starts: its first call fails, in another one the second, and so on, until all of them and a lookup work.
my ($number, $ended) = (0, 0);
$stale = 0;
while (1)
{
	my (%running, $untouched);
	for (1 .. 16)
	{
		my $this = "$directory/start" . ++$number;
		control($this, 0, $number);
		$running{$this} = start_node("start$number", $this);
	}
	for my $this (sort keys %running)
	{
		my $starting = $running{$this};
		# what fails before it listens may end it, with a code that says so
		AmoroCluster::poll("$this listens or ends", sub { $starting->address || !$starting->is_running });
		if (!$starting->is_running)
		{
			$starting->wait_for_exit > 0 or die $starting->log_text;
			$ended++;
			delete $running{$this};
			next;
		}
		$starting->wait_until('serves the newest', sub { serves_the_newest($starting) });
		# looked at once: the longer it runs the more it calls
		$untouched //= !control($this);
	}
	$stale += change(values %running);
	for my $this (sort keys %running)
	{
		my $code = $running{$this}->stop;
		die "$this ended with $code: " . $running{$this}->log_text if $code != 0;
	}
	last if $untouched || $number >= 400;
}
cmp_ok($number, '>', 40, "as many nodes as calls were started ($number)");
cmp_ok($number, '<', 400, 'the last ones had nothing left to fail');
cmp_ok($ended, '<', $number / 2, "only those ended that had not read their options yet ($ended)");
is($stale, 0, 'none served anything old');
done_testing();
