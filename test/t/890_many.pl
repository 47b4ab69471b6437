# Many lookups in one request, and listings, as a node answers them over a real server: what is right, in the order asked;
# what a client can get wrong; and nothing that a change or a fence has overtaken.
use strict;
use warnings;
use utf8;
use AmoroCluster qw(poll);
use AmoroHttp;
use AmoroLake;
use AmoroNode;
use AmoroProcedure qw(wait_for_end);
use AmoroProxy;
use Encode;
use JSON::PP;
use Test::More;

my $server = AmoroCluster->create('main');
my $proxy = AmoroProxy->start($server->host . '/.s.PGSQL.' . $server->port);
my $path = '/v1/devices/lake/d';

sub query { return $server->safe_psql('postgres', $_[0]) }

sub run_through
{
	my ($call) = @_;
	return is(wait_for_end($server, query("SELECT $call")), 'done', $call);
}

sub ask { my ($node, $names, $at) = @_; return $node->get($at // $path, method => 'POST', body => encode_json($names)) }

query("SELECT create_catalog('lake')");
run_through(q{create_database('lake', 'd')});
create_table($server, 'lake', 'd', 't');
query(<<'SQL');
INSERT INTO amoro_meta.device (device_id, database_id, device_path, state, definition, version)
	SELECT amoro_meta.next_id(), database_id, 'root.big.d' || n, 'normal',
		amoro_meta.device_definition('{"measurements": [{"name": "speed", "type": "INT32"}]}'), 1
	FROM amoro_meta.database, generate_series(1, 2500) n
SQL
my $user = query('SELECT current_user');
my $node = AmoroNode->start(name => 'near', conninfo => $server->connstr('postgres') . " user=$user");
my $far = AmoroNode->start(name => 'far', conninfo => 'host=127.0.0.1 port=' . $proxy->port . " dbname=postgres user=$user");
$_->wait_for_serving for $node, $far;

# A thousand by one request, in the order asked; what is not in memory by one more to the database.
my @names = map { "root.big.d$_" } reverse 1 .. 998;
splice @names, 500, 0, 'root.none', encode_utf8('root.`ß "x" \\`');
my $answer = ask($node, \@names);
is($answer->{status}, 200, 'a thousand names are answered');
is($answer->{headers}{'content-type'}, 'application/json', '... as JSON');
is($answer->{headers}{'cache-control'}, 'no-store', '... which no cache may keep');
is($answer->{headers}{'amoro-node'}, 'near', '... by that node');
is($answer->{headers}{'amoro-metadata-version'}, query('SELECT version FROM amoro_meta.metadata_version'), '... as of the newest version');
is_deeply([ map { $_->{name} } @{ $answer->{json}{devices} } ], \@names, '... in the order asked')
  or diag join ' ', map { $_->{name} } @{ $answer->{json}{devices} }[ 499 .. 503 ];
is_deeply([ map { $_->{state} } @{ $answer->{json}{devices} } ], [ map { /big/ ? 'found' : 'absent' } @names ], '... each with its state');
is($answer->{json}{devices}[0]{document}{device}, 'root.big.d998', '... with its document');
is($answer->{json}{devices}[0]{version}, $node->get("$path/root.big.d998")->{headers}{'amoro-object-version'}, '... and the version of the device');
ok(!exists $answer->{json}{devices}[500]{document}, '... but none of what is not there');
is($node->status->{caches}{device}{loads}, 1000, 'each was loaded once');
ask($node, [ grep { /big/ } @names ]);
is($node->status->{caches}{device}{loads}, 1000, 'the next request is answered from memory');
is(scalar @{ ask($node, [ ('root.big.d1') x 1000 ])->{json}{devices} }, 1000, 'one name a thousand times has a thousand answers');

# The other kinds: tables by the same request, nothing else.
$answer = ask($node, [ 't', 'u' ], '/v1/tables/lake/d');
is_deeply([ map { "$_->{name} $_->{state}" } @{ $answer->{json}{tables} } ], [ 't found', 'u absent' ], 'tables are asked for in the same manner');
is(ask($node, ['t'], '/v1/tables/none/d')->{json}{tables}[0]{state}, 'absent', 'and so are those of a database that there is not');
for my $case ([ '/v1/partitions/lake/d', 404 ], [ '/v1/users/u', 405, 'GET, HEAD' ], [ '/v1/tables/lake/d/t', 405, 'GET, HEAD' ], [ '/metrics', 405, 'GET, HEAD' ])
{
	$answer = ask($node, ['t'], $case->[0]);
	is($answer->{status}, $case->[1], "POST $case->[0]");
	is($answer->{headers}{allow}, $case->[2], '... and what is allowed');
}
$answer = $node->get($path, method => 'DELETE');
is($answer->{status}, 405, 'DELETE of a database');
is($answer->{headers}{allow}, 'GET, HEAD, POST', '... names what is allowed');

# Bodies that make no sense.
for my $case (
	[ 'nothing', '', 400 ], [ 'no JSON', 'root.big.d1', 400 ], [ 'half of it', '["root.big.d1", "ro', 400 ], [ 'two values', '["a"]["b"]', 400 ],
	[ 'an object', '{"names": ["root.big.d1"]}', 400 ], [ 'a text', '"root.big.d1"', 400 ], [ 'null', 'null', 400 ],
	[ 'an empty array', '[]', 400, qr/not an array of names/ ],
	[ 'a number in it', '["root.big.d1", 7]', 400, qr/device at 1 is not a text/ ], [ 'null in it', '[null]', 400, qr/device at 0/ ],
	[ 'an array in it', '[["root.big.d1"]]', 400 ], [ 'an empty name', '[""]', 400, qr/is empty/ ],
	[ 'a control character', '["a\u0007"]', 400, qr/control character/ ], [ 'NUL', '["a\u0000b"]', 400 ], [ 'half a character', '["\ud83d"]', 400 ],
	[ 'not UTF-8', "[\"\xff\"]", 400 ], [ 'a name of 256 characters', '["' . 'x' x 256 . '"]', 400, qr/longer than 255/ ],
	[ 'a name of a megabyte', '["' . 'x' x 1000000 . '"]', 400, qr/longer than 255/ ],
	[ '1001 names', encode_json([ map { "n$_" } 1 .. 1001 ]), 413, qr/more than 1000/ ],
	[ 'a deep one', '[' x 100000, 400 ], [ 'a deep one that ends', '[' x 100000 . ']' x 100000, 400 ], [ 'only spaces', ' ' x 1000000, 400 ],
	[ 'a number beyond all', '[1e999999]', 400 ])
{
	my ($shown, $body, $status, $message) = @$case;
	utf8::downgrade($body);
	$answer = $node->get($path, method => 'POST', body => $body);
	is($answer->{status}, $status, "a body that is $shown");
	is($answer->{json}{error}{code}, $status, '... is answered as an error');
	like($answer->{json}{error}{message}, $message, '... that says what is wrong') if $message;
}
my $widest = encode_json([ map { my $n = sprintf '%04d', $_; "\x{1f4a9}" x 251 . $n } 1 .. 1000 ]);
cmp_ok(length $widest, '>', 1_000_000, 'the largest request that is legal');
is($node->get($path, method => 'POST', body => $widest)->{status}, 200, '... is answered');
like(http_raw($node->address, "POST $path HTTP/1.1\r\nHost: x\r\nContent-Length: 1100000\r\n\r\n"), qr{^HTTP/1\.1 413 }, 'a larger one is not even read');
is($node->get('/healthz')->{status}, 200, 'the node serves on');

# A few kilobytes that ask for a few hundred megabytes: a document is in memory once, however often it is in an answer.
query(<<'SQL');
INSERT INTO amoro_meta.device (device_id, database_id, device_path, state, definition, version)
	SELECT amoro_meta.next_id(), database_id, 'root.huge', 'normal', amoro_meta.device_definition(jsonb_build_object('measurements',
		(SELECT jsonb_agg(jsonb_build_object('name', 'm' || n || repeat('x', 200), 'type', 'INT32')) FROM generate_series(1, 1000) n))), 1
	FROM amoro_meta.database
SQL
my $huge = encode_json($node->get("$path/root.huge")->{json});
cmp_ok(length $huge, '>', 200_000, 'a large document');
my $peak = $node->peak_kilobytes;
my $client = http_connect($node->address);
my $many = encode_json([ ('root.huge') x 1000 ]);
syswrite $client, "POST $path HTTP/1.1\r\nHost: x\r\nContent-Length: " . length($many) . "\r\n\r\n$many";
sysread $client, my $status_line, 12;
is($status_line, 'HTTP/1.1 200', '... asked for a thousand times is answered');
cmp_ok($node->peak_kilobytes - $peak, '<', 50_000, '... from the memory that it has');
close $client;
is($node->get('/healthz')->{status}, 200, 'the node serves on');
my $last = JSON::PP->new->canonical->utf8->encode(decode_json($huge)->{measurements}[999]);
$answer = ask($node, [ 'root.huge', 'root.none', 'root.huge' ]);
is_deeply([ map { $_->{document} ? JSON::PP->new->canonical->utf8->encode($_->{document}{measurements}[999]) : $_->{state} } @{ $answer->{json}{devices} } ],
	[ $last, 'absent', $last ], 'and what is large is whole');
query(q{DELETE FROM amoro_meta.device WHERE device_path = 'root.huge'});

# Listings, page by page.
my (@listed, $after);
do
{
	$answer = $node->get("$path?limit=700" . (defined $after ? "&after=$after" : ''));
	is($answer->{status}, 200, 'a page');
	push @listed, map { $_->{name} } @{ $answer->{json}{devices} };
	$after = $answer->{json}{next};
} while (defined $after);
is_deeply(\@listed, [ sort map { "root.big.d$_" } 1 .. 2500 ], 'all pages are all devices, each once');
is($answer->{headers}{'amoro-metadata-version'}, query('SELECT version FROM amoro_meta.metadata_version'), '... stamped with the version');
is(scalar @{ $node->get($path)->{json}{devices} }, 1000, 'a page has 1000 unless told otherwise');
is_deeply($node->get('/v1/tables/lake/d')->{json}{tables}, [ { name => 't', relation_kind => 'table', state => 'normal', version => query('SELECT version FROM tables') } ], 'tables');
is($node->get('/v1/tables/lake/d', method => 'HEAD')->{status}, 200, 'HEAD');
for my $case (
	[ "$path?limit=0", 400, 'limit is not' ], [ "$path?limit=10001", 400, 'limit is not' ], [ "$path?limit=-1", 400, 'limit is not' ],
	[ "$path?limit=1e3", 400, 'limit is not' ], [ "$path?limit=99999999999999999999", 400, 'limit is not' ], [ "$path?limit=", 400, 'limit is empty' ],
	[ "$path?limit=1&limit=2", 400, 'given twice' ], [ "$path?before=x", 400, 'other than after and limit' ], [ "$path?after=%FF", 400, 'UTF-8' ],
	[ "$path?after=" . 'x' x 256, 400, 'longer than 255' ], [ '/v1/tables/lake/none', 404, 'database "lake"."none" does not exist' ],
	[ '/v1/devices/none/d', 404, 'database "none"."d" does not exist' ])
{
	$answer = $node->get($case->[0]);
	is($answer->{status}, $case->[1], substr($case->[0], 0, 60));
	like($answer->{json}{error}{message}, qr/\Q$case->[2]\E/, '... says what is wrong');
}

# Changes are seen at once, in both.
run_through(q{create_device('lake', 'd', 'root.aaa', '{"measurements": [{"name": "speed", "type": "INT32"}]}')});
is(ask($node, ['root.aaa'])->{json}{devices}[0]{state}, 'found', 'a new device is found');
is($node->get("$path?limit=1")->{json}{devices}[0]{name}, 'root.aaa', '... and listed');
run_through(q{drop_devices('lake', 'd', 'root.big.**')});
$answer = ask($node, \@names);
is_deeply([ grep { $_->{state} ne 'absent' } @{ $answer->{json}{devices} } ], [], 'none of what was dropped is found, though all were in memory');
is_deeply([ map { $_->{name} } @{ $node->get($path)->{json}{devices} } ], ['root.aaa'], '... nor listed');

# A database whose encoding lacks a character has nothing of such a name; what else is asked for together with it is answered.
$server->safe_psql('postgres', q(CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0));
$server->safe_psql('latin', 'CREATE EXTENSION amoro_meta');
$server->wait_for_state('running', 'latin', undef, 'latin');
for my $call (q{create_database('lake', 'd')}, q{create_device('lake', 'd', E'root.caf\\u00e9', '{"measurements": [{"name": "speed", "type": "INT32"}]}')},
	q{create_user('ann', repeat('x', 20))})
{
	$server->safe_psql('latin', q{SELECT create_catalog('lake')}) if $call =~ /create_database/;
	is($server->safe_psql('latin', "SELECT $call AS procedure \\gset\nSELECT wait_for_procedure(:procedure)"), 'done', "$call, in LATIN1");
}
my $latin = AmoroNode->start(name => 'latin', conninfo => $server->connstr('latin') . " user=$user");
$latin->wait_for_serving;
my %absent = (table => 'NoSuchTableException', device => 'NoSuchDeviceException', partition => 'NoSuchPartitionException', bucket => 'NoSuchBucketException',
	user => 'NoSuchUserException', database => 'NoSuchDatabaseException');
for my $turn (1, 2)
{
	for my $case ([ table => '/v1/tables/lake/d/%E2%82%AC' ], [ table => '/v1/tables/%E2%82%AC/d/t' ], [ device => "$path/root.%E2%82%AC" ],
		[ partition => '/v1/partitions/lake/%E2%82%AC/0' ], [ bucket => '/v1/buckets/%E2%82%AC/0' ], [ user => '/v1/users/%E2%82%AC' ],
		[ database => '/v1/devices/lake/%E2%82%AC' ], [ database => '/v1/tables/%E2%82%AC/d' ])
	{
		$answer = $latin->get($case->[1]);
		is("$answer->{status} $answer->{json}{error}{type}", "404 $absent{ $case->[0] }", "$case->[1] is not there in LATIN1");
		ok(exists $answer->{headers}{'amoro-metadata-version'}, '... as of a metadata version');
	}
	is($latin->get('/v1/privileges/%E2%82%AC?privilege=SELECT&catalog=lake')->{body}, '{"allowed":false}', 'whom there cannot be may do nothing');
	$answer = ask($latin, [ "root.\x{20ac}", "root.caf\x{e9}", 'root.none', "root.\x{2603}" ]);
	is(join(' ', map { $_->{state} } @{ $answer->{json}{devices} }), 'absent found absent absent', 'many: each has its answer');
	is($latin->get("$path?after=%E2%82%AC")->{status}, 400, 'nothing can be listed after a name that there cannot be');
}
is($latin->get("$path/root.caf%C3%A9")->{json}{device}, "root.caf\x{e9}", 'what it can represent is found');
is($latin->stop, 0, 'the node stops');

# Without an answer of the database: what is in memory is answered, the rest is not, and after the lease nothing.
is(ask($far, ['root.aaa'])->{json}{devices}[0]{state}, 'found', 'the other node has it in memory');
$proxy->set(up => 'hold', down => 'hold');
my $fenced = $far->wait_until('is fenced', sub { my $a = ask($far, ['root.aaa']); return $a->{status} == 503 && $a });
is($fenced->{json}{error}{type}, 'MetadataLeaseFencedException', 'a node that is cut off answers nothing');
is($far->get($path)->{json}{error}{type}, 'MetadataLeaseFencedException', '... and lists nothing');
$proxy->set(up => 'pass', down => 'pass');
$far->wait_for_serving;
is(ask($far, ['root.aaa'])->{json}{devices}[0]{state}, 'found', 'back, it answers again');
is($far->get($path)->{status}, 200, '... and lists');
$_->stop for $node, $far;
done_testing();
