# What runs out under the coordinator: processes killed as the kernel kills them for want of memory, memory itself,
# space for tables, space for the write-ahead log. Nodes serve on or stop, nothing is half done, everything ends.
use strict;
use warnings;
use AmoroCluster qw(poll);
use AmoroNode;
use AmoroReader;
use AmoroReplica;
use File::Basename qw(dirname);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $lease = 2;
my $shim = PostgreSQL::Test::Utils::tempdir() . '/full_disk.so';
my $full = PostgreSQL::Test::Utils::tempdir() . '/full';
system_or_bail('gcc', '-shared', '-fPIC', '-O1', '-Wall', '-Werror', '-o', $shim, dirname(__FILE__) . '/full_disk.c', '-ldl');
$ENV{AMORO_FULL_DISK} = $full;

sub with_shim
{
	my ($code) = @_;
	local $ENV{LD_PRELOAD} = $shim;
	return $code->();
}

# The disk is full for files whose path contains that; the change is at once.
sub fill
{
	my ($pattern) = @_;
	open my $out, '>', "$full.new" or die "$full.new: $!";
	print $out $pattern;
	close $out;
	rename "$full.new", $full or die $!;
	return;
}
sub make_space { unlink $full; return }

my $server = AmoroCluster->new('main');
$server->init(extra => ['--wal-segsize=1']);
$server->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'amoro_meta'
max_worker_processes = 16
max_connections = 60
restart_after_crash = on
fsync = off
max_wal_size = 2MB
min_wal_size = 2MB
wal_recycle = off
track_commit_timestamp = on
log_line_prefix = '%m [%p] %b '
amoro_meta.metadata_lease_fence_ms = 2s
amoro_meta.ack_timeout = 500ms
amoro_meta.heartbeat_interval = 200ms
CONF
with_shim(sub { $server->start });
$server->safe_psql('postgres', 'CREATE EXTENSION amoro_meta');
$server->wait_for_state('running');
$server->safe_psql('postgres', "SELECT create_catalog('c')");
run_procedure($server, "create_database('c', 'd')");
run_procedure($server, AmoroReplica::create_table_call($_)) for qw(kept dropped);
my @nodes = map { AmoroNode->start(name => "n$_", conninfo => conninfo_of($server)) } 1 .. 2;
$_->wait_for_serving for @nodes;
for my $node (@nodes) { $node->lookup('c', 'd', $_)->{status} == 200 or die for qw(kept dropped) }
my $reader = AmoroReader->start($nodes[0], '/v1/tables/c/d/kept');
my $stale = AmoroReader->start($nodes[1], '/v1/tables/c/d/dropped');

# Runs the code, retrying, until the server takes it: after a crash it is away for a moment.
sub insist
{
	my ($description, $statement) = @_;
	return poll($description, sub {
		my ($code, $out) = $server->psql('postgres', $statement);
		defined $code && $code == 0 && $out ne '' && $out }, 60);
}

sub finishes
{
	my ($procedure, $what) = @_;
	is(insist($what, "SELECT outcome FROM procedures WHERE procedure_id = $procedure"), 'done', $what);
	return;
}

