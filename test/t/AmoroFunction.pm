# Each function of the API, with arguments with which it does something to, or says something of, what AmoroInventory has made.
package AmoroFunction;

use strict;
use warnings;
use Exporter 'import';

our @EXPORT_OK = qw(functions outcomes);

my $node = "(SELECT node_id FROM nodes WHERE node_name = 'planner'), (SELECT incarnation FROM nodes WHERE node_name = 'planner')";
my $lease = "$node, (SELECT term FROM amoro_meta.coordinator), 1, 1";
my $token = "(SELECT token FROM amoro_meta.optimizer WHERE group_name = 'heavy')";
my $task = "(SELECT process_id FROM tasks WHERE state = 'ACKED'), (SELECT task_id FROM tasks WHERE state = 'ACKED'), (SELECT attempt FROM tasks WHERE state = 'ACKED')";
my $process = "(SELECT process_id FROM processes WHERE table_name = 'clicks' AND ended_at IS NULL)";
my $blocker = "(SELECT blocker_id FROM blockers WHERE table_name = 'orders')";
my $number = '(SELECT min(session_number) FROM terminal_sessions)';
my $procedure = '(SELECT min(procedure_id) FROM procedures)';
my $definition = q{'{"format": "iceberg", "columns": [{"name": "a", "type": "int"}]}'};
my $measurements = q{'{"measurements": [{"name": "m", "type": "INT32"}]}'};

# Between the parentheses; SESSION stands for the id of a terminal session of the caller.
my %arguments = (
	ack_task => "$token, 0, $task",
	acquire_blocker => q{'lake', 'd', 'fresh', '{OPTIMIZE}'},
	acquire_leadership => "'fresh', $node",
	activate_node => $lease,
	activate_template => q{'lake', 'd', 'pump', '{root.site3.c}'},
	adopt_database => '',
	alter_catalog => q{'lake', '{"k": "v"}'},
	alter_device => q{'lake', 'd', 'root.site1.turbine7', '[{"op": "set_alias", "measurement": "on", "alias": "o"}]'},
	alter_optimizer_container => q{'crate', properties => '{}'},
	alter_optimizer_group => q{'heavy', properties => '{}'},
	alter_partitions => q{'lake', 'e', 2},
	alter_service_buckets => q{'planning', 4},
	alter_table => q{'lake', 'd', 'orders', '[{"op": "add_column", "column": "c", "type": "date"}]'},
	alter_template => q{'lake', 'd', 'pump', '[{"op": "add_measurement", "name": "late", "type": "INT32"}]'},
	alter_user => q{'ann', 'other'},
	alter_view => q{'lake', 'e', 'shown', '[{"op": "set_properties", "properties": {"k": "v"}}]'},
	amoro_meta_version => '',
	amoro_stat_reset => '',
	announce_leaders => '',
	assert_blocker => $blocker,
	assert_bucket => "'planning', 1, $node",
	assert_leadership => q{'compaction', (SELECT token FROM leaders WHERE service = 'compaction')},
	balance_buckets => '',
	balance_partitions => q{'lake', 'e'},
	broadcast_verdict => '1',
	call_leader => q{'compaction', 'GET', '/fresh'},
	call_result => q{(SELECT call_id FROM calls WHERE state = 'answered')},
	cancel_procedure => $procedure,
	cancel_process => $process,
	cancel_process_and_wait => $process,
	catalog_auth_config => q{'lake'},
	close_terminal_session => q{'SESSION'},
	complete_task => "$token, 0, $task",
	confirm_removal => q{'shop'},
	create_catalog => q{'fresh'},
	create_database => q{'lake', 'fresh'},
	create_device => "'lake', 'd', 'root.fresh', $measurements",
	create_devices => q{'lake', 'd', '[{"path": "root.fresh", "measurements": [{"name": "m", "type": "INT32"}]}]'},
	create_optimizer_container => q{'fresh', 'Fresh'},
	create_optimizer_group => q{'fresh'},
	create_partitions => q{'lake', 'd'},
	create_role => q{'fresh'},
	create_service_buckets => q{'fresh'},
	create_table => "'lake', 'd', 'fresh', $definition",
	create_template => "'lake', 'd', 'fresh', $measurements",
	create_user => q{'fresh'},
	create_view => q{'lake', 'd', 'fresh', '{"base": {"table": "orders"}}'},
	current_leader => q{'compaction'},
	deactivate_template => q{'lake', 'd', 'pump', 'root.site3.a'},
	delegate_process => "$process, 'compaction'",
	drain_optimizer => q{(SELECT optimizer_id FROM optimizers WHERE group_name = 'heavy')},
	drop_catalog => q{'rest'},
	drop_database => q{'lake', 'spare'},
	drop_devices => q{'lake', 'd', 'root.site1.turbine7'},
	drop_optimizer_container => q{'spare'},
	drop_optimizer_group => q{'spare'},
	drop_partitions => q{'lake', 'e'},
	drop_role => q{'staff', cascade => true},
	drop_service_buckets => q{'planning'},
	drop_table => q{'lake', 'd', 'orders', cascade => true},
	drop_template => q{'lake', 'd', 'spare'},
	drop_user => q{'ann', cascade => true},
	drop_view => q{'lake', 'e', 'shown'},
	effective_ttl => q{'lake', 'd', 'orders'},
	end_terminal_session => $number,
	execute_in_terminal => q{'SESSION', 'select 1'},
	expire_optimizers => '',
	explore_catalog => q{'rest'},
	finish_process => "$process, 'failed'",
	force_release_blocker => $blocker,
	get_blockers => q{'lake', 'd', 'orders'},
	grant_access => q{'stock_reader', 'writer'},
	grant_privilege => q{'{DROP}', 'ann', 'lake'},
	grant_role => q{'boss', 'ann'},
	import_ams => q{'ams'},
	metadata_changes => '(SELECT version FROM amoro_meta.metadata_version)',
	metadata_listing => q{'table', 'lake', 'd'},
	metadata_lookup => q{'table', 'lake', 'd', 'orders'},
	metadata_lookup_many => q{'table', '{lake}', '{d}', '{orders}'},
	metadata_snapshot => q{'table'},
	metadata_snapshot_chunk => q{'table'},
	move_partition => q{'lake', 'e', 0, 'planner', 'twice'},
	node_heartbeat => $lease,
	node_heartbeat_text => $lease,
	note_absent_nodes => '',
	open_terminal_session => q{'lake'},
	optimizer_group_references => q{'heavy'},
	partition_slot => q{'lake', 'e', 'x'},
	poll_task => "$token, 0",
	procedure_status => $procedure,
	purge_blockers => '',
	purge_calls => '',
	purge_history => '',
	purge_terminal_sessions => '',
	refresh_table_runtimes => '',
	register_node => q{'fresh', '66666666-6666-4666-8666-666666666666'},
	register_optimizer => q{'heavy', 1, 1},
	release_blocker => $blocker,
	release_leadership => "'compaction', $node, (SELECT token FROM leaders WHERE service = 'compaction')",
	release_node => $node,
	remove_node => q{'planner'},
	rename_role => q{'staff', 'crew'},
	rename_table => q{'lake', 'd', 'orders', 'd', 'fresh'},
	rename_user => q{'ann', 'anna'},
	rename_view => q{'lake', 'e', 'shown', 'd', 'fresh'},
	renew_blocker => $blocker,
	repair_partitions => '',
	report_listing => q{'shop', 'web', '[{"name": "fresh"}]', false},
	report_terminal_statement => q{'SESSION', (SELECT max(statement_id) FROM terminal_statements)},
	reset_tasks => '',
	revoke_access => q{'stock_reader', 'reader'},
	revoke_privilege => q{'{READ}', 'staff', 'lake', 'd', path => 'root.site1.**'},
	revoke_role => q{'staff', 'boss'},
	set_table_status => q{(SELECT table_id FROM table_runtimes WHERE table_name = 'views'), (SELECT version FROM table_runtimes WHERE table_name = 'views'), 500, 2},
	set_template => q{'lake', 'd', 'pump', 'root.site4'},
	set_ttl => q{'lake', 'timed', '1 day'},
	settle_processes => '',
	start_process => q{'shop', 'web', 'views', 'MINOR', '[{}]'},
	tables_of_bucket => q{'planning', 1},
	terminal_context => q{'SESSION'},
	touch_optimizer => $token,
	unregister_optimizer => $token,
	unset_template => q{'lake', 'd', 'pump', 'root.site3'},
	unset_ttl => q{'lake', 'timed'},
	user_has_privilege => q{'ann', 'SELECT', 'lake', 'd', 'orders'},
	verify_user => q{'ann', 'correct horse'},
	wait_for_procedure => $procedure);

