# A hot standby: nothing runs there, what would write is refused; promoted, it takes over what was in flight (H01, H02, H09).
use strict;
use warnings;
use AmoroCluster qw(poll);
use AmoroNode;
use AmoroReplica;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $lease = 2;
my $primary = create_primary('primary', tables => [ 'dropped', 'cancelled', 'kept' ]);
my $standby = create_standby($primary, 'standby');
my $position = $standby->log_position;

# H01: every function of the API: 25006 where it would write or answer for the metadata, never an internal error
my $incarnation = '11111111-1111-4111-8111-111111111111';
my %refused = (
	create_catalog => "'x'", alter_catalog => "'c', '{}'", drop_catalog => "'c'",
	create_database => "'c', 'x'", drop_database => "'c', 'd'",
	create_table => q{'c', 'd', 'x', '{"format": "iceberg", "columns": [{"name": "id", "type": "long"}]}'},
	alter_table => q{'c', 'd', 'kept', '{}'}, rename_table => "'c', 'd', 'kept', 'd', 'x'", drop_table => "'c', 'd', 'kept'",
	cancel_procedure => '1', remove_node => "'n'", register_node => "'n', '$incarnation'",
	node_heartbeat => "1, '$incarnation', 1, 1, 1", node_heartbeat_text => "1, '$incarnation', 1, 1, 1",
	activate_node => "1, '$incarnation', 1, 1, 1", release_node => "1, '$incarnation'",
	metadata_lookup => "'table', 'c', 'd', 'kept'", adopt_database => '', grant_access => "'pg_monitor', 'reader'",
	revoke_access => "'pg_monitor', 'reader'");
my $functions = $standby->safe_psql('postgres', <<'SQL');
SELECT p.proname, array_to_string(ARRAY(SELECT 'null::' || format_type(t, NULL) FROM unnest(p.proargtypes) AS t), ', ')
FROM pg_depend d JOIN pg_proc p ON p.oid = d.objid AND d.classid = 'pg_proc'::regclass JOIN pg_extension e ON e.oid = d.refobjid
WHERE d.deptype = 'e' AND e.extname = 'amoro_meta' AND p.pronamespace = e.extnamespace ORDER BY 1
SQL
my $checked = 0;
for (split /\n/, $functions)
{
	my ($name, $nulls) = split /\|/, $_, 2;
	my ($code, $error) = $standby->outcome(sprintf 'SELECT %s(%s)', $name, $refused{$name} // $nulls);
	unlike($code, qr/^(XX|08|57)/, "$name on a standby: no internal error");
	next unless exists $refused{$name};
	$checked++;
	is($code, '25006', "$name is refused on a standby");
	like($error, qr/HINT:.*primary|read-only|recovery/i, "$name: the error says where to go");
}
cmp_ok($checked, '>=', 15, 'the functions that are known to write are there');
is($standby->safe_psql('postgres', q{SELECT string_agg(table_name, ' ' ORDER BY table_name) FROM tables}), 'cancelled dropped kept',
	'the views can be read there');

# A node that has the standby first in its list finds the primary; one that knows the standby alone gets nothing
my $node = AmoroNode->start(name => 'n', conninfo => conninfo_of($standby, $primary));
my $lost = AmoroNode->start(name => 'lost', conninfo => conninfo_of($standby));
$node->wait_for_serving;
is($node->lookup('c', 'd', 'kept')->{status}, 200, 'a node with the standby first in its list finds the primary');
$lost->wait_until('says why', sub { $lost->status->{reason} =~ /standby|read-only|read-write/ });
is($lost->get('/healthz')->{status}, 503, 'a node that knows a standby alone does not serve');

# Nothing ran on the standby meanwhile, and nothing was logged but the errors that were provoked
is($standby->coordinator->{state}, 'none', 'there is no coordinator');
is($standby->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'amoro_meta coord%'"), 0, 'nor its process');
unlike(join("\n", grep { !/client backend|ERROR|STATEMENT|HINT|DETAIL|CONTEXT/ } split /\n/, $standby->log_text($position)),
	qr/WARNING|FATAL|PANIC|TRAP/, 'no warnings in its log');
unlike($standby->log_text($position), qr/amoro_meta (coordinator|launcher) (ERROR|FATAL|WARNING)/, 'none of a worker');

# H02: promoted while procedures wait for a node that is paused, and while one has its cancellation requested
my $paused = AmoroNode->start(name => 'paused', conninfo => conninfo_of($primary));
$paused->wait_for_serving;
$paused->signal('STOP');
my $drop = $primary->safe_psql('postgres', q{SELECT drop_table('c', 'd', 'dropped')});
my $rename = $primary->safe_psql('postgres', q{SELECT rename_table('c', 'd', 'kept', 'd', 'renamed')});
my $cancelled = $primary->safe_psql('postgres', q{SELECT drop_table('c', 'd', 'cancelled')});
poll('the procedures wait', sub { $primary->safe_psql('postgres',
	'SELECT count(*) FROM procedures WHERE outcome IS NULL AND wait_version IS NOT NULL') == 3 });
$primary->safe_psql('postgres', "UPDATE amoro_meta.procedure SET cancel_requested = true WHERE procedure_id = $cancelled");
my $term = $primary->coordinator->{term};
$primary->wait_for_catchup($standby, 'replay');
$primary->stop('immediate');
my $start = time;
my $row = fail_over($standby);
cmp_ok(time - $start, '<', 5, sprintf 'the coordinator runs soon after the promotion (%.2f s)', time - $start);
cmp_ok($row->{term}, '>', $term, 'in a higher term');
$node->wait_for_serving;
is($standby->safe_psql('postgres', "SELECT wait_for_procedure($cancelled, '20 s')"), 'rolled_back', 'a cancellation is carried out');
is($standby->safe_psql('postgres', "SELECT wait_for_procedure($drop, '20 s')"), 'done', 'the drop ends, though a node is paused');
is($standby->safe_psql('postgres', "SELECT wait_for_procedure($rename, '20 s')"), 'done', 'the rename too');
cmp_ok(time - $start, '>', $lease, 'after the lease of that node');
is($standby->safe_psql('postgres', 'SELECT count(*) FROM procedures WHERE outcome IS NULL'), 0, 'nothing is left running');
is($standby->safe_psql('postgres', q{SELECT string_agg(table_name || ' ' || coalesce(state, '?'), ', ' ORDER BY table_name) FROM tables}) =~ /pre_/, '',
	'no object is left in transition');
for my $expected ([ dropped => 404 ], [ cancelled => 200 ], [ kept => 404 ], [ renamed => 200 ])
{
	$node->wait_until("knows of $expected->[0]", sub { $node->lookup('c', 'd', $expected->[0])->{status} == $expected->[1] }, 10);
}
pass('and the nodes see what is there');
$paused->signal('CONT');
is($paused->lookup('c', 'd', 'dropped')->{status}, 503, 'the paused node wakes up fenced');
$lost->wait_for_serving(15);
pass('the node that knew the standby alone serves, now that it is the primary');
done_testing();