# A backend is killed, as by the kernel that needs its memory: the one that serves a node, one that waits, a client in the middle
my $gap_start = time;
for my $victim (qw(node_heartbeat pg_sleep))
{
	my $procedure = $server->safe_psql('postgres', 'SELECT ' . AmoroReplica::create_table_call('t' . int(time)));
	my $client = $server->background_psql('postgres', on_error_stop => 0);
	$client->query_until(qr/waits/, "\\echo waits\nSELECT wait_for_procedure($procedure), pg_sleep(60);\n");
	my $term = $server->coordinator->{term};
	my $pid = $server->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' 
		AND query LIKE '%$victim%' AND pid <> pg_backend_pid() LIMIT 1");
	kill 'KILL', $pid;
	eval { $client->quit };
	poll('the server is back in a new term', sub { ($server->coordinator->{term} // 0) > $term });
	finishes($procedure, "a procedure ends though a backend was killed ($victim)");
	$_->wait_for_serving for @nodes;
	sleep 1.1;
}
cmp_ok($reader->longest_gap(200, $gap_start, time), '<', $lease, 'the nodes served on meanwhile');

# No memory for the coordinator: the step fails, is tried again, and is made when there is some
my $position = $server->log_position;
my $pid = $server->coordinator->{pid};
my ($size) = slurp_file("/proc/$pid/statm") =~ /^(\d+)/;
system_or_bail('prlimit', "--pid=$pid", '--as=' . ($size * 4096) . ':');
my $columns = join ', ', map { qq({"name": "column_$_", "type": "long", "doc": ") . 'x' x 800 . '"}' } 1 .. 900;
my @large;
poll('a step fails for want of memory', sub {
	# the first may find room in what the process has already
	push @large, $server->safe_psql('postgres', sprintf q{SELECT create_table('c', 'd', 'large%d', '{"format": "iceberg", "columns": [%s]}')}, scalar @large, $columns)
	  if @large < 10;
	sleep 0.5;
	# nor may there be memory to write that into the row
	$server->log_text($position) =~ /amoro_meta coordinator.*out of memory/
	  || $server->safe_psql('postgres', "SELECT count(*) FROM amoro_meta.procedure WHERE error_code = '53200'") > 0 }, 30);
pass('out of memory is an error like others');
is($server->coordinator->{pid}, $pid, 'it does not end the coordinator');
is($_->get('/healthz')->{status}, 200, 'nor concern ' . $_->name) for @nodes;
system_or_bail('prlimit', "--pid=$pid", '--as=unlimited:');
finishes($_, "with memory the step of procedure $_ is made") for @large;

# No space for tables: steps fail, heartbeats do not, and the undo of what is cancelled waits for space too
$position = $server->log_position;
fill('/base/');
my @procedures;
my $refused = 0;
my $submitted = time;
while (time < $submitted + 30)
{
	my ($code, $out) = $server->outcome('SELECT ' . AmoroReplica::create_table_call('f' . @procedures . "_$refused"));
	if ($code eq '00000') { push @procedures, $out } else { $refused++; is($code, '53100', 'a submission says that the disk is full') if $refused == 1 }
	last if $server->log_text($position) =~ /amoro_meta coordinator (ERROR|WARNING).*No space|No space left on device/ && $refused;
}
like($server->log_text($position), qr/No space left on device/, 'the disk is full');
sleep $lease + 1;
is($_->get('/healthz')->{status}, 200, $_->name . ' has its leases on a full disk') for @nodes;
is($server->coordinator->{state}, 'running', 'the coordinator is there');
make_space();
is(scalar(grep { insist("procedure $_ ends", "SELECT outcome FROM procedures WHERE procedure_id = $_") ne 'done' } @procedures), 0,
	'with space every procedure ends');
is($server->safe_psql('postgres', 'SELECT count(*) FROM procedures WHERE outcome IS NULL'), 0, 'none is left');
is($server->safe_psql('postgres', "SELECT count(*) FROM tables WHERE table_name LIKE 'f%'"), scalar @procedures, 'and none was made twice or half');

# No space for what the coordinator alone writes: what is submitted waits, with the reason on its row, and is made later;
# so does the undo of what is cancelled before its step could be made
fill($server->safe_psql('postgres', "SELECT pg_relation_filepath('amoro_meta.change')"));
my @waiting;
my $stuck = poll('a step of the coordinator fails', sub {
	push @waiting, $server->safe_psql('postgres', 'SELECT ' . AmoroReplica::create_table_call('w' . @waiting)) if @waiting < 200;
	$server->safe_psql('postgres', "SELECT min(procedure_id) FROM procedures WHERE outcome IS NULL AND error_code = '53100'") });
ok((grep { $_ == $stuck } @waiting) == 1, 'the row of a procedure says that the disk is full');
$server->safe_psql('postgres', "SELECT cancel_procedure($waiting[-1])");
sleep 0.5;
make_space();
is(scalar(grep { insist("procedure $_ ends", "SELECT outcome FROM procedures WHERE procedure_id = $_") ne 'done' } @waiting[ 0 .. $#waiting - 1 ]), 0,
	'with space every one of them ends');
like(insist('the cancelled one ends', "SELECT outcome FROM procedures WHERE procedure_id = $waiting[-1]"), qr/^(rolled_back|done)$/,
	'and so does the one that was cancelled');

# No space for the write-ahead log: the server panics, and cannot come back before there is some
my $term = $server->coordinator->{term};
my $drop = $server->safe_psql('postgres', q{SELECT drop_table('c', 'd', 'dropped', request_id => 'aaaaaaaa-0000-4000-8000-000000000001')});
fill('pg_wal');
$position = $server->log_position;
poll('the server panics', sub {
	$server->psql('postgres', q{SELECT pg_logical_emit_message(true, 'x', repeat('x', 500000))});
	$server->log_text($position) =~ /PANIC.*No space left on device/ }, 60);
pass('without space for its log the server panics');
sleep $lease + 0.5;
make_space();
# it has given up, or still tries
poll('the server is back', sub {
	return 1 if $server->psql('postgres', 'SELECT 1') == 0;
	unlink $server->data_dir . '/postmaster.pid' if !kill 0, (split /\n/, eval { slurp_file($server->data_dir . '/postmaster.pid') } // 0)[0] // 0;
	$server->{_pid} = undef;
	with_shim(sub { $server->start(fail_ok => 1) });
	return 0 }, 60);
poll('in a new term', sub { ($server->coordinator->{term} // 0) > $term }, 60);
$_->wait_for_serving(30) for @nodes;
is(insist('the request is known', q{SELECT drop_table('c', 'd', 'dropped', request_id => 'aaaaaaaa-0000-4000-8000-000000000001')}), $drop,
	'what was acknowledged before is there');
finishes($drop, 'and ends');
my $committed = drop_commit_time($server, $drop);
is($stale->count_after($committed, 200), 0, 'no node served the dropped table after that');
is($nodes[1]->lookup('c', 'd', 'dropped')->{status}, 404, 'it is gone');
is($nodes[0]->lookup('c', 'd', 'kept')->{status}, 200, 'the other one is there');
done_testing();
