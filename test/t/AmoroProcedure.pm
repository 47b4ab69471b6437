# What the tests of procedures ask of a server: submissions, stop points, and that nothing is left behind.
package AmoroProcedure;

use strict;
use warnings;
use AmoroCluster qw(poll);
use Exporter 'import';
use Test::More;

our @EXPORT_OK = qw(stand_still go_on wait_for_end nothing_left changes_of activate_node definition);

our $definition = '{"format": "iceberg", "columns": [{"name": "a", "type": "int"}, {"name": "b", "type": "string"}], '
  . '"location": "s3://bucket/path", "properties": {"owner": "nobody"}}';

sub definition { return "'$definition'" }

# Makes the coordinator stand still between two rounds, so that what follows happens in an order we choose.
sub stand_still
{
	my ($server, $database) = @_;
	$server->configure('amoro_meta.debug_stop_at' => 'cycle');
	poll('the coordinator stands still', sub { ($server->coordinator($database)->{stopped_at} // '') eq 'cycle' });
	return;
}

# Lets it go on, to a stop point or (undef) for good. It reads the setting before it takes another step.
sub go_on
{
	my ($server, $point) = @_;
	$server->configure('amoro_meta.debug_stop_at' => $point);
	return if !defined $point;
	poll("the coordinator stands at $point", sub { ($server->coordinator->{stopped_at} // '') eq $point }, 30);
	return;
}

sub wait_for_end
{
	my ($server, $procedure) = @_;
	return $server->safe_psql('postgres', "SELECT wait_for_procedure($procedure, '30 s')");
}

# What must hold whenever nothing is in flight: no markers, no claims, no orphans, no gaps among the versions of a timeline, and
# the runtimes of the tables are as the tables are.
sub nothing_left
{
	my ($server, $name, $database) = @_;
	is($server->safe_psql($database // 'postgres', <<'SQL'), '', "$name: nothing is left behind");
SELECT 'in flight: ' || procedure_id FROM amoro_meta.procedure WHERE outcome IS NULL
UNION ALL SELECT 'claimed: ' || object_name FROM amoro_meta.procedure_claim
UNION ALL SELECT 'marked: ' || table_name FROM amoro_meta.table_metadata WHERE state <> 'normal'
UNION ALL SELECT 'marked: ' || database_name FROM amoro_meta.database WHERE state <> 'normal'
UNION ALL SELECT 'never committed: ' || table_name FROM amoro_meta.table_metadata WHERE version = 0
UNION ALL SELECT 'never committed: ' || database_name FROM amoro_meta.database WHERE version = 0
UNION ALL SELECT 'marked: ' || device_path FROM amoro_meta.device WHERE state <> 'normal' OR version = 0
UNION ALL SELECT 'marked: ' || pattern FROM amoro_meta.device_pattern
UNION ALL SELECT 'marked: ' || template_name FROM amoro_meta.template WHERE state <> 'normal' OR version = 0
UNION ALL SELECT 'runtime of ' || i FROM unnest((SELECT table_ids FROM amoro_meta.stale_runtimes(0, 100000))) i
UNION ALL SELECT 'without a version: ' || principal_name FROM amoro_meta.principal WHERE version = 0
UNION ALL SELECT 'a password: ' || procedure_id FROM amoro_meta.procedure WHERE arguments ? 'secret'
UNION ALL SELECT 'marked: bucket ' || bucket FROM amoro_meta.service_bucket WHERE state <> 'normal' OR next_node_id IS NOT NULL
UNION ALL SELECT 'marked: slot ' || slot FROM amoro_meta.partition WHERE state <> 'normal' OR next_node_ids IS NOT NULL
UNION ALL SELECT 'partitions of nothing: ' || database_id FROM amoro_meta.partition_set WHERE database_id NOT IN (SELECT database_id FROM amoro_meta.database)
UNION ALL SELECT 'removing: ' || node_name FROM amoro_meta.node WHERE removing
UNION ALL SELECT 'gap before ' || version FROM
	(SELECT version, lag(version) OVER (ORDER BY version) AS before FROM (SELECT DISTINCT version FROM amoro_meta.change) v) w
	WHERE version <> before + 1 AND version <> (version >> 40 << 40) + 1
UNION ALL SELECT 'counter' FROM amoro_meta.metadata_version
	WHERE version <> (SELECT coalesce(max(version), 0) FROM amoro_meta.change)
SQL
	return;
}

# What a procedure has logged, in order.
sub changes_of
{
	my ($server, $procedure) = @_;
	return $server->safe_psql('postgres',
		"SELECT coalesce(string_agg(object_kind || ' ' || operation, ', ' ORDER BY version, ordinal), '')"
		  . " FROM amoro_meta.change WHERE procedure_id = $procedure");
}

# A node that holds a lease and says nothing more; one call registers and activates it. Returns its id.
sub activate_node
{
	my ($server, $name) = @_;
	$server->safe_psql('postgres',
		"SELECT (register_node('$name', md5('$name')::uuid)).node_id");
	my $answer = $server->safe_psql('postgres', <<SQL);
SELECT (activate_node(s.node_id, s.incarnation, (SELECT term FROM amoro_stat_coordinator WHERE datname = current_database()),
	s.lease_epoch, s.metadata_version)).answer FROM node_status s WHERE node_name = '$name' AND current
SQL
	is($answer, 'granted', "node $name holds a lease");
	return $server->safe_psql('postgres', "SELECT node_id FROM nodes WHERE node_name = '$name'");
}

1;
