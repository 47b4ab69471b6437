# Views and times to live as nodes serve them, one node of three stopped all along (published test 58): every change of a view
# reaches its table and the other views as it should, or leaves them alone, and is seen on the live nodes when it is done; so is
# what inherits a time to live. The node that was away agrees when it is back, and serves nothing of before.
use strict;
use warnings;
use AmoroCluster qw(poll);
use AmoroLake;
use AmoroNode;
use AmoroProcedure qw(stand_still go_on wait_for_end nothing_left);
use Test::More;
use Time::HiRes qw(time);

my $server = AmoroCluster->create('main');

sub query { return $server->safe_psql('postgres', $_[0]) }

sub run_through
{
	my (@calls) = @_;
	is(run_procedure($server, $_), 'done', $_) for @calls;
	return;
}

# What a node says of a table or view: the HTTP status, or its kind, columns (of a view each with its name in the table and its
# type there) and time to live.
sub description
{
	my ($node, $database, $name) = @_;
	my $answer = $node->lookup('c', $database, $name);
	return $answer->{status} if $answer->{status} != 200;
	my $document = $answer->{json};
	my $base = $document->{definition}{base};
	return join ' ', $base ? "$document->{relation_kind} of $base->{database}.$base->{table}:" : "$document->{relation_kind}:",
		(map { defined $_->{source} ? "$_->{name}=$_->{source}:$_->{type}" : "$_->{name}:$_->{type}" } @{ $document->{definition}{columns} }),
		$document->{ttl_ms} // 'no ttl';
}

sub ttl_of_device
{
	my ($node, $path) = @_;
	my $answer = $node->get("/v1/devices/c/d/$path");
	return $answer->{status} == 200 ? $answer->{json}{ttl_ms} // 'none' : $answer->{status};
}

query("SELECT create_catalog('c')");
run_through(q{create_database('c', 'd')}, q{create_database('c', 'e')},
	q{create_table('c', 'd', 't', '{"format": "iceberg", "columns": [{"name": "a", "type": "int"}, {"name": "b", "type": "string"}]}')},
	map { qq{create_device('c', 'd', '$_', '{"measurements": [{"name": "speed", "type": "INT32"}]}')} } 'root.site1.t1', 'root.site1.t2', 'root.site2.t1');
my %node = map { ($_ => AmoroNode->start(name => $_, conninfo => conninfo($server))) } qw(n1 n2 n3);
my @live = @node{qw(n1 n2)};
my $away = $node{n3};
$_->wait_for_serving for values %node;
for my $node (values %node)
{
	$node->wait_until('serves the table', sub { description($node, 'd', 't') eq 'table: a:int b:string no ttl' });
	$node->wait_until('serves a device', sub { ttl_of_device($node, 'root.site1.t1') eq 'none' });
}
$away->signal('STOP');

