# One bad row, role or catalog stops nothing else; work is taken up at once.
use strict;
use warnings;
use AmoroCluster qw(poll);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $server = AmoroCluster->create('main');
my $row = $server->wait_for_state('running');
my $sql = sub { return $server->safe_psql('postgres', @_) };

sub done
{
	my ($procedure) = @_;
	return $sql->("SELECT wait_for_procedure($procedure, '20s')");
}

# W15: a submission wakes the coordinator: two steps take far less than one tick of a second
$sql->("SELECT create_catalog('c')");
my @ms;
for my $i (1 .. 9)
{
	my ($id, $result);
	push @ms, $server->elapsed(sub {
		$id = $sql->("SELECT create_database('c', 'd$i')");
		$result = done($id);
	});
	is($result, 'done', "database d$i is created");
}
@ms = sort { $a <=> $b } @ms;
cmp_ok($ms[4], '<', 500, "at once, not at the next tick (median $ms[4] ms)");

# … and what nobody woke it for is found at the next tick
my $insert = <<'SQL';
INSERT INTO amoro_meta.procedure (procedure_id, kind, state, catalog_name, database_name, object_name, object_id,
		request_digest, arguments, submitted_by, submitted_at)
	VALUES (%d, '%s', '%s', 'c', 'nowhere', null, %s, '', '%s', 'postgres', now())
SQL
my $start = time;
$sql->(sprintf $insert, 900_001, 'no_such_kind', 'submitted', 1, '{}');
is(done(900_001), 'quarantined', 'a row of an unknown kind is set aside');
cmp_ok(time - $start, '<', 3, 'by the tick, without a wake-up');

# W11: rows that make no sense, one of each sort, while others are in flight
my @bad = (
	[ 900_002, 'create_database', 'no_such_state', 1, '{"format": 1}' ],
	[ 900_003, 'drop_table', 'submitted', 1, '[]' ],
	[ 900_004, 'create_table', 'submitted', 1, '{"format": 1, "definition": 7}' ],
	[ 900_005, 'alter_table', 'pre_alter', 'null', '{}' ],
	[ 900_006, 'rename_table', 'submitted', 999999, '{"format": 1}' ],
	[ 900_007, 'remove_node', 'submitted', -1, '{"format": "x"}' ]);
$sql->(join ';', map { sprintf $insert, @$_ } @bad);
my $good = $sql->("SELECT create_database('c', 'good')");
is(done($good), 'done', 'a good one gets done beside bad ones');
like(done($_->[0]), qr/^(quarantined|rolled_back)$/, "row $_->[0] ($_->[1] in $_->[2]) is set aside") for @bad;
is($sql->('SELECT count(*) FROM amoro_meta.procedure WHERE outcome IS NULL'), 0, 'none is left over');
is($sql->("SELECT count(*) FROM procedures WHERE outcome = 'quarantined' AND error_message IS NULL"), 0, 'each says why');

# the role that submitted it has a strange name, is renamed, and is dropped
$sql->(q{CREATE ROLE "o""brien; --"; SELECT grant_access('o"brien; --', 'operator')});
$server->configure('amoro_meta.debug_stop_at' => 'cycle');
poll('it stands still', sub { ($server->coordinator->{stopped_at} // '') eq 'cycle' });
my $renamed = $sql->(qq{SET ROLE "o""brien; --"; SELECT create_database('c', 'of_renamed')});
$sql->(q{ALTER ROLE "o""brien; --" RENAME TO "o'reilly"});
my $dropped = $sql->(qq{SET ROLE "o'reilly"; SELECT create_database('c', 'of_dropped')});
$sql->(q{DROP OWNED BY "o'reilly"; DROP ROLE "o'reilly"});
$server->configure('amoro_meta.debug_stop_at' => undef);
is(done($renamed), 'done', 'the procedure of a renamed role is done');
is(done($dropped), 'done', 'and that of a dropped role');
is($sql->("SELECT count(*) FROM procedures WHERE database_name LIKE 'of\\_%'"), 2, 'the views show them');

# a table that raises for some rows: only those are held up
$sql->(<<'SQL');
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.database_name = 'poisoned' THEN RAISE division_by_zero; END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON amoro_meta.database FOR EACH ROW EXECUTE FUNCTION public.refuse();
SQL
my $poisoned = $sql->("SELECT create_database('c', 'poisoned')");
$good = $sql->("SELECT create_database('c', 'beside')");
is(done($good), 'done', 'a procedure beside a failing one is done');
poll('the failing one records its error', sub {
	$sql->("SELECT coalesce(error_code, '') FROM procedure_status($poisoned)") eq '22012' });
$sql->('DROP TRIGGER refuse ON amoro_meta.database');
like(done($poisoned), qr/^(done|rolled_back)$/, 'and comes to an end');

is($server->coordinator->{errors}, 0, 'no cycle failed');

# W17: a step of a coordinator whose term is over cannot commit, even before it has noticed
for my $round (1 .. 3)
{
	my $old = $server->coordinator->{term};
	$sql->('UPDATE amoro_meta.coordinator SET term = term + 5, boot_counter = boot_counter + 5');
	my $id = $sql->("SELECT create_database('c', 'term_$round')");
	is(done($id), 'done', "a procedure is done after the end of a term, round $round");
	cmp_ok($sql->("SELECT min(last_step_term) FROM amoro_meta.procedure WHERE procedure_id = $id"), '>', $old + 5,
		'under the term that began then');
}
# … and while a step is under way, nobody begins another
$server->configure('amoro_meta.debug_stop_at' => 'create_database.submitted');
my $held = $sql->("SELECT create_database('c', 'in_step')");
poll('it stands within a step', sub { ($server->coordinator->{stopped_at} // '') eq 'create_database.submitted' });
is(($server->outcome("SET lock_timeout = '300ms'; INSERT INTO amoro_meta.coordinator SELECT * FROM amoro_meta.coordinator"))[0],
	'55P03', 'a dump that is restored waits for the end of the step');
$server->configure('amoro_meta.debug_stop_at' => undef);
is(done($held), 'done', 'and the step is made');

# none of this has touched the process
is($server->coordinator->{pid}, $row->{pid}, 'the coordinator is the same process');
$server->stop;
done_testing();
