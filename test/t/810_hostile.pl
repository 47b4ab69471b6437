# Catalogs that answer what no server should: each costs itself one round, nobody else anything, and nothing is lost.
use strict;
use warnings;
use AmoroCatalog;
use AmoroCluster qw(poll);
use IO::Socket::INET;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

# what the environment says of proxies is not heard (D11)
local %ENV = (%ENV, http_proxy => 'http://127.0.0.1:1', https_proxy => 'http://127.0.0.1:1', all_proxy => 'http://127.0.0.1:1');
my $server = AmoroCluster->create('main', conf => <<'CONF');
amoro_meta.http_allowed_hosts = '127.0.0.1'
amoro_meta.explore_interval = 1h
amoro_meta.http_timeout = 6s
amoro_meta.http_max_body = 4MB
log_statement = none
CONF
my $catalog = AmoroCatalog->start;

sub memory
{
	my ($pid) = @_;
	slurp_file("/proc/$pid/status") =~ /^RssAnon:\s+(\d+) kB/m or die;
	return $1 / 1024;
}
sub descriptors { return scalar(my @all = glob "/proc/$_[0]/fd/*") }

# name, error, tables that are there afterwards, whether the round has failed
my @cases = (
	# D05
	[ 'silent', qr/^configuration: the server was silent/, 0, 1 ],
	[ 'drip', qr/^configuration: the answer took longer/, 0, 1 ],
	# D07
	[ 'cut', qr/^tables of "n": (transfer closed|end of response)/, 0, 0 ],
	[ 'longer', qr/^tables of "n": (transfer closed|end of response)/, 0, 0 ],
	[ 'shorter', qr/^tables of "n": invalid input syntax/, 0, 0 ],
	[ 'garbage', qr/^configuration: /, 0, 1 ],
	[ 'chunks', qr/^tables of "n": the answer is larger than/, 0, 0 ],
	[ 'bomb', qr/^tables of "n": the answer is larger than/, 0, 0 ],
	[ 'gzip', qr/^table "t"/, 1, 0 ],
	[ 'header', qr/^configuration: the header of the answer is too large/, 0, 1 ],
	[ 'deep', qr/^tables of "n": the answer is nested too deeply/, 0, 0 ],
	[ 'wide', qr/^tables of "n": (the answer has too many values|the answer is larger than)/, 0, 0 ],
	[ 'notjson', qr/^tables of "n": invalid input syntax/, 0, 0 ],
	[ 'other', qr/^tables of "n": the answer has no list/, 0, 0 ],
	# D03
	[ 'sametoken', qr/^tables of "n": the token of the next page is that of this page/, 1, 0 ],
	[ 'newtoken', qr/^tables of "n": the pages bring nothing new/, 100, 0 ],
	[ 'emptypages', qr/^tables of "n": the pages bring nothing new/, 0, 0 ],
	[ 'hugetoken', qr/^tables of "n": (the token of the next page is too long|the answer is larger than)/, undef, 0 ],
	[ 'child', qr/^$/, 0, 0 ],
	[ 'deeper', qr/^namespaces are nested more than 16 levels deep/, 0, 1 ],
	[ 'manyspaces', qr/^namespaces: the catalog has more than 100000 namespaces/, 0, 1 ],
	[ 'status-500', qr/^configuration: the server answers 500/, 0, 1 ],
	# D11
	[ 'redirect-file', qr/^configuration: the URL is not one of http or https/, 0, 1 ],
	[ 'redirect-inward', qr/^configuration: its address is not a public one/, 0, 1 ],
	[ 'redirect-loop', qr/^configuration: the answer is one redirect too many/, 0, 1 ],
	[ 'redirect-nowhere', qr/^configuration: the answer is a redirect to nowhere/, 0, 1 ],
	[ 'redirect-same', qr/^table "t"/, 1, 0 ],
	[ 'redirect-other', qr/^table "t"/, 1, 0 ],
);
# one that takes no connection: its queue is full
my $hole = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1') or die $!;
my @queue = map { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $hole->sockport, Blocking => 0) } 1 .. 5;
my %elsewhere = (
	'black hole' => [ 'http://127.0.0.1:' . $hole->sockport, qr/the server was silent/ ],
	'a file' => [ 'file:///etc/passwd', qr/not one of http or https/ ],
	'dict' => [ 'dict://127.0.0.1/d:x', qr/not one of http or https/ ],
	'a socket' => [ 'unix:///tmp/.s.PGSQL.5432', qr/not one of http or https/ ],
	'gopher' => [ 'gopher://127.0.0.1/', qr/not one of http or https/ ],
	'a password' => [ 'http://user:pw@127.0.0.1/', qr/has a user name in it/ ],
	'the cloud' => [ 'http://169.254.169.254/latest', qr/not a public one/ ],
	'loopback' => [ 'http://[::1]/', qr/not a public one/ ],
	'mapped' => [ 'http://[::ffff:10.0.0.1]/', qr/not a public one/ ],
	'nat64' => [ 'http://[64:ff9b::7f00:2]/', qr/not a public one/ ],
	'nat64 of our own' => [ 'http://[64:ff9b:1::7f00:1]/', qr/not a public one/ ],
	'translated' => [ 'http://[::ffff:0:127.0.0.1]/', qr/not a public one/ ],
	'documentation' => [ 'http://203.0.113.1/', qr/not a public one/ ],
	'another' => [ 'http://127.0.0.2/', qr/not a public one/ ],
	'decimal' => [ 'http://2130706434/', qr/not a public one/ ],
	'hex' => [ 'http://0x7f000002/', qr/not a public one/ ],
	'nothing' => [ 'nonsense', qr/not one of http or https|has no host|Could not resolve/ ],
	'refused' => [ 'http://127.0.0.1:1', qr/connect/i ]);

