# Tasks over restarts and long transactions, the long poll, and the sweeps of the coordinator.
use strict;
use warnings;
use lib 't';
use AmoroCluster qw(poll);
use Test::More;
use Time::HiRes qw(time);

my $server = AmoroCluster->create('tasks', conf => <<'CONF');
amoro_meta.optimizing_check_interval = 100ms
CONF
my $sql = sub { return $server->safe_psql('postgres', @_) };
$sql->("SELECT create_optimizer_group('default')");
my $token = $sql->("SELECT register_optimizer('default', 4, 512)");
my $start = sub { return $sql->("SELECT start_process('lake', 'sales', '$_[0]', 'MINOR', '$_[1]')") };

# A poll that waits is woken by the commit of a process, long before it would look again or end.
{
	my $waiting = $server->background_psql('postgres', on_error_stop => 0);
	$waiting->query_until(qr/ready/, "\\echo ready\nSELECT 'got ' || task_id FROM poll_task('$token', 0, wait => '5s');\n");
	poll('the poll waits', sub {
		$server->safe_psql('template1', "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%poll_task%' AND wait_event_type = 'Extension'") });
	my $began = time;
	$start->('woken', '[{}]');
	$waiting->query_until(qr/got 1/, "");
	cmp_ok(time - $began, '<', 3, 'a poll that waits is woken by new work');
	$waiting->quit;
	$began = time;
	is($sql->("SELECT poll_task('$token', 1, wait => '500ms') IS NULL"), 't', 'and answers null when there is none');
	cmp_ok(time - $began, '>=', 0.5, 'at the end of its wait');
}

# Q14: others pass by a claim in an open transaction, and have its task once the client is gone.
{
	my $process = $start->('open', '[{}, {}]');
	my $open = $server->background_psql('postgres', on_error_stop => 0);
	my $pid = $open->query('SELECT pg_backend_pid()');
	$open->query_until(qr/first 1/, "BEGIN;\nSELECT 'first ' || task_id FROM poll_task('$token', 2);\n");
	is($sql->("SELECT task_id FROM poll_task('$token', 3)"), '2', 'a claim that is not committed holds up nobody');
	$sql->("SELECT pg_terminate_backend($pid)");
	poll('the claim is rolled back', sub { $sql->("SELECT count(*) FROM pg_stat_activity WHERE pid = $pid") eq '0' });
	is($sql->("SELECT task_id FROM poll_task('$token', 1)"), '1', 'its task is there again at once');
	$sql->("SELECT cancel_process($process)");
}

# Q02: tasks in all states over a crash; the old token goes on, what nobody ends is reset.
{
	my $process = $start->('crash', '[{}, {}, {}, {}]');
	$sql->("SELECT ack_task('$token', n, $process, n + 1, 1) FROM generate_series(0, 1) n WHERE (poll_task('$token', n)).task_id > 0");
	$sql->("SELECT complete_task('$token', 0, $process, 1, 1), poll_task('$token', 2)");
	$server->stop('immediate');
	$server->start;
	is($sql->("SELECT string_agg(state, ' ' ORDER BY task_id) FROM tasks WHERE process_id = $process"),
		'SUCCESS ACKED SCHEDULED PLANNED', 'the states survive a crash');
	is($sql->("SELECT complete_task('$token', 1, $process, 2, 1)"), 'success', 'a completion by the old token counts');
	$server->configure('amoro_meta.optimizer_heartbeat_timeout' => '1s');
	poll('the optimizer expires', sub { $sql->('SELECT count(*) FROM optimizers') eq '0' });
	is($sql->("SELECT string_agg(state, ' ' ORDER BY task_id) FROM tasks WHERE process_id = $process"),
		'SUCCESS SUCCESS PLANNED PLANNED', 'what it held is given back, a success is not');
	$server->configure('amoro_meta.optimizer_heartbeat_timeout' => undef);
	$token = $sql->("SELECT register_optimizer('default', 1, 512)");
	for my $task (3, 4)
	{
		my ($id, $attempt) = split /\|/, $sql->("SELECT task_id, attempt FROM poll_task('$token', 0)");
		is($sql->("SELECT ack_task('$token', 0, $process, $id, $attempt)"), 'acked', 'another optimizer takes over');
		$sql->("SELECT complete_task('$token', 0, $process, $id, $attempt)");
	}
	is($sql->("SELECT stage FROM processes WHERE process_id = $process"), 'committing', 'and the process comes to its end');
}

$server->stop;
done_testing();
