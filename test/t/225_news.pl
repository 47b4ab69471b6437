# The changes that the answer of a heartbeat carries: exactly those of the log, in order, once, of this history, or none.
# Seen to fail when lease_news.c passes over a gap, carries over a version that came without its changes, drops nothing
# old, writes over the wrong bytes, takes every version for the next one, or when a term begins with the changes of before.
use strict;
use warnings;
use AmoroCluster qw(poll);
use LeaseClock qw(long_lease advance change);
use PostgreSQL::Test::Utils;
use SimulatedNode;
use Test::More;

my $server = AmoroCluster->create('main', conf => long_lease());
my $node = SimulatedNode->active($server, 'n');
my $newest = 'SELECT version FROM amoro_meta.metadata_version';
my $columns = 'version, ordinal, object_kind, operation, catalog_name, database_name, table_name, object_id, detail';

# The call as a node makes it
sub call
{
	my ($version, $wait) = @_;
	return "SELECT node_heartbeat_text($node->{node_id}, '$node->{incarnation}', $node->{term}, $node->{epoch}, $version, '$wait', NULL, true)";
}

# What the answer carries to a node that has applied everything up to a version.
sub carried
{
	my ($version) = @_;
	my ($grant, $lines) = split /\n/, $server->safe_psql('postgres', call($version, '0')), 2;
	return $lines // '';
}

# The same from the log, as COPY writes it.
sub logged
{
	my ($version) = @_;
	return $server->safe_psql('postgres', "COPY (SELECT $columns FROM metadata_changes($version, 100000)) TO STDOUT");
}

sub append
{
	my ($name) = @_;
	return "SELECT amoro_meta.append_change('table', 'alter', 'c', 'd', $name, 7)";
}

is(carried(0), '', 'nothing has changed, nothing is carried');
my $first = change($server);
is(carried($first - 1), logged($first - 1), 'a change is carried');
isnt(carried($first - 1), '', 'it is there');
is(carried($first), '', 'not to a node that has applied it');
is($server->safe_psql('postgres', "SELECT node_heartbeat_text($node->{node_id}, '$node->{incarnation}', $node->{term}, $node->{epoch}, 0) ~ '\\n'"), 'f',
	'nor to one that has not asked for it');

# Any name
$server->safe_psql('postgres', append($_)) for "E'tab\\tnew\\nline\\\\back\\\\N\\r'", "''", 'NULL', "'\\N'", "'\xc3\xa4 \"quoted\", (b)'", "repeat('x', 255)";
is(carried($first), logged($first), 'several versions with any names, byte for byte');
is(carried($first + 3), logged($first + 3), 'from any version on');

# A transaction that is rolled back leaves nothing, and its number is given to the next
$server->psql('postgres', 'BEGIN; ' . append("'rolled back'") . '; ROLLBACK');
$server->psql('postgres', 'BEGIN; ' . append("'failed'") . '; SELECT 1/0; COMMIT');
my $version = change($server);
is(carried($version - 1), logged($version - 1), 'the version of a transaction that was rolled back is carried as it came to be');
unlike(carried($first), qr/rolled back|failed/, 'and what was rolled back is nowhere');

# A procedure's changes have details
$server->safe_psql('postgres', "SELECT create_catalog('c')");
my $before = $server->safe_psql('postgres', $newest);
my $procedure = $server->safe_psql('postgres', "SELECT create_database('c', 'd')");
poll('the first step waits', sub { $server->safe_psql('postgres', $newest) > $before });
is(carried($before), logged($before), 'the step of a procedure');
$node->{version} = $server->safe_psql('postgres', $newest);
$node->heartbeat;
poll('the second step is made', sub { $server->safe_psql('postgres', $newest) == $before + 2 });
is(carried($before), logged($before), 'both steps');
$node->{version} = $before + 2;
$node->heartbeat;

