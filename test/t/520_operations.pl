# Every operation with one of three nodes stopped, then with one that is held back: each succeeds, is visible on the live
# nodes at once, and the node that was away agrees with them when it is back (docs/fault-tolerance.md, published tests 55 to 57, 66, 67, 70).
use strict;
use warnings;
use AmoroCluster qw(poll);
use AmoroLake;
use AmoroNode;
use AmoroProcedure qw(changes_of);
use Test::More;
use Time::HiRes qw(time);

my $server = AmoroCluster->create('main');
create_lake($server, 'old', 'kept');
my %node = map { ($_ => AmoroNode->start(name => $_, conninfo => conninfo($server))) } qw(n1 n2 n3);
my @live = @node{qw(n1 n2)};
my $away = $node{n3};
$_->wait_for_serving for values %node;
$_->lookup('c', 'd', 'old')->{status} == 200 or die for values %node;

# What a node says of a table: the HTTP status, or names, types, ttl and properties in one line.
sub description
{
	my ($node, $database, $table) = @_;
	my $answer = $node->lookup('c', $database, $table);
	return $answer->{status} if $answer->{status} != 200;
	my $definition = $answer->{json}{definition};
	return join ' ', (map { "$_->{name}:$_->{type}" } @{ $definition->{columns} }), $definition->{ttl} // 'no ttl',
		map { "$_=$definition->{properties}{$_}" } sort keys %{ $definition->{properties} };
}

sub alter { my ($change) = @_; return "alter_table('c', 'd', 'new', '[$change]')" }

# Submission, database and table to look at, what the live nodes say of it then.
my @operations = (
	[ q{create_table('c', 'd', 'new', '{"format": "iceberg", "columns": [{"name": "id", "type": "int"}]}')}, 'd', 'new', 'id:int no ttl' ],
	[ alter('{"op": "add_column", "column": "note", "type": "string"}'), 'd', 'new', 'id:int note:string no ttl' ],
	[ alter('{"op": "retype_column", "column": "id", "type": "long"}'), 'd', 'new', 'id:long note:string no ttl' ],
	[ alter('{"op": "rename_column", "column": "note", "new_name": "remark"}'), 'd', 'new', 'id:long remark:string no ttl' ],
	[ alter('{"op": "set_ttl", "ttl": 1000}'), 'd', 'new', 'id:long remark:string 1000' ],
	[ alter('{"op": "unset_ttl"}'), 'd', 'new', 'id:long remark:string no ttl' ],
	[ alter('{"op": "set_properties", "properties": {"a": "1", "b": "2"}}'), 'd', 'new', 'id:long remark:string no ttl a=1 b=2' ],
	[ alter('{"op": "remove_properties", "keys": ["a"]}'), 'd', 'new', 'id:long remark:string no ttl b=2' ],
	[ alter('{"op": "drop_column", "column": "remark"}'), 'd', 'new', 'id:long no ttl b=2' ],
	[ q{create_database('c', 'e')}, 'e', 'new', 404 ],
	[ q{rename_table('c', 'd', 'new', 'e', 'moved')}, 'e', 'moved', 'id:long no ttl b=2' ],
	[ q{drop_table('c', 'd', 'old')}, 'd', 'old', 404 ],
	[ q{drop_database('c', 'e', cascade => true)}, 'e', 'moved', 404 ]);

sub run_operations
{
	my ($how, $waits, $others_wait) = @_;
	for my $operation (@operations)
	{
		my ($call, $database, $table, $expected) = @$operation;
		my ($name) = $call =~ /^(\w+)/;
		$name .= " ($1)" if $call =~ /"op": "(\w+)"/;
		my $start = time;
		is(run_procedure($server, $call), 'done', "$how: $name succeeds");
		my $took = time - $start;
		cmp_ok($took, '<', $waits, sprintf "%s: %s waits no longer than it may (%.2f s)", $how, $name, $took);
		is(description($_, $database, $table), $expected, "$how: $name is visible on " . $_->name) for @live;
		$waits = $others_wait;
	}
	return;
}

$away->signal('STOP');
# only the first one meets a lease
run_operations('one stopped', lease_seconds() + 0.2 + slack_seconds(), slack_seconds());
$away->signal('CONT');
$away->wait_for_serving(10);
for my $what ([ 'd', 'old' ], [ 'd', 'new' ], [ 'e', 'moved' ], [ 'd', 'kept' ])
{
	is(description($away, @$what), description($live[0], @$what), "back, it says of $what->[0].$what->[1] what the others say");
}
is($away->status->{applied_version}, $live[0]->status->{applied_version}, 'and has applied the newest version');

