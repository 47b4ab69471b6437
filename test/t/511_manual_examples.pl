# The examples in the README's section Functions, typed in their order as they stand: they work, and what is printed is
# what the README prints, but for numbers of rows, moments, and the width of the columns.
use strict;
use warnings;
use AmoroCluster;
use PostgreSQL::Test::Utils;
use File::Basename qw(dirname);
use Test::More;

my ($functions) = slurp_file(dirname(__FILE__) . '/../../README.md') =~ /^## Functions\n(.*?)^## /ms or die 'README.md has no section Functions';

# These need nodes that run and services that answer; their own tests have both.
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
	'Coming from Apache Amoro' => <<'SQL',
CREATE SCHEMA ams;
CREATE TABLE ams.catalog_metadata (catalog_id serial PRIMARY KEY, catalog_name varchar(64) UNIQUE, catalog_metastore varchar(64), storage_configs text,
	auth_configs text, catalog_properties text);
INSERT INTO ams.catalog_metadata (catalog_name, catalog_metastore, storage_configs, auth_configs, catalog_properties) VALUES ('old', 'hive', '{}', '{}', '{}');
SQL
);

my $server = AmoroCluster->create('manual', conf => "amoro_meta.explore_interval = 1h\n");

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
		s/\b([Bb]locker|token|table|version is|not|table_id =) \d+/$1 #/g;
		$_
	} map { join '|', @$_ } @rows;
}

my $examples = 0;
while ($functions =~ /^### (.*?)\n(.*?)(?=^### |\z)/msg)
{
	my ($heading, $section) = ($1, $2);
	my @statements;
	push @statements, statements($1) while $section =~ /^```sql\n(.*?)^```\n/msg;
	next if !@statements || $elsewhere{$heading};
	my $script = "\\set SHOW_CONTEXT never\n\\pset footer off\n" . ($before{$heading} // '');
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
}
cmp_ok($examples, '>=', 14, 'the README prints what comes out');
$server->stop;
done_testing();
