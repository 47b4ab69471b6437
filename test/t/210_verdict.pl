# The verdict over a change: who is waited for, for how long, and that nobody is overlooked.
use strict;
use warnings;
use AmoroCluster qw(poll);
use LeaseClock qw(long_lease advance change outcome_of verdict waits_for);
use PostgreSQL::Test::Utils;
use SimulatedNode;
use Test::More;

my $server = AmoroCluster->create('main', conf => long_lease());
$server->safe_psql('postgres', "SELECT create_catalog('c')");

sub verdict_column
{
	my ($column, $version) = @_;
	return $server->safe_psql('postgres', "SELECT $column FROM broadcast_verdict($version)");
}

# V16: none, then one that has been dead for a year
my $version = change($server);
is(verdict($server, $version), 'PROCEED', '0 nodes: at once');
is(outcome_of($server, "create_database('c', 'none')"), 'done', 'a procedure too');
my $dead = SimulatedNode->active($server, 'dead');
advance($server, 2_000_000_000);
$version = change($server);
is(verdict($server, $version), 'PROCEED', 'a node that died long ago: at once');
my $ms = $server->elapsed(sub { outcome_of($server, "create_database('c', 'long_ago')") });
cmp_ok($ms, '<', 2_000, "a procedure too ($ms ms)");

# V16: 99 acknowledge, one is dead; all are silent
my @nodes = map { SimulatedNode->active($server, "n$_") } 1 .. 8;
$server->safe_psql('postgres', <<'SQL');
DO $$
DECLARE
	i integer;
	g record;
	u uuid;
BEGIN
	FOR i IN 9 .. 100 LOOP
		u := ('99999999-0000-0000-0000-' || lpad(i::text, 12, '0'))::uuid;
		PERFORM register_node('n' || i, u);
	END LOOP;
END;
$$;
SQL
sub all_others
{
	my ($function, $version) = @_;
	return $server->safe_psql('postgres', <<"SQL");
SELECT string_agg(DISTINCT g.answer, ',') FROM node_status s, LATERAL
	$function(s.node_id, s.incarnation, amoro_meta.current_term(), s.lease_epoch, $version) g
	WHERE s.incarnation::text LIKE '99999999-%'
SQL
}
$_->apply for @nodes;
is(all_others('activate_node', $nodes[0]{version}), 'granted', '100 nodes are active');
$version = change($server);
is(all_others('node_heartbeat', $version), 'granted', '92 acknowledge a change');
$_->apply for @nodes[1 .. 7];
is(waits_for($server, $version), 'n1', '99 have acknowledged, the one that is silent is waited for');
is(verdict_column('verdict', $version), 'WAIT', 'the verdict is WAIT');
is(verdict_column('reasons[1]', $version), 'has not applied the newest change yet', 'with the reason');
is(verdict_column("earliest BETWEEN clock_timestamp() + '500 s' AND clock_timestamp() + '600.8 s'", $version), 't',
	'and when it can change');
is(verdict_column('verdict', 0), 'PROCEED', 'an older version is not waited for');
advance($server, 610_000);
is(verdict($server, $version), 'PROCEED', 'all are silent: they stop to count when their leases are over');
is(outcome_of($server, "create_database('c', 'silent')"), 'done', 'and the procedure returns success, not an error')
	or diag $server->safe_psql('postgres', 'SELECT * FROM procedures; SELECT * FROM amoro_stat_coordinator; SELECT * FROM node_status WHERE lease_owed_for IS NOT NULL');
for my $node (@nodes)
{
	$node->heartbeat;
	$node->recover;
}

# V01, rule 8, A6, A13: a node that lives and does not apply gets no lease any more, so it cannot hold a change for long
$version = change($server);
my $stuck = $nodes[0];
$_->apply for @nodes[1 .. 7];
is($stuck->heartbeat, 'granted', 'a node that is late is granted leases for a while');
advance($server, 50_000);
is($stuck->heartbeat(detail => 'out of memory'), 'granted', 'until ack_timeout');
is(verdict($server, $version), 'WAIT', 'V02: that it answers is no ack');
advance($server, 60_000);
my $owed = $stuck->owed_ms;
is($stuck->heartbeat(detail => 'out of memory'), 'held', 'then it is held back');
is($stuck->status('state'), 'held', 'node_status shows it');
like($stuck->status('reason'), qr/has not applied a change in time/, 'and why');
is($stuck->status('detail'), 'out of memory', 'and what the node says of it');
cmp_ok($stuck->owed_ms, '<=', $owed, 'its lease is not extended');
is(verdict($server, $version), 'WAIT', 'it may still serve under the lease it has');
advance($server, 300_000);
$_->heartbeat for @nodes[1 .. 7];
is($stuck->heartbeat, 'held', 'it is held for as long as it is late');
advance($server, 310_000);
$_->heartbeat for @nodes[1 .. 7];
is($stuck->heartbeat, 'reload', 'when the lease is over it is fenced');
is(verdict($server, $version), 'PROCEED', 'the change has waited for ack_timeout and one lease at most');
is($stuck->activate(version => $stuck->{metadata_version}), 'held', 'it may not come back at once');
like($stuck->status('reason'), qr/may not activate/, 'and node_status says so');
advance($server, 110_000);
is($stuck->recover, 'granted', 'after ack_timeout it may');