# Two versions in one transaction, of which the callback knows the second: carried from the second on
$before = $server->safe_psql('postgres', $newest);
$server->safe_psql('postgres', append("'one'") . ', ' . (append("'two'") =~ s/^SELECT //r));
is(carried($before), '', 'of two versions in one transaction nothing is carried to a node that lacks both');
is(carried($before + 1), logged($before + 1), 'the second is carried to one that lacks only that');

# A version that came from elsewhere
$server->safe_psql('postgres', 'UPDATE amoro_meta.metadata_version SET version = version + 1');
change($server);
is(carried($before + 2), '', 'a version that is missing in memory is not passed over');
is(carried($before + 3), logged($before + 3), 'what follows is carried');

# Too large for the answer
$version = $server->safe_psql('postgres', append("repeat('x', 5000)"));
is(carried($version - 1), '', 'a change that is too large is not carried');
change($server);
is(carried($version - 1), '', 'nor is anything over it');
is(carried($version), logged($version), 'what follows is');

# More than there is room for: about 640 bytes 60 times
$version = $server->safe_psql('postgres', $newest);
$server->safe_psql('postgres', append("repeat('z', 600)")) for 1 .. 60;
my $end = $server->safe_psql('postgres', $newest);
my $spans = 0;
for my $back (1 .. 40)
{
	my $carried = carried($end - $back);
	is($carried, logged($end - $back), "the last $back versions") if $carried ne '' && $back % 5 == 0;
	$spans = $back if $carried ne '';
}
cmp_ok($spans, '>=', 20, 'a good part of the newest changes is carried');
cmp_ok($spans, '<', 30, 'but no more than there is room for');

# Many at once: what is carried is the log, whoever commits beside whom
my $script = PostgreSQL::Test::Utils::tempdir() . '/append.sql';
append_to_file($script, '\set r random(1, 300)' . "\n" . append("'n' || repeat(:r::text, 1 + :r % 20)") . ";\n");
my @writers = ('pgbench', '-n', '-c', 4, '-j', 1, '-T', 600, '-f', $script, '-h', $server->host, '-p', $server->port, 'postgres');
my $writing = IPC::Run::start(\@writers, '>', \my $out, '2>', \my $err);
my ($compared, $different) = (0, 0);
poll('ten answers carry changes', sub {
	# asked in the statement that finds what is newest, of which there is little room for; the log of that version does not change any more
	my ($after, $answer) = split /\n/, $server->safe_psql('postgres', "SELECT n.after || E'\\n' || (" . call('n.after', '0')
		. ") FROM (SELECT published_version - 3 AS after FROM amoro_stat_coordinator) n"), 2;
	my ($to) = $answer =~ /^\(granted(?:,\d+){6},(\d+),/;
	my (undef, $lines) = split /\n/, $answer, 2;
	return 0 unless defined $lines;
	$different++ if $lines ne $server->safe_psql('postgres', "COPY (SELECT $columns FROM metadata_changes($after, 100000) WHERE version <= $to) TO STDOUT");
	return ++$compared == 10;
});
$writing->kill_kill;
poll('nobody writes any more', sub { $server->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgbench'") == 0 });
is($different, 0, "changes by four at once: $compared answers, each as the log has it");
$version = $server->safe_psql('postgres', $newest);
is(carried($version - 1), logged($version - 1), 'and the last one is there');

# A waiting heartbeat is answered with what it waited for
my $session = $server->background_psql('postgres');
$session->query_until(qr/asked/, "\\echo asked\n" . call($version, '5 s') . ";\n\\echo answered\n");
poll('it waits', sub { $server->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND query LIKE '%heartbeat_text%'") == 1 });
change($server);
my $answer = $session->query_until(qr/answered/, '');
my $logged = logged($version);
like($answer, qr/^\(granted,.*\)\n\Q$logged\E\n/m, 'a waiting heartbeat is answered with the change');
$session->quit;

# A node that is fenced, or shows another epoch, is carried nothing
$version++;
change($server);
(my $stale = call($version, '0')) =~ s/, $node->{epoch}, $version/, 99, $version/;
is($server->safe_psql('postgres', "SELECT ($1) ~ '\\n'"), 'f', 'a node of another epoch is carried nothing') if $stale =~ /SELECT (.*)/;

# Another term in the same server: nothing of the one before
$server->safe_psql('postgres', "UPDATE amoro_meta.identity SET system_identifier = 1; SELECT amoro_meta.recheck_identity()");
$server->wait_for_state('not_adopted');
$server->safe_psql('postgres', 'SELECT adopt_database()');
$server->wait_for_state('running');
advance($server, 610_000);
$node->recover;
is($node->{answer}, 'granted', 'the node is active in the next term');
is(carried($version), '', 'changes of the term before are not carried');
$version = $server->safe_psql('postgres', $newest);
change($server);
isnt(carried($server->safe_psql('postgres', $newest) - 1), '', 'those of the next are');

# After a crash nothing is left
$server->stop('immediate');
$server->start;
$server->wait_for_state('running');
advance($server, 610_000);
$node->recover;
is(carried($server->safe_psql('postgres', $newest) - 1), '', 'nothing is carried over a crash');

unlike($server->log_text, qr/PANIC|TRAP|terminated by signal/, 'nothing went down by itself');
done_testing();