# A call, and what the live nodes say when it is done, by name; a call that is refused has the SQLSTATE instead.
my $table = 'table: a:int b:string no ttl';
my @operations = (
	[ q{create_view('c', 'd', 'v', '{"base": {"table": "t"}}')}, { 'd.v' => 'view of d.t: a=a:int b=b:string no ttl' } ],
	[ q{rename_view('c', 'd', 'v', 'e', 'w')}, { 'd.v' => 404, 'e.w' => 'view of d.t: a=a:int b=b:string no ttl' } ],
	# a type is that of the table
	[ q{alter_view('c', 'e', 'w', '[{"op": "retype_column", "column": "a", "type": "long"}]')},
		{ 'e.w' => 'view of d.t: a=a:long b=b:string no ttl', 'd.t' => 'table: a:long b:string no ttl' } ],
	# a column that the table has not: refused, or added to both
	[ q{alter_view('c', 'e', 'w', '[{"op": "add_column", "column": "day", "type": "date"}]')}, '22023' ],
	[ q{alter_view('c', 'e', 'w', '[{"op": "add_column", "column": "day", "type": "date"}]', cascade => true)},
		{ 'e.w' => 'view of d.t: a=a:long b=b:string day=day:date no ttl', 'd.t' => 'table: a:long b:string day:date no ttl' } ],
	# a name is the view's own
	[ q{alter_view('c', 'e', 'w', '[{"op": "rename_column", "column": "b", "new_name": "text"}]')},
		{ 'e.w' => 'view of d.t: a=a:long text=b:string day=day:date no ttl', 'd.t' => 'table: a:long b:string day:date no ttl' } ],
	# a time to live: the view's own, then of both
	[ q{alter_view('c', 'e', 'w', '[{"op": "set_ttl", "ttl": 1000}]')},
		{ 'e.w' => 'view of d.t: a=a:long text=b:string day=day:date 1000', 'd.t' => 'table: a:long b:string day:date no ttl' } ],
	[ q{alter_view('c', 'e', 'w', '[{"op": "set_ttl", "ttl": 2000}]', cascade => true)},
		{ 'e.w' => 'view of d.t: a=a:long text=b:string day=day:date 2000', 'd.t' => 'table: a:long b:string day:date 2000' } ],
	[ q{alter_view('c', 'e', 'w', '[{"op": "unset_ttl"}]', cascade => true)},
		{ 'e.w' => 'view of d.t: a=a:long text=b:string day=day:date no ttl', 'd.t' => 'table: a:long b:string day:date no ttl' } ],
	# a second view: what reaches it is refused, or it follows
	[ q{create_view('c', 'd', 'part', '{"base": {"table": "t"}, "columns": ["b", "day"]}')}, { 'd.part' => 'view of d.t: b=b:string day=day:date no ttl' } ],
	[ q{alter_view('c', 'e', 'w', '[{"op": "drop_column", "column": "day"}]', cascade => true)},
		{ 'e.w' => 'view of d.t: a=a:long text=b:string no ttl', 'd.t' => 'table: a:long b:string no ttl', 'd.part' => 'view of d.t: b=b:string no ttl' } ],
	[ q{alter_table('c', 'd', 't', '[{"op": "drop_column", "column": "b"}]')}, '2BP01' ],
	[ q{drop_table('c', 'd', 't')}, '2BP01' ],
	[ q{rename_table('c', 'd', 't', 'e', 't')},
		{ 'd.t' => 404, 'e.t' => 'table: a:long b:string no ttl', 'd.part' => 'view of e.t: b=b:string no ttl', 'e.w' => 'view of e.t: a=a:long text=b:string no ttl' } ],
	# times to live are inherited from where the table is
	[ q{set_ttl('c', 'e', '7 s')}, { 'e.t' => 'table: a:long b:string 7000', 'd.part' => 'view of e.t: b=b:string 7000' } ],
	[ q{set_ttl('c', 'e', '5 s', table_name => 't')}, { 'e.t' => 'table: a:long b:string 5000', 'd.part' => 'view of e.t: b=b:string 5000' } ],
	[ q{unset_ttl('c', 'e', table_name => 't')}, { 'e.t' => 'table: a:long b:string 7000', 'd.part' => 'view of e.t: b=b:string 7000' } ],
	[ q{unset_ttl('c', 'e')}, { 'e.t' => 'table: a:long b:string no ttl', 'e.w' => 'view of e.t: a=a:long text=b:string no ttl' } ],
	# a view of a part leaves the table, one of the whole takes it along
	[ q{drop_view('c', 'd', 'part', cascade => true)}, { 'd.part' => 404, 'e.t' => 'table: a:long b:string no ttl' } ],
	[ q{drop_view('c', 'e', 'w', cascade => true)}, { 'e.w' => 404, 'e.t' => 404 } ]);

for my $operation (@operations)
{
	my ($call, $expected) = @$operation;
	if (!ref $expected)
	{
		is(($server->outcome("SELECT $call"))[0], $expected, "refused: $call");
		next;
	}
	my $begin = time;
	run_through($call);
	cmp_ok(time - $begin, '<', 2 * lease_seconds() + slack_seconds(), '... and waits for the node that is away once, if at all');
	for my $node (@live)
	{
		my %said = map { ($_ => description($node, split /[.]/)) } keys %$expected;
		is_deeply(\%said, $expected, "... and is seen on $node->{name}");
	}
}

