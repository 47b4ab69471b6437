# A node that knows one host name, whose address changes under it: H09.
use strict;
use warnings;
use AmoroCluster qw(poll);
use AmoroLake qw(socket_path lease_seconds slack_seconds);
use AmoroNode;
use AmoroProxy;
use AmoroReplica;
use File::Basename;
use PostgreSQL::Test::Utils;
use Test::More;

my $old = create_primary('old', tables => [ 'kept', 'dropped' ]);
my $new = create_standby($old, 'new');
my $to_old = AmoroProxy->start(socket_path($old), address => '127.0.0.2');
my $to_new = AmoroProxy->start(socket_path($new), address => '127.0.0.3', port => $to_old->port);

my $library = "$PostgreSQL::Test::Utils::tmp_check/resolver.so";
my $address = "$PostgreSQL::Test::Utils::tmp_check/address";
system_or_bail('gcc', '-shared', '-fPIC', '-O1', '-Wall', '-Werror', '-o', $library, dirname(__FILE__) . '/resolver.c', '-ldl');

# What the name stands for from now on; none: it cannot be resolved.
sub point_to
{
	my ($target) = @_;
	unlink $address;
	return unless $target;
	append_to_file("$address.new", $target);
	rename "$address.new", $address or die $!;
	return;
}

# The name leads to a standby, then nowhere, then to the primary.
point_to('127.0.0.3');
my $node = AmoroNode->start(name => 'n', environment => { LD_PRELOAD => $library, AMORO_ADDRESS => $address },
	conninfo => 'host=lake.test port=' . $to_old->port . ' dbname=postgres');
$node->wait_until('says why', sub { $node->status->{reason} =~ /standby|read-only|read-write/ });
is($node->get('/healthz')->{status}, 503, 'a node whose name leads to a standby does not serve');
point_to(undef);
$node->wait_until('says why', sub { $node->status->{reason} =~ /translate|resolution|lake\.test/ });
is($node->get('/healthz')->{status}, 503, 'nor does one whose name leads nowhere');
point_to('127.0.0.2');
$node->wait_for_serving(10);
is($node->lookup('c', 'd', $_)->{status}, 200, "the name leads to the primary: $_ is served") for 'kept', 'dropped';

# The name changes while the node is connected, to a server in recovery: what is connected stays, what is new is refused.
point_to('127.0.0.3');
run_procedure($old, q(alter_table('c', 'd', 'kept', '[{"op":"set_properties","properties":{"round":"1"}}]')));
is($node->lookup('c', 'd', 'dropped')->{status}, 200, 'a name that changes meanwhile is no matter for a connection that stands');
is($node->status->{fences}, 0, '... which acknowledges a change');
$to_old->cut;
$node->wait_for_fenced(lease_seconds() + slack_seconds());
pass('its connections cut, a node whose name leads to a standby gets no lease');

# The primary dies and the standby takes over, under the name that leads to it already; then back, when it is repaired.
my $term = $node->status->{term};
$old->wait_for_catchup($new, 'replay');
$old->stop('immediate');
fail_over($new);
$node->wait_for_serving(15);
run_procedure($new, q{drop_table('c', 'd', 'dropped')});
is($node->lookup('c', 'd', 'dropped')->{status}, 404, 'promoted, the standby is followed');
cmp_ok($node->status->{term}, '>', $term, 'in its term');

# The old primary comes back as it was, and the name with it: an older reign is not listened to.
$old->start;
$old->wait_for_state('running', 'postgres', 20);
point_to('127.0.0.2');
$to_new->cut;
$node->wait_for_fenced(lease_seconds() + slack_seconds());
is($node->lookup('c', 'd', 'dropped')->{status}, 503, 'the name leads back to the deposed primary: nothing is served from there');
point_to('127.0.0.3');
$node->wait_for_serving(15);
is($node->lookup('c', 'd', 'dropped')->{status}, 404, 'and with the name back at the new one, what holds there');
is($node->lookup('c', 'd', 'kept')->{status}, 200, '... is served');
is($node->stop, 0, 'it stops in good order');
$_->stop for $to_old, $to_new;
done_testing();
