# Every operation on metadata, as a test calls it and sees that it is done. To add one: an entry of @operations.
package AmoroOperation;

use strict;
use warnings;
use Exporter 'import';

our @EXPORT_OK = qw(every_operation);

my $columns = q('{"format": "iceberg", "columns": [{"name": "a", "type": "int"}, {"name": "b", "type": "string"}]}');

my $measurements = q{'{"measurements": [{"name": "speed", "type": "INT32"}, {"name": "heat", "type": "FLOAT"}]}'};

# name: of the operation, and in the names of what it works on.
# before: calls that are made, one after the other, while all nodes are well.
# call: the operation itself.
# look: what is asked of the nodes over HTTP: a path, what is answered before, and what after the operation. An answer is
#   the status alone (404), or a pattern that the body of an answer with status 200 matches, and the other one does not.
# seen: SQL that is true once it is done.
# NAME stands for a name that is the operation's own, fit for SQL literals and for paths.
my @operations = (
	{
		name => 'create_database',
		call => q{create_database('c', 'NAME')},
		seen => q{EXISTS (SELECT FROM databases WHERE database_name = 'NAME' AND state = 'normal')}
	},
	{
		name => 'drop_database',
		before => [ q{create_database('c', 'NAME')}, qq{create_table('c', 'NAME', 't', $columns)} ],
		call => q{drop_database('c', 'NAME', cascade => true)},
		look => [ [ '/v1/tables/c/NAME/t', qr/"database" ?: ?"NAME"/, 404 ] ],
		seen => q{NOT EXISTS (SELECT FROM databases WHERE database_name = 'NAME')}
	},
	{
		name => 'create_table',
		call => qq{create_table('c', 'd', 'NAME', $columns)},
		look => [ [ '/v1/tables/c/d/NAME', 404, qr/"table" ?: ?"NAME"/ ] ],
		seen => q{EXISTS (SELECT FROM tables WHERE table_name = 'NAME' AND state = 'normal')}
	},
	{
		name => 'add_column',
		before => [qq{create_table('c', 'd', 'NAME', $columns)}],
		call => q{alter_table('c', 'd', 'NAME', '[{"op": "add_column", "column": "fresh", "type": "date"}]')},
		look => [ [ '/v1/tables/c/d/NAME', qr/"b"(?!.*"fresh")/, qr/"fresh"/ ] ],
	},
	{
		name => 'drop_column',
		before => [qq{create_table('c', 'd', 'NAME', $columns)}],
		call => q{alter_table('c', 'd', 'NAME', '[{"op": "drop_column", "column": "b"}]')},
		look => [ [ '/v1/tables/c/d/NAME', qr/"name": ?"b"/, qr/^(?!.*"name": ?"b").*"name": ?"a"/ ] ],
	},
	{
		name => 'rename_column',
		before => [qq{create_table('c', 'd', 'NAME', $columns)}],
		call => q{alter_table('c', 'd', 'NAME', '[{"op": "rename_column", "column": "b", "new_name": "renamed"}]')},
		look => [ [ '/v1/tables/c/d/NAME', qr/"name": ?"b"/, qr/"name": ?"renamed"/ ] ],
	},
	{
		name => 'retype_column',
		before => [qq{create_table('c', 'd', 'NAME', $columns)}],
		call => q{alter_table('c', 'd', 'NAME', '[{"op": "retype_column", "column": "a", "type": "long"}]')},
		look => [ [ '/v1/tables/c/d/NAME', qr/"type": ?"int"/, qr/"type": ?"long"/ ] ],
	},
	{
		name => 'set_properties',
		before => [qq{create_table('c', 'd', 'NAME', $columns)}],
		call => q{alter_table('c', 'd', 'NAME', '[{"op": "set_properties", "properties": {"owner": "fresh"}}]')},
		look => [ [ '/v1/tables/c/d/NAME', qr/"b"(?!.*"fresh")/, qr/"fresh"/ ] ],
	},
	{
		name => 'rename_table',
		before => [qq{create_table('c', 'd', 'NAME', $columns)}],
		call => q{rename_table('c', 'd', 'NAME', 'd', 'NAME_new')},
		look => [ [ '/v1/tables/c/d/NAME', qr/"table" ?: ?"NAME"/, 404 ],
			[ '/v1/tables/c/d/NAME_new', 404, qr/"table" ?: ?"NAME_new"/ ] ],
	},
	{
		name => 'rename_table_to_another_database',
		before => [qq{create_table('c', 'd', 'NAME', $columns)}],
		call => q{rename_table('c', 'd', 'NAME', 'e', 'NAME')},
		look => [ [ '/v1/tables/c/d/NAME', qr/"database" ?: ?"d"/, 404 ], [ '/v1/tables/c/e/NAME', 404, qr/"database" ?: ?"e"/ ] ],
	},
	{
		name => 'drop_table',
		before => [qq{create_table('c', 'd', 'NAME', $columns)}],
		call => q{drop_table('c', 'd', 'NAME')},
		look => [ [ '/v1/tables/c/d/NAME', qr/"table" ?: ?"NAME"/, 404 ] ],
		seen => q{NOT EXISTS (SELECT FROM tables WHERE table_name = 'NAME')}
	},
	{
		name => 'create_view',
		before => [qq{create_table('c', 'd', 'NAME', $columns)}],
		call => q{create_view('c', 'd', 'NAME_v', '{"base": {"table": "NAME"}, "columns": ["a"]}')},
		look => [ [ '/v1/tables/c/d/NAME_v', 404, qr/"relation_kind" ?: ?"view"/ ] ],
		seen => q{EXISTS (SELECT FROM views WHERE view_name = 'NAME_v' AND state = 'normal')}
	},
	{
		# a type goes from the view to its table, and to another view of that
		name => 'retype_column_of_view',
		before => [ qq{create_table('c', 'd', 'NAME', $columns)}, q{create_view('c', 'd', 'NAME_v', '{"base": {"table": "NAME"}}')},
			q{create_view('c', 'e', 'NAME_w', '{"base": {"database": "d", "table": "NAME"}, "columns": ["a"]}')} ],
		call => q{alter_view('c', 'd', 'NAME_v', '[{"op": "retype_column", "column": "a", "type": "long"}]', cascade => true)},
		look => [ map { [ "/v1/tables/c/$_", qr/"type": ?"int"/, qr/"type": ?"long"/ ] } 'd/NAME', 'd/NAME_v', 'e/NAME_w' ]
	},
	{
		name => 'add_column_to_view_and_table',
		before => [ qq{create_table('c', 'd', 'NAME', $columns)}, q{create_view('c', 'd', 'NAME_v', '{"base": {"table": "NAME"}}')} ],
		call => q{alter_view('c', 'd', 'NAME_v', '[{"op": "add_column", "column": "fresh", "type": "date"}]', cascade => true)},
		look => [ map { [ "/v1/tables/c/d/$_", qr/"b"(?!.*"fresh")/, qr/"fresh"/ ] } 'NAME', 'NAME_v' ]
	},
	{
		name => 'rename_column_of_view',
		before => [ qq{create_table('c', 'd', 'NAME', $columns)}, q{create_view('c', 'd', 'NAME_v', '{"base": {"table": "NAME"}}')} ],
		call => q{alter_view('c', 'd', 'NAME_v', '[{"op": "rename_column", "column": "a", "new_name": "fresh"}]')},
		look => [ [ '/v1/tables/c/d/NAME_v', qr/"name": ?"a"/, qr/"name": ?"fresh"/ ] ]
	},
	{
		name => 'rename_view',
		before => [ qq{create_table('c', 'd', 'NAME', $columns)}, q{create_view('c', 'd', 'NAME_v', '{"base": {"table": "NAME"}}')} ],
		call => q{rename_view('c', 'd', 'NAME_v', 'e', 'NAME_w')},
		look => [ [ '/v1/tables/c/d/NAME_v', qr/"view"/, 404 ], [ '/v1/tables/c/e/NAME_w', 404, qr/"view"/ ] ]
	},
	{
		# what a view says of its table changes with that
		name => 'rename_table_under_view',
		before => [ qq{create_table('c', 'd', 'NAME', $columns)}, q{create_view('c', 'e', 'NAME_v', '{"base": {"database": "d", "table": "NAME"}}')} ],
		call => q{rename_table('c', 'd', 'NAME', 'd', 'NAME_new')},
		look => [ [ '/v1/tables/c/e/NAME_v', qr/"table": ?"NAME"/, qr/"table": ?"NAME_new"/ ] ]
	},
	{
		# one that shows only a part of its table leaves it
		name => 'drop_view',
		before => [ qq{create_table('c', 'd', 'NAME', $columns)}, q{create_view('c', 'd', 'NAME_v', '{"base": {"table": "NAME"}, "columns": ["a"]}')} ],
		call => q{drop_view('c', 'd', 'NAME_v', cascade => true)},
		look => [ [ '/v1/tables/c/d/NAME_v', qr/"view"/, 404 ] ],
		seen => q{EXISTS (SELECT FROM tables WHERE table_name = 'NAME')}
	},
	{
		name => 'drop_view_of_all',
		before => [ qq{create_table('c', 'd', 'NAME', $columns)}, q{create_view('c', 'd', 'NAME_v', '{"base": {"table": "NAME"}}')} ],
		call => q{drop_view('c', 'd', 'NAME_v', cascade => true)},
		look => [ [ '/v1/tables/c/d/NAME_v', qr/"view"/, 404 ], [ '/v1/tables/c/d/NAME', qr/"NAME"/, 404 ] ]
	},
	{
		name => 'drop_table_with_views',
		before => [ qq{create_table('c', 'd', 'NAME', $columns)}, q{create_view('c', 'e', 'NAME_v', '{"base": {"database": "d", "table": "NAME"}}')} ],
		call => q{drop_table('c', 'd', 'NAME', cascade => true)},
		look => [ [ '/v1/tables/c/d/NAME', qr/"NAME"/, 404 ], [ '/v1/tables/c/e/NAME_v', qr/"view"/, 404 ] ]
	},
	{
		name => 'set_ttl_of_table',
		before => [ qq{create_table('c', 'd', 'NAME', $columns)}, q{create_view('c', 'e', 'NAME_v', '{"base": {"database": "d", "table": "NAME"}}')} ],
		call => q{set_ttl('c', 'd', '5 s', table_name => 'NAME')},
		look => [ map { [ "/v1/tables/c/$_", qr/"ttl_ms" ?: ?null/, qr/"ttl_ms" ?: ?5000/ ] } 'd/NAME', 'e/NAME_v' ]
	},
	{
		name => 'unset_ttl_of_table',
		before => [ qq{create_table('c', 'd', 'NAME', $columns)}, q{set_ttl('c', 'd', '5 s', table_name => 'NAME')} ],
		call => q{unset_ttl('c', 'd', table_name => 'NAME')},
		look => [ [ '/v1/tables/c/d/NAME', qr/"ttl_ms" ?: ?5000/, qr/"ttl_ms" ?: ?null/ ] ]
	},
	{
		# whatever is in the database inherits it
		name => 'set_ttl_of_database',
		before => [ q{create_database('c', 'NAME')}, qq{create_table('c', 'NAME', 't', $columns)} ],
		call => q{set_ttl('c', 'NAME', '5 s')},
		look => [ [ '/v1/tables/c/NAME/t', qr/"ttl_ms" ?: ?null/, qr/"ttl_ms" ?: ?5000/ ] ]
	},
	{
		name => 'set_ttl_of_devices',
		before => [ map { qq{create_device('c', 'd', 'root.NAME.$_', $measurements)} } 'a', 'b.c' ],
		call => q{set_ttl('c', 'd', '5 s', path_pattern => 'root.NAME.**')},
		look => [ map { [ "/v1/devices/c/d/root.NAME.$_", qr/"ttl_ms" ?: ?null/, qr/"ttl_ms" ?: ?5000/ ] } 'a', 'b.c' ]
	},
	{
		name => 'create_user',
		call => q{create_user('NAME')},
		look => [ [ '/v1/users/NAME', 404, qr/"user" ?: ?"NAME"/ ] ],
	},
	{
		name => 'alter_user',
		before => [ q{create_user('NAME')}, q{grant_privilege('{SELECT}', 'NAME', 'c')} ],
		call => q{alter_user('NAME', disabled => true)},
		look => [ [ '/v1/privileges/NAME?privilege=SELECT&catalog=c', qr/true/, qr/false/ ] ],
	},
	{
		name => 'rename_user',
		before => [ q{create_user('NAME')}, q{grant_privilege('{SELECT}', 'NAME', 'c')} ],
		call => q{rename_user('NAME', 'NAME_new')},
		look => [ [ '/v1/privileges/NAME?privilege=SELECT&catalog=c', qr/true/, qr/false/ ],
			[ '/v1/privileges/NAME_new?privilege=SELECT&catalog=c', qr/false/, qr/true/ ] ],
	},
	{
		name => 'drop_user',
		before => [ q{create_user('NAME')}, q{grant_privilege('{SELECT}', 'NAME', 'c')} ],
		call => q{drop_user('NAME')},
		look => [ [ '/v1/privileges/NAME?privilege=SELECT&catalog=c', qr/true/, qr/false/ ], [ '/v1/users/NAME', qr/"user"/, 404 ] ],
	},
	{
		name => 'create_role',
		call => q{create_role('NAME')},
		seen => q{EXISTS (SELECT FROM roles WHERE role_name = 'NAME')}
	},
	{
		name => 'rename_role',
		before => [ q{create_role('NAME')}, q{create_user('NAME_user')}, q{grant_role('NAME', 'NAME_user')} ],
		call => q{rename_role('NAME', 'NAME_new')},
		look => [ [ '/v1/users/NAME_user', qr/"roles" ?: ?\["NAME"\]/, qr/"roles" ?: ?\["NAME_new"\]/ ] ],
	},
	{
		name => 'drop_role',
		before => [ q{create_role('NAME')}, q{create_user('NAME_user')}, q{grant_role('NAME', 'NAME_user')}, q{grant_privilege('{DROP}', 'NAME')} ],
		call => q{drop_role('NAME')},
		look => [ [ '/v1/privileges/NAME_user?privilege=DROP', qr/true/, qr/false/ ] ],
	},
	{
		name => 'grant_role',
		before => [ q{create_role('NAME')}, q{create_user('NAME_user')}, q{grant_privilege('{READ}', 'NAME', 'c', 'd', path => 'root.a.**')} ],
		call => q{grant_role('NAME', 'NAME_user')},
		look => [ [ '/v1/privileges/NAME_user?privilege=READ_DATA&catalog=c&database=d&path=root.a.b', qr/false/, qr/true/ ] ],
	},
	{
		name => 'revoke_role',
		before => [ q{create_role('NAME')}, q{create_user('NAME_user')}, q{grant_role('NAME', 'NAME_user')}, q{grant_privilege('{ALTER}', 'NAME')} ],
		call => q{revoke_role('NAME', 'NAME_user')},
		look => [ [ '/v1/privileges/NAME_user?privilege=ALTER&catalog=c', qr/true/, qr/false/ ] ],
	},
	{
		name => 'grant_privilege',
		before => [q{create_user('NAME')}],
		call => q{grant_privilege('{INSERT}', 'NAME', 'c', 'd', 't')},
		look => [ [ '/v1/privileges/NAME?privilege=INSERT&catalog=c&database=d&table=t', qr/false/, qr/true/ ] ],
	},
	{
		name => 'revoke_privilege',
		before => [ q{create_user('NAME')}, q{grant_privilege('{INSERT}', 'NAME', 'c', 'd', 't')} ],
		call => q{revoke_privilege('{INSERT}', 'NAME', 'c', 'd', 't')},
		look => [ [ '/v1/privileges/NAME?privilege=INSERT&catalog=c&database=d&table=t', qr/true/, qr/false/ ] ],
	},
	{
		name => 'create_service_buckets',
		call => q{create_service_buckets('NAME', 2, 'nobody')},
		look => [ [ '/v1/buckets/NAME/1', 404, qr/"owner" ?: ?null/ ] ],
		seen => q{(SELECT count(*) = 2 FROM service_buckets WHERE service = 'NAME')}
	},
	{
		name => 'alter_service_buckets',
		before => [q{create_service_buckets('NAME', 2, 'nobody')}],
		call => q{alter_service_buckets('NAME', 1)},
		look => [ [ '/v1/buckets/NAME/2', qr/"bucket" ?: ?2/, 404 ] ],
		seen => q{(SELECT bucket_count = 1 FROM bucket_services WHERE service = 'NAME')}
	},
	{
		name => 'drop_service_buckets',
		before => [q{create_service_buckets('NAME', 2, 'nobody')}],
		call => q{drop_service_buckets('NAME')},
		look => [ [ '/v1/buckets/NAME/1', qr/"bucket" ?: ?1/, 404 ] ],
		seen => q{NOT EXISTS (SELECT FROM service_buckets WHERE service = 'NAME')}
	},
	{
		name => 'create_partitions',
		before => [q{create_database('c', 'NAME')}],
		call => q{create_partitions('c', 'NAME', 3, 2)},
		look => [ [ '/v1/partitions/c/NAME/1', 404, qr/"slot" ?: ?1,/ ] ],
		seen => q{(SELECT count(*) = 3 FROM partitions WHERE database_name = 'NAME')}
	},
	{
		name => 'move_partition',
		before => [ q{create_database('c', 'NAME')}, q{create_partitions('c', 'NAME', 2)},
			q{move_partition('c', 'NAME', (SELECT slot FROM partitions WHERE database_name = 'NAME' AND node_names = '{n2}'), 'n2', 'n1')} ],
		call => q{move_partition('c', 'NAME', 0, 'n1', 'n2')},
		look => [ [ '/v1/partitions/c/NAME/0', qr/"nodes" ?: ?\["n1"\]/, qr/"nodes" ?: ?\["n2"\]/ ] ],
	},
	{
		name => 'alter_partitions',
		before => [ q{create_database('c', 'NAME')}, q{create_partitions('c', 'NAME', 1, 1)}, q{alter_partitions('c', 'NAME', 2)} ],
		call => q{alter_partitions('c', 'NAME', 1)},
		look => [ [ '/v1/partitions/c/NAME/0', qr/"nodes" ?: ?\["n\d",\s?"n\d"\]/, qr/"nodes" ?: ?\["n\d"\]/ ] ],
	},
	{
		name => 'drop_partitions',
		before => [ q{create_database('c', 'NAME')}, q{create_partitions('c', 'NAME', 3, 2)} ],
		call => q{drop_partitions('c', 'NAME')},
		look => [ [ '/v1/partitions/c/NAME/1', qr/"slot" ?: ?1,/, 404 ] ],
		seen => q{NOT EXISTS (SELECT FROM partitions WHERE database_name = 'NAME')}
	},
	{
		name => 'create_device',
		call => qq{create_device('c', 'd', 'root.NAME.a', $measurements)},
		look => [ [ '/v1/devices/c/d/root.NAME.a', 404, qr/"device" ?: ?"root.NAME.a"/ ] ],
		seen => q{EXISTS (SELECT FROM devices WHERE device_path = 'root.NAME.a' AND state = 'normal')}
	},
	{
		name => 'delete_timeseries',
		before => [ qq{create_device('c', 'd', 'root.NAME.a', $measurements)}, qq{create_device('c', 'd', 'root.NAME.b', $measurements)} ],
		call => q{alter_device('c', 'd', 'root.NAME.*', '[{"op": "drop_measurement", "measurement": "heat"}]')},
		look => [ map { [ "/v1/devices/c/d/root.NAME.$_", qr/"heat"/, qr/"speed"(?!.*"heat")/ ] } 'a', 'b' ],
		seen => q{(SELECT count(*) = 2 FROM measurements WHERE device_path LIKE 'root.NAME.%' AND measurement = 'speed')}
	},
	{
		name => 'drop_devices',
		before => [ qq{create_device('c', 'd', 'root.NAME.a', $measurements)}, qq{create_device('c', 'd', 'root.NAME.b.c', $measurements)} ],
		call => q{drop_devices('c', 'd', 'root.NAME.**')},
		look => [ map { [ "/v1/devices/c/d/root.NAME.$_", qr/"heat"/, 404 ] } 'a', 'b.c' ],
		seen => q{NOT EXISTS (SELECT FROM devices WHERE device_path LIKE 'root.NAME.%')}
	},
	{
		name => 'alter_template',
		before => [ qq{create_template('c', 'd', 'NAME', $measurements)}, q{set_template('c', 'd', 'NAME', 'root.NAME')},
			q{activate_template('c', 'd', 'NAME', '{root.NAME.a}')} ],
		call => q{alter_template('c', 'd', 'NAME', '[{"op": "add_measurement", "name": "fresh", "type": "INT32"}]')},
		look => [ [ '/v1/devices/c/d/root.NAME.a', qr/"heat"(?!.*"fresh")/, qr/"fresh"/ ] ],
	},
	{
		name => 'activate_template',
		before => [ qq{create_template('c', 'd', 'NAME', $measurements)}, q{set_template('c', 'd', 'NAME', 'root.NAME')} ],
		call => q{activate_template('c', 'd', 'NAME', '{root.NAME.a}')},
		look => [ [ '/v1/devices/c/d/root.NAME.a', 404, qr/"template" ?: ?"NAME"/ ] ],
	},
	{
		name => 'deactivate_template',
		before => [ qq{create_template('c', 'd', 'NAME', $measurements)}, q{set_template('c', 'd', 'NAME', 'root.NAME')},
			q{create_device('c', 'd', 'root.NAME.own', '{"measurements": [{"name": "own", "type": "INT32"}]}')},
			q{activate_template('c', 'd', 'NAME', '{root.NAME.a,root.NAME.own}')} ],
		call => q{deactivate_template('c', 'd', 'NAME', 'root.NAME.**')},
		look => [ [ '/v1/devices/c/d/root.NAME.a', qr/"heat"/, 404 ], [ '/v1/devices/c/d/root.NAME.own', qr/"heat"/, qr/"own"(?!.*"heat")/ ] ],
		seen => q{(SELECT device_count = 0 FROM templates WHERE template_name = 'NAME')}
	},
);

sub every_operation { return @operations }

1;