# one that behaves is explored again and again beside them
$catalog->write_lake('good', '{"namespaces": {"a": ["t1", "t2"]}}');
AmoroCatalog::create($server, 'good', $catalog->uri('lake/good'));
AmoroCatalog::wait_for_round($server, 'good', 1);
my $pid = AmoroCatalog::status($server, 'good')->{pid};
my ($memory, $descriptors) = (memory($pid), descriptors($pid));

$server->safe_psql('postgres', join ' ', map { "SELECT create_catalog('$_->[0]', 'iceberg_rest', jsonb_build_object('uri', '" . $catalog->uri($_->[0])
	. "'), auth_config => '{\"token\": \"t0psecret\"}');" } @cases);
$server->safe_psql('postgres', join ' ', map { "SELECT create_catalog('$_', 'iceberg_rest', jsonb_build_object('uri', '$elsewhere{$_}[0]'));" } sort keys %elsewhere);
is(AmoroCatalog::explore($server, 'good', 30)->{last_error}, '', 'one that behaves is explored meanwhile');
for my $case (@cases)
{
	my ($name, $error, $tables, $failed) = @$case;
	my $row = AmoroCatalog::wait_for_round($server, $name, 1);
	like($row->{last_error}, $error, "$name: the error");
	is($row->{failures}, $failed, "$name: the round");
	is($server->safe_psql('postgres', "SELECT count(*) FROM external_tables WHERE catalog_name = '$name'"), $tables, "$name: tables")
		if defined $tables;
}
like(AmoroCatalog::wait_for_round($server, $_, 1)->{last_error}, $elsewhere{$_}[1], "$_: $elsewhere{$_}[0]") for sort keys %elsewhere;

# D11: what is secret stays with the origin
my @requests = $catalog->requests;
ok((grep { m{/gzip/.* Bearer t0psecret$} } @requests), 'a redirect within the origin takes the token along');
is(scalar(grep { m{/redirect-other/v1/config Bearer} } @requests), 1, 'the origin has it');
my @strange = grep { m{^GET /gzip/v1/config} } @requests;
is(scalar(grep { m{ -$} } @strange), 1, 'another host does not');

# D09
AmoroCatalog::create($server, 'bytes', $catalog->uri('bytes'), '{}', '{"read-tables": "false"}');
my $row = AmoroCatalog::wait_for_round($server, 'bytes', 1);
is($row->{last_error}, '', 'names that cannot be kept are no error');
is($server->safe_psql('postgres', "SELECT string_agg(quote_literal(table_name), ' ' ORDER BY table_name COLLATE \"C\") FROM external_tables WHERE catalog_name = 'bytes'"),
	"E'a\"b\\\\c' 'good' 'last' 'twice' '\xc3\xa9' '\xf0\x9f\x98\x80'", 'all others are kept');
