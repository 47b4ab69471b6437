# Every operation on metadata with one bad node among three: each is done within the bound of rule 8, is then seen on the
# live nodes, and the bad one never answers with what was before.
#
# The operations are in AmoroOperation.pm. The faults are at the end, and take all operations together.
use strict;
use warnings;
use AmoroCluster;
use AmoroLake;
use AmoroNode;
use AmoroOperation qw(every_operation);
use AmoroProcedure qw(nothing_left);
use AmoroProxy;
use File::Basename;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my @operations = every_operation();
my $server = AmoroCluster->create('main');
my $proxy = AmoroProxy->start(socket_path($server));
my $without_news = "$PostgreSQL::Test::Utils::tmp_check/without_news.so";
system_or_bail('gcc', '-shared', '-fPIC', '-O1', '-Wall', '-Werror', split(' ', `pkg-config --cflags libpq`),
	'-o', $without_news, dirname(__FILE__) . '/without_news.c', '-ldl');

sub query { return $server->safe_psql('postgres', $_[0]) }

# A text with the name of an operation under a fault put in.
sub named
{
	my ($text, $fault, $operation) = @_;
	return $text =~ s/NAME/${fault}_$operation->{name}/gr;
}

sub pattern { my ($expected, @name) = @_; return ref $expected ? do { my $text = named("$expected", @name); qr/$text/ } : $expected }

# Whether an answer is the expected one.
sub is_answer
{
	my ($answer, $expected) = @_;
	return ref $expected ? $answer->{status} == 200 && $answer->{body} =~ $expected : $answer->{status} == $expected;
}

# Submits calls, all at once, and waits for all; returns those that were not done, with their ends, and the time it took.
sub run_all
{
	my (@calls) = @_;
	my $begin = time;
	my @procedures = split /\n/, query(join '', map { "SELECT $_;\n" } @calls);
	my @outcomes = split /\n/, query(join '', map { "SELECT wait_for_procedure($_, '60 s');\n" } @procedures);
	my @failed = map { $outcomes[$_] eq 'done' ? () : "$calls[$_]: $outcomes[$_]" } 0 .. $#calls;
	return (time - $begin, @failed);
}

