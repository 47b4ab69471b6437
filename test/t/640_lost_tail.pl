# An asynchronous standby is promoted that lacks the newest commits: caches, registrations, numbers.
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
my $primary = create_primary('primary', tables => [ 'dropped', 'kept' ]);
my $standby = create_standby($primary, 'standby');
my $node = AmoroNode->start(name => 'n1', conninfo => conninfo_of($primary, $standby));
my $renamed = AmoroNode->start(name => 'n2', conninfo => conninfo_of($primary, $standby));
$_->wait_for_serving for $node, $renamed;
my $first_version = $node->status->{applied_version};

# From here on the standby hears nothing, and the primary goes on
$primary->wait_for_catchup($standby, 'replay');
$standby->append_conf('postgresql.conf', "primary_conninfo = ''\n");
$standby->reload;
poll('the standby is cut off', sub { $primary->safe_psql('postgres', 'SELECT count(*) FROM pg_stat_replication') == 0 });
run_procedure($primary, AmoroReplica::create_table_call('lost'));
run_procedure($primary, q{drop_table('c', 'd', 'kept')});
my $lost_id = $node->lookup('c', 'd', 'lost')->{json}{table_id};
$node->wait_until('has what will be lost', sub { $node->lookup('c', 'd', 'lost')->{status} == 200 });
is($node->lookup('c', 'd', 'kept')->{status}, 404, 'and has heard of a drop that will be lost');
my $lost_version = $node->status->{applied_version};
cmp_ok($lost_version, '>', $first_version, 'its caches are newer than what the standby has');

# A node registers of which the standby never hears, another one is started anew under its name; the first is paused then
my $unknown = AmoroNode->start(name => 'unknown', conninfo => conninfo_of($primary));
$renamed->signal('KILL');
$renamed->wait_for_exit;
my $again = AmoroNode->start(name => 'n2', conninfo => conninfo_of($primary, $standby));
$_->wait_for_serving for $unknown, $again;
$unknown->wait_until('has the table', sub { $unknown->lookup('c', 'd', 'dropped')->{status} == 200 });
my $reader = AmoroReader->start($unknown, '/v1/tables/c/d/dropped');
my $old_reader = AmoroReader->start($node, '/v1/tables/c/d/lost');
poll('the readers read', sub { $reader->count_after(0, 200) > 5 && $old_reader->count_after(0, 200) > 5 });
my $old_ids = $primary->safe_psql('postgres', 'SELECT max(procedure_id) FROM amoro_meta.procedure');

$primary->stop('immediate');
my $start = time;
$standby->append_conf('postgresql.conf', "track_commit_timestamp = on\n");
my $row = fail_over($standby);
my $begun = time;

# No verdict for as long as the node that nobody knows of may serve
is($standby->safe_psql('postgres', "SELECT string_agg(state, ' ') FROM node_status WHERE node_id = 0"), 'unknown',
	'node_status speaks of nodes that were lost');
my $drop = run_procedure($standby, q{drop_table('c', 'd', 'dropped')});
my $committed = drop_commit_time($standby, $drop);
cmp_ok($committed - $start, '>', $lease, sprintf 'a drop waits for nodes that nobody knows of (%.2f s)', $committed - $start);
cmp_ok($committed - $begun, '<', $lease + 0.2 + 1.5, 'one lease, and no longer');
is($reader->count_after($committed, 200), 0, 'the unknown node served nothing of the table after it was dropped');
cmp_ok(scalar(grep { $_->{status} == 200 && $_->{begin} > $start } $reader->answers), '>', 5, 'though it did so while its lease lasted');
is($standby->safe_psql('postgres', 'SELECT count(*) FROM node_status WHERE node_id = 0'), 0, 'now that is over');
my $next = $standby->elapsed(sub { run_procedure($standby, AmoroReplica::create_table_call('quick')) });
cmp_ok($next, '<', 1000, sprintf 'and the next change waits for nobody (%d ms)', $next);

# Caches from the lost history are gone; versions, ids and terms do not come again
$_->wait_for_serving(15) for $node, $again;
is($node->lookup('c', 'd', 'lost')->{status}, 404, 'a table that was lost is not served from memory');
is($node->lookup('c', 'd', 'kept')->{status}, 200, 'and one whose drop was lost is there again');
is($old_reader->count_after($committed, 200), 0, 'nothing of the lost table was served once a change had committed');
cmp_ok($node->status->{fences}, '>=', 1, 'the node was fenced on the way');
ok($again->is_running, 'a process whose registration was lost is not taken for a superseded one');
is($again->lookup('c', 'd', 'quick')->{status}, 200, 'and serves');
cmp_ok($node->status->{applied_version}, '>', $lost_version, 'versions go on above those that were lost');
cmp_ok($standby->safe_psql('postgres', 'SELECT min(version) FROM amoro_meta.change WHERE changed_at > (SELECT term_started_at FROM amoro_meta.coordinator)'),
	'>', 1 << 40, 'the first of them in the range of the new timeline');
run_procedure($standby, AmoroReplica::create_table_call('lost'));
my $new_id = $node->wait_until('has the new table', sub { my $a = $node->lookup('c', 'd', 'lost'); $a->{status} == 200 && $a->{json}{table_id} });
isnt($new_id, $lost_id, 'a table of the same name has another id');
cmp_ok($new_id, '>', $old_ids, 'beyond all that were given out before');
cmp_ok($row->{term}, '>', 2 << 32, 'the term is of the new timeline');
done_testing();