is($row->{skipped}, 8, 'and these are counted');

AmoroCatalog::create($server, 'properties', $catalog->uri('properties'));
$row = AmoroCatalog::wait_for_round($server, 'properties', 1);
is($row->{last_error}, '', 'properties that cannot be kept are no error');
is($server->safe_psql('postgres', "SELECT properties->>'self-optimizing.c' FROM external_tables WHERE catalog_name = 'properties'"), 'good', 'others of the table are kept');

# in a database that knows fewer characters
$server->safe_psql('postgres', q(CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0));
$server->safe_psql('latin', "CREATE EXTENSION amoro_meta; SELECT create_catalog('bytes', 'iceberg_rest', jsonb_build_object('uri', '" . $catalog->uri('bytes') . "', 'read-tables', 'false'))");
poll('it is explored there', sub { $server->safe_psql('latin', 'SELECT rounds FROM amoro_stat_explorer') eq '1' });
is($server->safe_psql('latin', "SELECT string_agg(encode(convert_to(table_name, 'UTF8'), 'escape'), ' ' ORDER BY table_name) FROM external_tables"),
	'a"b\\\\c good last twice \\303\\251', 'what it does not know is skipped');
is($server->safe_psql('latin', 'SELECT skipped, last_error IS NULL FROM amoro_stat_explorer'), '9|t', 'and counted');
$catalog->write_lake('latin', "{\"namespaces\": {\"caf\x{e9}\": [\"th\x{e9}\"]}, \"properties\": {\"th\x{e9}\": {\"self-optimizing.a\": \"x\"}}}");
$server->safe_psql('latin', "SELECT create_catalog('latin', 'iceberg_rest', jsonb_build_object('uri', '" . $catalog->uri('lake/latin') . "'))");
poll('another one is explored there', sub { $server->safe_psql('latin', "SELECT rounds FROM amoro_stat_explorer WHERE catalog_name = 'latin'") eq '1' });
is($server->safe_psql('latin', "SELECT encode(convert_to(database_name || '/' || table_name, 'UTF8'), 'escape'), properties->>'self-optimizing.a' FROM external_tables
	WHERE catalog_name = 'latin'"), 'caf\303\251/th\303\251|x', 'what it knows is asked for by its name in UTF-8');
# in one that knows none, each is as many bytes as it comes in
$server->safe_psql('postgres', q(CREATE DATABASE ascii ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0));
$server->safe_psql('ascii', "CREATE EXTENSION amoro_meta; SELECT create_catalog('bytes', 'iceberg_rest', jsonb_build_object('uri', '" . $catalog->uri('bytes') . "', 'read-tables', 'false'))");
poll('it is explored there', sub { $server->safe_psql('ascii', 'SELECT rounds FROM amoro_stat_explorer') eq '1' });
is($server->safe_psql('ascii', "SELECT string_agg(encode(table_name::bytea, 'escape'), ' ' ORDER BY table_name) FROM external_tables WHERE table_name !~ '[\"]'"),
	'good last twice \303\251 \360\237\230\200', 'where no encoding is known they are bytes');

# D14: again and again
for my $round (1 .. 2)
{
	$row = AmoroCatalog::explore($server, $_) for 'newtoken', 'bytes';
	is("$row->{added} $row->{changed} $row->{removed}", '0 0 0', 'the same again changes nothing');
}
cmp_ok(memory($pid), '<', $memory + 110, sprintf 'memory is bounded (%d MB, %d MB before)', memory($pid), $memory);
cmp_ok(descriptors($pid), '<', $descriptors + 70, 'descriptors too');
is(AmoroCatalog::status($server, 'good')->{pid}, $pid, 'in one and the same process');

# D13: dead ones beside good ones, all due at once
$server->safe_psql('postgres', join ' ', map { "SELECT create_catalog('dead$_', 'iceberg_rest', jsonb_build_object('uri', '" . $catalog->uri('silent') . "'));" } 1 .. 20);
$server->safe_psql('postgres', join ' ', map { "SELECT create_catalog('alive$_', 'iceberg_rest', jsonb_build_object('uri', '" . $catalog->uri('lake/good') . "'));" } 1 .. 20);
my $took = $server->elapsed(sub { poll('all that live are explored', sub { $server->safe_psql('postgres',
	"SELECT count(*) FROM amoro_stat_explorer WHERE catalog_name LIKE 'alive%' AND rounds = 1 AND last_error IS NULL") == 20 }) });
$took = $server->elapsed(sub { AmoroCatalog::explore($server, "alive$_") for 1 .. 3 });
cmp_ok($took, '<', 6000, "nobody waits for the dead ($took ms)");

# two thousand at the same moment, and few descriptors
$server->safe_psql('postgres', "SELECT count(drop_catalog(catalog_name)) FROM catalogs WHERE catalog_name ~ '^(dead|alive)'");
$catalog->write_lake('empty', '{"namespaces": {}}');
my ($postmaster) = slurp_file($server->data_dir . '/postmaster.pid') =~ /^(\d+)/;
system_or_bail('prlimit', "--pid=$postmaster", '--nofile=256');
$server->safe_psql('postgres', 'SELECT pg_terminate_backend(amoro_meta.explorer_pid())');
my $small = poll('there is another explorer', sub { my $next = $server->safe_psql('postgres', 'SELECT amoro_meta.explorer_pid()'); $next ne '' && $next ne $pid && $next });
like(slurp_file("/proc/$small/limits"), qr/^Max open files\s+256 /m, 'with few descriptors');
$server->safe_psql('postgres', "SELECT count(create_catalog('many' || i, 'iceberg_rest', jsonb_build_object('uri', '" . $catalog->uri('lake/empty') . "'))) FROM generate_series(1, 2000) i");
my $most = 0;
$took = $server->elapsed(sub { poll('all of them are explored', sub {
	$most = descriptors($small) if descriptors($small) > $most;
	sleep 0.2;	# whoever looks all the time is in the way
	$server->safe_psql('postgres', "SELECT count(*) FROM amoro_meta.exploration e JOIN amoro_meta.catalog c USING (catalog_id)
		WHERE c.catalog_name LIKE 'many%' AND e.phase = 'waiting' AND e.rounds = 1 AND e.last_error IS NULL") == 2000 }, 600) });
is(AmoroCatalog::status($server, 'good')->{pid}, $small, sprintf '2000 catalogs at once, with at most %d descriptors (%d ms)', $most, $took);
is(AmoroCatalog::explore($server, 'good')->{last_error}, '', 'one that behaves is explored beside them');
$server->safe_psql('postgres', "SELECT count(drop_catalog(catalog_name)) FROM catalogs WHERE catalog_name LIKE 'many%'");

# D12: at whatever level the server logs, and in whatever it is asked
$server->configure('log_min_messages' => 'debug5', 'log_statement' => 'all', 'log_min_duration_statement' => '0', 'debug_print_plan' => 'on');
poll('it is logged', sub { AmoroCatalog::explore($server, 'redirect-same'); $server->log_text =~ /explorer DEBUG/ });
AmoroCatalog::explore($server, 'redirect-same');
is($server->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE query ~ 't0psecre[t]'"), 0, 'nor in what is seen of sessions');
$server->configure(map { $_ => undef } 'log_min_messages', 'log_statement', 'log_min_duration_statement', 'debug_print_plan');

# in the middle of it all somebody takes the permission back
$server->configure('amoro_meta.http_allowed_hosts' => '');
poll('the setting is in force', sub { AmoroCatalog::explore($server, 'good')->{last_error} =~ /not a public one/ });
is($server->safe_psql('postgres', "SELECT count(*) FROM external_tables WHERE catalog_name = 'good'"), 2, 'open connections are not used again, and nothing is lost');
unlike($server->log_text, qr/\b(PANIC|TRAP)\b|FATAL(?!.*due to administrator command)|t0psecret/, 'no process ended, no secret in the log');
is(($server->outcome("ALTER SYSTEM SET amoro_meta.http_allowed_hosts = '$_'"))[0], '22023', "no host: $_") for 'a b/c', '10.0.0.0/33', 'http://x', '::1/129', 'a;b';
$server->stop;
done_testing;
