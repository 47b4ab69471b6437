# The examples in the README's section Functions, typed in their order as they stand: they work, and what is printed is
# what the README prints, but for numbers of rows, moments, and the width of the columns.
use strict;
use warnings;
use AmoroCluster qw(poll);
use AmoroNode;
use PostgreSQL::Test::Utils;
use File::Basename qw(dirname);
use File::Spec;
use IO::Socket::INET;
use Test::More;

my ($functions) = slurp_file(dirname(__FILE__) . '/../../README.md') =~ /^## Functions\n(.*?)^## /ms or die 'README.md has no section Functions';

# These need nodes that run: those of the first are typed below, those of the other have tests of their own.
my %elsewhere = map { $_ => 1 } 'Services with one leader', 'Buckets and partitions';

# What the reader has done before the examples under a heading.
my %before = (
	'Optimizer groups and the tables in them' => <<'SQL',
SELECT create_catalog('lake'), create_database('lake', 'sales') AS id \gset
SELECT wait_for_procedure(:id);
SQL
	'Table blockers' => <<'SQL',
CREATE ROLE etl;
SELECT grant_access('etl', 'writer');
CREATE TABLE loads (n int);
GRANT INSERT ON loads TO etl;
SET ROLE etl;
SQL
	# a small AMS
	'Coming from Apache Amoro' => <<'SQL',
CREATE SCHEMA ams;
SET search_path = ams;
CREATE TABLE catalog_metadata (catalog_id serial PRIMARY KEY, catalog_name varchar(64) UNIQUE, catalog_metastore varchar(64), storage_configs text,
	auth_configs text, catalog_properties text);
CREATE TABLE database_metadata (catalog_name varchar(64), db_name varchar(128), properties text);
CREATE TABLE resource_group (group_name varchar(50) PRIMARY KEY, container_name varchar(100), properties text);
CREATE TABLE table_identifier (table_id bigserial PRIMARY KEY, catalog_name varchar(64), db_name varchar(128), table_name varchar(256), format varchar(32));
CREATE TABLE table_metadata (table_id bigint PRIMARY KEY, table_location varchar(256));
CREATE TABLE table_runtime (table_id bigint PRIMARY KEY, status_code int, table_config text);
CREATE TABLE table_runtime_state (table_id bigint, state_key varchar(256), state_value text);
CREATE TABLE table_process (process_id bigserial PRIMARY KEY, table_id bigint, status varchar(64), process_type varchar(64), process_stage varchar(64),
	create_time timestamptz, finish_time timestamptz, fail_message text);
CREATE TABLE table_blocker (blocker_id bigserial PRIMARY KEY, catalog_name varchar(64), db_name varchar(128), table_name varchar(256), operations varchar(128),
	expiration_time timestamp, properties text);
INSERT INTO catalog_metadata (catalog_name, catalog_metastore, storage_configs, auth_configs, catalog_properties) VALUES
	('shop', 'hive', '{}', '{}', '{"table.self-optimizing.group": "batch"}'), ('local', 'ams', '{}', '{}', '{}');
INSERT INTO database_metadata VALUES ('local', 'sales', '{}');
INSERT INTO resource_group VALUES ('batch', 'external', '{}');
INSERT INTO table_identifier VALUES (1, 'shop', 'web', 'clicks', 'ICEBERG'), (2, 'shop', 'web', 'views', 'ICEBERG'), (3, 'local', 'sales', 'orders', 'ICEBERG');
INSERT INTO table_metadata VALUES (3, 's3://lake/sales/orders');
INSERT INTO table_runtime VALUES (1, 300, '{}'), (2, 700, '{}'), (3, 700, '{}');
INSERT INTO table_process (table_id, status, process_type, process_stage, create_time, finish_time) VALUES
	(1, 'SUCCESS', 'MINOR', 'SUCCESS', now() - interval '2 hours', now() - interval '1 hour'), (1, 'RUNNING', 'MINOR', 'MINOR_OPTIMIZING', now(), NULL);
RESET search_path;
SQL
);

my $server = AmoroCluster->create('manual', conf => "amoro_meta.explore_interval = 1h\namoro_meta.http_allowed_hosts = '127.0.0.1'\n");

