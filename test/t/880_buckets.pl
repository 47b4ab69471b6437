# Buckets and partitions on real nodes: who owns what is told by one node at a time, whatever becomes of the owner.
use strict;
use warnings;
use AmoroCluster qw(poll);
use AmoroHttp;
use AmoroLake;
use AmoroNode;
use AmoroProcedure qw(nothing_left);
use AmoroProxy;
use Test::More;
use Time::HiRes qw(sleep time);

my $buckets = 10;
my $server = AmoroCluster->create('main', init => { allows_streaming => 1 }, conf => "max_connections = 60\namoro_meta.assignment_interval = 100ms\n");
my $link = AmoroProxy->start(socket_path($server));

sub query { return $server->safe_psql('postgres', $_[0]) }

sub start
{
	my ($name, %options) = @_;
	my $node = AmoroNode->start(name => $name, conninfo => conninfo($server, %options), options => [ '--kind', 'worker' ]);
	$node->wait_for_serving;
	$node->{incarnation} = $node->status->{incarnation};
	return $node;
}

# Whether a process says of itself, now, that it owns a bucket; undef when it says nothing.
my %seen;    # by bucket: the newest owner that was told, as the version of its document
my @backwards;
sub owns
{
	my ($node, $bucket) = @_;
	my $answer = $node->get("/v1/buckets/optimizing/$bucket");
	return undef if $answer->{status} != 200;
	my $owner = $answer->{json}{owner_incarnation};
	return 0 if !defined $owner;
	# what was told first is older: after a newer owner nobody may tell of an older one
	push @backwards, "$bucket: $answer->{json}{version} after $seen{$bucket}" if ($seen{$bucket} // 0) > $answer->{json}{version};
	$seen{$bucket} = $answer->{json}{version};
	return $owner eq $node->{incarnation} ? 1 : 0;
}

sub owned_by { my ($node) = @_; return grep { owns($node, $_) } 1 .. $buckets }

# Waits until nothing is in flight and these nodes, and no others, own all buckets in equal shares; of a node that keeps what
# it has, the number is given.
sub wait_for_shares
{
	my ($what, $names, %kept) = @_;
	my $sharing = join ', ', map { "'$_'" } @$names;
	my $kept = join ' AND ', 'true', map { "coalesce((SELECT buckets = $kept{$_} FROM owned WHERE owner = '$_'), false)" } sort keys %kept;
	my $all = join ', ', map { "'$_'" } sort @$names, keys %kept;
	my $told = eval { poll($what, sub {
		return query(<<SQL) eq 't';
WITH owned AS (SELECT node_name AS owner, count(*) AS buckets FROM service_buckets WHERE state = 'normal' GROUP BY 1)
SELECT NOT EXISTS (SELECT FROM procedures WHERE outcome IS NULL) AND (SELECT array_agg(owner ORDER BY owner) = ARRAY[$all] AND sum(buckets) = $buckets FROM owned)
	AND (SELECT max(buckets) - min(buckets) <= 1 FROM owned WHERE owner IN ($sharing)) AND $kept
SQL
	}) };
	return if $told;
	diag query('SELECT * FROM service_buckets'), "\n", query('SELECT * FROM procedures WHERE outcome IS NULL'), "\n", query('SELECT * FROM node_status');
	die "$what: did not come to be";
}

sub shares_are_told
{
	my ($what, @nodes) = @_;
	my %told;
	for my $node (@nodes) { push @{ $told{$_} }, $node->name for owned_by($node) }
	my @wrong = grep { @{ $told{$_} // [] } != 1 } 1 .. $buckets;
	is(join(', ', @wrong), '', "$what: each bucket has one owner who says so");
	return;
}

# Equal shares, and one more node.
my ($n1, $n2) = (start('n1'), start('n2'));
is(run_procedure($server, "create_service_buckets('optimizing', $buckets, 'worker')"), 'done', 'a service is divided into buckets');
wait_for_shares('two nodes have half of the buckets each', [qw(n1 n2)]);
shares_are_told('two nodes', $n1, $n2);
is($n1->get('/v1/buckets/optimizing/11')->{status}, 404, 'a bucket that does not exist is not there');
is($n1->get('/v1/buckets/optimizing/01')->{status}, 404, '... nor another way to write one that does');
my $n3 = start('n3', proxy => $link);
wait_for_shares('a third node has its share', [qw(n1 n2 n3)]);
shares_are_told('three nodes', $n1, $n2, $n3);
is(query("SELECT count(*) FROM amoro_meta.change WHERE object_kind = 'bucket' AND operation = 'assign'"), $buckets + 3,
	'no more changed hands than were missing');

# An owner is stopped, and its node removed: its buckets are nobody's until its lease is over.
my @stopped = owned_by($n1);
my @sockets = map { http_connect($n1->address) } 1 .. 20;
http_exchange($_, '/healthz') for @sockets;
$n1->signal('STOP');
my $begin = time;
my $removal = query("SELECT remove_node('n1')");
my ($first, $released);
poll('another node owns what the stopped one had', sub {
	$released ||= query("SELECT count(*) FROM service_buckets WHERE state = 'releasing' AND node_name = 'n1'");
	for my $node ($n2, $n3) { $first //= time if grep { owns($node, $_) } @stopped }
	return $first;
} , 30);
cmp_ok($released, '==', scalar @stopped, 'its buckets are releasing, all at once');
cmp_ok($first - $begin, '>', lease_seconds() * 0.7, 'nobody owns one before its lease can be over');
cmp_ok($first - $begin, '<', lease_seconds() + 0.2 + slack_seconds(), 'somebody does soon after');
# it wakes up, and has not heard of anything
syswrite $sockets[$_], "GET /v1/buckets/optimizing/$stopped[$_ % @stopped] HTTP/1.1\r\n\r\n" for 0 .. $#sockets;
$n1->signal('CONT');
my @answers = map { my $buffer = ''; http_read_response($_, \$buffer) // { status => 'closed' } } @sockets;
is(scalar(grep { $_->{status} eq '200' } @answers), 0, 'waking, it claims none of them')
  or diag explain \@answers;
like($n1->wait_for_exit, qr/^[56]$/, '... and ends: it was removed');
is(query("SELECT wait_for_procedure($removal, '30 s')"), 'done', 'it is forgotten');
wait_for_shares('two nodes share again', [qw(n2 n3)]);
shares_are_told('after the removal', $n2, $n3);

# An owner is cut off: fenced, it answers for no bucket and no partition, on no way in. It keeps what it owns for the grace.
query("SELECT create_catalog('c')");
is(run_procedure($server, "create_database('c', 'd')"), 'done', 'a database');
is(run_procedure($server, "create_partitions('c', 'd', 4, 2, 'worker')"), 'done', '... is divided into slots');
is_deeply($n3->get('/v1/partitions/c/d/2')->{json}{nodes}, [ 'n2', 'n3' ], 'a node tells who has a slot');
my @mine = owned_by($n3);
$link->set(up => 'drop', down => 'drop');
$n3->wait_for_fenced;
my @open = grep { my $answer = $n3->get($_); $answer->{status} != 503 || $answer->{json}{error}{type} ne 'MetadataLeaseFencedException' }
  map { "/v1/buckets/optimizing/$_" } @mine;
push @open, grep { my $answer = $n3->get($_); $answer->{status} != 503 || $answer->{json}{error}{type} ne 'MetadataLeaseFencedException' }
  map { "/v1/partitions/c/d/$_" } 0 .. 3;
is(join(', ', @open), '', 'cut off, it is fenced for every bucket and every slot');
poll('it is missed', sub { query("SELECT count(*) FROM service_buckets WHERE absent_since IS NOT NULL AND node_name = 'n3'") == @mine });
my $n4 = start('n4');
wait_for_shares('whoever comes gets none of a node in its grace', [qw(n2 n4)], n3 => scalar @mine);
$link->cut;
$link->heal;
$n3->wait_for_serving;
wait_for_shares('back in touch, it is one of three', [qw(n2 n3 n4)]);
shares_are_told('after the cut', $n2, $n3, $n4);

# An owner that starts again is another process: at once when it has released its lease, after its lease when it was killed.
my $count = owned_by($n4);
is($n4->stop, 0, 'a node stops');
$n4 = start('n4');
poll('the new process owns what the old one had', sub { owned_by($n4) == $count });
cmp_ok(query("SELECT extract(epoch FROM max(owned_since) - max(registered_at)) FROM service_buckets JOIN nodes USING (node_name) WHERE node_name = 'n4'"),
	'<', lease_seconds(), 'at once: the old process had released its lease');
$n4->signal('KILL');
$n4->wait_for_exit;
$begin = time;
$n4 = start('n4');
poll('the new process owns what the killed one had', sub { owned_by($n4) == $count });
cmp_ok(time - $begin, '>', lease_seconds() * 0.7, 'not before the lease of the killed one can be over');
shares_are_told('after two starts', $n2, $n3, $n4);

# Lost for longer than the grace.
$n4->signal('KILL');
$n4->wait_for_exit;
poll('it is missed', sub { query("SELECT count(*) FROM service_buckets WHERE absent_since IS NOT NULL AND node_name = 'n4'") == $count });
wait_for_shares('a lost node keeps its buckets', [qw(n2 n3)], n4 => $count);
$server->configure('amoro_meta.node_offline_timeout' => '100ms');
wait_for_shares('then others have them', [qw(n2 n3)]);
shares_are_told('after the grace', $n2, $n3);
$server->configure('amoro_meta.node_offline_timeout' => undef);

# The move of a slot, and its end while a node is stopped.
is(query("SELECT array_agg(DISTINCT node_names::text) FROM partitions"), '{"{n2,n3}"}', 'slots have stayed where they were');
$n4 = start('n4');
is(run_procedure($server, "move_partition('c', 'd', 2, 'n2', 'n4')"), 'done', 'a slot moves');
is_deeply($_->get('/v1/partitions/c/d/2')->{json}{nodes}, [ 'n3', 'n4' ], 'node ' . $_->name . ' tells so') for $n2, $n3, $n4;
$n2->signal('STOP');
$begin = time;
my $move = query("SELECT move_partition('c', 'd', 3, 'n2', 'n4')");
my $answer;
poll('the live nodes hear of it', sub { $answer = $n3->get('/v1/partitions/c/d/3'); ($answer->{json}{state} // '') eq 'releasing' });
is_deeply([ @{ $answer->{json} }{qw(nodes leaving joining)} ], [ ['n3'], ['n2'], ['n4'] ], 'while it moves only those are told that have it before and after');
is(query("SELECT wait_for_procedure($move, '30 s')"), 'done', 'it moves all the same');
cmp_ok(time - $begin, '>', lease_seconds() * 0.7, 'not before the lease of the stopped node can be over');
$n2->signal('CONT');
$n2->wait_for_serving;
is_deeply($n2->get('/v1/partitions/c/d/3')->{json}{nodes}, [ 'n3', 'n4' ], 'back, the node that had it knows');

# Another timeline: what was given on the old one counts no more until it is given anew.
wait_for_shares('three nodes again', [qw(n2 n3 n4)]);
query("CREATE TABLE older AS SELECT bucket, version, node_name FROM service_buckets");
my $timeline = query('SELECT amoro_meta.timeline_id()');
$server->stop;
$server->append_conf('postgresql.conf', "amoro_meta.debug_stop_at = 'balance_buckets.releasing'\n");
PostgreSQL::Test::Utils::append_to_file($server->data_dir . '/standby.signal', '');
$server->start;
query('SELECT pg_promote()');
poll('the coordinator is about to give them', sub { ($server->coordinator->{stopped_at} // '') eq 'balance_buckets.releasing' });
cmp_ok(query('SELECT amoro_meta.timeline_id()'), '>', $timeline, 'there is a new timeline');
is(query("SELECT count(*) FROM service_buckets WHERE state = 'releasing'"), $buckets, 'after it every bucket is released first');
is(query("SELECT count(*) FROM metadata_snapshot('bucket') WHERE document NOT LIKE '{\"owner_incarnation\" : null,%'"), 0, 'nobody owns one');
$_->wait_for_serving for $n2, $n3, $n4;
%seen = ();
is(scalar(map { owned_by($_) } $n2, $n3, $n4), 0, '... nor says so');
$server->append_conf('postgresql.conf', "amoro_meta.debug_stop_at = ''\n");
$server->reload;
wait_for_shares('then the same nodes own them', [qw(n2 n3 n4)]);
is(query('SELECT count(*) FROM older o JOIN service_buckets b USING (bucket) WHERE b.node_name = o.node_name AND b.version > o.version'), $buckets,
	'... under greater numbers');
shares_are_told('on the new timeline', $n2, $n3, $n4);

is(run_procedure($server, "drop_service_buckets('optimizing')"), 'done', 'the service is divided no more');
is($n2->get('/v1/buckets/optimizing/1')->{status}, 404, '... and no node has its buckets');
is(join(', ', @backwards), '', 'no node ever told of an older owner after a newer one was told of');
nothing_left($server, 'at the end');
is($_->stop, 0, 'node ' . $_->name . ' stops') for $n2, $n3, $n4;
done_testing();