is(query(q{SELECT (wait_counts->>'lease')::integer, (wait_seconds->>'lease')::numeric > 0.1, (wait_seconds->>'lease')::numeric <= (state_seconds->>'pre_create')::numeric
	FROM amoro_stat_procedure WHERE kind = 'create_view'}), '1|t|t', 'the statistics say that one waited for the end of a lease');
is(query(q{SELECT wait_counts ? 'lease', (wait_counts->>'apply')::integer > 0 FROM amoro_stat_procedure WHERE kind = 'drop_view'}), 'f|t',
	'and that others did not');

# Devices: of their path, of the longest pattern, of their database.
for my $step (
	[ q{set_ttl('c', 'd', '9 s')}, '9000 9000 9000' ],
	[ q{set_ttl('c', 'd', '3 s', path_pattern => 'root.site1.**')}, '3000 3000 9000' ],
	[ q{set_ttl('c', 'd', '1 s', path_pattern => 'root.site1.t1')}, '1000 3000 9000' ],
	[ q{set_ttl('c', 'd', '4 s', path_pattern => 'root.**')}, '1000 3000 4000' ],
	[ q{unset_ttl('c', 'd', path_pattern => 'root.site1.**')}, '1000 4000 4000' ],
	[ q{unset_ttl('c', 'd', path_pattern => 'root.site1.t1')}, '4000 4000 4000' ])
{
	my ($call, $expected) = @$step;
	run_through($call);
	is(join(' ', map { ttl_of_device($node{n1}, $_) } 'root.site1.t1', 'root.site1.t2', 'root.site2.t1'), $expected, '... and is seen on n1');
	is(ttl_of_device($node{n2}, 'root.site1.t1'), (split / /, $expected)[0], '... and on n2');
}

# the one that was away: nothing of before, not for a moment
$away->signal('CONT');
my @old;
$away->wait_until('serves again', sub {
	my $said = description($away, 'd', 't');
	push @old, $said if $said =~ /table/;
	my $ttl = ttl_of_device($away, 'root.site1.t1');
	push @old, $ttl if $ttl eq 'none';
	return $away->get('/healthz')->{status} == 200;
});
is("@old", '', 'the node that was away serves nothing of before');
is(description($away, $_->[0], $_->[1]), 404, "nor afterwards: $_->[0].$_->[1]") for [ 'd', 't' ], [ 'e', 't' ], [ 'e', 'w' ];
is(ttl_of_device($away, 'root.site1.t1'), 4000, 'it says what the others say');

# A crash between the two broadcasts of a change that reaches a table and two views: one version for all of them.
run_through(q{create_table('c', 'd', 't', '{"format": "iceberg", "columns": [{"name": "a", "type": "int"}]}')},
	q{create_view('c', 'd', 'v', '{"base": {"table": "t"}}')}, q{create_view('c', 'e', 'w', '{"base": {"database": "d", "table": "t"}}')});
stand_still($server);
my $procedure = query(q{SELECT alter_view('c', 'd', 'v', '[{"op": "retype_column", "column": "a", "type": "long"}]', cascade => true)});
go_on($server, 'alter_view.pre_alter');
is(query(q{SELECT string_agg(object_kind || ' ' || database_name || '.' || object_name || ' ' || state, ', ' ORDER BY object_kind, object_name) FROM markers}),
	'table d.t pre_alter, view d.v pre_alter, view e.w pre_alter', 'all three carry the marker before the change');
