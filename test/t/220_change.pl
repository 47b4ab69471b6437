# The metadata log: versions, publication, news for those who wait, and what happens when it is pruned or interrupted.
use strict;
use warnings;
use AmoroCluster qw(poll);
use LeaseClock qw(long_lease advance change outcome_of verdict waits_for);
use PostgreSQL::Test::Utils;
use SimulatedNode;
use Test::More;
use Time::HiRes qw(time);

my $server = AmoroCluster->create('main', conf => long_lease());
$server->safe_psql('postgres', "SELECT create_catalog('c')");
my $newest = 'SELECT version FROM amoro_meta.metadata_version';

# A session that waits in a heartbeat; its answer comes when there is news.
sub waiting
{
	my ($node, $wait) = @_;
	my $session = $server->background_psql('postgres');
	$session->query_until(qr/asked/, <<"SQL");
\\echo asked
SELECT 'version ' || metadata_version FROM node_heartbeat($node->{node_id}, '$node->{incarnation}', $node->{term}, $node->{epoch}, $node->{version}, '$wait');
\\echo answered
SQL
	return $session;
}

sub in_wait
{
	my ($count) = @_;
	poll("$count heartbeats wait", sub {
		return $server->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND query LIKE '%node_heartbeat%'") == $count;
	});
	return;
}

sub answer_of
{
	my ($session) = @_;
	my $text = $session->query_until(qr/answered/, '');
	$session->quit;
	return $text =~ /version (\d+)/ ? $1 : $text;
}

# The long poll: answered at the first news, or when the wait is over
my @nodes = map { SimulatedNode->active($server, "n$_") } 1 .. 3;
my @waiting = map { waiting($_, '5 s') } @nodes;
in_wait(3);
my $started = time;
my $version = change($server);
is(answer_of($_), $version, 'a waiting heartbeat is answered with the news') for @waiting;
cmp_ok(time - $started, '<', 4, 'at once');
is($nodes[0]->heartbeat(wait => '5 s'), 'granted', 'a node that is behind does not wait for news');
cmp_ok(time - $started, '<', 4, 'it is told at once');
$_->apply for @nodes;
$started = time;
is($nodes[0]->heartbeat(wait => '200 ms'), 'granted', 'without news the wait ends');
cmp_ok(time - $started, '>=', 0.2, 'when it is over');

# The lease and the ack count from the arrival, not from the answer
my $session = waiting($nodes[0], '5 s');
in_wait(1);
advance($server, 100_000);
cmp_ok($nodes[0]->owed_ms, '<', 510_000, 'a heartbeat that waits is owed from its arrival');
is(answer_of($session), $nodes[0]->{version}, 'its answer comes all the same');

# A newer heartbeat of the same node takes the place of one that still waits; a newer process ends it
$session = waiting($nodes[0], '5 s');
in_wait(1);
my $newer = waiting($nodes[0], '5 s');
answer_of($session);
in_wait(1);
pass('of two waiting heartbeats of a node only the newer one goes on');
my $successor = SimulatedNode->new($server, 'n1');
answer_of($newer);
pass('a heartbeat of a process that is superseded does not wait on');

# It can be cancelled and terminated like any other query, and leaves nothing behind
$session = waiting($nodes[1], '5 s');
in_wait(1);
my $pid = $server->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND query LIKE '%node_heartbeat%'");
is($server->safe_psql('postgres', "SELECT pg_cancel_backend($pid)"), 't', 'a waiting heartbeat is cancelled');
in_wait(0);
is($nodes[1]->heartbeat, 'granted', 'the next one is granted');
$session = waiting($nodes[1], '5 s');
in_wait(1);
$pid = $server->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND query LIKE '%node_heartbeat%'");
is($server->safe_psql('postgres', "SELECT pg_terminate_backend($pid, 10000)"), 't', 'and terminated');
is($nodes[1]->heartbeat, 'granted', 'the next one is granted');

# V08: a wake-up that is lost costs one heartbeat interval, no more: whoever asks is told
$version = change($server);
is($nodes[2]->heartbeat, 'granted', 'a node whose waiting connection was cut asks again');
is($nodes[2]->{metadata_version}, $version, 'and is told the newest version');
is($server->safe_psql('postgres', "SELECT string_agg(version::text, ',') FROM metadata_changes($nodes[2]{version})"), $version,
	'what it has missed is in the log');
$nodes[1]->apply;
$nodes[2]->apply;
$successor->recover;

