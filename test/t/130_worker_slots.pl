# Coordinators that cannot be started: no free worker slot, a database that cannot be opened.
use strict;
use warnings;
use AmoroCluster qw(poll);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

# One slot for the launcher, one for the launcher of logical replication, one that is free.
my $server = AmoroCluster->create('main', conf => "max_worker_processes = 3\n");

# W08
for my $database ('second', 'third')
{
	$server->safe_psql('postgres', "CREATE DATABASE $database");
	$server->safe_psql($database, 'CREATE EXTENSION amoro_meta');
	$server->wait_for_state('backoff', $database);
}
is($server->coordinator('postgres')->{state}, 'running', 'the first one has the only slot');
ok($server->coordinator('second')->{backoff_until}, 'the view says until when the next attempt waits');
my ($state, $error) = $server->outcome("SELECT register_node('n1', gen_random_uuid())", 'second');
is($state, 'AM005', 'what needs the coordinator says that it does not run');
like($error, qr/HINT:.*amoro_stat_coordinator/, 'and where to look');
is($server->safe_psql('second', 'SELECT amoro_meta.next_id() > 0'), 't', 'what needs none works');
my %attempts;
poll('several attempts', sub {
	$attempts{ $server->coordinator('second', 'postgres')->{backoff_until} // '' } = 1;
	return keys %attempts >= 3 });
my @warnings = $server->log_text =~ /WARNING:  (amoro_meta could not start the coordinator .*no free background worker slot)/g;
is(scalar @warnings, 1, 'one warning for all the attempts') or diag join "\n", @warnings;
like($server->log_text, qr/HINT:  Increase max_worker_processes/, 'with a hint');

# a slot becomes free
$server->safe_psql('postgres', 'DROP EXTENSION amoro_meta');
my ($lucky, $other) = poll('the slot is taken', sub {
	my $name = $server->safe_psql('postgres',
		"SELECT datname FROM pg_stat_activity WHERE backend_type = 'amoro_meta coordinator'");
	$name eq 'second' ? [ 'second', 'third' ] : $name eq 'third' ? [ 'third', 'second' ] : undef }, 10)->@*;
$server->wait_for_state('running', $lucky);
is($server->coordinator($other)->{state}, 'backoff', 'the other one goes on waiting');

# and more of them
$server->append_conf('postgresql.conf', "max_worker_processes = 16\n");
$server->restart;
$server->wait_for_state('running', $_) for 'second', 'third';
is($server->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'amoro_meta coordinator'"),
	2, 'with slots enough each has its own');

# W05: a database that cannot be opened is tried at growing intervals, and recovers by itself
$server->safe_psql('postgres', 'CHECKPOINT');
my $oid = $server->safe_psql('postgres', "SELECT oid FROM pg_database WHERE datname = 'third'");
my $directory = $server->data_dir . "/base/$oid";
my $pid = $server->coordinator('third')->{pid};
my $log = $server->log_position;
rename $directory, "$directory.away" or die $!;
kill 'TERM', $pid;
my $start = time;
poll('four attempts', sub { (() = $server->log_text($log) =~ /FATAL:  database "third" does not exist/g) >= 4 }, 20);
cmp_ok(time - $start, '>', 5, 'which takes 0.5, 1, 2 and 4 s at least');
my $row = $server->coordinator('third', 'second');
is($row->{state}, 'backoff', 'the view says that it waits');
is($server->coordinator('second')->{state}, 'running', 'the others go on');
rename "$directory.away", $directory or die $!;
$row = $server->wait_for_state('running', 'third', 20, 'second');
kill 'TERM', $row->{pid};
$start = time;
$server->wait_for_successor($row->{pid}, 'third');
cmp_ok(time - $start, '<', 3, 'after a success the intervals begin anew');
unlike($server->log_text, qr/PANIC|TRAP|terminated by signal/, 'nothing crashed');
$server->stop;
done_testing();
