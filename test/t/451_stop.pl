# A node that ends in the middle of a heartbeat that waits for news: released at once, and the server's log stays clean.
use strict;
use warnings;
use AmoroCluster;
use AmoroLake;
use AmoroNode;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

# An interval of 5 s, so that a stop never meets the end of a wait by chance.
my $server = AmoroCluster->create('main',
	conf => "amoro_meta.metadata_lease_fence_ms = 20s\namoro_meta.heartbeat_interval = 5s\n");
create_lake($server, 't');
my $sessions = "backend_type = 'client backend' AND pid <> pg_backend_pid()";

for my $round (1 .. 3)
{
	my $node = AmoroNode->start(conninfo => conninfo($server), name => "n$round");
	$node->wait_for_serving;
	wait_for_query($server, "SELECT count(*) = 1 FROM pg_stat_activity WHERE $sessions AND state = 'active' AND query LIKE '%node_heartbeat_text(%'");
	my $started = time;
	is($node->stop, 0, "round $round: the node ends");
	cmp_ok(time - $started, '<', 4, "round $round: and does not wait for the end of its heartbeat");
	is($server->safe_psql('postgres', "SELECT state, lease_owed_for IS NULL FROM node_status WHERE node_name = 'n$round'"),
		'released|t', "round $round: nothing is owed to it");
	is(run_procedure($server, "alter_table('c', 'd', 't', '[{\"op\": \"set_ttl\", \"ttl\": $round}]')"), 'done',
		"round $round: a change waits for nobody");
}
wait_for_query($server, "SELECT count(*) = 0 FROM pg_stat_activity WHERE $sessions");
unlike($server->log_text, qr/Broken pipe|connection to client lost|unexpected EOF|terminating connection/,
	'the server found no client gone in the middle of anything');

done_testing();