# Versions have no gaps and commit in order, whoever works beside whom
my @before = split /\|/, $server->safe_psql('postgres', "SELECT version, (SELECT count(*) FROM amoro_meta.change) FROM amoro_meta.metadata_version");
$_->release for @nodes, $successor;
my @ids = split /\n/, $server->safe_psql('postgres', "SELECT create_database('c', 'd' || i) FROM generate_series(1, 40) i");
$server->psql('postgres', "BEGIN; SELECT create_database('c', 'rolled_back'); ROLLBACK");
is($server->safe_psql('postgres', "SELECT wait_for_procedure($_, '60 s')"), 'done', "procedure $_") for @ids[ 0, 39 ];
$server->safe_psql('postgres', "SELECT wait_for_procedure($_, '60 s')") for @ids;
is($server->safe_psql('postgres', <<"SQL"), 't|80', '40 procedures of two changes each: 80 versions without a gap');
SELECT max(version) - min(version) + 1 = count(DISTINCT version), count(DISTINCT version) FROM amoro_meta.change WHERE version > $before[0]
SQL
is($server->safe_psql('postgres', "SELECT published_version = ($newest) FROM amoro_stat_coordinator"), 't', 'the last one is published');

# Whole versions, in order, in pieces of the size that was asked for
is($server->safe_psql('postgres', "SELECT count(*), min(version), max(version) FROM metadata_changes($before[0], 10)"),
	join('|', 10, $before[0] + 1, $before[0] + 10), 'metadata_changes gives as much as was asked for');
$server->safe_psql('postgres', <<'SQL');
WITH v AS (UPDATE amoro_meta.metadata_version SET version = version + 1 RETURNING version)
INSERT INTO amoro_meta.change (version, ordinal, object_kind, operation, catalog_name, object_id, changed_at)
	SELECT version, i, 'table', 'rename', 'c', 1, clock_timestamp() FROM v, generate_series(0, 9) i
SQL
$version = $server->safe_psql('postgres', $newest);
is($server->safe_psql('postgres', "SELECT count(*) FROM metadata_changes($version - 1, 3)"), 10, 'a version is never torn apart');
is($server->safe_psql('postgres', "SELECT count(*) FROM metadata_changes($version - 2, 3)"), 1, 'but what does not fit comes later');
is($server->safe_psql('postgres', "SELECT count(*) FROM metadata_changes($version)"), 0, 'nothing after the newest');
is(($server->outcome("SELECT * FROM metadata_changes($version + 1)"))[0], 'AM006', 'a node ahead of the server has to reload');
is(($server->outcome("SELECT * FROM metadata_changes($_)"))[0], $_ eq 'NULL' ? '22004' : 'AM006', "after version $_") for 'NULL', -1;
is(($server->outcome("SELECT * FROM metadata_changes(0, $_)"))[0], '22023', "$_ rows") for 0, -1, 100001;

# Pruned in batches, and whoever is too far behind is told so
$server->configure('amoro_meta.change_history' => 20);
my $pruned = $version - 20;
poll('the log is pruned', sub { $server->safe_psql('postgres', 'SELECT pruned_version FROM amoro_meta.metadata_version') == $pruned });
is($server->safe_psql('postgres', 'SELECT min(version) FROM amoro_meta.change'), $pruned + 1, 'the changes beyond the history are gone');
is($server->safe_psql('postgres', "SELECT min(version), count(DISTINCT version) FROM metadata_changes($pruned)"), ($pruned + 1) . '|20',
	'a node at the edge gets all it lacks');
my ($state, $text) = $server->outcome('SELECT * FROM metadata_changes(' . ($pruned - 1) . ')');
is($state, 'AM006', 'a node beyond it has to reload');
like($text, qr/metadata_snapshot/, 'and is told how');
$server->configure('amoro_meta.change_history' => undef);

# A reader that is on its way while the log is pruned gets all or an error, never a part (one snapshot)
$session = $server->background_psql('postgres');
$session->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
$server->safe_psql('postgres', 'DELETE FROM amoro_meta.change; UPDATE amoro_meta.metadata_version SET pruned_version = version');
is($session->query_safe("SELECT count(DISTINCT version) FROM metadata_changes($pruned)"), 20, 'all, from the snapshot it has');
$session->quit;
is(($server->outcome("SELECT * FROM metadata_changes($pruned)"))[0], 'AM006', 'or the error');

# A crash right after a commit that did not ask for the disk: what was published was durable, so no number comes twice
$server->safe_psql('postgres', "ALTER SYSTEM SET fsync = on; ALTER SYSTEM SET synchronous_commit = off");
$server->restart;
$server->wait_for_state('running');
advance($server, 610_000);
is(outcome_of($server, "create_database('c', 'before_the_crash')"), 'done', 'a change under synchronous_commit = off');
$version = $server->safe_psql('postgres', 'SELECT published_version FROM amoro_stat_coordinator');
my $registered = SimulatedNode->new($server, 'registered');
$server->stop('immediate');
$server->start;
$server->wait_for_state('running');
is($server->safe_psql('postgres', $newest), $version, 'the crash lost no version that a node may have applied');
is($server->safe_psql('postgres', "SELECT count(*) FROM nodes WHERE node_name = 'registered'"), 1, 'nor the registration of a node');

unlike($server->log_text, qr/PANIC|TRAP|terminated by signal/, 'nothing went down by itself');
done_testing();