is(description($live[0], 'd', 'v'), 'view of d.t: a=a:int 9000', 'and are read as they were, through the database');
$server->stop('immediate');
$server->start;
go_on($server, undef);
is(wait_for_end($server, $procedure), 'done', 'after the crash the change goes on to its end');
$_->wait_for_serving for values %node;
for my $node (values %node)
{
	is(join(', ', map { description($node, @$_) } [ 'd', 't' ], [ 'd', 'v' ], [ 'e', 'w' ]),
		'table: a:long 9000, view of d.t: a=a:long 9000, view of d.t: a=a:long 9000', "node $node->{name} serves all three as they are");
}
is(query("SELECT count(DISTINCT version) FROM amoro_meta.table_metadata"), '1', 'they have one version');

# A database of more than one step deletes: one marker for all that is in it, and a crash in the middle.
run_through(q{create_database('c', 'big')});
query(<<'SQL');
INSERT INTO amoro_meta.table_metadata (table_id, database_id, table_name, state, definition, version)
	SELECT amoro_meta.next_id(), database_id, 't' || n, 'normal',
		amoro_meta.table_definition('{"format": "iceberg", "columns": [{"name": "a", "type": "int"}]}'), 1
	FROM databases, generate_series(1, 2500) n WHERE database_name = 'big';
INSERT INTO amoro_meta.table_metadata (table_id, database_id, table_name, state, definition, version, relation_kind, base_id)
	SELECT amoro_meta.next_id(), database_id, 'v_' || table_name, 'normal',
		amoro_meta.view_definition(jsonb_build_object('base', jsonb_build_object('table', table_name)), definition), 1, 'view', table_id
	FROM amoro_meta.table_metadata WHERE table_name LIKE 't%00' AND relation_kind = 'table';
INSERT INTO amoro_meta.device (device_id, database_id, device_path, state, definition, version)
	SELECT amoro_meta.next_id(), database_id, 'root.d' || n, 'normal',
		amoro_meta.device_definition('{"measurements": [{"name": "speed", "type": "INT32"}]}'), 1
	FROM databases, generate_series(1, 1500) n WHERE database_name = 'big';
SQL
run_through(q{set_ttl('c', 'big', '1 day', path_pattern => 'root.**')});
my @all = ('/v1/tables/c/big/t1', '/v1/tables/c/big/t2500', '/v1/tables/c/big/v_t100', '/v1/devices/c/big/root.d1500');
my $served = sub { my ($node) = @_; return join ', ', grep { $node->get($_)->{status} == 200 } @all };
is($served->($_), join(', ', @all), "node $_->{name} has them in memory") for values %node;
stand_still($server);
$procedure = query(q{SELECT drop_database('c', 'big', cascade => true)});
go_on($server, 'drop_database.dropping.commit');
is($served->($_), '', "node $_->{name} serves nothing of a database that is half gone") for values %node;
is(query(q{SELECT string_agg(object_kind || ' ' || database_name || ' ' || m.state, ', ') FROM markers m}), 'database big pre_drop', 'it has one marker');
my $left = query(q{SELECT count(*) FROM amoro_meta.table_metadata t JOIN databases d USING (database_id) WHERE database_name = 'big'});
cmp_ok($left, '<', 2525, 'some of the tables and views are deleted');
cmp_ok($left, '>', 0, 'and some are not');
$server->stop('immediate');
$server->start;
go_on($server, undef);
is(wait_for_end($server, $procedure), 'done', 'after the crash the drop goes on to its end');
is(query(q{SELECT (SELECT count(*) FROM amoro_meta.table_metadata), (SELECT count(*) FROM devices WHERE database_name = 'big'), (SELECT count(*) FROM amoro_meta.device_ttl)}),
	'3|0|1', 'nothing of it is left');
is(query("SELECT count(*), count(DISTINCT table_name) FROM amoro_meta.change WHERE procedure_id = $procedure AND table_name IS NOT NULL"), '2525|2525',
	'each table and view is in the log once');
$_->wait_for_serving for values %node;
is(join(' ', map { $live[0]->get($_)->{status} } @all), '404 404 404 404', 'and nodes say so');
nothing_left($server, 'after all of them');
$_->stop for values %node;
done_testing();
