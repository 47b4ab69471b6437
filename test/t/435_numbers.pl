# Numbers beyond 31, 32 and 53 bits, and the end of them: Z07. Ids, versions, and clocks that have run for long.
use strict;
use warnings;
use AmoroCluster;
use AmoroLake;
use AmoroNode;
use File::Basename;
use PostgreSQL::Test::Utils;
use Test::More;

# The server's clock has run for 24.8 days more than it has: 2^31 - 1 milliseconds.
my $server = AmoroCluster->create('main', conf => "amoro_meta.debug_clock_offset_ms = 2147483647\n");
create_lake($server, 'first');

# The node's has run for longer than 32 bits of milliseconds (49.7 days).
my $library = "$PostgreSQL::Test::Utils::tmp_check/clock.so";
my $clock = "$PostgreSQL::Test::Utils::tmp_check/clock";
system_or_bail('gcc', '-shared', '-fPIC', '-O1', '-Wall', '-Werror', '-o', $library, dirname(__FILE__) . '/clock.c', '-ldl');
append_to_file($clock, pack 'qq', 0, 60 * 86400 * 1_000_000_000);
my $node = AmoroNode->start(conninfo => conninfo($server), environment => { LD_PRELOAD => $library, AMORO_CLOCK => $clock });
$node->wait_for_serving;
is($node->lookup('c', 'd', 'first')->{status}, 200, 'a node whose clock has run for 60 days serves');

# Versions and ids go on from the given number, as after a life so long; the node sees them exactly as the server does.
for my $number ((1 << 31) + 5, (1 << 32) + 5, (1 << 53) + 1, 1 << 62)
{
	$server->stop('fast');
	$server->start;
	$server->safe_psql('postgres', "UPDATE amoro_meta.metadata_version SET version = $number, pruned_version = $number;
		SELECT setval('amoro_meta.id_sequence', $number)");
	$server->restart;
	create_table($server, 'c', 'd', "t$number", 'id');
	my ($id, $version) = split /\|/, $server->safe_psql('postgres', "SELECT table_id, version FROM tables WHERE table_name = 't$number'");
	cmp_ok($id, '>', $number, "an id beyond $number");
	cmp_ok($version, '>', $number, '... and a version');
	$node->wait_for_serving(15);
	my $answer = $node->lookup('c', 'd', "t$number");
	is($answer->{status}, 200, 'the node follows');
	is($answer->{headers}{'amoro-object-version'}, $version, '... and has the version');
	like($answer->{body}, qr/"table_id" ?: ?$id\b/, '... and the id');
	is(run_procedure($server, "drop_table('c', 'd', 't$number')"), 'done', 'a change is acknowledged');
	is($server->safe_psql('postgres', "SELECT applied_version = metadata_version AND metadata_version > $number FROM node_status WHERE current"), 't',
		'... with the version that it has');
	is($node->lookup('c', 'd', "t$number")->{status}, 404, '... and what it says holds');
}
is($node->status->{fences}, scalar(grep { / fenced: / } split /\n/, $node->log_text), 'every fence was logged');

# The lease of such clocks ends when it should.
$node->signal('STOP');
my $milliseconds = $server->elapsed(sub { is(run_procedure($server, "drop_table('c', 'd', 'first')"), 'done', 'a silent node is waited for') });
cmp_ok($milliseconds, '>', lease_seconds() * 250, '... for what is left of its lease');
cmp_ok($milliseconds, '<', (lease_seconds() + slack_seconds()) * 1000, '... and no longer');
$node->signal('CONT');
is($node->stop, 0, 'it stops in good order');

# The end of the ids is an error, not another beginning.
$server->safe_psql('postgres', "SELECT setval('amoro_meta.id_sequence', 9223372036854775806)");
is($server->safe_psql('postgres', 'SELECT amoro_meta.next_id()'), '9223372036854775807', 'the last id');
my ($code, $error) = $server->outcome("SELECT create_catalog('one_more')");
is($code, '2200H', 'after the last id there is none');
is($server->safe_psql('postgres', "SELECT count(*) FROM catalogs WHERE catalog_name = 'one_more'"), 0, '... and nothing has changed');

# So is the end of the versions.
$server->safe_psql('postgres', "SELECT setval('amoro_meta.id_sequence', 4611686018427400000);
	UPDATE amoro_meta.metadata_version SET version = 9223372036854775807, pruned_version = 9223372036854775807");
$server->restart;
my $procedure = $server->safe_psql('postgres', "SELECT create_database('c', 'beyond', timeout => '1 s')");
isnt($server->safe_psql('postgres', "SELECT wait_for_procedure($procedure, '20 s')"), 'done', 'after the last version there is none');
is($server->safe_psql('postgres', "SELECT count(*) FROM databases WHERE database_name = 'beyond'"), 0, '... and nothing has changed');
unlike($server->log_text, qr/PANIC|TRAP|terminated by signal [^2359]/, 'nothing crashed');
done_testing();
