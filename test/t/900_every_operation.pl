# Every operation on metadata with one bad node among three: each is done within the bound of rule 8, is then seen on the
# live nodes, and the bad one never answers with what was before.
#
# To add an operation: an entry of @operations below. The faults are at the end, and take all operations together.
use strict;
use warnings;
use AmoroCluster;
use AmoroLake;
use AmoroNode;
use AmoroProcedure qw(nothing_left);
use AmoroProxy;
use File::Basename;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

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

my $server = AmoroCluster->create('main');
my $proxy = AmoroProxy->start(socket_path($server));
my $without_news = "$PostgreSQL::Test::Utils::tmp_check/without_news.so";
system_or_bail('gcc', '-shared', '-fPIC', '-O1', '-Wall', '-Werror', split(' ', `pkg-config --cflags libpq`),
	'-o', $without_news, dirname(__FILE__) . '/without_news.c', '-ldl');

sub query { return $server->safe_psql('postgres', $_[0]) }

# A text with the name of an operation under a fault put in.
sub named
{
	my ($text, $fault, $operation) = @_;
	return $text =~ s/NAME/${fault}_$operation->{name}/gr;
}

sub pattern { my ($expected, @name) = @_; return ref $expected ? do { my $text = named("$expected", @name); qr/$text/ } : $expected }

# Whether an answer is the expected one.
sub is_answer
{
	my ($answer, $expected) = @_;
	return ref $expected ? $answer->{status} == 200 && $answer->{body} =~ $expected : $answer->{status} == $expected;
}

# Submits calls, all at once, and waits for all; returns those that were not done, with their ends, and the time it took.
sub run_all
{
	my (@calls) = @_;
	my $begin = time;
	my @procedures = split /\n/, query(join '', map { "SELECT $_;\n" } @calls);
	my @outcomes = split /\n/, query(join '', map { "SELECT wait_for_procedure($_, '60 s');\n" } @procedures);
	my @failed = map { $outcomes[$_] eq 'done' ? () : "$calls[$_]: $outcomes[$_]" } 0 .. $#calls;
	return (time - $begin, @failed);
}

