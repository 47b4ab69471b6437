# Servers that replicate: standbys, promotion, switchover, failback with pg_rewind.
package AmoroReplica;

use strict;
use warnings;
use AmoroCluster qw(poll);
use Exporter 'import';
use File::Copy qw(copy);
use PostgreSQL::Test::Utils;

our @EXPORT = qw(create_primary create_standby conninfo_of follow fail_over rewind_to run_procedure drop_commit_time wait_for_tick);

my $settings = <<'CONF';
max_connections = 60
wal_log_hints = on
wal_keep_size = 256MB
wal_retrieve_retry_interval = 100ms
track_commit_timestamp = on
hot_standby_feedback = on
checkpoint_timeout = 1h
autovacuum = off
CONF

# A server with the extension, a catalog c with a database d and tables of the given names. Options: tables, conf, new.
sub create_primary
{
	my ($name, %options) = @_;
	my $server = AmoroCluster->create($name, new => $options{new}, init => { allows_streaming => 1 }, conf => $settings . ($options{conf} // ''));
	$server->safe_psql('postgres', "SELECT create_catalog('c')");
	run_procedure($server, "create_database('c', 'd')");
	run_procedure($server, create_table_call($_)) for @{ $options{tables} // [] };
	$server->backup('base', backup_options => [ '--checkpoint', 'fast' ]);
	return $server;
}

# A running standby of a server that create_primary has made; its name is its application_name there.
sub create_standby
{
	my ($primary, $name, %options) = @_;
	my $standby = AmoroCluster->new($name, %{ $options{new} // {} });
	$standby->init_from_backup($primary, 'base', has_streaming => 1);
	$standby->append_conf('postgresql.conf', "synchronous_standby_names = ''\n" . ($options{conf} // ''));
	$standby->start;
	$primary->wait_for_catchup($standby, 'replay');
	return $standby;
}

# A connection string that names all the servers, in this order.
sub conninfo_of
{
	my (@servers) = @_;
	return sprintf 'host=%s port=%s dbname=postgres', join(',', map { $_->host } @servers), join(',', map { $_->port } @servers);
}

# Makes a stopped or running server follow another one.
sub follow
{
	my ($standby, $primary) = @_;
	$standby->append_conf('postgresql.conf', sprintf "primary_conninfo = '%s'\nrecovery_target_timeline = 'latest'\n", $primary->connstr);
	$standby->_update_pid(-1) if !defined $standby->{_pid};
	if (defined $standby->{_pid}) { $standby->reload }
	else
	{
		append_to_file($standby->data_dir . '/standby.signal', '');
		$standby->start;
	}
	return;
}

# Promotes a standby and waits for its coordinator; returns the row of amoro_stat_coordinator.
sub fail_over
{
	my ($standby) = @_;
	$standby->promote;
	return $standby->wait_for_state('running', 'postgres', 30);
}

# Turns a former primary, which is stopped, into a standby of the present one.
sub rewind_to
{
	my ($server, $primary) = @_;
	my $data = $server->data_dir;
	my @own = qw(postgresql.conf postgresql.auto.conf);
	copy("$data/$_", "$data-$_") or die "$_: $!" for @own;
	$primary->safe_psql('postgres', 'CHECKPOINT');
	system_or_bail('pg_rewind', '--target-pgdata', $data, '--source-server', $primary->connstr('postgres'));
	copy("$data-$_", "$data/$_") or die "$_: $!" for @own;
	append_to_file("$data/standby.signal", '');
	follow($server, $primary);
	$primary->wait_for_catchup($server, 'replay');
	return;
}

sub create_table_call
{
	my ($table) = @_;
	return qq{create_table('c', 'd', '$table', '{"format": "iceberg", "columns": [{"name": "id", "type": "long"}]}')};
}

# Submits a procedure and waits for its end, which must be done; returns its id.
sub run_procedure
{
	my ($server, $call, $timeout) = @_;
	my $procedure = $server->safe_psql('postgres', "SELECT $call");
	my $outcome = $server->safe_psql('postgres', sprintf "SELECT wait_for_procedure($procedure, '%s s')", $timeout // 60);
	die "$call: $outcome" unless $outcome eq 'done';
	return $procedure;
}

# When the irreversible step of a drop committed, as seconds since the epoch: from then on no node may serve the table.
sub drop_commit_time
{
	my ($server, $procedure) = @_;
	return $server->safe_psql('postgres', "SELECT extract(epoch FROM pg_xact_commit_timestamp(xmin)) FROM amoro_meta.change
		WHERE procedure_id = $procedure AND operation = 'drop'");
}

# Waits until the newest confirmed tick is younger than the moment of the call.
sub wait_for_tick
{
	my ($server) = @_;
	my $now = $server->safe_psql('postgres', 'SELECT clock_timestamp()');
	return poll('a tick is confirmed', sub {
		$server->safe_psql('postgres', "SELECT last_tick_at > '$now' FROM amoro_stat_coordinator WHERE datname = 'postgres'") eq 't' });
}

1;