# and a procedure, which waits twice, is held up once by a node that can forget everything but fetch no change
$server->safe_psql('postgres', "SELECT create_catalog('bounded')");
my $before = $server->safe_psql('postgres', 'SELECT version FROM amoro_meta.metadata_version');
my $procedure = $server->safe_psql('postgres', "SELECT create_database('bounded', 'd')");
my $others_apply = sub {
	my ($newest) = @_;
	poll("version $newest", sub { $server->safe_psql('postgres', 'SELECT version FROM amoro_meta.metadata_version') == $newest });
	$_->apply for @nodes[1 .. 7];
};
$others_apply->($before + 1);
for (110_000, 300_000)
{
	advance($server, $_);
	$_->heartbeat for @nodes[1 .. 7];
	is($stuck->heartbeat, 'held', 'it is held back');
}
advance($server, 310_000);
$_->heartbeat for @nodes[1 .. 7];
is($stuck->heartbeat, 'reload', 'it is fenced');
is($stuck->activate(version => $stuck->{metadata_version}), 'held', 'it forgets everything, and may not activate yet');
$others_apply->($before + 2);
is($server->safe_psql('postgres', "SELECT wait_for_procedure($procedure, '20 s')"), 'done', 'the second step does not wait for it again');
advance($server, 110_000);
$_->heartbeat for @nodes[1 .. 7];
is($stuck->recover, 'granted', 'then it may come back');
$version = change($server);
my $after = change($server);
$_->apply for @nodes[1 .. 7];
advance($server, 110_000);
is($stuck->heartbeat, 'held', 'held once more');
$stuck->{version} = $version;
is($stuck->heartbeat, 'held', 'one change of two is not enough');
is($stuck->apply, 'granted', 'but a node that applies what it lacked, while its lease lasts, is granted again');
is($stuck->status('state'), 'active', 'without having to reload');

# a steady stream of changes holds nobody back who keeps up with it, however old the first one is
for (1 .. 4)
{
	$version = change($server);
	advance($server, 40_000);
	change($server);
	$stuck->{version} = $version;
	is($stuck->heartbeat, 'granted', 'a node that is always a little behind is granted');
	$_->apply for @nodes[1 .. 7];
}
# and one that stands still while more than a thousand changes come is found out all the same
$stuck->apply;
change($server) for 1 .. 3;
advance($server, 50_000);
$server->safe_psql('postgres', <<'SQL');
DO $$
BEGIN
	FOR i IN 1 .. 1100 LOOP
		UPDATE amoro_meta.metadata_version SET version = version + 1;
		COMMIT;
		PERFORM amoro_meta.node_slots((SELECT version FROM amoro_meta.metadata_version));
	END LOOP;
END;
$$;
SQL
is($stuck->heartbeat, 'granted', 'behind by more changes than are remembered one by one');
advance($server, 110_000);
is($stuck->heartbeat, 'held', 'it is held back in time');
$_->apply for @nodes;

# V02: an error of a node that goes silent afterwards
$version = change($server);
$_->apply for @nodes[1 .. 7];
$stuck->heartbeat(detail => 'error while clearing');
is(verdict($server, $version), 'WAIT', 'a node in trouble is waited for while it may serve');
advance($server, 610_000);
is(verdict($server, $version), 'PROCEED', 'and not any longer');
for my $node (@nodes)
{
	$node->heartbeat;
	$node->recover;
}

# V04: who joins in the middle of a change is either asked to acknowledge it, or has loaded it
$version = change($server);
my $joining = SimulatedNode->new($server, 'joining');
is($joining->{metadata_version}, $version, 'a node that joins is told the newest version');
$joining->{version} = $version - 1;
is($joining->activate, 'behind', 'it cannot activate with what it loaded before the change');
unlike(waits_for($server, $version), qr/joining/, 'so it is not waited for');
$joining->recover;
unlike(waits_for($server, $version), qr/joining/, 'nor when it has loaded the change');
$version = change($server);
like(waits_for($server, $version), qr/joining/, 'but for the next one it is');
$_->apply for @nodes, $joining;

