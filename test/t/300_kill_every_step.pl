# P01: the server is killed at every step of every kind of procedure, on the way forward and on the way back. Every
# procedure ends, as it would have without the kill, and has left the same changes: no step's effect is there twice or half.
#
# The steps are the rows of procedure_machine, so a new kind joins by itself; it needs a scenario here.
use strict;
use warnings;
use AmoroCluster qw(poll);
use AmoroProcedure qw(stand_still go_on wait_for_end nothing_left changes_of activate_node definition);
use Test::More;

# A lease that no test waits for: the lease clock is shifted instead.
my $server = AmoroCluster->create('main', conf => "amoro_meta.metadata_lease_fence_ms = 60s\namoro_meta.assignment_interval = 1h\n");
my $definition = definition();
my $offset = 0;
my $round = 0;

my $two_devices = q{create_devices('lake', 'd', '[{"path": "root.NAME.a", "measurements": [{"name": "m", "type": "INT32"}]},
	{"path": "root.NAME.b", "measurements": [{"name": "m", "type": "INT32"}]}]')};
my $template = q{create_template('lake', 'd', 'NAME', '{"measurements": [{"name": "m", "type": "INT32"}]}')};
my @active_template = (q{set_template('lake', 'd', 'NAME', 'root.NAME')},
	q{activate_template('lake', 'd', 'NAME', '{root.NAME.a,root.NAME.b}')});

sub query { return $server->safe_psql('postgres', $_[0]) }

# Makes calls one after the other, in one session: that is most of the time that this file takes.
sub run_through
{
	my (@calls) = @_;
	return if !@calls;
	my @outcomes = split /\n/, query(join '', map { "SELECT $_ AS id \\gset\nSELECT wait_for_procedure(:id, '30 s');\n" } @calls);
	for my $i (0 .. $#calls) { die "$calls[$i]: $outcomes[$i]" if $outcomes[$i] ne 'done' }
	return;
}

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

sub named { return $_[0] =~ s/NAME/round_$round/gr }

# Ends every lease there is.
sub end_leases
{
	$offset += 100_000;
	$server->configure('amoro_meta.debug_clock_offset_ms' => $offset);
	return;
}

sub prepare
{
	my ($scenario) = @_;
	$round++;
	run_through(map { named($_) } @{ $scenario->{before} // [] });
	query("SELECT " . named($scenario->{sql})) if $scenario->{sql};
	activate_node($server, named($_)) for @{ $scenario->{nodes} // [] };
	return;
}

sub submit { return query("SELECT " . named($_[0]->{submit})) }

# Kills the server and starts it again, to stand still nowhere; nodes that were there are owed nothing any more.
sub restart
{
	$server->stop('immediate');
	$server->append_conf('postgresql.auto.conf', "amoro_meta.debug_stop_at = ''\n");
	$server->start;
	end_leases() if query('SELECT count(*) FROM nodes') > 0;
	return;
}

sub check_end
{
	my ($name, $scenario, $procedure, $outcome, $changes) = @_;
	is(wait_for_end($server, $procedure), $outcome, "$name: $outcome");
	is(changes_of($server, $procedure), $changes, "$name: every change is logged once");
	poll("$name: a sweep does it again", sub { query("SELECT " . named($scenario->{done})) eq 't' && query(
		'SELECT NOT EXISTS (SELECT FROM procedures WHERE outcome IS NULL)') eq 't' }) if $scenario->{again};
	is(query("SELECT " . named($scenario->{done})), $outcome eq 'done' || $scenario->{again} ? 't' : 'f', "$name: the object is as it should be");
	nothing_left($server, $name);
	return;
}

query("SELECT create_catalog('lake')");
run_through(map { "create_database('lake', '$_')" } 'd', 'e');

my @steps = map { [ split /\|/ ] } split /\n/,
  query("SELECT kind, state, undo IS NOT NULL FROM procedure_machine ORDER BY kind, state");
my %changes;

for my $step (@steps)
{
	my ($kind, $state, $undoable) = @$step;
	my $scenario = $scenario{$kind};
	ok(defined $scenario, "$kind has a scenario") or next;

	# what it logs when nothing happens
	if (!defined $changes{$kind})
	{
		prepare($scenario);
		my $procedure = submit($scenario);
		end_leases() if $scenario->{nodes};
		is(wait_for_end($server, $procedure), 'done', "$kind without a kill");
		$changes{$kind} = changes_of($server, $procedure);
	}

	for my $point ("$kind.$state", "$kind.$state.commit")
	{
		prepare($scenario);
		stand_still($server);
		my $procedure = submit($scenario);
		end_leases() if $scenario->{nodes};
		go_on($server, $point);
		restart();
		check_end("killed at $point", $scenario, $procedure, 'done', $changes{$kind});
	}
}

# On the way back: a node that holds a lease and says nothing makes a procedure wait, and it is cancelled meanwhile.
for my $step (@steps)
{
	my ($kind, $state, $undoable) = @$step;
	my $scenario = $scenario{$kind};
	next if $undoable ne 't';

	for my $point ("$kind.$state.undo", "$kind.$state.undo.commit")
	{
		prepare($scenario);
		activate_node($server, named('silent NAME'));
		stand_still($server);
		my $procedure = submit($scenario);
		if ($state ne 'submitted')
		{
			go_on($server, undef);
			poll("$kind is in state $state",
				sub { query("SELECT state FROM procedure_status($procedure)") eq $state });
			stand_still($server);
		}
		is(query("SELECT cancel_procedure($procedure)"), 't', "$kind can be cancelled in state $state");
		go_on($server, $point);
		my $logged = changes_of($server, $procedure);
		restart();
		my $rollback = $state eq 'submitted' || $kind eq 'remove_node' ? '' :
		  ', ' . ($scenario->{rollback} // ($kind =~ /(database|bucket|partition)/ ? "$1 rollback" : 'table rollback'));
		check_end("killed at $point", $scenario, $procedure, 'rolled_back', "$logged$rollback");
		like(query("SELECT error_code, error_message FROM procedure_status($procedure)"), qr/^57014\|procedure was cancelled/,
			"killed at $point: the procedure says why it was rolled back");
		run_through(named("remove_node('silent NAME')"));
	}
}

done_testing();
