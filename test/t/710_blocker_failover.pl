# Fencing tokens of table blockers only grow: over a crash, a failover that lost the newest ones, a dump, a table that is dropped
# and created again. Blockers themselves survive a crash and a failover, and go with what is dropped.
use strict;
use warnings;
use AmoroCluster qw(poll);
use AmoroReplica;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = create_primary('primary', tables => [ 't', 'u' ]);
my $standby = create_standby($primary, 'standby');

sub acquire
{
	my ($server, $table, $database, $timeout) = @_;
	return $server->safe_psql($database // 'postgres',
		sprintf "SELECT blocker_id FROM acquire_blocker('c', 'd', '%s', '{OPTIMIZE}', '%s')", $table, $timeout // '1 h');
}
# Acquires and releases, some times over; the newest token.
sub use_up
{
	my ($server, $table, $count) = @_;
	my $token;
	for (1 .. $count)
	{
		$token = acquire($server, $table);
		is($server->safe_psql('postgres', "SELECT release_blocker($token)"), 't', 'released') if $_ == $count;
		$server->safe_psql('postgres', "SELECT release_blocker($token)");
	}
	return $token;
}
sub state_of { my ($server, $call) = @_; return ($server->outcome("SELECT $call"))[0] }

# A crash
my $held = acquire($primary, 't');
my $before = use_up($primary, 'crashed', 5);
$primary->stop('immediate');
$primary->start;
is(state_of($primary, "assert_blocker($held)"), '00000', 'a blocker survives a crash');
is(state_of($primary, "renew_blocker($held)"), '00000', 'and is renewed after it');
my $after = use_up($primary, 'crashed', 1);
cmp_ok($after, '>', $before, 'tokens grow over a crash');
$primary->wait_for_state('running');

# Dropped and created again; with its database; with its catalog
$before = acquire($primary, 'u');
run_procedure($primary, q{drop_table('c', 'd', 'u')});
is(state_of($primary, "renew_blocker($before)"), 'AM102', 'a blocker goes with its table');
run_procedure($primary, AmoroReplica::create_table_call('u'));
cmp_ok(acquire($primary, 'u'), '>', $before, 'tokens grow over a table that is dropped and created again');
run_procedure($primary, q{rename_table('c', 'd', 'u', 'd', 'v')});
is($primary->safe_psql('postgres', "SELECT string_agg(table_name, ' ') FROM blockers WHERE table_name IN ('u', 'v')"), 'u', 'a blocker stays with the name');
run_procedure($primary, q{create_database('c', 'e')});
$primary->safe_psql('postgres', q{SELECT acquire_blocker('c', 'e', 'unknown', '{OPTIMIZE}', '1 h')});
run_procedure($primary, q{drop_database('c', 'e')});
is($primary->safe_psql('postgres', q{SELECT count(*) FROM get_blockers('c', 'e', 'unknown')}), '0', 'blockers go with their database');
$primary->safe_psql('postgres', q{SELECT create_catalog('other'); SELECT acquire_blocker('other', 'e', 't', '{OPTIMIZE}', '1 h'); SELECT drop_catalog('other')});
is($primary->safe_psql('postgres', q{SELECT count(*) FROM get_blockers('other', 'e', 't')}), '0', 'and with their catalog');
# a drop does not wait for who works on a blocker
my $idle = $primary->background_psql('postgres');
$idle->query_safe('BEGIN');
$idle->query_safe("SELECT assert_blocker($held)");
run_procedure($primary, q{drop_table('c', 'd', 't')});
$idle->query_safe('COMMIT');
$idle->quit;
is(state_of($primary, "renew_blocker($held)"), '00000', 'a blocker that was asserted meanwhile stays, and expires');

# A dump: the original goes on, then the copy does; without a coordinator that would begin a term in it
my $dump = $primary->backup_dir . '/dump';
my $kept = acquire($primary, 'dumped', undef, '2 h');
command_ok([ 'pg_dump', '-Fc', '-f', $dump, '-d', $primary->connstr('postgres') ], 'dump');
$before = use_up($primary, 'restored', 40);
$primary->configure('amoro_meta.databases' => 'postgres');
$primary->safe_psql('postgres', 'CREATE DATABASE copy');
command_ok([ 'pg_restore', '-d', $primary->connstr('copy'), $dump ], 'restore');
is($primary->safe_psql('copy', "SELECT assert_blocker($kept)"), $kept, 'a blocker is in the dump');
cmp_ok(acquire($primary, 'restored', 'copy'), '>', $before, 'the copy repeats no token that was given after the dump');
cmp_ok(acquire($primary, 'restored2', 'copy'), '>', $before, 'not even of another table');

# A failover that loses the newest tokens
$primary->wait_for_catchup($standby, 'replay');
my $common = acquire($primary, 'common');
$primary->wait_for_catchup($standby, 'replay');
is(($standby->outcome("SELECT acquire_blocker('c', 'd', 'x', '{OPTIMIZE}')"))[0], '25006', 'a standby gives no blockers');
is(($standby->outcome("SELECT renew_blocker($common)"))[0], '25006', 'nor renews them');
is($standby->safe_psql('postgres', q{SELECT count(*) FROM get_blockers('c', 'd', 'common')}), '1', 'it shows them');
$standby->append_conf('postgresql.conf', "primary_conninfo = ''\n");
$standby->reload;
poll('the standby is cut off', sub { $primary->safe_psql('postgres', 'SELECT count(*) FROM pg_stat_replication') == 0 });
$before = use_up($primary, 'lost', 100);
my $gone = acquire($primary, 'lost');
$primary->stop('immediate');
$standby->promote;
is(state_of($standby, "assert_blocker($common)"), '00000', 'a blocker survives a failover');
is(state_of($standby, "renew_blocker($gone)"), 'AM102', 'one that was lost is not held, and its holder is told');
$after = acquire($standby, 'lost');
cmp_ok($after, '>', $gone, 'tokens grow over a failover that lost some');
is($standby->safe_psql('postgres', "SELECT release_blocker($common)"), 't', 'released on the new primary');
done_testing();