# All looks of all operations under a fault: hashes with path, old, new.
sub looks
{
	my ($fault) = @_;
	return map {
		my $operation = $_;
		map { { path => named($_->[0], $fault, $operation), old => pattern($_->[1], $fault, $operation),
				new => pattern($_->[2], $fault, $operation) } } @{ $operation->{look} // [] }
	} @operations;
}

# Asks until the node is neither fenced nor without a connection.
sub answer_of
{
	my ($node, $path) = @_;
	my $deadline = time + 20;
	while (1)
	{
		my $answer = $node->get($path, raw => 1);
		return $answer if $answer->{status} != 503 || time > $deadline;
		sleep 0.02;
	}
}

# Has the node hold in memory what was before.
sub warm_up
{
	my ($node, $fault) = @_;
	my @wrong = grep { my $look = $_; grep { !is_answer(answer_of($node, $look->{path}), $look->{old}) } 1 .. 2 } looks($fault);
	is(join(', ', map { $_->{path} } @wrong), '', "$fault: node $node->{name} serves what there is before");
	return;
}

# What a node serves after the operations is what is new.
sub serves_what_is_new
{
	my ($node, $fault) = @_;
	my @wrong = grep { !is_answer(answer_of($node, $_->{path}), $_->{new}) } looks($fault);
	is(join(', ', map { $_->{path} } @wrong), '', "$fault: node $node->{name} serves what is new");
	return;
}

# What of the operations a node still serves as it was; it may refuse, and it may know what is new.
sub stale
{
	my ($node, $fault) = @_;
	return grep { my $answer = eval { $node->get($_->{path}) }; $answer && is_answer($answer, $_->{old}) } looks($fault);
}

# What no operation may take longer than: rule 8, for each of its two broadcasts, and what the machine may need.
my $bound = 2 * (0.5 + lease_seconds() * 1.001 + 0.2 + 0.1) + slack_seconds();

# One fault. Options: start (makes the bad node), begin (the fault), end (takes it back; the node is to serve again), dead.
sub with_fault
{
	my ($fault, %options) = @_;
	my $bad = $options{start}->($fault);
	$bad->wait_for_serving;
	warm_up($_, $fault) for @main::live, $bad;
	$options{begin}->($bad);
	my ($seconds, @failed) = run_all(map { named($_->{call}, $fault, $_) } @operations);
	my @stale = $options{dead} || $options{silent} ? () : stale($bad, $fault);
	is(join("\n", @failed), '', "$fault: every operation is done");
	cmp_ok($seconds, '<', $bound, sprintf '%s: within the bound (%.1f s)', $fault, $seconds);
	is(join(', ', map { $_->{path} } @stale), '', "$fault: the bad node serves nothing of what was before");
	serves_what_is_new($_, $fault) for @main::live;
	my @unseen = grep { defined $_->{seen} && query('SELECT ' . named($_->{seen}, $fault, $_)) ne 't' } @operations;
	is(join(', ', map { $_->{name} } @unseen), '', "$fault: every operation is seen in the database");
	if ($options{dead})
	{
		$bad->wait_for_exit;
		return;
	}
	$options{end}->($bad) if $options{end};
	# until it serves again, nothing old either
	my $deadline = time + 20;
	my $old = 0;
	do { $old += stale($bad, $fault) } until $bad->get('/healthz')->{status} == 200 || time > $deadline;
	is($old, 0, "$fault: nor does it when it comes back");
	serves_what_is_new($bad, $fault);
	$bad->stop;
	return;
}

sub plain { my ($name) = @_; return AmoroNode->start(name => $name, conninfo => conninfo($server)) }

query("SELECT create_catalog('c')");
run_all(map { "create_database('c', '$_')" } 'd', 'e');
our @live = map { plain($_) } 'n1', 'n2';
$_->wait_for_serving for @live;

my %faults = (
	# its process stands still, and goes on later
	stopped => { start => \&plain, begin => sub { $_[0]->signal('STOP') }, end => sub { $_[0]->signal('CONT') }, silent => 1 },
	killed => { start => \&plain, begin => sub { $_[0]->signal('KILL') }, dead => 1 },
	# the network takes everything and gives nothing back
	cut_off => {
		start => sub { AmoroNode->start(name => $_[0], conninfo => conninfo($server, proxy => $proxy)) },
		begin => sub { $proxy->set(up => 'drop', down => 'drop') },
		end => sub { $proxy->cut; $proxy->heal }
	},
	# it lives and sends heartbeats, but cannot apply what has changed
	not_applying => {
		start => sub {
			query("CREATE ROLE not_applying LOGIN; SELECT grant_access('not_applying', 'node')");
			return AmoroNode->start(name => $_[0], conninfo => conninfo($server, user => 'not_applying'),
				environment => { LD_PRELOAD => $without_news });
		},
		begin => sub { query('REVOKE EXECUTE ON FUNCTION metadata_changes FROM not_applying') },
		end => sub { query('GRANT EXECUTE ON FUNCTION metadata_changes TO not_applying') }
	},
	# its transactions may not write: it takes the server for a standby and leaves it
	read_only => {
		start => sub {
			query("CREATE ROLE read_only LOGIN; SELECT grant_access('read_only', 'node')");
			return AmoroNode->start(name => $_[0], conninfo => conninfo($server, user => 'read_only'));
		},
		begin => sub {
			query('ALTER ROLE read_only SET default_transaction_read_only = on');
			query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'read_only'");
		},
		end => sub { query('ALTER ROLE read_only RESET default_transaction_read_only') }
	});

# everything that is there before, for all faults at once
for my $round (0 .. 9)
{
	my @calls = map {
		my $fault = $_;
		map { defined $_->{before}[$round] ? named($_->{before}[$round], $fault, $_) : () } @operations
	} sort keys %faults;
	last unless @calls;
	my ($seconds, @failed) = run_all(@calls);
	is(join("\n", @failed), '', sprintf 'what there is before, %d (%.1f s)', $round, $seconds);
}

with_fault($_, %{ $faults{$_} }) for sort keys %faults;
nothing_left($server, 'after all of them');
done_testing();
