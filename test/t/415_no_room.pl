# More nodes than amoro_meta.max_nodes: who has no place says so, serves nothing, holds nobody up, and comes in when there is one.
use strict;
use warnings;
use AmoroCluster qw(poll);
use AmoroLake;
use AmoroNode;
use PostgreSQL::Test::Utils;
use Test::More;

my $server = AmoroCluster->create('main', conf => "amoro_meta.max_nodes = 2\n");
my $lease = lease_seconds();
create_lake($server, 't');
my @nodes = map { AmoroNode->start(conninfo => conninfo($server), name => "n$_") } 1 .. 2;
$_->wait_for_serving for @nodes;
my $third = AmoroNode->start(conninfo => conninfo($server), name => 'n3');

sub says_no_room
{
	my ($node, $what) = @_;
	$node->wait_until("says that there is no room ($what)", sub { $node->status->{reason} =~ /room|place|max_nodes/ });
	is($node->status->{state}, 'connecting', "$what: it goes on trying");
	like($node->status->{reason}, qr/room/, "$what: the status says why");
	my $answer = $node->lookup('c', 'd', 't');
	is($answer->{status}, 503, "$what: it serves nothing");
	is($answer->{json}{error}{type}, 'MetadataLeaseFencedException', "$what: it is fenced");
	return;
}

says_no_room($third, 'a third node of two');
like($third->log_text, qr/warning n3: connecting: no room for another node \(Raise amoro_meta\.max_nodes/, 'its log says why, and what to do');
is(scalar(() = $third->log_text =~ /room/g), 1, 'once');
like($server->log_text, qr/amoro_meta\.max_nodes and restart/, 'the log of the server has the hint');
is($server->safe_psql('postgres', 'SELECT count(*) FROM nodes'), 2, 'it is not registered');
is($_->lookup('c', 'd', 't')->{status}, 200, 'the others serve') for @nodes;
is(run_procedure($server, "create_database('c', 'e')"), 'done', 'and a change does not wait for it');

# A node that is killed and started again needs a place of its own until the lease of its older process is over
$nodes[1]->signal('KILL');
$nodes[1]->wait_for_exit;
$nodes[1] = AmoroNode->start(conninfo => conninfo($server), name => 'n2');
says_no_room($nodes[1], 'a new process while the older one may still serve');
$nodes[1]->wait_for_serving($lease + slack_seconds() + 10);
pass('it comes in by itself when that lease is over');
ok(!$third->status->{serving}, 'the third one has no place yet');

# An operator makes room
$nodes[0]->stop;
is(run_procedure($server, "remove_node('n1')"), 'done', 'a node is removed');
$third->wait_for_serving($lease + slack_seconds() + 10);
is($third->lookup('c', 'd', 't')->{status}, 200, 'the third one has its place');

unlike($server->log_text, qr/PANIC|TRAP|terminated by signal/, 'nothing went down by itself');
done_testing();
