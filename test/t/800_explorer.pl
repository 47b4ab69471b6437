# Exploring a catalog over HTTP: what it asks, what it adds, changes and removes, and what it leaves as it is.
use strict;
use utf8;
use warnings;
use AmoroCatalog;
use AmoroCluster qw(poll);
use Encode ();
use PostgreSQL::Test::Utils;
use Test::More;

my $server = AmoroCluster->create('main', conf => <<'CONF');
amoro_meta.http_allowed_hosts = '127.0.0.0/8'
amoro_meta.explore_interval = 1h
amoro_meta.http_timeout = 15s
log_statement = none
CONF
my $catalog = AmoroCatalog->start;
my ($row, @requests);

# D01: pages, nested namespaces, a prefix
$catalog->write_lake('one', <<'LAKE');
{"page": 2, "prefix": "pre/fix", "config": {"overrides": {"prefix": "pre/fix"}, "defaults": {"prefix": "wrong"}},
 "namespaces": {"a": ["t1", "t2", "t3", "t4", "t5"], "b": [], "c": ["t1"], "a\u001fx": ["n1"], "a\u001fx\u001fy": ["n2", "n3"]}}
LAKE
AmoroCatalog::create($server, 'one', $catalog->uri('lake/one'));
$row = AmoroCatalog::wait_for_round($server, 'one', 1);
is($row->{last_error}, '', 'explored by itself once it was created');
is(AmoroCatalog::tables($server, 'one'), 'a/t1 a/t2 a/t3 a/t4 a/t5 a.x/n1 a.x.y/n2 a.x.y/n3 c/t1', 'every page, every level');
is("$row->{tables} $row->{added} $row->{phase}", '9 9 waiting', 'and counted');
@requests = $catalog->requests;
ok((grep { m{GET /lake/one/v1/pre/fix/namespaces/a/tables\?pageSize=\d+&pageToken= -} } @requests), 'the first question names pages');
ok((grep { m{namespaces/a%1Fx%1Fy/tables} } @requests), 'levels are separated as the protocol says');
is($server->safe_psql('postgres', "SELECT count(*) FROM external_tables WHERE table_uuid IS NULL"), 0, 'each was read');

# the exact set, whatever the size of the pages and of what is listed, and however a server says that a page is the last one
for my $case ([ 1, 'absent', 0, 1, 101 ], [ 100, 'absent', 0, 1, 100, 101, 10001 ], [ 100, 'empty', 100, 101 ], [ 100, 'null', 0, 100, 201 ])
{
	my ($size, $last, @counts) = @$case;
	my $name = "pages$size$last";
	$catalog->write_lake($name, "{\"page\": $size, \"last_token\": \"$last\", \"namespaces\": {"
		. join(', ', map { "\"n$_\": " . AmoroCatalog::list(map { "t$_" } 1 .. $_) } @counts) . '}}');
	AmoroCatalog::create($server, $name, $catalog->uri("lake/$name"), '{}', '{"read-tables": "false"}');
	$row = AmoroCatalog::wait_for_round($server, $name, 1);
	my $sum = 0;
	$sum += $_ for @counts;
	is("$row->{tables} $row->{added} $row->{last_error}", "$sum $sum ", "pages of $size, the token after the last one is $last");
	is($server->safe_psql('postgres', "SELECT string_agg(d || ' ' || n, ', ' ORDER BY n) FROM (SELECT database_name AS d, count(DISTINCT table_name) AS n FROM external_tables WHERE catalog_name = '$name' GROUP BY 1) x"),
		join(', ', map { "n$_ $_" } grep { $_ > 0 } @counts), 'each namespace has its own');
	$row = AmoroCatalog::explore($server, $name);
	is("$row->{tables} $row->{added} $row->{changed} $row->{removed}", "$sum 0 0 0", 'and again');
}
$catalog->requests;

# nothing new: nothing is written but the row that says so
my $rows = "SELECT md5(string_agg(r, ' ' ORDER BY r)) FROM (SELECT table_id || ctid::text || xmin AS r FROM amoro_meta.listed_table UNION ALL SELECT table_id || ctid::text || xmin FROM amoro_meta.table_runtime) t";
my $before = $server->safe_psql('postgres', $rows);
$row = AmoroCatalog::explore($server, 'one');
is("$row->{added} $row->{changed} $row->{removed}", '0 0 0', 'a second round finds nothing new');
is($server->safe_psql('postgres', $rows), $before, 'and rewrites no row');

