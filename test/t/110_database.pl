# Databases that come, go, are renamed, moved and copied while a coordinator is in them.
use strict;
use warnings;
use AmoroCluster qw(poll);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $server = AmoroCluster->create('main', conf => "allow_in_place_tablespaces = on\n");
my $started = $server->safe_psql('postgres', 'SELECT pg_postmaster_start_time()');
$server->safe_psql('postgres', 'CREATE ROLE owner CREATEDB LOGIN; CREATE ROLE stranger CREATEDB LOGIN');

# Makes a database with the extension and a running coordinator; returns its row.
sub make
{
	my ($name) = @_;
	$server->safe_psql('postgres', "CREATE DATABASE $name OWNER owner");
	$server->safe_psql($name, 'CREATE EXTENSION amoro_meta');
	return $server->wait_for_state('running', $name);
}

# Runs a statement in database postgres; it has to succeed, within a bound.
sub quick
{
	my ($statement, $bound, @connection) = @_;
	my @outcome;
	my $ms = $server->elapsed(sub { @outcome = $server->outcome($statement, 'postgres', @connection) });
	is($outcome[0], '00000', $statement) or diag $outcome[1];
	cmp_ok($ms, '<', $bound, "… within $bound ms");
	return;
}

sub invalid { return $server->safe_psql('postgres', 'SELECT count(*) FROM pg_database WHERE datconnlimit = -2') }

