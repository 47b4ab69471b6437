# What amoro-node answers: documents and their headers, every kind of name, and everything a client can get wrong.
use strict;
use warnings;
use utf8;
use AmoroCluster;
use AmoroHttp;
use AmoroLake;
use AmoroNode;
use Encode;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my $server = AmoroCluster->create('main');
my $node = AmoroNode->start(conninfo => conninfo($server), name => 'n1');
$node->wait_for_serving;

# Names that are legal, and what a URL makes of them.
my @odd = (
	[ 'c/1', 'd "x"', q(t'%2F ?#&=+;) ],
	[ 'c.d', '..', '.' ],
	[ "\x{2603}\x{20ac}", "e\x{301}", "\x{1f4a9}" ],
	[ 'C', 'd', 'T' ],
	[ 'c', 'd', 'x' x 255 ],
	[ 'c', 'd', "\x{1f4a9}" x 255 ],
	[ '\\', '{}', '<script>' ]);
my %made;
for my $names (@odd)
{
	my ($catalog, $database, $table) = map { encode_utf8($_) } @$names;
	(my $quoted_catalog = $catalog) =~ s/'/''/g;
	(my $quoted_database = $database) =~ s/'/''/g;
	$server->safe_psql('postgres', "SELECT create_catalog('$quoted_catalog')") unless $made{$catalog}++;
	run_procedure($server, "create_database('$quoted_catalog', '$quoted_database')") unless $made{"$catalog\0$database"}++;
	create_table($server, $catalog, $database, $table);
	my $answer = $node->lookup(@$names);
	my $shown = encode_utf8(substr("$names->[0]|$names->[1]|$names->[2]", 0, 30));
	is($answer->{status}, 200, "$shown: found");
	is_deeply([ @{ $answer->{json} }{qw(catalog database table)} ], $names, "$shown: and it is that table")
	  or diag explain $answer;
}
is($node->lookup('c', 'd', 'T')->{status}, 404, 'names are case-sensitive');
is($node->lookup("\x{2603}\x{20ac}", "\x{e9}", "\x{1f4a9}")->{status}, 404, 'and not normalised');

# The answer and its headers, first from the database, then from memory.
create_table($server, 'c', 'd', 't', 'id');
for my $source ('from the database', 'from memory')
{
	my $answer = $node->lookup('c', 'd', 't');
	is($answer->{status}, 200, "$source: status");
	is($answer->{headers}{'content-type'}, 'application/json', "$source: content-type");
	is($answer->{headers}{'cache-control'}, 'no-store', "$source: no cache may keep it");
	is($answer->{headers}{'amoro-node'}, 'n1', "$source: who answered");
	is($answer->{headers}{'amoro-metadata-version'}, metadata_version($server), "$source: the metadata version");
	like($answer->{headers}{etag}, qr/^"\Q$answer->{headers}{'amoro-object-version'}\E-[0-9a-f]{16}"$/, "$source: the entity tag begins with the object's version");
	cmp_ok($answer->{headers}{'amoro-object-version'}, '<=', $answer->{headers}{'amoro-metadata-version'},
		"$source: the object is not newer than the metadata");
}
my $hits = $node->status->{caches}{table}{hits};
my $table = $node->lookup('c', 'd', 't');
is($node->status->{caches}{table}{hits}, $hits + 1, 'the second answer came from memory');

my $head = $node->get(AmoroNode::table_path('c', 'd', 't'), method => 'HEAD');
is($head->{status}, 200, 'HEAD: status');
is($head->{body}, '', 'HEAD: no body');
is($head->{headers}{'content-length'}, length $table->{body}, 'HEAD: length of the body');
is($head->{headers}{etag}, $table->{headers}{etag}, 'HEAD: entity tag');

my $tag = $table->{headers}{etag};
for my $case (
	[ $tag, 304 ], [ "W/$tag", 304 ], [ qq("0", $tag), 304 ], [ '*', 304 ],
	[ '"0"', 200 ], [ 'garbage', 200 ], [ '', 200 ], [ ($tag =~ s/"$//r), 200 ])
{
	my $answer = $node->get(AmoroNode::table_path('c', 'd', 't'), headers => { 'if-none-match' => $case->[0] });
	is($answer->{status}, $case->[1], "If-None-Match: $case->[0]");
	is($answer->{headers}{etag}, $tag, '... names the version');
	ok(exists $answer->{headers}{'amoro-metadata-version'}, '... and the metadata version');
}
is(run_procedure($server, q(alter_table('c', 'd', 't', '[{"op":"add_column","column":"extra","type":"string"}]'))), 'done',
	'the table is altered');
my $altered = $node->get(AmoroNode::table_path('c', 'd', 't'), headers => { 'if-none-match' => $tag });
is($altered->{status}, 200, 'after a change the old tag does not match any more');
like($altered->{body}, qr/"extra"/, 'and the answer has the change');
cmp_ok($altered->{headers}{'amoro-object-version'}, '>', $table->{headers}{'amoro-object-version'}, 'under a newer version');

# What it inherits is not of its own version.
is(run_procedure($server, "set_ttl('c', 'd', '1 day')"), 'done', 'its database gets a time to live');
my $inherited = $node->get(AmoroNode::table_path('c', 'd', 't'), headers => { 'if-none-match' => $altered->{headers}{etag} });
is($inherited->{status}, 200, 'what a table inherits makes another tag, too');
is($inherited->{headers}{'amoro-object-version'}, $altered->{headers}{'amoro-object-version'}, 'under the same version');

# What is not there.
for my $names ([ 'c', 'd', 'none' ], [ 'c', 'none', 't' ], [ 'none', 'd', 't' ], [ 'c', 'd', q(quote"back\\slash) ])
{
	my $answer = $node->lookup(@$names);
	is($answer->{status}, 404, "@$names: not there");
	is($answer->{json}{error}{type}, 'NoSuchTableException', '... says so');
	is($answer->{json}{error}{code}, 404, '... with the code in the body');
	like($answer->{json}{error}{message}, qr/\Q$names->[2]\E/, '... names the table');
	ok(exists $answer->{headers}{'amoro-metadata-version'}, '... as of a metadata version');
}

# Paths that name nothing, or nothing legal.
my $long = 'x' x 256;
my $wide = '%F0%9F%92%A9' x 256;
for my $case (
	[ '/v1/tables/c', 404 ], [ '/v1/users/c/d', 404 ], [ '/v1/partitions/c/d', 404 ], [ '/v1/tables/c/d/t/', 404 ], [ '/v1/tables/c/d/t/more', 404 ], [ '/v1/tables', 404 ],
	[ '/v1/tables/', 404 ], [ '/', 404 ], [ '/nothing', 404 ], [ '//', 404 ], [ '/V1/tables/c/d/t', 404 ],
	[ '/healthz/', 404 ], [ '/healthzz', 404 ], [ '/%68ealthz', 404 ], [ '/../etc/passwd', 404 ], [ '/..', 404 ],
	[ '/v1/tables/c//t', 400, qr/database is empty/ ], [ '/v1/tables///', 400, qr/catalog is empty/ ],
	[ '/v1/tables/c/d/', 400, qr/table is empty/ ],
	[ '/v1/tables/c/d/%', 400, qr/percent sign/ ], [ '/v1/tables/c/d/%4', 400, qr/percent sign/ ],
	[ '/v1/tables/c/d/%zz', 400, qr/percent sign/ ], [ '/v1/tables/c/%u0041/t', 400, qr/database has a percent sign/ ],
	[ '/v1/tables/c/d/a%00b', 400, qr/control character/ ], [ '/v1/tables/c/d/%0A', 400, qr/control character/ ],
	[ '/v1/tables/c/d/%7F', 400, qr/control character/ ], [ '/v1/tables/c/d/%FF', 400, qr/not valid UTF-8/ ],
	[ '/v1/tables/c/d/%C0%AF', 400, qr/not valid UTF-8/ ], [ '/v1/tables/c/d/%ED%A0%80', 400, qr/not valid UTF-8/ ],
	[ '/v1/tables/c/d/%F4%90%80%80', 400, qr/not valid UTF-8/ ], [ '/v1/tables/c/d/%E2%82', 400, qr/not valid UTF-8/ ],
	[ "/v1/tables/c/d/$long", 400, qr/longer than 255 characters/ ], [ "/v1/tables/c/d/$wide", 400, qr/longer than 255 characters/ ],
	[ '/v1/users/a/b', 404 ], [ '/v1/users', 404 ], [ '/v1/users/%FF', 400, qr/name of the user is not valid UTF-8/ ],
	[ '/v1/buckets/refresh', 404 ], [ '/v1/buckets/refresh/1/2', 404 ], [ '/v1/buckets//1', 400, qr/service is empty/ ],
	[ '/v1/devices/c/d/', 400, qr/device is empty/ ], [ '/v1/partitions/c', 404 ], [ '/v1/partitions/c/d/', 400, qr/partition is empty/ ],
	[ '/v1/tables/c/d/' . 'x' x 20000, 414, qr/longer than/ ])
{
	my ($path, $status, $message) = @$case;
	my $answer = $node->get($path);
	my $shown = substr($path, 0, 40);
	is($answer->{status}, $status, "$shown: status");
	like($answer->{json}{error}{message}, $message // qr/nothing here/, "$shown: message");
}
is($node->get('/v1/tables/c/d/t?x=%&y=/../')->{status}, 200, 'a query is ignored');
is($node->get('/v1/tables/c/d/%74')->{status}, 200, 'an escaped letter is that letter');
is($node->get("/v1/tables/%E2%98%83\xe2\x82\xac/e%CC%81/\xf0\x9f\x92\xa9")->{status}, 200, 'UTF-8 may come as it is');
is($node->get('http://elsewhere/v1/tables/c/d/t')->{status}, 200, 'a proxy may send the whole URL');

# Methods.
for my $method (qw(POST PUT DELETE PATCH OPTIONS TRACE CONNECT get BREW))
{
	my $answer = $node->get('/v1/tables/c/d/t', method => $method);
	is($answer->{status}, 405, "$method is not allowed");
	is($answer->{headers}{allow}, 'GET, HEAD', '... and what is');
	is($answer->{json}{error}{type}, 'MethodNotAllowedException', '... in the body too') if $method ne 'HEAD';
}
is($node->get('/nothing', method => 'POST')->{status}, 404, 'an unknown path is unknown, whatever the method');

# Not HTTP, or hardly: an answer 4xx or a closed connection, and the node lives.
my $close = "Connection: close\r\n";
for my $case (
	[ 'garbage', "\0\1\2garbage\r\n\r\n", qr/^HTTP\/1\.1 400 / ],
	[ 'text', "hello\r\n\r\n", qr/^HTTP\/1\.1 400 / ],
	[ 'a TLS hello', "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" . "\xab" x 500, qr/^HTTP\/1\.1 400 / ],
	[ 'empty lines', "\r\n\r\n", qr/^(|HTTP\/1\.1 400 .*)$/s ],
	[ 'HTTP/2 without asking', "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", qr/^HTTP\/1\.1 400 / ],
	[ 'an upgrade to HTTP/2', "GET /healthz HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\n"
		. "HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", qr/^HTTP\/1\.1 200 / ],
	[ 'a NUL in the path', "GET /v1/tables/c/d/a\0b HTTP/1.1\r\n\r\n", qr/^HTTP\/1\.1 400 / ],
	[ 'a tab in the path', "GET /v1/tables/c/d/a\tb HTTP/1.1\r\n\r\n", qr/^HTTP\/1\.1 400 / ],
	[ 'a header without a name', "GET /healthz HTTP/1.1\r\n: x\r\n\r\n", qr/^HTTP\/1\.1 400 / ],
	[ 'a NUL in a header', "GET /healthz HTTP/1.1\r\nX: a\0b\r\n\r\n", qr/^HTTP\/1\.1 400 / ],
	[ 'a header of half a megabyte', "GET /healthz HTTP/1.1\r\nX: " . 'a' x 500000 . "\r\n\r\n", qr/^(|HTTP\/1\.1 400 .*)$/s ],
	[ 'two hundred headers', "GET /healthz HTTP/1.1\r\n" . "X: a\r\n" x 200 . "\r\n", qr/^HTTP\/1\.1 400 / ],
	[ 'a folded header', "GET /healthz HTTP/1.1\r\nX: a\r\n b\r\n$close\r\n", qr/^HTTP\/1\.1 200 / ],
	[ 'a path without slash', "GET healthz HTTP/1.1\r\n$close\r\n", qr/^HTTP\/1\.1 404 / ],
	[ 'an asterisk', "OPTIONS * HTTP/1.1\r\n$close\r\n", qr/^HTTP\/1\.1 404 / ],
	[ 'no host', "GET /healthz HTTP/1.1\r\n$close\r\n", qr/^HTTP\/1\.1 200 / ],
	[ 'HTTP/1.0', "GET /healthz HTTP/1.0\r\n\r\n", qr/^HTTP\/1\.1 200 .*Connection: close/s ],
	[ 'HTTP/9.9', "GET /healthz HTTP/9.9\r\n\r\n", qr/^HTTP\/1\.1 400 / ],
	[ 'a body', "GET /healthz HTTP/1.1\r\nContent-Length: 5\r\n$close\r\nhello", qr/^HTTP\/1\.1 200 / ],
	[ 'a huge body', "GET /healthz HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", qr/^HTTP\/1\.1 413 / ],
	[ 'a negative length', "GET /healthz HTTP/1.1\r\nContent-Length: -1\r\n\r\n", qr/^HTTP\/1\.1 400 / ],
	[ 'an overflowing length', "GET /healthz HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n", qr/^HTTP\/1\.1 4\d\d / ],
	[ 'a chunked body', "GET /healthz HTTP/1.1\r\nTransfer-Encoding: chunked\r\n$close\r\n5\r\nhello\r\n0\r\n\r\n", qr/^HTTP\/1\.1 200 / ],
	[ 'a broken chunk', "GET /healthz HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", qr/^HTTP\/1\.1 400 / ],
	[ 'a chunk that never ends', "GET /healthz HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffff\r\n" . 'x' x 100000, qr/^(|HTTP\/1\.1 413 .*)$/s ],
	[ 'an unknown encoding', "GET /healthz HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", qr/^HTTP\/1\.1 400 / ],
	[ 'an expectation', "GET /healthz HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n$close\r\nx", qr/^HTTP\/1\.1 100 .*HTTP\/1\.1 200 /s ],
	[ 'an odd expectation', "GET /healthz HTTP/1.1\r\nExpect: wonders\r\nContent-Length: 1\r\n\r\nx", qr/^HTTP\/1\.1 417 / ])
{
	my ($what, $bytes, $expected) = @$case;
	like(http_raw($node->address, $bytes), $expected, "$what");
}
ok($node->is_running, 'the node lives');

# Several requests in one packet are answered in order; a connection serves one after another.
my $path = AmoroNode::table_path('c', 'd', 't');
my $socket = http_connect($node->address);
syswrite $socket, "GET $path HTTP/1.1\r\n\r\n" . "HEAD $path HTTP/1.1\r\n\r\n" . "GET /v1/tables/c/d/none HTTP/1.1\r\n\r\n"
  . "GET /healthz HTTP/1.1\r\n\r\n";
my $buffer = '';
my @statuses = map { http_read_response($socket, \$buffer, head => $_ == 2)->{status} } 1 .. 4;
is("@statuses", '200 200 404 200', 'requests in one packet are answered in order');
my @times = map { http_exchange($socket, $path)->{status} } 1 .. 50;
is(scalar(grep { $_ == 200 } @times), 50, 'one connection serves many requests');

# Metrics: every line is well-formed, every metric has help and a type, and counters count.
my $metrics = $node->get('/metrics');
is($metrics->{status}, 200, 'metrics are there');
like($metrics->{headers}{'content-type'}, qr{^text/plain; version=0\.0\.4}, 'in the text format');
my %typed = map { $_ => 1 } $metrics->{body} =~ /^# TYPE (amoro_node_\w+) (?:counter|gauge)$/mg;
my %helped = map { $_ => 1 } $metrics->{body} =~ /^# HELP (amoro_node_\w+) \S.*$/mg;
my @samples = grep { !/^#/ } split /\n/, $metrics->{body};
is(scalar(grep { !/^amoro_node_\w+(\{\w+="[^"\\]*"(,\w+="[^"\\]*")*\})? -?\d+(\.\d+)?$/ } @samples), 0, 'every sample is well-formed');
is(scalar(grep { my ($name) = /^(\w+)/; !$typed{$name} || !$helped{$name} } @samples), 0, 'every metric has help and a type');
is(scalar(grep { /_total$/ != ($metrics->{body} =~ /^# TYPE $_ counter$/m) } keys %typed), 0, 'what ends with _total is a counter, nothing else is');
my $count = sub { my ($name) = @_; return $node->get('/metrics')->{body} =~ /^amoro_node_\Q$name\E (\S+)$/m ? $1 : undef };
is($count->('serving'), 1, 'it serves');
is($count->('state{state="active"}'), 1, 'it is active');
my $before = $count->('http_responses_total{code="404"}');
$node->get('/nothing') for 1 .. 3;
is($count->('http_responses_total{code="404"}'), $before + 3, 'answers are counted by status');
is($count->('applied_version'), metadata_version($server), 'the applied version is that of the server');
cmp_ok($count->('lease_remaining_seconds'), '<=', lease_seconds(), 'the lease is not longer than granted');

my $status = $node->status;
is($status->{state}, 'active', 'status: state');
is($status->{serving}, JSON::PP::true, 'status: serving');
like($status->{incarnation}, qr/^[0-9a-f]{8}-[0-9a-f-]{27}$/, 'status: incarnation');
is($status->{incarnation}, $server->safe_psql('postgres', "SELECT incarnation FROM node_status WHERE node_name = 'n1'"),
	'which is the one that the server knows');
is($node->get('/healthz')->{body}, "ok\n", 'health is good');

is($node->stop, 0, 'it stops');
is($server->safe_psql('postgres', "SELECT state FROM node_status WHERE node_name = 'n1'"), 'released', 'and has released its lease');
done_testing();