# The functions of the extension in a database: name => whether its comment speaks of 25006.
sub functions
{
	my ($server, $database) = @_;
	return map { split /\|/ } split /\n/, $server->safe_psql($database, <<'SQL');
SELECT p.proname, obj_description(p.oid, 'pg_proc') ~ '25006'
FROM pg_depend d JOIN pg_proc p ON p.oid = d.objid AND d.classid = 'pg_proc'::regclass JOIN pg_extension e ON e.oid = d.refobjid
WHERE d.deptype = 'e' AND e.extname = 'amoro_meta' AND p.pronamespace = e.extnamespace
SQL
}

# Calls functions, one after the other in one session, each in a transaction that is rolled back, where it is not a procedure that waits: name => hash with code (the SQLSTATE), result
# and error (the text). What has no arguments here has the code "unknown".
sub outcomes
{
	my ($server, $database, $session, @names) = @_;
	my @known = grep { defined $arguments{$_} } sort @names;
	my $script = join '', "\\set VERBOSITY verbose\n", map { <<SQL =~ s/SESSION/$session/gr } @known;
\\echo == $_
\\warn == $_
@{[ /_and_wait$/ ? "SELECT $arguments{$_} AS argument \\gset\nCALL $_(:argument);" : "BEGIN;\nSELECT * FROM $_($arguments{$_});\nROLLBACK;" ]}
SQL
	my ($code, $out, $error) = $server->psql($database, $script, on_error_stop => 0);
	my %results = $out =~ /^== (\w+)\n(.*?)(?=^== |\z)/msg;
	my %errors = $error =~ /^== (\w+)\n(.*?)(?=^== |\z)/msg;
	return (map { $_ => { code => 'unknown', result => '', error => '' } } @names),
	  map { $_ => { code => $errors{$_} =~ /ERROR:\s+(\w{5}):/ ? $1 : '00000', result => $results{$_} // '', error => $errors{$_} } } @known;
}

1;
