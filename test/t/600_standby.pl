# A hot standby: nothing runs there, everything can be read, what would write is refused; promoted, it takes over what was in
# flight, and nothing is missing (H01, H02, H09).
use strict;
use warnings;
use AmoroCluster qw(poll);
use AmoroFlight qw(board land);
use AmoroFunction qw(functions outcomes);
use AmoroInventory qw(stock inventory documents numbers go_on_above same_text);
use AmoroNode;
use AmoroReplica;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $lease = 2;
my $primary = create_primary('primary', tables => [ 'dropped', 'cancelled', 'kept' ]);
my $standby = create_standby($primary, 'standby');
my $position = $standby->log_position;

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
$_->stop for $node, $paused, $lost;

# From here on one of everything, and procedures of every kind in flight, under leases that outlast the test.
my $first = $standby;
$first->append_conf('postgresql.conf', AmoroInventory::settings());
$first->reload;
poll('the long lease is in force', sub { $first->coordinator->{lease_ms} == 300_000 });
$first->safe_psql('postgres', AmoroInventory::roles());
$first->backup('base', backup_options => [ '--checkpoint', 'fast' ]);
my $second = create_standby($first, 'second');
my $session = stock($first, 'postgres');
my @flights = board($first, 'postgres');
my $follower = AmoroNode->start(name => 'follower', conninfo => conninfo_of($first, $second));
$follower->wait_for_serving;
$first->wait_for_catchup($second, 'replay');
my $seen = inventory($first, 'postgres');
same_text(inventory($second, 'postgres'), $seen, 'all there is can be read on a standby');
is(($second->outcome(join '', map { "SELECT count(*) FROM $_;\n" } AmoroInventory::of_the_server()))[0], '00000', 'and what it knows of itself');

# Every function of the API: 25006 where it writes or answers for the metadata, and its comment says so; else what the primary says.
my %refuses = functions($first, 'postgres');
my %here = outcomes($first, 'postgres', $session, grep { !/_and_wait$/ } keys %refuses);
my %there = outcomes($second, 'postgres', $session, keys %refuses);
sub names { my ($code) = @_; return join ' ', grep { local $_ = $_; $code->() } sort keys %refuses }
is(names(sub { $here{$_} && $here{$_}{code} ne '00000' }), 'import_ams', 'each function has arguments here with which it works on the primary');
is(names(sub { $refuses{$_} eq 't' && $there{$_}{code} ne '25006' }), '', 'what is to be refused on a standby with 25006 is');
is(names(sub { $refuses{$_} ne 't' && $there{$_}{code} eq '25006' }), '', 'what is refused says so in its comment');
is(names(sub { $there{$_}{code} eq '25006' && $there{$_}{error} !~ /HINT:.*primary/ }), '', 'and says where to go');
is(names(sub { $here{$_} && $there{$_}{code} ne '25006' && $there{$_}{result} ne $here{$_}{result} }), '', 'what is not refused gives the same answer');
same_text(inventory($second, 'postgres'), $seen, 'nothing has changed');

my @numbers = numbers($first, 'postgres');
$first->stop('immediate');
$second->append_conf('postgresql.conf', "amoro_meta.debug_stop_at = 'cycle'\n");
$second->reload;
$second->promote;
poll('the coordinator is about to begin', sub { ($second->coordinator->{stopped_at} // '') eq 'cycle' });
same_text(inventory($second, 'postgres'), $seen, 'nothing is missing after the promotion');
$second->append_conf('postgresql.conf', "amoro_meta.debug_stop_at = ''\n");
$second->reload;
my $reign = $second->wait_for_state('running')->{term};
$follower->wait_until('is in the new term', sub { $follower->status->{term} == $reign });
$second->configure('amoro_meta.debug_clock_offset_ms' => '301s');
land($second, 'postgres', 'promoted', @flights);
go_on_above($second, 'postgres', 'promoted', @numbers);

# The node has all of it as it is now
my %path = (table => 'tables', device => 'devices', authority => 'users', bucket => 'buckets', partition => 'partitions');
my @wrong;
for (split /\n/, documents($second, 'postgres'))
{
	my ($kind, $catalog, $database, $object, $found, $state, $id, $version, $document) = split /\|/, $_, 9;
	next if !$path{$kind};
	my $path = AmoroNode::table_path(grep { $_ ne '' } $catalog, $database, $object) =~ s/tables/$path{$kind}/r;
	push @wrong, $path if $follower->wait_until("answers $path", sub { my $answer = $follower->get($path); $answer->{status} != 503 && $answer })->{body} ne $document;
}
is(join("\n", @wrong), '', 'the node that follows serves all of it');
unlike($_->log_text, qr/PANIC|TRAP|terminated by signal/, 'nothing crashed') for $first, $second;
done_testing();