# A version that is committed but not yet published: a node must not slip in between. A session that has it committed
# and not published is one that died in between, or is slow; here the row is written without publication.
my $unpublished = $server->safe_psql('postgres',
	'UPDATE amoro_meta.metadata_version SET version = version + 1 RETURNING version');
is($joining->heartbeat, 'granted', 'nobody has published the version');
is($joining->{metadata_version}, $unpublished - 1, 'so nodes are not told of it');
like(waits_for($server, $unpublished), qr/joining/, 'the verdict publishes it first');
$joining->heartbeat;
is($joining->{metadata_version}, $unpublished, 'so that no node can activate without it from here on');
$_->apply for @nodes, $joining;

# V12: polling in one transaction
my $session = $server->background_psql('postgres');
$session->query_safe(<<'SQL');
CREATE FUNCTION pg_temp.try_verdict(version bigint) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT verdict FROM broadcast_verdict(version));
EXCEPTION WHEN OTHERS THEN
	RETURN SQLERRM;
END;
$$
SQL
$version = change($server);
for my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
{
	$session->query_safe("BEGIN ISOLATION LEVEL $level");
	is($session->query_safe("SELECT verdict FROM broadcast_verdict($version)"), 'WAIT', "$level: WAIT");
	$_->apply for @nodes, $joining;
	is($session->query_safe("SELECT verdict FROM broadcast_verdict($version)"), 'PROCEED', "$level: acks are seen in an old snapshot");
	my $next = change($server);
	if ($level eq 'READ COMMITTED')
	{
		is($session->query_safe("SELECT verdict FROM broadcast_verdict($next)"), 'WAIT', "$level: so is a new version");
	}
	else
	{
		is($session->query_safe("SELECT pg_temp.try_verdict($next)"), "there is no metadata version $next",
			"$level: a version newer than the snapshot is refused, never let through");
	}
	$session->query_safe('ROLLBACK');
	$version = $next;
}
$session->quit;
$_->apply for @nodes, $joining;

# V14: the procedure ran out of time, or was cancelled: FAIL, and the way back is waited for in the same manner
my $id = $server->safe_psql('postgres', "SELECT create_database('c', 'late', timeout => '300 ms')");
is($server->safe_psql('postgres', "SELECT wait_for_procedure($id, '20 s')"), 'rolled_back', 'a procedure that is not acknowledged in time is rolled back')
	or diag $server->safe_psql('postgres', "SELECT * FROM procedure_status($id)");
is($server->safe_psql('postgres', "SELECT found FROM metadata_lookup('database', 'c', 'late')"), 'f', 'nothing is left of it');
is($server->safe_psql('postgres', "SELECT string_agg(operation, ',' ORDER BY version) FROM amoro_meta.change WHERE procedure_id = $id"),
	'pre_create,rollback', 'mark and rollback are both changes that nodes get');
$_->apply for @nodes, $joining;

# remove_node (rule 9, item 17): being removed is no proof of having stopped
my $leaving = $nodes[7];
$id = $server->safe_psql('postgres', "SELECT remove_node('n8')");
poll('the removal has begun', sub { ($leaving->status('state') // '') eq 'leaving' });
$version = change($server);
$_->apply for @nodes[0 .. 6], $joining;
is(waits_for($server, $version), 'n8', 'a node that is being removed is waited for while it may serve');
is($leaving->heartbeat, 'leave', 'its heartbeat is answered with leave');
is($leaving->activate(version => $version), 'leave', 'and so is an activation');
is($leaving->register, 'AM401', 'it cannot register');
is($leaving->release, 't', 'it releases');
is($server->safe_psql('postgres', "SELECT wait_for_procedure($id, '20 s')"), 'done', 'and is removed at once');
is($leaving->heartbeat, 'AM002', 'from then on it is unknown');
$id = $server->safe_psql('postgres', "SELECT remove_node('n7')");
poll('the removal has begun', sub { ($nodes[6]->status('state') // '') eq 'leaving' });
is($server->safe_psql('postgres', "SELECT wait_for_procedure($id, '100 ms')"), 'running', 'the removal of a silent node waits');
advance($server, 610_000);
is($server->safe_psql('postgres', "SELECT wait_for_procedure($id, '20 s')"), 'done', 'until its lease is over');

# V10: no listener, no queue
is($server->safe_psql('postgres', 'SELECT pg_notification_queue_usage()'), 0, 'nothing ever used the notification queue');
unlike($server->log_text, qr/PANIC|TRAP|terminated by signal/, 'nothing went down');
done_testing();