# All looks of all operations under a fault: hashes with path, old, new.
sub looks
{
	my ($fault) = @_;
	return map {
		my $operation = $_;
		map { { path => named($_->[0], $fault, $operation), old => pattern($_->[1], $fault, $operation),
				new => pattern($_->[2], $fault, $operation) } } @{ $operation->{look} // [] }
	} @operations;
}

# Asks until the node is neither fenced nor without a connection.
sub answer_of
{
	my ($node, $path) = @_;
	my $deadline = time + 20;
	while (1)
	{
		my $answer = $node->get($path, raw => 1);
		return $answer if $answer->{status} != 503 || time > $deadline;
		sleep 0.02;
	}
}

# Has the node hold in memory what was before.
sub warm_up
{
	my ($node, $fault) = @_;
	my @wrong = grep { my $look = $_; grep { !is_answer(answer_of($node, $look->{path}), $look->{old}) } 1 .. 2 } looks($fault);
	is(join(', ', map { $_->{path} } @wrong), '', "$fault: node $node->{name} serves what there is before");
	return;
}

# What a node serves after the operations is what is new.
sub serves_what_is_new
{
	my ($node, $fault) = @_;
	my @wrong = grep { !is_answer(answer_of($node, $_->{path}), $_->{new}) } looks($fault);
	is(join(', ', map { $_->{path} } @wrong), '', "$fault: node $node->{name} serves what is new");
	return;
}

# What of the operations a node still serves as it was; it may refuse, and it may know what is new.
sub stale
{
	my ($node, $fault) = @_;
	return grep { my $answer = eval { $node->get($_->{path}) }; $answer && is_answer($answer, $_->{old}) } looks($fault);
}

# What no operation may take longer than: rule 8, for each of its two broadcasts, and what the machine may need.
my $bound = 2 * (0.5 + lease_seconds() * 1.001 + 0.2 + 0.1) + slack_seconds();

# One fault. Options: start (makes the bad node), begin (the fault), end (takes it back; the node is to serve again), dead.
sub with_fault
{
	my ($fault, %options) = @_;
	my $bad = $options{start}->($fault);
	$bad->wait_for_serving;
	warm_up($_, $fault) for @main::live, $bad;
	$options{begin}->($bad);
	my ($seconds, @failed) = run_all(map { named($_->{call}, $fault, $_) } @operations);
	my @stale = $options{dead} || $options{silent} ? () : stale($bad, $fault);
	is(join("\n", @failed), '', "$fault: every operation is done");
	cmp_ok($seconds, '<', $bound, sprintf '%s: within the bound (%.1f s)', $fault, $seconds);
	is(join(', ', map { $_->{path} } @stale), '', "$fault: the bad node serves nothing of what was before");
	serves_what_is_new($_, $fault) for @main::live;
	my @unseen = grep { defined $_->{seen} && query('SELECT ' . named($_->{seen}, $fault, $_)) ne 't' } @operations;
	is(join(', ', map { $_->{name} } @unseen), '', "$fault: every operation is seen in the database");
	if ($options{dead})
	{
		$bad->wait_for_exit;
		return;
	}
	$options{end}->($bad) if $options{end};
	# until it serves again, nothing old either
	my $deadline = time + 20;
	my $old = 0;
	do { $old += stale($bad, $fault) } until $bad->get('/healthz')->{status} == 200 || time > $deadline;
	is($old, 0, "$fault: nor does it when it comes back");
	serves_what_is_new($bad, $fault);
	$bad->stop;
	return;
}

sub plain { my ($name) = @_; return AmoroNode->start(name => $name, conninfo => conninfo($server)) }

query("SELECT create_catalog('c')");
run_all(map { "create_database('c', '$_')" } 'd', 'e');
our @live = map { plain($_) } 'n1', 'n2';
$_->wait_for_serving for @live;

my %faults = (
	# its process stands still, and goes on later
	stopped => { start => \&plain, begin => sub { $_[0]->signal('STOP') }, end => sub { $_[0]->signal('CONT') }, silent => 1 },
	killed => { start => \&plain, begin => sub { $_[0]->signal('KILL') }, dead => 1 },
	# the network takes everything and gives nothing back
	cut_off => {
		start => sub { AmoroNode->start(name => $_[0], conninfo => conninfo($server, proxy => $proxy)) },
		begin => sub { $proxy->set(up => 'drop', down => 'drop') },
		end => sub { $proxy->cut; $proxy->heal }
	},
	# it lives and sends heartbeats, but cannot apply what has changed
	not_applying => {
		start => sub {
			query("CREATE ROLE not_applying LOGIN; SELECT grant_access('not_applying', 'node')");
			return AmoroNode->start(name => $_[0], conninfo => conninfo($server, user => 'not_applying'),
				environment => { LD_PRELOAD => $without_news });
		},
		begin => sub { query('REVOKE EXECUTE ON FUNCTION metadata_changes FROM not_applying') },
		end => sub { query('GRANT EXECUTE ON FUNCTION metadata_changes TO not_applying') }
	},
	# its transactions may not write: it takes the server for a standby and leaves it
	read_only => {
		start => sub {
			query("CREATE ROLE read_only LOGIN; SELECT grant_access('read_only', 'node')");
			return AmoroNode->start(name => $_[0], conninfo => conninfo($server, user => 'read_only'));
		},
		begin => sub {
			query('ALTER ROLE read_only SET default_transaction_read_only = on');
			query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'read_only'");
		},
		end => sub { query('ALTER ROLE read_only RESET default_transaction_read_only') }
	});

# everything that is there before, for all faults at once
for my $round (0 .. 9)
{
	my @calls = map {
		my $fault = $_;
		map { defined $_->{before}[$round] ? named($_->{before}[$round], $fault, $_) : () } @operations
	} sort keys %faults;
	last unless @calls;
	my ($seconds, @failed) = run_all(@calls);
	is(join("\n", @failed), '', sprintf 'what there is before, %d (%.1f s)', $round, $seconds);
}

with_fault($_, %{ $faults{$_} }) for sort keys %faults;
nothing_left($server, 'after all of them');
done_testing();
