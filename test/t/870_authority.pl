# Users, roles and privileges with real nodes: what nodes answer is what the database says, one of three nodes being stopped
# (published test 61); and nobody says yes to what was revoked once its procedure is done, least of all a node that is cut
# off (68). A fenced node says neither yes nor no (48), one that hears from the server goes on from memory (49).
use strict;
use warnings;
use AmoroCluster qw(poll);
use AmoroLake;
use AmoroNode;
use AmoroProcedure qw(stand_still go_on wait_for_end nothing_left);
use AmoroProxy;
use Test::More;
use Time::HiRes qw(time);

my $server = AmoroCluster->create('main');
my $proxy = AmoroProxy->start(socket_path($server));
my ($n1, $n2) = map { AmoroNode->start(name => $_, conninfo => conninfo($server)) } 'n1', 'n2';
my $away = AmoroNode->start(name => 'away', conninfo => conninfo($server, proxy => $proxy));
$_->wait_for_serving for $n1, $n2, $away;

sub query { return $server->safe_psql('postgres', $_[0]) }
sub done { my ($call, $name) = @_; return is(run_procedure($server, $call), 'done', $name // $call) }

# What a node says: yes, no, or the status of an answer that is neither.
sub says
{
	my ($node, $user, $privilege, %scope) = @_;
	my $names = join '', map { "&$_=" . $scope{$_} =~ s/([^A-Za-z0-9_.*])/sprintf '%%%02X', ord $1/ger } sort keys %scope;
	my $answer = $node->get("/v1/privileges/$user?privilege=$privilege$names");
	return $answer->{status} if $answer->{status} != 200;
	return $answer->{body} eq '{"allowed":true}' ? 'yes' : $answer->{body} eq '{"allowed":false}' ? 'no' : $answer->{body};
}

my %catalog = (catalog => 'lake');
my %orders = (catalog => 'lake', database => 'sales', table => 'orders');
my %turbine = (catalog => 'lake', database => 'plant', path => 'root.site1.turbine7');

# --- 61: with one node stopped, each of these is done, and a live node that had the answer of before in memory says what is right now.
# Submission, then what is seen of it: a user, a privilege, a scope, the answer; or SQL that is true.
my @operations = (
	[ q{create_user('ann', 'first')}, 'ann', 'SELECT', \%orders, 'no' ],
	[ q{alter_user('ann', 'second')}, q{NOT verify_user('ann', 'first') AND verify_user('ann', 'second')} ],
	[ q{rename_user('ann', 'anna')}, q{NOT verify_user('ann', 'second') AND verify_user('anna', 'second')} ],
	[ q{create_role('staff')}, q{EXISTS (SELECT FROM roles WHERE role_name = 'staff')} ],
	[ q{grant_privilege('{SELECT,INSERT}', 'anna', 'lake', 'sales', 'orders')}, 'anna', 'SELECT', \%orders, 'yes' ],
	[ q{revoke_privilege('{SELECT}', 'anna', 'lake', 'sales', 'orders')}, 'anna', 'SELECT', \%orders, 'no' ],
	[ q{revoke_privilege('{INSERT}', 'anna', 'lake', 'sales', 'orders')}, 'anna', 'INSERT', \%orders, 'no' ],
	[ q{grant_privilege('{MAINTAIN}', 'anna')}, 'anna', 'MAINTAIN', {}, 'yes' ],
	[ q{revoke_privilege('{MAINTAIN}', 'anna')}, 'anna', 'MAINTAIN', {}, 'no' ],
	[ q{grant_privilege('{DROP}', 'staff', 'lake')}, 'anna', 'DROP', \%orders, 'no' ],
	[ q{grant_role('staff', 'anna')}, 'anna', 'DROP', \%orders, 'yes' ],
	[ q{revoke_privilege('{DROP}', 'staff', 'lake')}, 'anna', 'DROP', \%orders, 'no' ],
	[ q{grant_privilege('{ALTER}', 'staff', 'lake', 'sales')}, 'anna', 'ALTER', \%orders, 'yes' ],
	[ q{revoke_role('staff', 'anna')}, 'anna', 'ALTER', \%orders, 'no' ],
	[ q{grant_privilege('{READ}', 'anna', 'lake', 'plant', path => 'root.site1.**')}, 'anna', 'READ_DATA', \%turbine, 'yes' ],
	[ q{grant_privilege('{WRITE}', 'anna', 'lake', 'plant', path => 'root.site1.turbine7')}, 'anna', 'WRITE_SCHEMA', \%turbine, 'yes' ],
	[ q{revoke_privilege('{READ}', 'anna', 'lake', 'plant', path => 'root.site1.**')}, 'anna', 'READ_SCHEMA', \%turbine, 'no' ],
	[ q{grant_role('staff', 'anna')}, 'anna', 'ALTER', \%orders, 'yes' ],
	[ q{alter_user('anna', disabled => true)}, 'anna', 'WRITE_DATA', \%turbine, 'no' ],
	[ q{alter_user('anna', disabled => false)}, 'anna', 'WRITE_DATA', \%turbine, 'yes' ],
	[ q{drop_role('staff')}, 'anna', 'ALTER', \%orders, 'no' ],
	[ q{drop_user('anna')}, 'anna', 'WRITE_DATA', \%turbine, 'no' ]);

$away->signal('STOP');
for my $operation (@operations)
{
	my ($call, $seen, $privilege, $scope, $expected) = @$operation;
	# so that the answer of before is in memory
	says($_, $seen, $privilege, %$scope) for defined $privilege ? ($n1, $n2) : ();
	my $begin = time;
	done($call);
	cmp_ok(time - $begin, '<', lease_seconds() + slack_seconds(), "$call: within the bound");
	is(defined $privilege ? says($_, $seen, $privilege, %$scope) : query("SELECT $seen"), $expected // 't', "$call: seen by " . $_->name)
	  for $n1, $n2;
}
$away->signal('CONT');
$away->wait_for_serving;

# --- nodes and the database agree, on every privilege and on scopes of every kind; 49: without a question to the database
done(q{create_user('bob')});
done(q{create_role('r1')});
done(q{create_role('r2')});
done(q{grant_role('r1', 'r2')});
done(q{grant_role('r2', 'bob')});
done(q{grant_privilege('{MANAGE_DATABASE,CREATE}', 'r1', 'lake')});
done(q{grant_privilege('{INSERT}', 'r2', 'lake', 'sales')});
done(q{grant_privilege('{SELECT,READ_DATA}', 'bob', 'other')});
done(q{grant_privilege('{DELETE}', 'bob', 'lake', 'sales', E'a\\\\b "c"')});
done(q{grant_privilege('{WRITE_DATA}', 'bob', 'lake', 'plant', path => 'root.`x.y`.**')});
done(q{grant_privilege('{USE_UDF}', 'bob')});
my @privileges = split /\n/, query('SELECT privilege FROM amoro_meta.privilege_kinds()');
my @scopes = ({}, \%catalog, { catalog => 'other' }, { catalog => 'lake', database => 'sales' }, \%orders,
	{ catalog => 'lake', database => 'sales', table => 'a\\b "c"' }, { catalog => 'other', database => 'x', path => 'root.a' },
	{ catalog => 'lake', database => 'plant', path => 'root.`x.y`.z' }, { catalog => 'lake', database => 'plant', path => 'root.`x.y`' },
	{ catalog => 'lake', database => 'plant', path => 'root.`x.y`.**' });
my $loads = sub { return $n1->status->{caches}{authority}{loads} };
says($n1, 'bob', 'SELECT');
my $loads_before = $loads->();
my @expected = split /\n/, query(
	join "\n", map {
		my $privilege = $_;
		map {
			my $scope = $_;
			my @names = map { defined $scope->{$_} ? "'" . $scope->{$_} . "'" : 'NULL' } qw(catalog database table path);
			my $kind = exists $scope->{path} ? 'path' : exists $scope->{table} ? 'table' : exists $scope->{database} ? 'database'
			  : exists $scope->{catalog} ? 'catalog' : 'system';
			"SELECT CASE WHEN '$kind' = ANY (scope_kinds) THEN user_has_privilege('bob', privilege, "
			  . join(', ', @names) . ")::text ELSE 'not granted there' END FROM amoro_meta.privilege_kinds() WHERE privilege = '$privilege';"
		} @scopes
	} @privileges);
my @wrong;
my %count;
for my $privilege (@privileges)
{
	for my $scope (@scopes)
	{
		my $expected = shift @expected;
		my $answer = says($n1, 'bob', $privilege, %$scope);
		$count{$answer}++;
		push @wrong, "$privilege " . join(' ', %$scope) . ": $answer"
		  if $answer ne ($expected eq 'not granted there' ? 400 : $expected eq 'true' ? 'yes' : 'no');
	}
}
is(join("\n", @wrong), '', 'a node says what the database says, also of what cannot be had on such a scope');
cmp_ok($count{yes}, '>', 10, 'yes, many times');
cmp_ok($count{no}, '>', 50, 'and no');
is($loads->(), $loads_before, 'all of it from memory');

# --- what is no question
is(says($n1, 'nobody', 'SELECT'), 'no', 'a user who does not exist may do nothing');
is($n1->get("/v1/privileges/bob$_")->{status}, 400, "a bad question: $_")
  for '', '?', '?privilege=', '?privilege=KING', '?privilege=SELECT&privilege=SELECT', '?privilege=SELECT&planet=mars', '?privilege=SELECT&catalog=',
  '?privilege=SELECT&database=d', '?privilege=SELECT&catalog=c&table=t', '?privilege=SELECT&catalog=c&database=d&table=t&path=root.a',
  '?privilege=READ_DATA&catalog=c&database=d&path=site1', '?privilege=SELECT&catalog=%', '?privilege=SELECT&catalog=%00', '?privilege=SELECT&&catalog=c';
is($n1->get('/v1/privileges/bob/x?privilege=SELECT')->{status}, 404, 'one name too many');
my $shown = $n1->get('/v1/users/bob');
is($shown->{json}{user}, 'bob', 'what a user has is shown');
unlike($shown->{body}, qr/\n./, 'and only that');
is($n1->get('/v1/users/nobody')->{status}, 404, 'a user who does not exist');

# --- 68 and 48: a node that is cut off never says yes after the revocation is done, and says nothing once it is fenced
is(says($away, 'bob', 'SELECT', catalog => 'other'), 'yes', 'the node has the right in memory');
is(says($away, 'bob', 'SELECT', catalog => 'elsewhere'), 'no', 'and what is none');
$proxy->set(up => 'drop', down => 'drop');
my $revoke = query(q{SELECT revoke_privilege('{SELECT}', 'bob', 'other')});
my %before = (yes => 0);
while (query("SELECT outcome IS NULL FROM procedure_status($revoke)") eq 't') { $before{ says($away, 'bob', 'SELECT', catalog => 'other') }++ }
is(says($away, 'bob', 'SELECT', catalog => 'other'), 503, 'done: the node that is cut off does not say yes');
is(says($away, 'bob', 'SELECT', catalog => 'elsewhere'), 503, 'nor no');
is($away->get('/v1/users/bob')->{status}, 503, 'nor anything of the user');
is(says($n1, 'bob', 'SELECT', catalog => 'other'), 'no', 'the others say no');
is(join(' ', grep { !/^(yes|503)$/ } keys %before), '', 'until then it said yes or nothing');
done(q{grant_privilege('{DELETE}', 'bob', 'other')}, 'what is granted meanwhile');
$proxy->cut;
$proxy->heal;
$away->wait_for_serving;
is(says($away, 'bob', 'SELECT', catalog => 'other'), 'no', 'it is back, and says no');
is(says($away, 'bob', 'DELETE', catalog => 'other'), 'yes', 'and knows what is new: a denial is not kept');

# --- a role with more members than a change names one by one: everybody loses the right
query(q{SELECT create_user('m' || i) FROM generate_series(1, 120) i});
poll('users are there', sub { query(q{SELECT count(*) FROM users WHERE user_name LIKE 'm%'}) == 120 });
done(q{grant_privilege('{SELECT}', 'r1', 'lake')});
query(q{SELECT grant_role('r1', 'm' || i) FROM generate_series(1, 120) i});
poll('they are members', sub { query(q{SELECT cardinality(members) FROM roles WHERE role_name = 'r1'}) >= 120
	&& query('SELECT count(*) FROM procedures WHERE outcome IS NULL') == 0 });
is(join(' ', grep { says($n2, "m$_", 'SELECT', %catalog) ne 'yes' } 1 .. 120), '', 'every member has the right');
done(q{revoke_privilege('{SELECT}', 'r1', 'lake')});
is(join(' ', grep { says($n2, "m$_", 'SELECT', %catalog) ne 'no' } 1 .. 120), '', 'none has it any more');

# --- what was right at the submission and is not any more when its turn comes: rolled back, and it says why
done(q{create_user('giver')});
done(q{create_role('a')});
done(q{create_role('b')});
done(q{grant_privilege('{ALTER}', 'giver', 'lake', grant_option => true)});
stand_still($server);
my @late = (
	[ q{revoke_privilege('{ALTER}', 'giver', 'lake')}, 'done', '' ],
	[ q{grant_privilege('{ALTER}', 'bob', 'lake', granted_by => 'giver')}, 'rolled_back', '42501 "giver" has no grant option for ALTER' ],
	[ q{grant_role('a', 'b')}, 'done', '' ],
	[ q{grant_role('b', 'a')}, 'rolled_back', '0LP01 role "b" would be in itself' ],
	[ q{create_user('cancelled', 'a password that nobody keeps')}, 'rolled_back', '57014 procedure was cancelled' ]);
push @$_, query("SELECT $_->[0]") for @late;
is(query("SELECT cancel_procedure($late[4][3])"), 't', 'a procedure is cancelled before its step');
go_on($server, undef);
for my $late (@late)
{
	my ($call, $outcome, $error, $procedure) = @$late;
	is(wait_for_end($server, $procedure), $outcome, "$call: $outcome");
	is(query("SELECT concat_ws(' ', error_code, error_message) FROM procedure_status($procedure)"), $error, "$call: why");
}
is(says($n1, 'bob', 'ALTER', %catalog), 'no', 'what was rolled back gives nothing');
is(says($n1, 'giver', 'ALTER', %catalog), 'no', 'what was revoked is gone');

nothing_left($server, 'after all of it');
done_testing();
