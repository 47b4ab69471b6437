# Processes and servers that die, restart, or become primary.
use strict;
use warnings;
use AmoroCluster qw(poll);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $server = AmoroCluster->create('main', init => { allows_streaming => 1 },
	conf => "restart_after_crash = on\nwal_retrieve_retry_interval = 100ms\n");

sub postmaster_pid { return (split /\n/, slurp_file($server->data_dir . '/postmaster.pid'))[0] }

sub alive { return kill 0, $_[0] }

# Processes of the extension in this server, by their title: also those that no server lists any more.
sub workers_of
{
	my ($data) = @_;
	my @pids;
	for my $file (glob '/proc/[0-9]*/cwd')
	{
		my ($pid) = $file =~ m{/proc/(\d+)/};
		next unless (readlink($file) // '') eq $data;
		open my $title, '<', "/proc/$pid/cmdline" or next;
		# the path of the program may have the name in it as well
		push @pids, $pid if (<$title> // '') =~ /^postgres: .*amoro_meta/;
	}
	return @pids;
}

# W01: kill -9 of the coordinator restarts the server; it is back soon, in the next term
my $row = $server->wait_for_state('running');
for my $round (1 .. 3)
{
	my $start = time;
	my $term = $row->{term};
	kill 'KILL', $row->{pid};
	$row = poll('the coordinator is back after a crash', sub {
		my $now = $server->coordinator;
		($now->{state} // '') eq 'running' && $now->{pid} != $row->{pid} && $now });
	is($row->{term}, $term + 1, 'shared memory is lost, so a new term begins');
	cmp_ok(time - $start, '<', 5, 'within 5 s');
	is($row->{starts}, 1, 'the counters begin anew');
}

# W10: restarts in a row, none hangs, each begins a term
my $term = $row->{term};
for my $mode (qw(fast fast fast smart immediate))
{
	my $ms = $server->elapsed(sub {
		system_or_bail('pg_ctl', '-D', $server->data_dir, '-m', $mode, '-w', '-s', '-l', $server->logfile, 'restart') });
	$server->_update_pid(1);
	cmp_ok($ms, '<', 10_000, "restart -m $mode");
}
$row = $server->wait_for_state('running');
cmp_ok($row->{term}, '>', $term, 'a restart begins a new term');
cmp_ok($row->{term}, '<=', $term + 5, 'and only one');

# W16: the postmaster dies; nobody stays behind, and the next start works
for my $point ('', 'cycle', 'begin_term')
{
	if ($point ne '')
	{
		$server->configure('amoro_meta.debug_stop_at' => $point);
		$server->safe_psql('postgres', 'UPDATE amoro_meta.coordinator SET term = term + 1, boot_counter = boot_counter + 1')
		  if $point eq 'begin_term';
		poll("it stands at $point", sub { ($server->coordinator->{stopped_at} // '') eq $point });
	}
	my @workers = workers_of($server->data_dir);
	cmp_ok(scalar @workers, '>=', 2, 'launcher and coordinator are there');
	my $start = time;
	kill 'KILL', postmaster_pid();
	poll('the workers have ended', sub { !grep { alive($_) } @workers }, 10);
	cmp_ok(time - $start, '<', 2, 'workers end with the postmaster' . ($point ? " at $point" : ''));
	unlink $server->data_dir . '/postmaster.pid';
	$server->{_pid} = undef;
	append_to_file($server->data_dir . '/postgresql.auto.conf', "amoro_meta.debug_stop_at = ''\n");
	poll('the next start works', sub { $server->start(fail_ok => 1) });
	$server->wait_for_state('running');
}

# H11: a synchronous standby that is not there: the coordinator waits for it, and a fast shutdown does not wait for that
$term = $server->coordinator->{term};
$server->configure(synchronous_standby_names => 'nobody');
poll('the setting is in force', sub { $server->safe_psql('postgres', 'SHOW synchronous_standby_names') eq 'nobody' });
my $waiter = $server->coordinator->{pid};
$server->append_conf('postgresql.conf', "amoro_meta.metadata_lease_fence_ms = 5s\n");
$server->reload;
poll('the coordinator waits for the standby', sub {
	$server->safe_psql('postgres', "SELECT wait_event FROM pg_stat_activity WHERE pid = $waiter") eq 'SyncRep' });
$server->safe_psql('postgres', "SELECT pg_cancel_backend($waiter)");
for (1 .. 5)
{
	is($server->safe_psql('postgres', "SELECT wait_event FROM pg_stat_activity WHERE pid = $waiter"), 'SyncRep',
		'a cancellation does not end this wait');
}
is($server->coordinator->{lease_ms}, 2000, 'a longer lease is not granted before the standby knows of it');
my $ms = $server->elapsed(sub { $server->stop('fast') });
cmp_ok($ms, '<', 5000, "a fast shutdown ends the wait ($ms ms)");
append_to_file($server->data_dir . '/postgresql.auto.conf', "synchronous_standby_names = ''\n");
$server->start;
$row = $server->wait_for_state('running');
is($row->{lease_ms}, 5000, 'the longer lease is granted after the restart');

# H01, H02: on a standby there is no worker and a clear error, after its promotion there is one, in a higher term
my $standby = AmoroCluster->new('standby');
$server->backup('base', backup_options => [ '--checkpoint', 'fast' ]);
$standby->init_from_backup($server, 'base', has_streaming => 1);
$standby->start;
$server->wait_for_catchup($standby, 'replay');
is(scalar workers_of($standby->data_dir), 0, 'no worker on a standby');
my ($state, $error) = $standby->outcome('SELECT adopt_database()');
is($state, '25006', 'what would write is refused there');
like($error, qr/HINT:.*primary/, 'with a hint');
is(($standby->outcome('SELECT amoro_meta.timeline_id()'))[0], '25006', 'a standby writes to no timeline');
is($standby->coordinator->{state}, 'none', 'the view says that no coordinator runs');
$server->stop('immediate');
$standby->promote;
my $promoted = $standby->wait_for_state('running', 'postgres', 10);
is($promoted->{term}, (2 << 32) | (($row->{term} & 0xffffffff) + 1), 'a promotion begins a term on its own timeline');
is($standby->safe_psql('postgres', 'SELECT amoro_meta.next_id() >> 40'), '1', 'and ids of their own');
unlike($standby->log_text, qr/PANIC|TRAP|terminated by signal/, 'nothing crashed there');

# U07: pg_upgrade starts servers that must do nothing by themselves
$standby->stop;
$standby->append_conf('postgresql.conf', "log_min_messages = debug1\n");
system_or_bail('pg_ctl', '-D', $standby->data_dir, '-w', '-s', '-l', $standby->logfile, '-o', '-b', 'start');
is(scalar workers_of($standby->data_dir), 0, 'no worker in the binary upgrade mode');
system_or_bail('pg_ctl', '-D', $standby->data_dir, '-w', '-s', '-m', 'fast', 'stop');
done_testing();
