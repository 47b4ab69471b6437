# Who may lead a service, seen from the server: leases that end, restarts, crashes, a promotion that lost the newest leader.
use strict;
use warnings;
use AmoroCluster qw(poll);
use AmoroReplica;
use LeaseClock qw(long_lease advance);
use PostgreSQL::Test::Utils;
use SimulatedNode;
use Test::More;

my $server = create_primary('main', conf => long_lease() . "amoro_meta.max_nodes = 64\n");
my %node = map { $_ => SimulatedNode->active($server, $_) } qw(a b);

# What acquire_leadership answers a node: a hash; leader is the SQLSTATE when it raises.
sub acquire
{
	my ($node, $service, $settings) = @_;
	my ($state, $text) = $node->{server}->outcome(($settings // '') .
		"SELECT leader, token, reason, ceil(extract(epoch FROM retry_after) * 1000), leader_name FROM acquire_leadership('$service', $node->{node_id}, '$node->{incarnation}')");
	my %answer;
	@answer{qw(leader token reason retry_ms leader_name)} = $state eq '00000' ? split /\|/, $text, -1 : $state;
	return \%answer;
}

sub leads
{
	my ($service) = @_;
	return $server->safe_psql('postgres', "SELECT state || ' ' || coalesce(node_name, '?') FROM leaders WHERE service = '$service'");
}

sub assertion
{
	my ($service, $token) = @_;
	return ($server->outcome("SELECT assert_leadership('$service', $token)"))[0];
}

# H07: a leader leads as long as its lease is owed, to the millisecond, and not a moment longer
my $first = acquire($node{a}, 's');
is($first->{leader}, 't', 'a free service is led by who comes first');
is(leads('s'), 'led a', 'the view says so');
poll('nodes are told', sub { $server->safe_psql('postgres', 'SELECT count(*) FROM amoro_meta.leadership_news') == 0 });
is($node{b}->apply, 'granted', 'another node hears of it');
advance($server, 560_000);
is($node{b}->heartbeat, 'granted', 'it lives on');
my $refusal = acquire($node{b}, 's');
is("$refusal->{leader} $refusal->{leader_name}", 'f a', 'a moment before the end of the lease it is refused');
cmp_ok($refusal->{retry_ms}, '<=', 40_800, 'and told when the lease is over');
is(assertion('s', $first->{token}), '00000', 'what the leader writes is still good');
advance($server, 40_801);
is(leads('s'), 'vacant a', 'after the end nobody leads');
is(assertion('s', $first->{token}), 'AM601', 'and what the old one writes is refused');
is(acquire($node{a}, 's')->{reason}, 'the node holds no lease', 'it cannot lead without a lease');
my $second = acquire($node{b}, 's');
is($second->{leader}, 't', 'another one can');
cmp_ok($second->{token}, '>', $first->{token}, 'with a greater token');
is($node{a}->heartbeat, 'reload', 'the old one hears of the end');
is($node{a}->recover, 'granted', 'and has a lease again');
is(acquire($node{a}, 's')->{reason}, 'another node leads the service', 'but the service is taken: no pre-emption');

# a demoted node is not deaf: it leads again when it can
advance($server, 601_000);
is($node{a}->heartbeat, 'reload', 'time passes');
$node{a}->recover;
my $third = acquire($node{a}, 's');
is($third->{leader}, 't', 'a node that was demoted leads again');
cmp_ok($third->{token}, '>', $second->{token}, 'with a greater token');

# a node that lapses and comes back at once has lost what it led, even if nobody took it
advance($server, 601_000);
is($node{a}->heartbeat, 'reload', 'fenced');
$node{a}->recover;
is(leads('s'), 'vacant a', 'the lease is another one: the service is not led');
is(assertion('s', $third->{token}), 'AM601', 'nor the token good');
my $fourth = acquire($node{a}, 's');
cmp_ok($fourth->{token}, '>', $third->{token}, 'it leads again under a new token');

# A new term: the leader may not know of it, so nobody else leads before it says so by activating, or its lease is over
sub restart
{
	my ($mode) = @_;
	$server->stop($mode);
	$server->start;
	$server->wait_for_state('running');
	$_->heartbeat for values %node;
	return;
}
$node{b}->heartbeat;
$node{b}->recover;
restart('fast');
is(leads('s'), 'ending a', 'after a restart the old leader may believe that it leads');
is(assertion('s', $fourth->{token}), 'AM601', 'but writes nothing any more: its token is of the old term');
$node{b}->recover;
my $refused = acquire($node{b}, 's');
is("$refused->{leader} $refused->{reason}", 'f the lease of an older leader may not be over', 'another node has to wait');
cmp_ok($refused->{retry_ms}, '>', 500_000, 'for as long as that lease is owed');
$node{a}->recover;
is(leads('s'), 'ending a', 'also when the leader is active in the new term: it may be stopping what it led');
is(acquire($node{b}, 's')->{leader}, 'f', 'so nobody else leads');
my $fifth = acquire($node{a}, 's');
is($fifth->{leader}, 't', 'but it may lead again itself at once');
cmp_ok($fifth->{token}, '>', $fourth->{token}, 'with a greater token');

# A crash right after: the record of a leader is on the disk, whatever synchronous_commit says
$server->configure('amoro_meta.debug_stop_at' => 'sweep.announce_leaders', wal_writer_delay => '10s');
poll('nobody else writes to the disk', sub { $server->safe_psql('postgres', 'SHOW wal_writer_delay') eq '10s'
	&& $server->safe_psql('postgres', 'SHOW amoro_meta.debug_stop_at') ne '' });
is(acquire($node{b}, 't', 'SET synchronous_commit = off; ')->{leader}, 't', 'somebody comes to lead');
restart('immediate');
$server->configure('amoro_meta.debug_stop_at' => undef, wal_writer_delay => undef);
is(leads('t'), 'ending b', 'and is known after a crash');
$_->recover for values %node;
is($server->safe_psql('postgres', "SELECT release_leadership('s', $node{a}{node_id}, '$node{a}{incarnation}', $fifth->{token})"), 't', 'the leader of the old term gives back');
is(acquire($node{b}, 's')->{leader}, 't', 'and is followed at once');
$server->safe_psql('postgres', "SELECT release_leadership('s', $node{b}{node_id}, '$node{b}{incarnation}', token) FROM current_leader('s')");
my $sixth = acquire($node{a}, 's');
cmp_ok($sixth->{token}, '>', $fifth->{token}, 'tokens go on growing over a crash');

# On a standby nothing is known and nothing done
my $standby = create_standby($server, 'standby');
is($standby->safe_psql('postgres', "SELECT DISTINCT state FROM leaders"), 'unknown', 'a standby does not know who leads');
is(($standby->outcome("SELECT $_"))[0], '25006', "a standby refuses $_")
  for "acquire_leadership('s', 1, '$node{a}{incarnation}')", "release_leadership('s', 1, '$node{a}{incarnation}', 1)",
  "current_leader('s')", "assert_leadership('s', 1)", 'announce_leaders()';

# A promotion that has lost the newest leader: nobody leads anything before the leases of whoever is not known are over
$server->wait_for_catchup($standby, 'replay');
$standby->append_conf('postgresql.conf', "primary_conninfo = ''\n");
$standby->reload;
poll('the standby is cut off', sub { $server->safe_psql('postgres', 'SELECT count(*) FROM pg_stat_replication') == 0 });
my $unknown = SimulatedNode->active($server, 'unknown');
my $lost = acquire($unknown, 'new');
is($lost->{leader}, 't', 'a node that the standby never hears of comes to lead');
is($server->safe_psql('postgres', "SELECT release_leadership('s', $node{a}{node_id}, '$node{a}{incarnation}', $sixth->{token})"), 't', 'another leader gives way');
my $lost_too = acquire($unknown, 's');
is($lost_too->{leader}, 't', 'to it, too');
$server->stop('immediate');
fail_over($standby);
$server = $standby;
for my $node (values %node)
{
	$node->{server} = $server;
	$node->heartbeat;
	is($node->recover, 'granted', "node $node->{name} is active on the new primary");
}
for my $service ('new', 's')
{
	$refused = acquire($node{a}, $service);
	is("$refused->{leader} $refused->{reason}", 'f the lease of an older leader may not be over', "who leads $service is not known");
	cmp_ok($refused->{retry_ms}, '>', 500_000, 'for the longest lease');
}
advance($server, 601_000, coordinator => 0);
$node{a}->heartbeat;
$node{a}->recover;
for my $service ('new', 's')
{
	my $answer = acquire($node{a}, $service);
	is($answer->{leader}, 't', "then $service can be led");
	cmp_ok($answer->{token}, '>', $lost_too->{token}, 'and no token that was lost comes again');
}
$standby->stop;

done_testing();