# While a change waits for a node that is silent, the live ones give what is committed; then, all at once, what is new
# (item 41). A rename that is taken back leaves the old name, and not the new one (item 40).
sub submit_and_hold
{
	my ($call, $state) = @_;
	poll('the lease of n3 is a long one',
		sub { $server->safe_psql('postgres', q{SELECT lease_owed_for > '20 s' FROM node_status WHERE node_name = 'n3'}) eq 't' });
	$away->signal('STOP');
	my $procedure = $server->safe_psql('postgres', "SELECT $call");
	poll("$call waits", sub { $server->safe_psql('postgres', "SELECT state FROM procedure_status($procedure)") eq $state });
	$_->wait_until('has applied the marker', sub {
		$_->status->{applied_version} == $server->safe_psql('postgres', 'SELECT max(metadata_version) FROM node_status') }) for @live;
	return $procedure;
}
# nobody waits for the end of this lease: the node goes on, and acknowledges
$server->configure('amoro_meta.metadata_lease_fence_ms' => '60s');
my $before = description($live[0], 'd', 'kept');
my $procedure = submit_and_hold(q{alter_table('c', 'd', 'kept', '[{"op": "add_column", "column": "later", "type": "date"}]')}, 'pre_alter');
is(description($_, 'd', 'kept'), $before, 'while it waits, ' . $_->name . ' gives what is committed') for @live, @live;
$away->signal('CONT');
is($server->safe_psql('postgres', "SELECT wait_for_procedure($procedure, '50 s')"), 'done', 'the change succeeds');
like(description($_, 'd', 'kept'), qr/later:date/, $_->name . ' gives what is new') for @live, $away;
# a column that is retyped, or dropped, and given back: its undo is a change of its own, which all nodes hear of
run_procedure($server, q{alter_table('c', 'd', 'kept', '[{"op": "add_column", "column": "count", "type": "int"}]')}) eq 'done' or die;
$before = description($live[0], 'd', 'kept');
for my $change ('{"op": "retype_column", "column": "count", "type": "long"}', '{"op": "drop_column", "column": "later"}')
{
	my ($name) = $change =~ /"op": "(\w+)"/;
	$procedure = submit_and_hold("alter_table('c', 'd', 'kept', '[$change]')", 'pre_alter');
	is($server->safe_psql('postgres', "SELECT cancel_procedure($procedure)"), 't', "$name is taken back before its release");
	$away->signal('CONT');
	is($server->safe_psql('postgres', "SELECT wait_for_procedure($procedure, '50 s')"), 'rolled_back', "$name: as a whole");
	is(changes_of($server, $procedure), 'table pre_alter, table rollback', "$name: the undo is logged");
	is(description($_, 'd', 'kept'), $before, "$name: $_->{name} gives the column as it was") for @live, $away;
	is($server->safe_psql('postgres', "SELECT state FROM tables WHERE table_name = 'kept'"), 'normal', "$name: no marker is left");
}
$procedure = submit_and_hold(q{rename_table('c', 'd', 'kept', 'd', 'renamed')}, 'pre_alter');
like(description($_, 'd', 'kept'), qr/later:date/, 'under the old name ' . $_->name . ' gives the table until it has the new one') for @live;
is(description($_, 'd', 'renamed'), 409, 'the new name is in transition') for @live;
is($server->safe_psql('postgres', "SELECT cancel_procedure($procedure)"), 't', 'the rename is taken back');
$away->signal('CONT');
is($server->safe_psql('postgres', "SELECT wait_for_procedure($procedure, '50 s')"), 'rolled_back', 'as a whole');
$_->wait_until('has the old name', sub { description($_, 'd', 'kept') =~ /later:date/ }) for @live;
is(description($_, 'd', 'renamed'), 404, 'the new name is not there') for @live;
like(description($away, 'd', 'kept'), qr/later:date/, 'the node that was away agrees');
$server->configure('amoro_meta.metadata_lease_fence_ms' => undef);

# Held back: it lives and sends heartbeats, but learns no changes: its answers carry none, and its role may not read them.
# Fenced, it clears its caches, which brings it up to date, and meets the next change in the same manner: so each of the two
# waits of a procedure may meet it.
create_table($server, 'c', 'd', 'old', 'id');
$server->safe_psql('postgres', "CREATE ROLE hindered LOGIN; SELECT grant_access('hindered', 'node')");
$away->stop;
$away = AmoroNode->start(name => 'n4', conninfo => conninfo($server, user => 'hindered'));
$away->wait_for_serving;
is(description($away, 'd', 'old'), description($live[0], 'd', 'old'), 'a node of another role serves as well');
$server->safe_psql('postgres', <<'SQL');
REVOKE EXECUTE ON FUNCTION metadata_changes FROM hindered;
ALTER FUNCTION node_heartbeat_text RENAME TO node_heartbeat_unhindered;
CREATE FUNCTION node_heartbeat_text(bigint, uuid, bigint, bigint, bigint, interval, text, boolean) RETURNS text
	RETURN node_heartbeat_unhindered($1, $2, $3, $4, $5, $6, $7, $8 AND session_user <> 'hindered');
SQL
my $bound = 2 * (0.5 + lease_seconds() + 0.2) + slack_seconds();
run_operations('one hindered', $bound, $bound);
cmp_ok($away->status->{fences}, '>', 0, 'the hindered node was fenced');
$server->safe_psql('postgres', 'DROP FUNCTION node_heartbeat_text; ALTER FUNCTION node_heartbeat_unhindered RENAME TO node_heartbeat_text');
$server->safe_psql('postgres', "SELECT revoke_access('hindered', 'node'), grant_access('hindered', 'node')");
$away->wait_for_serving(30);
is(description($away, 'd', 'old'), 404, 'and when it may read again it comes back, and agrees');

is($_->status->{fences}, 0, $_->name . ' was never fenced') for @live;
$_->stop for $away, @live;
$server->stop;
done_testing();