# Statements with the lines that are printed below each: a statement begins with a word in capitals and ends with ; or \gset,
# not within quotes.
sub statements
{
	my ($block) = @_;
	my @statements;
	my $open = 0;
	for my $line (split /\n/, $block)
	{
		if (!$open && $line =~ /^[A-Z]+\b(?!:)/)
		{
			push @statements, { text => '', printed => [] };
			$open = 1;
		}
		if (!$open)
		{
			push @{ $statements[-1]{printed} }, $line if $line ne '' && $line !~ /^--\s/;
			next;
		}
		$statements[-1]{text} .= "$line\n";
		$open = 0 if ($statements[-1]{text} =~ tr/'//) % 2 == 0 && $line =~ /(?:;|\\gset)\s*(?:--.*)?$/;
	}
	return @statements;
}

# Cells of what is printed; those of columns that number rows, and moments and numbers of rows elsewhere, as #.
sub cells
{
	my ($lines) = @_;
	my @rows = map { [ map { s/^\s+|\s+$//gr } split / ?\| ?/, $_, -1 ] } grep { !/^[-+]+$/ } @$lines;
	my @is_number = map { scalar(/^(?!task_id)\w+_id$|^(?:set_table_status|token)$/) } @{ $rows[0] // [] };
	for my $row (@rows[ 1 .. $#rows ])
	{
		$row->[$_] =~ s/^\d+$/#/ for grep { $is_number[$_] } 0 .. $#$row;
	}
	return join "\n", map {
		s/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?\+\d\d/#/g;
		s/\b\d\d:\d\d:\d\d\.\d+/#/g;
		s{\bhttp://n?[\d.]+:\d+}{#}g;
		s/\b([Bb]locker|token|table|version is|not|table_id =) \d+/$1 #/g;
		$_
	} map { join '|', @$_ } @rows;
}

my $examples = 0;

# Types statements of a section in one session, after what the reader has done before, and compares what is printed.
sub type_statements
{
	my ($heading, $before, @statements) = @_;
	my $script = "\\set SHOW_CONTEXT never\n\\pset footer off\n$before";
	$script .= "\\echo --- begin of $_\n$statements[$_]{text}\\echo --- end of $_\n" for 0 .. $#statements;
	my $file = $server->basedir . '/example.sql';
	unlink $file;
	append_to_file($file, $script);
	my $connection = $server->connstr('postgres');
	my $printed = `psql -X -d "$connection" 2>&1 <$file`;
	for my $number (0 .. $#statements)
	{
		my ($statement, $expected) = ($statements[$number]{text} =~ s/\n\z//r, cells($statements[$number]{printed}));
		my ($got) = $printed =~ /^--- begin of $number\n(.*?)^--- end of $number$/ms;
		my $name = "$heading: " . substr($statement =~ s/\s+/ /gr, 0, 100);
		if (@{ $statements[$number]{printed} })
		{
			is(cells([ grep { $_ ne '' } split /\n/, $got // '' ]), $expected, $name);
			$examples++;
		}
		else
		{
			unlike($got // 'ERROR: nothing', qr/^ERROR:/m, $name);
		}
	}
	return;
}

my %section;
while ($functions =~ /^### (.*?)\n(.*?)(?=^### |\z)/msg)
{
	my ($heading, $section) = ($1, $2);
	push @{ $section{$heading} }, statements($1) while $section =~ /^```sql\n(.*?)^```\n/msg;
	type_statements($heading, $before{$heading} // '', @{ $section{$heading} }) if $section{$heading} && !$elsewhere{$heading};
}

# Services with one leader: two nodes, and what they run. Each takes calls where it says, and tells what it was asked.
my @steps = @{ $section{'Services with one leader'} };
my $directory = PostgreSQL::Test::Utils::tempdir();
sub start_candidate
{
	my ($name) = @_;
	my $port = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1')->sockport;
	my $hook = "$directory/$name.hook";
	append_to_file($hook, "#!/bin/sh\nexec /usr/bin/python3 '" . File::Spec->rel2abs(dirname(__FILE__)) . "/../explorer/leader_server.py' --directory '$directory' --name $name --port $port\n");
	chmod 0755, $hook;
	return AmoroNode->start(name => $name, conninfo => $server->connstr('postgres'),
		options => [ '--service', 'compactor', '--endpoint', "http://127.0.0.1:$port", '--on-gain', $hook ]);
}
sub wait_for_leader
{
	my ($name) = @_;
	poll("what $name runs listens", sub { -e "$directory/$name.port" });
	return poll("$name leads", sub { $server->safe_psql('postgres', "SELECT token FROM leaders WHERE state = 'led' AND node_name = '$name'") });
}
my $n1 = start_candidate('n1');
my $token = wait_for_leader('n1');
my $n2 = start_candidate('n2');
$n2->wait_for_serving;
type_statements('Services with one leader', '', shift @steps);
is($n1->stop, 0, 'n1 is stopped');
wait_for_leader('n2');
$_->{text} =~ s/\('compactor', 2\)/('compactor', $token)/ for @steps;
my $process = $server->safe_psql('postgres', "SELECT start_process('lake', 'sales', 'leaders', 'compact', '[]')");
$server->safe_psql('postgres', "SELECT delegate_process($process, 'compactor')");
$_->{text} =~ s/cancel_process_and_wait\(5,/cancel_process_and_wait($process,/ for @steps;
type_statements('Services with one leader', '', @steps);
is($server->safe_psql('postgres', "SELECT status, reason FROM processes WHERE process_id = $process"), 'CANCELED|too slow', 'the process is cancelled');
is($n2->stop, 0, 'n2 is stopped');
cmp_ok($examples, '>=', 14, 'the README prints what comes out');
$server->stop;
done_testing();
