# Two primaries at once (H03): what nodes see of them, with the guarantee of a synchronous standby and without it.
use strict;
use warnings;
use AmoroCluster qw(poll);
use AmoroNode;
use AmoroReader;
use AmoroReplica;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $lease = 2;
my $slack = 0.5;
my $old = create_primary('old', tables => [ 'dropped', 'kept', 'other' ], conf => "amoro_meta.require_synchronous_tick = on\n");
# promoted it has no standby of its own, and could not tick
my $new = create_standby($old, 'new', conf => "amoro_meta.require_synchronous_tick = off\n");
$old->configure(synchronous_standby_names => 'new');
wait_for_tick($old);

# n1 may reach both, the old one first; n2 the old one alone; n3 both, the new one first
my %node = (
	n1 => AmoroNode->start(name => 'n1', conninfo => conninfo_of($old, $new)),
	n2 => AmoroNode->start(name => 'n2', conninfo => conninfo_of($old)),
	n3 => AmoroNode->start(name => 'n3', conninfo => conninfo_of($new, $old)));
my @nodes = map { $node{$_} } sort keys %node;
$_->wait_for_serving for @nodes;
for my $node (@nodes)
{
	$node->wait_until('has the tables', sub { $node->lookup('c', 'd', $_)->{status} == 200 }) for qw(dropped kept other);
}
my %reader = map { ($_ => AmoroReader->start($node{$_}, '/v1/tables/c/d/dropped')) } sort keys %node;
my $version = $old->safe_psql('postgres', 'SELECT metadata_version FROM node_status LIMIT 1');

# The standby is promoted, nobody tells the old primary
my $start = time;
my $row = fail_over($new);
is($row->{term} >> 32, 2, 'the promoted standby begins a term on its own timeline');
my $drop = run_procedure($new, q{drop_table('c', 'd', 'dropped')});
my $waited = time - $start;
my $committed = drop_commit_time($new, $drop);
$node{n2}->wait_for_fenced(1);
pass('the node that reaches the old primary alone is fenced');
cmp_ok($waited, '<', $lease * 1.125 + 0.2 + 1 + $slack, sprintf 'the drop waits for one lease, one tick and the margin (%.2f s)', $waited);
sleep 0.5;
for my $name (sort keys %node)
{
	is($reader{$name}->count_after($committed, 200), 0, "$name served nothing of the table after its drop committed on the new primary");
	cmp_ok(scalar(grep { $_->{status} == 200 } $reader{$name}->answers), '>', 10, "and before that it did");
}

# Who reaches the new primary follows it; nobody goes back to the old one
for my $node (@node{qw(n1 n3)})
{
	my $name = $node->name;
	$node->wait_for_serving($lease + 5);
	is($node->lookup('c', 'd', 'dropped')->{status}, 404, "$name: the table is gone");
	is($node->lookup('c', 'd', 'kept')->{status}, 200, "$name: the other one is there");
	is($node->status->{term}, $row->{term}, "$name: it is in the term of the new primary");
	cmp_ok($node->status->{applied_version}, '>', 1 << 40, "$name: versions of the new timeline are beyond those of the old one");
}
like($node{n2}->status->{reason}, qr/synchronous standby/, 'n2 says why it is fenced');
my $fences = $node{n1}->status->{fences};
my $sessions = q{FROM pg_stat_activity WHERE query ~ 'node_heartbeat|activate_node|metadata_lookup' AND pid <> pg_backend_pid()};
for (1 .. 3)
{
	poll('two nodes are connected', sub { $new->safe_psql('postgres', "SELECT count(*) $sessions") >= 2 });
	cmp_ok($new->safe_psql('postgres', "SELECT count(pg_terminate_backend(pid, 1000)) $sessions"), '>=', 2, 'nodes lose their connections');
}
$node{n1}->wait_for_serving;
sleep 0.5;
$node{n1}->wait_for_serving;
$node{n1}->wait_until('serves on', sub { $node{n1}->lookup('c', 'd', 'kept')->{status} == 200 }, 5);
is($node{n1}->status->{term}, $row->{term}, 'when its connection breaks, n1 comes back to the new primary, past the old one');
is($node{n1}->status->{fences}, $fences, 'before its lease is over');
is($node{n1}->lookup('c', 'd', 'other')->{status}, 200, 'and can load: its loads do not stay with the old primary either');

# A process that the old primary has never heard of, or under another incarnation, is not turned away for good by it
$node{n3}->stop;
$node{n3} = AmoroNode->start(name => 'n3', conninfo => conninfo_of($new, $old));
$node{n3}->wait_for_serving;
my ($id, $incarnation) = ($node{n3}->status->{node_id}, $node{n3}->status->{incarnation});
is(($old->outcome("SELECT node_heartbeat($id, '$incarnation', $row->{term}, 1, 1)"))[0], 'AM004',
	'the old primary learns that there is a newer term, and says no more than that');
is(($old->outcome("SELECT activate_node(4711, '$incarnation', $row->{term}, 1, 1)"))[0], 'AM004', 'also for a node it does not know');

# What was submitted at the old primary is not acknowledged: its commits wait for a standby that has left
my ($stdout, $stderr) = ('', '');
my $client = $old->background_psql('postgres', on_error_stop => 0);
$client->query_until(qr/submitted/, "\\echo submitted\nSELECT drop_table('c', 'd', 'kept');\n");
poll('the client of the old primary waits', sub { $old->safe_psql('postgres',
	q{SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND backend_type = 'client backend'}) });
$old->stop('fast');
eval { $client->quit };

# Healed with pg_rewind: the old primary is a standby of the new one, then primary again; n2 comes back by itself
rewind_to($old, $new);
is($node{n2}->get('/healthz')->{status}, 503, 'a standby grants n2 nothing');
run_procedure($new, q{drop_table('c', 'd', 'other')});
$new->wait_for_catchup($old, 'replay');
append_to_file($old->data_dir . "/postgresql.auto.conf", "synchronous_standby_names = ''\namoro_meta.require_synchronous_tick = off\n");
$old->reload;
$new->stop('fast');
my $third = fail_over($old);
cmp_ok($third->{term}, '>', $row->{term}, 'the term grows again');
$node{n2}->wait_for_serving($lease + 10);
is($node{n2}->lookup('c', 'd', 'other')->{status}, 404, 'n2 knows what was dropped meanwhile');
is($node{n2}->lookup('c', 'd', 'kept')->{status}, 200, 'and what was not');
$node{n1}->wait_until('is in the newest term', sub { $node{n1}->status->{term} == $third->{term} });
$node{n1}->wait_for_serving;
is($node{n1}->lookup('c', 'd', 'kept')->{status}, 200, 'n1 has come along');
unlike($_->log_text, qr/PANIC|TRAP|terminated by signal/, 'nothing crashed') for $old, $new;
done_testing();
