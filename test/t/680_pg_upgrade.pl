# pg_upgrade of a server that is on its second timeline, by copying and by linking (U07): everything is there, nobody
# coordinates before the data is adopted, and then no number comes again though the new server counts its timelines from 1.
# From the version that script/in_debian has brought along, if it has, else from our own.
use strict;
use warnings;
use AmoroCluster qw(poll);
use AmoroFlight qw(board land);
use AmoroInventory qw(stock inventory documents numbers go_on_above same_text);
use AmoroNode;
use AmoroReplica;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my %old_version = (new => { install_path => $ENV{OLD_POSTGRES} });
my $primary = create_primary('primary', tables => ['kept'], %old_version);
my $old = create_standby($primary, 'old', %old_version);
$primary->stop('fast');
my $row = fail_over($old);
run_procedure($old, AmoroReplica::create_table_call('later'));

# One of everything, and procedures of every kind in flight, under leases that outlast the test
$old->append_conf('postgresql.conf', AmoroInventory::settings());
$old->reload;
poll('the long lease is in force', sub { $old->coordinator->{lease_ms} == 300_000 });
$old->safe_psql('postgres', AmoroInventory::roles());
stock($old, 'postgres');
my @flights = board($old, 'postgres');
# a queue that everything has left
$old->safe_psql('postgres', <<'SQL');
SELECT create_catalog('alone', 'pushed', '{"table.self-optimizing.group": "spare"}');
SELECT start_process('alone', 'd', 'early', 'MINOR', '[{}]') AS early \gset
SELECT cancel_process(:early);
SELECT amoro_meta.raise_queue_floor(queue_id) FROM amoro_meta.task_queue;
SQL

my %servers;
for my $mode ('copy', 'link')
{
	my $new = $servers{$mode} = AmoroCluster->new($mode);
	$new->init;
	$new->append_conf('postgresql.conf', <<'CONF' . AmoroInventory::settings());
shared_preload_libraries = 'amoro_meta'
max_worker_processes = 16
fsync = off
amoro_meta.ack_timeout = 500ms
amoro_meta.heartbeat_interval = 200ms
CONF
}
note 'from version ' . $old->pg_version . ' to ' . $servers{copy}->pg_version;

# Each node knows the old server and a new one, as it would know one address
my %nodes = map { $_ => AmoroNode->start(name => $_, conninfo => conninfo_of($old, $servers{$_})) } sort keys %servers;
for my $node (values %nodes)
{
	$node->wait_for_serving;
	$node->lookup('c', 'd', 'later')->{status} == 200 or die;
}
my @numbers = numbers($old, 'postgres');
my $seen = inventory($old, 'postgres');
my $told = documents($old, 'postgres');
$old->stop('fast');

my ($bin) = grep { -x "$_/pg_upgrade" } split /:/, $ENV{PATH};
chdir PostgreSQL::Test::Utils::tempdir() or die $!;
for my $mode ('copy', 'link')
{
	my ($new, $node) = ($servers{$mode}, $nodes{$mode});
	# on a socket in this directory, where the node does not find it
	my @upgrade = ('pg_upgrade', '--no-sync', "--$mode", '-b', "$ENV{OLD_POSTGRES}/bin", '-B', $bin, '-d', $old->data_dir, '-D', $new->data_dir);
	# before version 16 it knows no option for what it does by default
	splice @upgrade, 2, 1 if $mode eq 'copy';
	command_ok([ @upgrade, '--check' ], "$mode: pg_upgrade --check");
	command_ok([@upgrade], "$mode: pg_upgrade")
	  or diag grep { /ERROR|error:/ } map { map { "$_\n" } split /\n/, slurp_file($_) } glob $new->data_dir . '/pg_upgrade_output.d/*/log/*.log';
	$new->start;
	$new->wait_for_state('not_adopted');
	same_text(inventory($new, 'postgres'), $seen, "$mode: everything is there");
	same_text(documents($new, 'postgres'), $told, "$mode: and every object is as it was");
	is(($new->outcome('SELECT ' . AmoroReplica::create_table_call('early')))[0], 'AM005', "$mode: nothing is coordinated before it is adopted");
	is($new->safe_psql('postgres', <<'SQL'), 'late', "$mode: what needs no coordinator works, as it did on the old server");
SELECT FROM start_process('alone', 'd', 'late', 'MINOR', '[{}]');
SELECT register_optimizer('spare', 1, 1) AS token \gset
SELECT p.table_name FROM poll_task(:'token', 0) t JOIN processes p USING (process_id);
SQL
	$new->safe_psql('postgres', 'SELECT adopt_database()');
	$new->wait_for_state('running');
	$new->configure('amoro_meta.debug_clock_offset_ms' => '301s');
	run_procedure($new, AmoroReplica::create_table_call('after'));
	land($new, 'postgres', $mode, @flights);
	go_on_above($new, 'postgres', $mode, @numbers);
	$node->wait_for_serving(20);
	is($node->status->{term}, $new->coordinator->{term}, "$mode: the node, which has seen the term before, follows");
	is($node->lookup('c', 'd', $_)->{status}, 200, "$mode: and has $_") for qw(kept later after);
}
done_testing();
