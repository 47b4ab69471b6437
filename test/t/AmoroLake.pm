# Metadata for tests with real nodes: catalogs, databases, tables, and how a node reaches the server.
package AmoroLake;

use strict;
use warnings;
use Exporter 'import';
use AmoroCluster;

our @EXPORT = qw(conninfo socket_path run_procedure create_table create_lake metadata_version wait_for_query
  lease_seconds slack_seconds);

# L of AmoroCluster, and what a test allows beyond a bound for a busy machine. A grant is owed L * (1 + drift) + margin.
sub lease_seconds { return 2 }
sub slack_seconds { return 3 }

# How a node reaches the server, as the given role; through a proxy when one is given.
sub conninfo
{
	my ($server, %options) = @_;
	my ($host, $port) = $options{proxy} ? ('127.0.0.1', $options{proxy}->port) : ($server->host, $server->port);
	return "host=$host port=$port dbname=postgres" . ($options{user} ? " user=$options{user}" : '');
}

sub socket_path
{
	my ($server) = @_;
	return $server->host . '/.s.PGSQL.' . $server->port;
}

# Polls until a query returns true.
sub wait_for_query
{
	my ($server, $query, $timeout) = @_;
	return AmoroCluster::poll(
		"$query is true",
		sub {
			my ($status, $result) = $server->psql('postgres', $query);
			return $status == 0 && $result eq 't';
		},
		$timeout);
}

# Submits a procedure and waits for its end, which is returned: done, rolled_back, quarantined, or running on timeout.
sub run_procedure
{
	my ($server, $call, $timeout) = @_;
	$timeout //= '60 s';
	my $procedure = $server->safe_psql('postgres', "SELECT $call");
	return $server->safe_psql('postgres', "SELECT wait_for_procedure($procedure, '$timeout')");
}

# An SQL literal.
sub _quote
{
	my ($text) = @_;
	$text =~ s/'/''/g;
	return "'$text'";
}

# Creates a table whose columns have the given names, and waits until every node knows; dies unless that succeeds.
sub create_table
{
	my ($server, $catalog, $database, $table, @columns) = @_;
	my $columns = join ',', map { qq({"name":"$_","type":"long"}) } @columns ? @columns : ('id');
	my $outcome = run_procedure($server, sprintf 'create_table(%s, %s, %s, %s)',
		map { _quote($_) } $catalog, $database, $table, qq({"format":"iceberg","columns":[$columns]}));
	die "create_table: $outcome" unless $outcome eq 'done';
	return;
}

# A catalog c with a database d and tables of the given names.
sub create_lake
{
	my ($server, @tables) = @_;
	$server->safe_psql('postgres', "SELECT create_catalog('c')");
	run_procedure($server, "create_database('c', 'd')");
	create_table($server, 'c', 'd', $_) for @tables;
	return;
}

sub metadata_version
{
	my ($server) = @_;
	return $server->safe_psql('postgres', "SELECT metadata_version FROM metadata_lookup('table', 'c', 'd', 'none')");
}

1;
