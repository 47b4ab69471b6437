# What the kill-every-step tests do to have each kind of procedure: a new kind gets a scenario here, and a place in the list of one of the files.
package KillScenario;

use strict;
use warnings;
use AmoroProcedure qw(definition);
use Exporter 'import';

our @EXPORT_OK = qw(kinds scenario);

my $definition = definition();

my $two_devices = q{create_devices('lake', 'd', '[{"path": "root.NAME.a", "measurements": [{"name": "m", "type": "INT32"}]},
	{"path": "root.NAME.b", "measurements": [{"name": "m", "type": "INT32"}]}]')};
my $template = q{create_template('lake', 'd', 'NAME', '{"measurements": [{"name": "m", "type": "INT32"}]}')};
my @active_template = (q{set_template('lake', 'd', 'NAME', 'root.NAME')},
	q{activate_template('lake', 'd', 'NAME', '{root.NAME.a,root.NAME.b}')});

# Which file has which kinds, so that the files take about the same time: what a kind takes goes with its number of steps.
my %kinds_of = (
	'300_kill_every_step' => [ qw(
		create_database drop_database create_table alter_table rename_table drop_table
		create_view alter_view rename_view drop_view set_ttl unset_ttl) ],
	'301_kill_every_step' => [ qw(
		create_devices alter_device drop_devices
		create_template alter_template set_template activate_template deactivate_template unset_template drop_template remove_node) ],
	'302_kill_every_step' => [ qw(
		create_user alter_user rename_user drop_user create_role rename_role drop_role
		grant_role revoke_role grant_privilege revoke_privilege
		create_service_buckets balance_buckets alter_service_buckets drop_service_buckets
		create_partitions move_partition balance_partitions alter_partitions drop_partitions) ]);

# For each kind: what must be there before (procedures, then other SQL), how it is submitted, what is true only after it is done, which changes an undo
# logs. NAME is new in every round.
my %scenario = (
	create_database => {
		submit => q{create_database('lake', 'NAME')},
		done => q{EXISTS (SELECT FROM databases WHERE database_name = 'NAME')}
	},
	drop_database => {
		before => [ q{create_database('lake', 'NAME')}, qq{create_table('lake', 'NAME', 't', $definition)},
			qq{create_table('lake', 'NAME', 'u', $definition)} ],
		submit => q{drop_database('lake', 'NAME', cascade => true)},
		done => q{NOT EXISTS (SELECT FROM databases WHERE database_name = 'NAME')}
	},
	create_table => {
		submit => qq{create_table('lake', 'd', 'NAME', $definition)},
		done => q{EXISTS (SELECT FROM tables WHERE table_name = 'NAME')}
	},
	alter_table => {
		before => [qq{create_table('lake', 'd', 'NAME', $definition)}],
		submit => q{alter_table('lake', 'd', 'NAME', '[{"op": "add_column", "column": "c", "type": "date"}]')},
		done => q{(SELECT jsonb_array_length(definition->'columns') = 3 FROM tables WHERE table_name = 'NAME')}
	},
	rename_table => {
		before => [qq{create_table('lake', 'd', 'NAME', $definition)}],
		submit => q{rename_table('lake', 'd', 'NAME', 'e', 'NAME new')},
		done => q{EXISTS (SELECT FROM tables WHERE database_name = 'e' AND table_name = 'NAME new')
			AND NOT EXISTS (SELECT FROM tables WHERE database_name = 'd' AND table_name = 'NAME')},
		rollback => 'table rollback, table rollback'
	},
	drop_table => {
		before => [qq{create_table('lake', 'd', 'NAME', $definition)}],
		submit => q{drop_table('lake', 'd', 'NAME')},
		done => q{NOT EXISTS (SELECT FROM tables WHERE table_name = 'NAME')}
	},
	create_view => {
		before => [qq{create_table('lake', 'd', 'NAME', $definition)}],
		submit => q{create_view('lake', 'd', 'NAME view', '{"base": {"table": "NAME"}}')},
		done => q{EXISTS (SELECT FROM views WHERE view_name = 'NAME view')},
		rollback => 'view rollback'
	},
	# its table and another view of that change with it
	alter_view => {
		before => [ qq{create_table('lake', 'd', 'NAME', $definition)}, q{create_view('lake', 'd', 'NAME view', '{"base": {"table": "NAME"}}')},
			q{create_view('lake', 'e', 'NAME other', '{"base": {"database": "d", "table": "NAME"}}')} ],
		submit => q{alter_view('lake', 'd', 'NAME view', '[{"op": "retype_column", "column": "a", "type": "long"}]', cascade => true)},
		done => q{(SELECT definition->'columns'->0->>'type' = 'long' FROM tables WHERE table_name = 'NAME')
			AND (SELECT count(*) = 2 FROM views WHERE view_name LIKE 'NAME%' AND columns->0->>'type' = 'long')},
		rollback => 'table rollback, view rollback, view rollback'
	},
	rename_view => {
		before => [ qq{create_table('lake', 'd', 'NAME', $definition)}, q{create_view('lake', 'd', 'NAME view', '{"base": {"table": "NAME"}}')} ],
		submit => q{rename_view('lake', 'd', 'NAME view', 'e', 'NAME new')},
		done => q{(SELECT array_agg(database_name || view_name) = ARRAY['eNAME new'] FROM views WHERE view_name LIKE 'NAME%')},
		rollback => 'view rollback, view rollback'
	},
	drop_view => {
		before => [ qq{create_table('lake', 'd', 'NAME', $definition)}, q{create_view('lake', 'd', 'NAME view', '{"base": {"table": "NAME"}}')} ],
		submit => q{drop_view('lake', 'd', 'NAME view', cascade => true)},
		done => q{NOT EXISTS (SELECT FROM views WHERE view_name = 'NAME view') AND NOT EXISTS (SELECT FROM tables WHERE table_name = 'NAME')},
		rollback => 'table rollback, view rollback'
	},
	set_ttl => {
		before => [qq{create_table('lake', 'd', 'NAME', $definition)}],
		submit => q{set_ttl('lake', 'd', '1 day', table_name => 'NAME')},
		done => q{coalesce((SELECT ttl_ms = 86400000 FROM effective_ttl('lake', 'd', 'NAME')), false)}
	},
	unset_ttl => {
		before => [ qq{create_table('lake', 'd', 'NAME', $definition)}, q{set_ttl('lake', 'd', '1 day', table_name => 'NAME')} ],
		submit => q{unset_ttl('lake', 'd', table_name => 'NAME')},
		done => q{(SELECT ttl_ms IS NULL FROM effective_ttl('lake', 'd', 'NAME'))}
	},
	create_user => {
		submit => q{create_user('NAME', 'secret')},
		done => q{verify_user('NAME', 'secret')}
	},
	alter_user => {
		before => [q{create_user('NAME', 'secret')}],
		submit => q{alter_user('NAME', 'other')},
		done => q{verify_user('NAME', 'other') AND NOT verify_user('NAME', 'secret')}
	},
	rename_user => {
		before => [q{create_user('NAME')}],
		submit => q{rename_user('NAME', 'NAME new')},
		done => q{(SELECT array_agg(user_name) = ARRAY['NAME new'] FROM users WHERE user_name LIKE 'NAME%')}
	},
	drop_user => {
		before => [q{create_user('NAME')}],
		submit => q{drop_user('NAME')},
		done => q{NOT EXISTS (SELECT FROM users WHERE user_name = 'NAME')}
	},
	create_role => {
		submit => q{create_role('NAME')},
		done => q{EXISTS (SELECT FROM roles WHERE role_name = 'NAME')}
	},
	rename_role => {
		before => [q{create_role('NAME')}],
		submit => q{rename_role('NAME', 'NAME new')},
		done => q{(SELECT array_agg(role_name) = ARRAY['NAME new'] FROM roles WHERE role_name LIKE 'NAME%')}
	},
	drop_role => {
		before => [q{create_role('NAME')}],
		submit => q{drop_role('NAME')},
		done => q{NOT EXISTS (SELECT FROM roles WHERE role_name = 'NAME')}
	},
	grant_role => {
		before => [q{create_user('NAME')}, q{create_role('NAME role')}, q{grant_privilege('{SELECT}', 'NAME role', 'lake')}],
		submit => q{grant_role('NAME role', 'NAME')},
		done => q{user_has_privilege('NAME', 'SELECT', 'lake')}
	},
	revoke_role => {
		before => [q{create_user('NAME')}, q{create_role('NAME role')}, q{grant_privilege('{SELECT}', 'NAME role', 'lake')},
			q{grant_role('NAME role', 'NAME')}],
		submit => q{revoke_role('NAME role', 'NAME')},
		done => q{NOT user_has_privilege('NAME', 'SELECT', 'lake')}
	},
	grant_privilege => {
		before => [q{create_user('NAME')}],
		submit => q{grant_privilege('{SELECT}', 'NAME', 'lake')},
		done => q{user_has_privilege('NAME', 'SELECT', 'lake')}
	},
	revoke_privilege => {
		before => [q{create_user('NAME')}, q{grant_privilege('{SELECT}', 'NAME', 'lake')}],
		submit => q{revoke_privilege('{SELECT}', 'NAME', 'lake')},
		done => q{NOT user_has_privilege('NAME', 'SELECT', 'lake')}
	},
	create_devices => {
		submit => $two_devices,
		done => q{(SELECT count(*) = 2 FROM devices WHERE device_path LIKE 'root.NAME.%')},
		rollback => 'device rollback, device rollback'
	},
	alter_device => {
		before => [$two_devices],
		submit => q{alter_device('lake', 'd', 'root.NAME.*', '[{"op": "set_alias", "measurement": "m", "alias": "n"}]')},
		done => q{(SELECT count(*) = 2 FROM measurements WHERE device_path LIKE 'root.NAME.%' AND alias = 'n')},
		rollback => 'device rollback'
	},
	create_template => {
		submit => $template,
		done => q{EXISTS (SELECT FROM templates WHERE template_name = 'NAME')}
	},
	alter_template => {
		before => [ $template, @active_template ],
		submit => q{alter_template('lake', 'd', 'NAME', '[{"op": "add_measurement", "name": "late", "type": "INT32"}]')},
		done => q{(SELECT count(*) = 2 FROM measurements WHERE device_path LIKE 'root.NAME.%' AND measurement = 'late')},
		rollback => 'template rollback'
	},
	set_template => {
		before => [$template],
		submit => $active_template[0],
		done => q{(SELECT set_paths = '{root.NAME}' FROM templates WHERE template_name = 'NAME')}
	},
	activate_template => {
		before => [ $template, $active_template[0], q{create_device('lake', 'd', 'root.NAME.a', '{"measurements": [{"name": "own", "type": "INT32"}]}')} ],
		submit => $active_template[1],
		done => q{(SELECT device_count = 2 FROM templates WHERE template_name = 'NAME')},
		rollback => 'device rollback, device rollback'
	},
	deactivate_template => {
		before => [ $template, @active_template ],
		submit => q{deactivate_template('lake', 'd', 'NAME', 'root.NAME.**')},
		done => q{NOT EXISTS (SELECT FROM devices WHERE device_path LIKE 'root.NAME.%')},
		rollback => 'device rollback'
	},
	unset_template => {
		before => [ $template, $active_template[0] ],
		submit => q{unset_template('lake', 'd', 'NAME', 'root.NAME')},
		done => q{(SELECT set_paths = '{}' FROM templates WHERE template_name = 'NAME')}
	},
	drop_template => {
		before => [$template],
		submit => q{drop_template('lake', 'd', 'NAME')},
		done => q{NOT EXISTS (SELECT FROM templates WHERE template_name = 'NAME')}
	},
	drop_devices => {
		before => [$two_devices],
		submit => q{drop_devices('lake', 'd', 'root.NAME.**')},
		done => q{NOT EXISTS (SELECT FROM devices WHERE device_path LIKE 'root.NAME.%')},
		rollback => 'device rollback'
	},
	create_service_buckets => {
		submit => q{create_service_buckets('NAME', 3, 'NAME')},
		done => q{(SELECT count(*) = 3 FROM service_buckets WHERE service = 'NAME' AND state = 'normal')}
	},
	# Its node has started again: what the older process owned goes to the newer one. The sweep does that, too, when a
	# coordinator starts; so what was rolled back is soon done all the same (again).
	balance_buckets => {
		before => [q{create_service_buckets('NAME', 3, 'NAME')}],
		sql => q{register_node('NAME', md5('NAME')::uuid, 'NAME');
			UPDATE amoro_meta.service_bucket SET node_id = n.node_id, incarnation = md5('older')::uuid FROM amoro_meta.node n
			WHERE n.node_name = 'NAME' AND service_id = (SELECT service_id FROM amoro_meta.bucket_service WHERE service = 'NAME')},
		submit => qq{balance_buckets() AS submitted \\gset\n}
			. q{SELECT max(procedure_id) FROM procedures WHERE kind = 'balance_buckets' AND catalog_name = 'NAME'},
		done => q{(SELECT count(*) = 3 FROM service_buckets WHERE service = 'NAME' AND state = 'normal' AND incarnation = md5('NAME')::uuid)},
		again => 1
	},
	alter_service_buckets => {
		before => [q{create_service_buckets('NAME', 3, 'NAME')}],
		submit => q{alter_service_buckets('NAME', 5)},
		done => q{(SELECT bucket_count = 5 FROM bucket_services WHERE service = 'NAME')
			AND (SELECT array_agg(bucket ORDER BY bucket) = '{1,2,3,4,5}' FROM service_buckets WHERE service = 'NAME' AND state = 'normal')}
	},
	drop_service_buckets => {
		before => [q{create_service_buckets('NAME', 3, 'NAME')}],
		submit => q{drop_service_buckets('NAME')},
		done => q{NOT EXISTS (SELECT FROM service_buckets WHERE service = 'NAME')}
	},
	create_partitions => {
		before => [q{create_database('lake', 'NAME')}],
		submit => q{create_partitions('lake', 'NAME', 5, 2, 'NAME')},
		done => q{(SELECT count(*) = 5 FROM partitions WHERE database_name = 'NAME' AND state = 'normal')}
	},
	move_partition => {
		before => [q{create_database('lake', 'NAME')}, q{create_partitions('lake', 'NAME', 5, 2, 'NAME')}],
		sql => q{register_node('NAME ' || n, md5('NAME' || n)::uuid, 'NAME') FROM unnest('{a,b,c}'::text[]) n;
			UPDATE amoro_meta.partition SET node_ids = (SELECT array_agg(node_id ORDER BY node_id) FROM nodes WHERE node_name IN ('NAME a', 'NAME b'))
			WHERE database_id = (SELECT database_id FROM databases WHERE database_name = 'NAME')},
		submit => q{move_partition('lake', 'NAME', 3, 'NAME a', 'NAME c')},
		done => q{(SELECT coalesce(array_agg(slot) = '{3}', false) FROM partitions WHERE database_name = 'NAME' AND state = 'normal' AND node_names = '{NAME b,NAME c}')}
	},
	# one of the nodes is no more
	balance_partitions => {
		before => [q{create_database('lake', 'NAME')}, q{create_partitions('lake', 'NAME', 5, 2, 'NAME')}],
		sql => q{register_node('NAME', md5('NAME')::uuid, 'NAME');
			UPDATE amoro_meta.partition SET node_ids = ARRAY[0, (SELECT node_id FROM nodes WHERE node_name = 'NAME')]
			WHERE database_id = (SELECT database_id FROM databases WHERE database_name = 'NAME')},
		submit => q{balance_partitions('lake', 'NAME')},
		done => q{(SELECT count(*) = 5 FROM amoro_meta.partition JOIN databases USING (database_id)
			WHERE database_name = 'NAME' AND partition.state = 'normal' AND node_ids = ARRAY[(SELECT node_id FROM nodes WHERE node_name = 'NAME')])},
		again => 1
	},
	alter_partitions => {
		before => [q{create_database('lake', 'NAME')}, q{create_partitions('lake', 'NAME', 5, 2, 'NAME')}],
		sql => q{register_node('NAME ' || n, md5('NAME' || n)::uuid, 'NAME') FROM unnest('{a,b}'::text[]) n;
			UPDATE amoro_meta.partition SET node_ids = (SELECT array_agg(node_id ORDER BY node_id) FROM nodes WHERE node_name IN ('NAME a', 'NAME b'))
			WHERE database_id = (SELECT database_id FROM databases WHERE database_name = 'NAME')},
		submit => q{alter_partitions('lake', 'NAME', 1)},
		done => q{(SELECT replica_count = 1 FROM partitioned_databases WHERE database_name = 'NAME') AND (SELECT bool_and(cardinality(node_names) = 1)
			AND count(DISTINCT node_names) = 2 FROM partitions WHERE database_name = 'NAME' AND state = 'normal')}
	},
	drop_partitions => {
		before => [q{create_database('lake', 'NAME')}, q{create_partitions('lake', 'NAME', 5, 2, 'NAME')}],
		submit => q{drop_partitions('lake', 'NAME')},
		done => q{NOT EXISTS (SELECT FROM partitions WHERE database_name = 'NAME')}
	},
	remove_node => {
		nodes => ['NAME'],
		submit => q{remove_node('NAME')},
		done => q{NOT EXISTS (SELECT FROM nodes WHERE node_name = 'NAME')}
	});

# The kinds of a file; of all of them without one.
sub kinds
{
	my ($file) = @_;
	return sort map { @$_ } defined $file ? $kinds_of{$file} : values %kinds_of;
}

sub scenario { return $scenario{$_[0]} }

1;