# W02: an unrelated database can be dropped whatever the coordinator is at
make('own');
for my $busy ('waiting on its latch', 'stopped between cycles', 'stopped with a term begun', 'waiting for a lock',
	'waiting for a node')
{
	my $locker;
	if ($busy eq 'stopped between cycles')
	{
		$server->configure('amoro_meta.debug_stop_at' => 'cycle');
		poll($busy, sub { ($server->coordinator('own', 'postgres')->{stopped_at} // '') eq 'cycle' });
	}
	elsif ($busy eq 'stopped with a term begun')
	{
		$server->configure('amoro_meta.debug_stop_at' => 'begin_term');
		$server->safe_psql('own', 'UPDATE amoro_meta.coordinator SET term = term + 1, boot_counter = boot_counter + 1');
		poll($busy, sub { ($server->coordinator('own', 'postgres')->{stopped_at} // '') eq 'begin_term' });
	}
	elsif ($busy eq 'waiting for a lock')
	{
		$locker = $server->background_psql('own');
		$locker->query_safe('BEGIN; LOCK TABLE amoro_meta.identity');
		poll($busy, sub { $server->coordinator('own', 'postgres')->{errors} > 0 });
	}
	elsif ($busy eq 'waiting for a node')
	{
		$server->safe_psql('own', <<'SQL');
SELECT register_node('n1', '00000000-0000-0000-0000-000000000001');
SELECT activate_node(s.node_id, s.incarnation, c.term, s.lease_epoch, c.published_version)
	FROM node_status s, amoro_stat_coordinator c WHERE c.datname = 'own';
SELECT create_catalog('c');
SELECT create_database('c', 'd');
SQL
		poll($busy, sub { ($server->coordinator('own')->{awaited_version} // 0) > 0 });
	}
	$server->safe_psql('postgres', 'CREATE DATABASE unrelated');
	$ENV{PGOPTIONS} = '-c statement_timeout=5s';
	quick('DROP DATABASE unrelated', 2000);
	delete $ENV{PGOPTIONS};
	$server->configure('amoro_meta.debug_stop_at' => undef);
	if ($locker) { $locker->query_safe('COMMIT'); $locker->quit; }
	$server->wait_for_state('running', 'own');
}

# W02: its own database, by an owner who is no superuser, with and without FORCE, whatever it is at
quick('DROP DATABASE own', 2000, extra_params => [ '-U', 'owner' ]);
make('own');
$server->configure('amoro_meta.debug_stop_at' => 'cycle');
poll('stopped', sub { ($server->coordinator('own', 'postgres')->{stopped_at} // '') eq 'cycle' });
quick('DROP DATABASE own WITH (FORCE)', 2000, extra_params => [ '-U', 'owner' ]);
$server->configure('amoro_meta.debug_stop_at' => undef);
poll('its entry is gone', sub { !%{ $server->coordinator('own', 'postgres') } });
is(invalid(), 0, 'no invalid database is left');

# who may not drop it does not disturb it
my $row = make('own');
is(($server->outcome('DROP DATABASE own', 'postgres', extra_params => [ '-U', 'stranger' ]))[0], '42501', 'a stranger may not drop it');
is(($server->outcome('CREATE DATABASE copy TEMPLATE own', 'postgres', extra_params => [ '-U', 'stranger' ]))[0], '42501', 'nor copy it');
is(($server->outcome('ALTER DATABASE own RENAME TO mine', 'postgres', extra_params => [ '-U', 'stranger' ]))[0], '42501', 'nor rename it');
is(($server->outcome("BEGIN; CREATE DATABASE copy TEMPLATE own"))[0], '25001', 'nor can it be copied in a transaction block');
is($server->coordinator('own')->{pid}, $row->{pid}, 'and none of this moves the coordinator');

# a drop that fails, a rename that is rolled back: it comes back
my $guest = $server->background_psql('own');
is(($server->outcome('DROP DATABASE own'))[0], '55006', 'a drop that fails because of somebody else');
$guest->quit;
$row = $server->wait_for_successor($row->{pid}, 'own');
pass('… and the coordinator is back');
my $renaming = $server->background_psql('postgres');
$renaming->query_safe('BEGIN; ALTER DATABASE own RENAME TO renamed');
poll('it stays away as long as that transaction lasts',
	sub { ($server->coordinator('own', 'postgres')->{state} // '') eq 'held' });
$renaming->query_safe('ROLLBACK');
$renaming->quit;
$row = $server->wait_for_successor($row->{pid}, 'own');
pass('after a rename that was rolled back it is back');

# rename, move, copy: it steps aside and comes back
quick(q{ALTER DATABASE own RENAME TO "re""named, o'clock"}, 2000);
quick(q{ALTER DATABASE "re""named, o'clock" RENAME TO own}, 2000);
$row = $server->wait_for_state('running', 'own');
$server->safe_psql('postgres', "CREATE TABLESPACE elsewhere LOCATION ''");
quick('ALTER DATABASE own SET TABLESPACE elsewhere', 5000);
quick("CREATE DATABASE copy_$_ TEMPLATE own", 5000) for 1 .. 3;
$row = $server->wait_for_state('running', 'own');

# W07: a copy has the data but is nobody: no term, no leases, until it is adopted
my $copy = $server->wait_for_state('not_adopted', 'copy_1');
is($copy->{term}, undef, 'a copy has no term');
is($copy->{lease_ms}, undef, 'and no leases to give');
is(() = $server->log_text =~ /"copy_1" waits: the data belongs to another/g, 1, 'it says so once');
is($server->safe_psql('copy_1', 'SELECT adopt_database()'), 't', 'adopt_database()');
$copy = $server->wait_for_state('running', 'copy_1', 3);
cmp_ok($copy->{term}, '>', $row->{term}, 'it begins a term beyond that of the original');
is($server->safe_psql('copy_1', 'SELECT adopt_database()'), 'f', 'adopting it again changes nothing');
is($server->coordinator('own')->{state}, 'running', 'the original goes on');
is($server->coordinator('copy_2')->{state}, 'not_adopted', 'the other copy waits');

# W07: the extension in a template
$server->safe_psql('template1', 'CREATE EXTENSION amoro_meta');
quick('CREATE DATABASE from_template', 5000);
$row = $server->wait_for_state('running', 'from_template');
ok($server->safe_psql('from_template', 'SELECT database_oid = oid FROM amoro_meta.identity, pg_database WHERE datname = current_database()') eq 't',
	'a database made from a template with the extension is itself');
ok(!%{ $server->coordinator('template1', 'postgres') }, 'nobody sits in the template');
$server->safe_psql('postgres', 'ALTER DATABASE from_template IS_TEMPLATE true');
poll('it leaves a database that becomes a template', sub { !$server->coordinator('from_template', 'postgres')->{pid} });
$server->safe_psql('postgres', 'ALTER DATABASE from_template IS_TEMPLATE false');
$server->wait_for_state('running', 'from_template', 10);

# W05: databases that cannot be connected to, that are not in the list, that allow no connection
my $log = $server->log_position;
$server->safe_psql('postgres', 'ALTER DATABASE from_template ALLOW_CONNECTIONS false');
poll('it leaves', sub { !$server->coordinator('from_template', 'postgres')->{pid} });
$server->safe_psql('postgres', 'ALTER DATABASE from_template ALLOW_CONNECTIONS true');
$server->wait_for_state('running', 'from_template', 10);
$server->safe_psql('postgres', 'ALTER DATABASE from_template CONNECTION LIMIT 0');
$row = $server->wait_for_state('running', 'from_template');
$server->safe_psql('postgres', "SELECT pg_terminate_backend($row->{pid})");
$server->wait_for_successor($row->{pid}, 'from_template', 5);
pass('a connection limit of 0 does not keep it out');
$server->configure('amoro_meta.databases' => 'own, nope');
poll('only what is listed has a coordinator', sub {
	$server->safe_psql('postgres',
		"SELECT string_agg(datname, ',') FROM pg_stat_activity WHERE backend_type = 'amoro_meta coordinator'") eq 'own' });
is($server->coordinator('postgres')->{state}, 'none', 'the view says that there is none');
$server->configure('amoro_meta.databases' => undef);
$server->wait_for_state('running');
unlike($server->log_text($log), qr/does not exist|is not currently accepting/, 'a database that is not there is no matter for the log');
my ($state, $error) = $server->outcome("ALTER SYSTEM SET amoro_meta.databases = 'a,,b'");
is($state, '22023', 'a list that is none is refused');

# W04: terminated while it starts, in a database that is dropped by force
srand 1;
for my $round (1 .. 10)
{
	$server->safe_psql('postgres', 'CREATE DATABASE brief');
	sleep rand 0.03;
	$server->safe_psql('postgres',
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'brief' AND backend_type = 'amoro_meta coordinator'");
	is(($server->outcome('DROP DATABASE brief WITH (FORCE)'))[0], '00000', "round $round of terminating a starting one");
}
is(invalid(), 0, 'no invalid database is left');
is($server->safe_psql('postgres', 'SELECT pg_postmaster_start_time()'), $started, 'the server was never restarted by a crash');
unlike($server->log_text, qr/PANIC|TRAP|terminated by signal/, 'and nothing crashed');
$server->stop;
done_testing();
