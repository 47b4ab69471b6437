# Tasks over a failover that loses the newest commits: what is replicated goes on, under the old tokens too; what is lost was
# never there, its owners are told so, and no number of it is given out again. A standby shows them and changes nothing.
use strict;
use warnings;
use AmoroCluster qw(poll);
use AmoroReplica;
use Test::More;

my $primary = create_primary('primary', conf => "amoro_meta.optimizing_check_interval = 1h\n");
my $sql = sub { my ($server, $statement) = @_; return $server->safe_psql('postgres', $statement) };
$sql->($primary, "SELECT create_optimizer_group('default')");
my $token = $sql->($primary, "SELECT register_optimizer('default', 4, 512)");
my $process = $sql->($primary, "SELECT start_process('lake', 'sales', 'orders', 'MINOR', '[{}, {}, {}, {}]', quota => 10)");
sub ack { my ($thread, $task) = @_; return "ack_task('$token', $thread, $process, $task, 1)" }
sub complete { my ($thread, $task) = @_; return "complete_task('$token', $thread, $process, $task, 1)" }
# by threads 0 to 2
$sql->($primary, "SELECT (poll_task('$token', n)).task_id FROM generate_series(0, 2) n");
$sql->($primary, 'SELECT ' . ack(0, 1) . ', ' . ack(1, 2));
$sql->($primary, 'SELECT ' . complete(0, 1));

my $standby = create_standby($primary, 'standby', conf => "amoro_meta.optimizing_check_interval = 1h\n");
my $states = "SELECT string_agg(state, ' ' ORDER BY task_id) FROM tasks WHERE process_id = $process";
is($sql->($standby, $states), 'SUCCESS ACKED SCHEDULED PLANNED', 'a standby shows the tasks');
is(($standby->outcome("SELECT $_"))[0], '25006', "and refuses $_")
  for "poll_task('$token', 3)", ack(2, 3), complete(1, 2), "touch_optimizer('$token')", "register_optimizer('default', 1, 1)",
  "unregister_optimizer('$token')", "start_process('lake', 'sales', 'items', 'MINOR', '[]')", "cancel_process($process)", "finish_process($process)",
  'reset_tasks()', 'expire_optimizers()', 'settle_processes()', 'purge_history()';

# what the failover loses: a completion, a claim, a process and an optimizer
$standby->stop;
is($sql->($primary, 'SELECT ' . complete(1, 2)), 'success', 'a completion that will be lost');
is($sql->($primary, "SELECT task_id, attempt FROM poll_task('$token', 3)"), '4|1', 'and a claim');
my $lost_process = $sql->($primary, "SELECT start_process('lake', 'sales', 'lost', 'MINOR', '[{}]')");
my $lost_token = $sql->($primary, "SELECT register_optimizer('default', 1, 1)");
$primary->stop('immediate');
$standby->start;
fail_over($standby);

is($sql->($standby, $states), 'SUCCESS ACKED SCHEDULED PLANNED', 'the tasks are as they were replicated');
is($sql->($standby, "SELECT count(*) FROM touch_optimizer('$token')"), '0', 'the old token is good');
is(($standby->outcome('SELECT ' . ack(3, 4)))[0], 'AM302', 'whoever was handed out a task by a claim that is lost is told so');
is($sql->($standby, 'SELECT ' . complete(3, 4)), 'ignored', 'and its work does not count');
is($sql->($standby, 'SELECT ' . complete(1, 2)), 'success', 'a completion that was lost can be said again');
is($sql->($standby, 'SELECT ' . complete(1, 2)), 'ignored', 'and counts once');
is($sql->($standby, 'SELECT ' . ack(2, 3) . ', ' . complete(2, 3)), 'acked|success', 'what was handed out before goes on');
is($sql->($standby, "SELECT task_id, attempt FROM poll_task('$token', 0)"), '4|1', 'the task of the lost claim is handed out');
is(($standby->outcome('SELECT ' . ack(3, 4)))[0], 'AM302', 'which is not the attempt of the one that was lost');
is($sql->($standby, 'SELECT ' . ack(0, 4) . ', ' . complete(0, 4)), 'acked|success', 'and completed');
is($sql->($standby, "SELECT finish_process($process)"), 'SUCCESS', 'the process comes to its end');
is(($standby->outcome("SELECT poll_task('$lost_token', 0)"))[0], 'AM301', 'the token of an optimizer that was lost is unknown');
is($sql->($standby, "SELECT cancel_process($lost_process)"), 'unknown', 'so is a process');
cmp_ok($sql->($standby, "SELECT start_process('lake', 'sales', 'lost', 'MINOR', '[{}]')"), '>', $lost_process, 'whose number is not given out again');
$standby->stop;
done_testing();