# runtimes; a table made anew under its name; properties
$server->safe_psql('postgres', "SELECT create_optimizer_group('express')");
$catalog->write_lake('two', '{"namespaces": {"d": ["t", "off"]}, "properties": {"t": {"self-optimizing.group": "express", "owner": "x"}, "off": {"self-optimizing.enabled": "false"}}}');
AmoroCatalog::create($server, 'two', $catalog->uri('lake/two/'));
AmoroCatalog::wait_for_round($server, 'two', 1);
is($server->safe_psql('postgres', "SELECT string_agg(table_name || ' ' || group_name, ', ') FROM amoro_meta.table_runtime WHERE catalog_name = 'two'"),
	't express', 'what was read decides about runtime and group');
is($server->safe_psql('postgres', "SELECT properties FROM external_tables WHERE catalog_name = 'two' AND table_name = 't'"),
	'{"self-optimizing.group": "express"}', 'other properties stay where they are');
# D17
my $old = $server->safe_psql('postgres', "SELECT table_id FROM external_tables WHERE catalog_name = 'two' AND table_name = 't'");
$catalog->write_lake('two', '{"namespaces": {"d": ["t", "off"]}, "uuids": {"t": "another"}}');
$row = AmoroCatalog::explore($server, 'two');
my $new = $server->safe_psql('postgres', "SELECT table_id FROM external_tables WHERE catalog_name = 'two' AND table_name = 't'");
isnt($new, $old, 'a table made anew is another table');
is($server->safe_psql('postgres', "SELECT count(*), min(table_id) FROM amoro_meta.table_runtime WHERE catalog_name = 'two' AND table_name = 't'"),
	"1|$new", 'with a runtime of its own, the old one gone');
is($server->safe_psql('postgres', "SELECT count(*) FROM amoro_meta.table_runtime WHERE table_name = 'off'"), 1, 'optimizing that was allowed begins');
# renamed, and another one made under the old name
$catalog->write_lake('two', '{"namespaces": {"d": ["t", "off", "u"]}, "uuids": {"t": "a third", "u": "another"}}');
$row = AmoroCatalog::explore($server, 'two');
is($server->safe_psql('postgres', "SELECT count(*), count(DISTINCT table_uuid) FROM external_tables WHERE catalog_name = 'two'"),
	'3|3', 'a table that was renamed, and one made under its name, are told apart in the round that finds them');
is($server->safe_psql('postgres', "SELECT count(*) FROM external_tables WHERE catalog_name = 'two' AND table_id = $new"), 0, 'what had the old name is closed');

