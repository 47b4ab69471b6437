# Prepared transactions hold what they have locked without any client. Who needs that waits as long as it says it will
# (lock_timeout), sweeps and polls pass by, and after the end of it everything is as if it had been an open transaction.
use strict;
use warnings;
use AmoroCluster qw(poll);
use Test::More;

my $server = AmoroCluster->create('main', conf => <<'CONF');
max_prepared_transactions = 10
lock_timeout = 20s
amoro_meta.optimizing_check_interval = 1h
amoro_meta.refresh_interval = 1h
CONF
sub sql { my ($statement) = @_; return $server->safe_psql('postgres', $statement) }
sub quick { my ($statement) = @_; return ($server->outcome("SET lock_timeout = '100ms'; SELECT $statement"))[0] }
# Leaves a transaction of these calls prepared; what they returned.
sub prepare { my ($call) = @_; return sql("BEGIN; SELECT $call; PREPARE TRANSACTION 'held'") }
sub commit { return sql("COMMIT PREPARED 'held'") }
sub undo { return sql("ROLLBACK PREPARED 'held'") }

sql("SELECT create_optimizer_group('default'), create_optimizer_group('g'), create_catalog('lake', 'pushed')");
my $token = sql("SELECT register_optimizer('default', 4, 512)");

# a group that somebody is about to use
prepare("register_optimizer('g', 1, 1)");
is(quick("drop_optimizer_group('g')"), '55P03', 'who drops a group waits for a registration that is prepared');
is(quick("register_optimizer('g', 1, 1) IS NOT NULL"), '00000', 'who registers, too, does not');
is(quick("alter_optimizer_group('g', properties => '{\"owner\": \"x\"}')"), '00000', 'nor who changes its settings');
undo();
is(sql("SELECT unregister_optimizer(token) FROM amoro_meta.optimizer WHERE group_name = 'g'"), 't', 'what was not prepared stays');
prepare("drop_optimizer_group('g')");
is(quick("register_optimizer('g', 1, 1)"), '55P03', 'who registers waits for the drop of the group');
is(quick("report_listing('lake', 'd', '[{\"name\": \"t\", \"properties\": {\"self-optimizing.group\": \"g\"}}]', true)"), '00000', 'a table does not');
commit();
is(sql("SELECT group_name IS NULL, wanted_group FROM table_runtimes"), 't|g', 'and rests in no group');
is(quick("register_optimizer('g', 1, 1)"), '42704', 'the group is gone');

# a process
prepare("start_process('lake', 'sales', 'orders', 'MINOR', '[{}]')");
is(quick("start_process('lake', 'sales', 'orders', 'MINOR', '[{}]')"), '55P03', 'the second process of a table waits for the first');
my $other = sql("SELECT start_process('lake', 'sales', 'items', 'MINOR', '[{}]')");
is(sql("SET lock_timeout = '100ms'; SELECT table_name FROM poll_task('$token', 0)"), 'items', 'a poll passes by, with another task');
is(quick('reset_tasks() + expire_optimizers() + settle_processes()'), '00000', 'sweeps do, too');
commit();
is(sql("SELECT table_name FROM poll_task('$token', 1)"), 'orders', 'its task is there after the commit');
my $process = sql("SELECT process_id FROM processes WHERE table_name = 'orders'");
is(sql("SELECT ack_task('$token', 1, $process, 1, 1)"), 'acked', 'and worked on');
prepare("cancel_process($process)");
is(quick("cancel_process($process)"), '55P03', 'who cancels a process waits for who has cancelled it');
is(quick("poll_task('$token', 2)"), '00000', 'nobody else does');
is(quick('reset_tasks() + expire_optimizers() + settle_processes()'), '00000', 'no sweep either');
undo();
is(sql("SELECT complete_task('$token', 1, $process, 1, 1)"), 'success', 'a cancellation that came to nothing has cancelled nothing');
is(sql("SELECT finish_process($process)"), 'SUCCESS', 'and the process ends');

# calls of optimizers
for my $call ("poll_task('$token', 3)", "ack_task('$token', 0, $other, 1, 1)", "complete_task('$token', 0, $other, 1, 1)")
{
	is(($server->outcome("BEGIN; SELECT $call; PREPARE TRANSACTION 'held'"))[0], '0A000', "no transaction with $call is prepared");
}
is(sql("SELECT ack_task('$token', 0, $other, 1, 1), complete_task('$token', 0, $other, 1, 1)"), 'acked|success', 'nothing of them is left');
prepare("count(*) FROM touch_optimizer('$token')");
sql("UPDATE amoro_meta.optimizer SET touched_at = '2000-01-01' WHERE token <> '$token'");
is(quick('expire_optimizers()'), '00000', 'the sweep passes by an optimizer that is being touched');
is(quick("poll_task('$token', 3)"), '00000', 'which polls on');
commit();

# a session
my $session = sql("SELECT open_terminal_session('lake')");
prepare("state FROM execute_in_terminal('$session', 'set a = 1')");
is(quick("execute_in_terminal('$session', 'set b = 2')"), '55P03', 'who uses a session waits for a use that is prepared');
is(quick("terminal_context('$session')"), '00000', 'who looks does not');
is(quick('purge_terminal_sessions()'), '00000', 'nor the sweep');
commit();
sql("SELECT execute_in_terminal('$session', 'set b = 2')");
is(sql("SELECT terminal_context('$session')->'properties'"), '{"a": "1", "b": "2"}', 'and nothing is lost');
is(sql('SELECT count(*) FROM pg_prepared_xacts'), '0', 'nothing is left prepared');
$server->stop;
done_testing();