# D14: what cannot be read is listed all the same, as often as it is looked at
$catalog->write_lake('unread', '{"status": {"tables/bad": 500, "tables/gone": 404, "tables/view": 406}, "namespaces": {"d": ["bad", "gone", "view", "t"]}}');
AmoroCatalog::create($server, 'unread', $catalog->uri('lake/unread'));
$row = AmoroCatalog::wait_for_round($server, 'unread', 1);
for (1 .. 2)
{
	is(AmoroCatalog::tables($server, 'unread'), 'd/bad d/gone d/t d/view', 'what cannot be read is listed');
	like("$row->{failures} $row->{last_error}", qr/^0 table "(?:bad": the server answers 500|view": the server answers 406) \(and 1 errors more\)$/, 'and named');
	$row = AmoroCatalog::explore($server, 'unread');
	is("$row->{added} $row->{changed} $row->{removed}", '0 0 0', 'the same again changes nothing');
}

# what is gone, what could not be listed
sub lake_of_ten
{
	my ($status, %namespaces) = @_;
	return "{\"status\": {$status}, \"namespaces\": {" . join(', ', map { "\"$_\": " . AmoroCatalog::list(@{ $namespaces{$_} }) } keys %namespaces) . '}}';
}
$catalog->write_lake('ten', lake_of_ten('', a => [ 't0' .. 't4' ], b => [ 't5' .. 't8' ], c => ['t9']));
AmoroCatalog::create($server, 'ten', $catalog->uri('lake/ten'), '{}', '{"read-tables": "false"}');
AmoroCatalog::wait_for_round($server, 'ten', 1);
$catalog->write_lake('ten', lake_of_ten('"namespaces/a/tables": 500', a => [], b => [ 't5' .. 't7' ]));
$row = AmoroCatalog::explore($server, 'ten');
is(AmoroCatalog::tables($server, 'ten'), 'a/t0 a/t1 a/t2 a/t3 a/t4 b/t5 b/t6 b/t7',
	'what is gone is removed, a namespace too; one that could not be listed stays');
like($row->{last_error}, qr/^tables of "a": the server answers 500/, 'and is named');
is($row->{failures}, 0, 'such a round has not failed');
$catalog->write_lake('ten', lake_of_ten('"namespaces\\\\?": 500', b => []));
$row = AmoroCatalog::explore($server, 'ten');
is("$row->{failures} $row->{removed}", '1 0', 'without the namespaces nothing is removed');
$catalog->write_lake('ten', '{"namespaces": {}}');
$row = AmoroCatalog::explore($server, 'ten');
is("$row->{failures} $row->{removed} $row->{held}", '0 0 8', 'everything gone at once is held');
like($server->log_text, qr/keeps 8 tables of catalog "ten"/, 'which the log tells');
$catalog->write_lake('ten', lake_of_ten('', b => [ 't5' .. 't7' ]));
$row = AmoroCatalog::explore($server, 'ten');
is($row->{held}, 5, 'what is back is held no longer');
is($server->safe_psql('postgres', "SELECT confirm_removal('ten')"), 5, 'the rest goes with the word of an operator');
is(AmoroCatalog::tables($server, 'ten'), 'b/t5 b/t6 b/t7', 'and only that');
# D16
$server->safe_psql('postgres', "SELECT alter_catalog('ten', properties => jsonb_build_object('uri', '" . $catalog->uri('lake/ten')
	. "', 'read-tables', 'false', 'max-removed-share', '100', 'table-filter', '.*[.]t[56]', 'database-filter', 'b'))");
poll('the filter works', sub { AmoroCatalog::tables($server, 'ten') eq 'b/t5 b/t6' });

# an answer that is known need not be given again
sub etag_lake { return '{"etags": true, "namespaces": {"a": ' . AmoroCatalog::list(@_) . ', "b": ["x"]}}' }
$catalog->write_lake('etag', etag_lake(1 .. 9));
AmoroCatalog::create($server, 'etag', $catalog->uri('lake/etag'));
AmoroCatalog::wait_for_round($server, 'etag', 1);
$catalog->requests;
$row = AmoroCatalog::explore($server, 'etag');
is("$row->{tables} $row->{removed} $row->{last_error}", '10 0 ', 'nothing has changed, as the server says');
is(scalar(grep { /if-none-match/ } $catalog->requests), 12, 'it was asked whether it has: two databases, ten tables');
$catalog->write_lake('etag', etag_lake(1 .. 8));
is(AmoroCatalog::explore($server, 'etag')->{removed}, 1, 'what changes is seen');
$catalog->write_lake('etag', etag_lake(1 .. 3));
is(AmoroCatalog::explore($server, 'etag')->{held}, 5, 'what is held');
is(AmoroCatalog::explore($server, 'etag')->{held}, 5, 'stays so');
$server->safe_psql('postgres', "SELECT confirm_removal('etag')");
AmoroCatalog::explore($server, 'etag');
$catalog->write_lake('etag', etag_lake(1 .. 8));
is(AmoroCatalog::explore($server, 'etag')->{added}, 5, 'an answer of old is not taken for one that was taken in');
is(AmoroCatalog::tables($server, 'etag'), 'a/1 a/2 a/3 a/4 a/5 a/6 a/7 a/8 b/x', 'and all are there');

# D10: each name is found as itself
my @odd = ('x/y', 'x%2Fy', '?', '#', ' ', '..', '.', 'é', 'a+b', 'a&b=c', '\\"', '\\\\', "'; --");
$catalog->write_lake('odd', '{"page": 3, "namespaces": {'
	. join(', ', map { "\"$_\": " . AmoroCatalog::list(@odd) } 'a/b', 'é', '%1F', '..', "q?#\\\"") . ', "u": [], "u\u001fv": ["w"]}}');
AmoroCatalog::create($server, 'odd', $catalog->uri('lake/odd'), '{}', '{"read-tables": "true"}');
$row = AmoroCatalog::wait_for_round($server, 'odd', 1);
is($row->{last_error}, '', 'names of all kinds');
is($server->safe_psql('postgres', "SELECT count(*), count(table_uuid), count(DISTINCT database_name) FROM external_tables WHERE catalog_name = 'odd'"),
	'66|66|6', 'are listed and read as themselves');
is(Encode::decode('UTF-8', $server->safe_psql('postgres', "SELECT string_agg(database_name, ' ' ORDER BY database_name COLLATE \"C\") FROM (SELECT DISTINCT database_name FROM external_tables WHERE catalog_name = 'odd') d")),
	'%1F \\.\\. a/b q?#" u.v é', 'a dot in a level is told from one between levels');
$catalog->write_lake('dots', '{"separator": "%2E", "config": {"overrides": {"namespace-separator": "%2E"}}, "namespaces": {"u": [], "u\u001fv": ["w"]}}');
AmoroCatalog::create($server, 'dots', $catalog->uri('lake/dots'));
AmoroCatalog::wait_for_round($server, 'dots', 1);
is(AmoroCatalog::tables($server, 'dots'), 'u.v/w', 'a server may have a separator of its own');
# a server without nested namespaces answers with all of them whatever is asked
$catalog->write_lake('flat', '{"flat": true, "pages": false, "namespaces": {"a": ["t"], "b": ["t"]}}');
AmoroCatalog::create($server, 'flat', $catalog->uri('lake/flat'));
is(AmoroCatalog::wait_for_round($server, 'flat', 1)->{last_error}, '', 'a server that knows neither levels nor pages');
is(AmoroCatalog::tables($server, 'flat'), 'a/t b/t', 'is explored all the same');

# what a server says that it can do
$catalog->write_lake('blind', '{"config": {"endpoints": ["GET /v1/{prefix}/namespaces"]}, "namespaces": {"a": ["t"]}}');
AmoroCatalog::create($server, 'blind', $catalog->uri('lake/blind'));
is(AmoroCatalog::wait_for_round($server, 'blind', 1)->{last_error}, 'configuration: the server does not list tables', 'one that lists no tables is not asked for them');
$catalog->write_lake('listonly', '{"config": {"endpoints": ["GET /v1/{prefix}/namespaces/{namespace}/tables"]}, "namespaces": {"a": ["t"]}}');
AmoroCatalog::create($server, 'listonly', $catalog->uri('lake/listonly'));
is(AmoroCatalog::wait_for_round($server, 'listonly', 1)->{last_error}, '', 'one that loads none is not asked either');
is($server->safe_psql('postgres', "SELECT count(*), count(table_uuid) FROM external_tables WHERE catalog_name = 'listonly'"), '1|0', 'but what it lists is there');
$catalog->write_lake('broken', '{"config": {"overrides": {"namespace-separator": "%1"}}, "namespaces": {"a": ["t"]}}');
AmoroCatalog::create($server, 'broken', $catalog->uri('lake/broken'));
is(AmoroCatalog::wait_for_round($server, 'broken', 1)->{last_error}, 'configuration: the separator of namespaces is no encoded character', 'nor is what would not stay in its place in a URL put there');
# what we are told that nobody can use
$server->safe_psql('postgres', "SELECT create_catalog('nowhere', 'iceberg_rest')");
is(AmoroCatalog::wait_for_round($server, 'nowhere', 1)->{last_error}, 'the catalog has no property uri', 'a catalog that is nowhere');
AmoroCatalog::create($server, 'split', $catalog->uri('lake/one'), '{"token": "a\\r\\nX-Other: b"}');
is(AmoroCatalog::wait_for_round($server, 'split', 1)->{last_error}, 'the token has a character that cannot be sent', 'a token that is more than one header');

# D04: tokens
$catalog->write_lake('token', '{"tokens": ["static"], "namespaces": {"a": ["t"]}}');
AmoroCatalog::create($server, 'static', $catalog->uri('lake/token'), '{"token": "static"}');
is(AmoroCatalog::wait_for_round($server, 'static', 1)->{last_error}, '', 'a token of the catalog is sent');
AmoroCatalog::create($server, 'wrong', $catalog->uri('lake/token'), '{"token": "wrong"}');
like(AmoroCatalog::wait_for_round($server, 'wrong', 1)->{last_error}, qr/configuration: the server answers 401/, 'a wrong one fails');
my $number = 0;
for my $status (401, 403, 419, 501)
{
	my @tokens = map { 'token-' . $_ } $number, $number + 1;
	# the first token is good for the first half of the namespaces alone
	$catalog->write_lake('renew', '{"tokens": ' . AmoroCatalog::list($tokens[1]) . ", \"expired\": $status, \"namespaces\": {\"a\": [\"t\"], \"b\": [\"t\"]}}");
	AmoroCatalog::create($server, "renew$status", $catalog->uri('lake/renew'),
		'{"credential": "me:s3cret&=", "oauth2-server-uri": "' . $catalog->uri('oauth/tokens') . '"}');
	is(AmoroCatalog::wait_for_round($server, "renew$status", 1)->{last_error}, '', "a token that is refused with $status is had anew");
	$number += 2;
}
is(scalar(grep { m{^POST} } $catalog->requests), 8, 'once each time');
AmoroCatalog::create($server, 'secret', $catalog->uri('lake/renew'), '{"credential": "me:wr0ng", "oauth2-server-uri": "' . $catalog->uri('oauth/tokens') . '"}');
like(AmoroCatalog::wait_for_round($server, 'secret', 1)->{last_error}, qr/^token: the server answers 401$/, 'a wrong secret fails');
# a token ends in the middle of a round, again and again
my @many = map { "\"n$_\": [\"t\"]" } 1 .. 40;
sub posts { return scalar grep { m{^POST} } $catalog->requests }
for my $status (401, 403, 419)
{
	$catalog->write_lake('short', "{\"token_uses\": 16, \"expired\": $status, \"namespaces\": {" . join(', ', @many) . '}}');
	my $create = "SELECT create_catalog('short$status', 'iceberg_rest', jsonb_build_object('uri', '" . $catalog->uri('lake/short') . "', 'read-tables', 'false'), auth_config => ";
	$server->safe_psql('postgres', "$create '{\"credential\": \"me:s3cret&=\", \"oauth2-server-uri\": \"" . $catalog->uri('oauth/tokens') . "\"}')");
	$row = AmoroCatalog::wait_for_round($server, "short$status", 1);
	is("$row->{tables} $row->{last_error}", '40 ', "a token that ends after 16 questions with $status");
	cmp_ok(posts(), '>=', 5, 'is had anew each time');
}
$catalog->write_lake('short', '{"namespaces": {' . join(', ', @many[ 0 .. 19 ]) . '}}');
$row = AmoroCatalog::explore($server, 'short401');
is($row->{held}, 20, 'fewer are listed');
$catalog->write_lake('short', '{"namespaces": {' . join(', ', @many) . '}}');
# nobody gives out tokens for a while: nothing is removed, and it recovers by itself
append_to_file("$catalog->{directory}/tokens.down", '');
$row = AmoroCatalog::explore($server, 'short401');
like($row->{last_error}, qr/^token: the server answers 500$/, 'no token is to be had');
is(scalar(split / /, AmoroCatalog::tables($server, 'short401')), 40, 'nothing is removed');
unlink "$catalog->{directory}/tokens.down";
$row = AmoroCatalog::explore($server, 'short401');
is("$row->{tables} $row->{held} $row->{last_error}", '40 0 ', 'then it goes on');
# one that is over as soon as it is given is used all the same
posts();
AmoroCatalog::create($server, 'over', $catalog->uri('lake/one'), '{"credential": "me:s3cret&=", "oauth2-server-uri": "' . $catalog->uri('oauth-0/tokens') . '"}');
$row = AmoroCatalog::wait_for_round($server, 'over', 1, 20);
is("$row->{tables} $row->{last_error}", '9 ', 'a token that is over at once');
cmp_ok(posts(), '<', 10, 'is not had anew for each question');

# D12
unlike($server->log_text, qr/s3cret|wr0ng|token-\d|Bearer/, 'no secret is in the log');
is($server->safe_psql('postgres', "SELECT count(*) FROM amoro_stat_explorer WHERE amoro_stat_explorer::text ~ 's3cret|wr0ng|token-'"), 0, 'nor in the view');

# 429 and 503
for my $status (429, 503)
{
	AmoroCatalog::create($server, "later$status", $catalog->uri("later-$status-2-1"), '{}', '{"read-tables": "false"}');
	$row = AmoroCatalog::wait_for_round($server, "later$status", 1);
	is("$row->{tables} $row->{last_error}", '1 ', "$status: asked again when the server said");
}
AmoroCatalog::create($server, 'muchlater', $catalog->uri('later-503-9-3000'));
$row = AmoroCatalog::wait_for_round($server, 'muchlater', 1);
like($row->{last_error}, qr/the server answers 503/, 'an hour is not waited for');

# a catalog that is asked for while it is explored; dropped while it is explored
AmoroCatalog::create($server, 'slow', $catalog->uri('slow-3'), '{}', '{"read-tables": "false"}');
poll('it is explored', sub { AmoroCatalog::status($server, 'slow')->{phase} eq 'tables' });
is($server->safe_psql('postgres', "SELECT explore_catalog('slow')"), 2, 'the round under way may have passed what is new');
is(AmoroCatalog::wait_for_round($server, 'slow', 2)->{tables}, 1, 'another one follows it');
$server->safe_psql('postgres', "SELECT explore_catalog('slow')");
poll('it is explored again', sub { AmoroCatalog::status($server, 'slow')->{phase} eq 'tables' });
my $pid = AmoroCatalog::status($server, 'one')->{pid};
$server->safe_psql('postgres', "SELECT drop_catalog('slow')");
AmoroCatalog::explore($server, 'one');
is($server->safe_psql('postgres', 'SELECT count(*) FROM amoro_meta.exploration e WHERE NOT EXISTS (SELECT FROM amoro_meta.catalog c WHERE c.catalog_id = e.catalog_id)'),
	0, 'nothing is left of a catalog that was dropped');
is(AmoroCatalog::status($server, 'one')->{pid}, $pid, 'and the explorer is the same');

# somebody who asks for a catalog and leaves the transaction open holds up nobody else
my $idle = $server->background_psql('postgres');
$idle->query_safe("BEGIN; SELECT explore_catalog('odd')");
is(AmoroCatalog::explore($server, 'one', 20)->{last_error}, '', 'beside an open transaction that has asked for another one');
$idle->query_safe('COMMIT');
$idle->quit;
AmoroCatalog::create($server, 'slow', $catalog->uri('slow-3'), '{}', '{"read-tables": "false"}');
poll('a round is under way', sub { AmoroCatalog::status($server, 'slow')->{phase} eq 'tables' });
$idle = $server->background_psql('postgres');
$idle->query_safe("BEGIN; SELECT explore_catalog('slow')");
poll('its answer has come', sub { AmoroCatalog::tables($server, 'slow') eq 'n/t' });
is(AmoroCatalog::explore($server, 'one', 20)->{last_error}, '', 'beside one whose end cannot be recorded');
is(AmoroCatalog::status($server, 'slow')->{rounds}, 0, 'which is still so');
$idle->query_safe('COMMIT');
$idle->quit;
AmoroCatalog::wait_for_round($server, 'slow', 2);

# errors of the caller
is(($server->outcome("SELECT explore_catalog('no such')"))[0], '42704', 'no such catalog');
$server->safe_psql('postgres', "SELECT create_catalog('kept'), create_catalog('hive', 'pushed')");
is(($server->outcome("SELECT explore_catalog('hive')"))[0], '0A000', 'not explored but reported');

# an internal catalog: nothing to ask, runtimes are compared with tables
for my $call ("create_database('kept', 'd')", "create_table('kept', 'd', 't', '{\"format\": \"iceberg\", \"columns\": [{\"name\": \"a\", \"type\": \"int\"}]}')")
{
	my $procedure = $server->safe_psql('postgres', "SELECT $call");
	is($server->safe_psql('postgres', "SELECT wait_for_procedure($procedure)"), 'done', $call);
}
$server->safe_psql('postgres', "UPDATE amoro_meta.table_runtime SET table_id = -1 WHERE catalog_name = 'kept'");
is($server->safe_psql('postgres', "SELECT explore_catalog('kept')"), 0, 'explored at once');
is($server->safe_psql('postgres', "SELECT count(*), min(r.table_id) = min(t.table_id) FROM amoro_meta.table_runtime r, tables t WHERE r.catalog_name = 'kept' AND t.catalog_name = 'kept'"),
	'1|t', 'the table has its runtime, what has no table is gone');
unlike($server->log_text, qr/\b(ERROR|PANIC|FATAL)\b(?!.*(no such|not explored|does not exist))/, 'no error in the log');
$server->stop;
done_testing;
