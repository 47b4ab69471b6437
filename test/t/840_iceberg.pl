# A REST catalog that nobody here wrote: that of Apache Iceberg's own tests. Only where it was fetched (test/explorer/iceberg).
use strict;
use warnings;
use AmoroCatalog;
use AmoroCluster qw(poll);
use HTTP::Tiny;
use IO::Socket::INET;
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'AMORO_ICEBERG names no directory with the catalog of Apache Iceberg; test/explorer/iceberg/fetch makes one'
	unless defined $ENV{AMORO_ICEBERG} && glob "$ENV{AMORO_ICEBERG}/iceberg-open-api-*.jar";

# a port that is free now
my $port = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1')->sockport;
my $directory = PostgreSQL::Test::Utils::tempdir();
my $log = "$directory/catalog.log";
my $pid = fork // die "fork: $!";
if ($pid == 0)
{
	$ENV{CATALOG_REST_PORT} = $port;
	# in memory, each of its connections would have a database of its own
	$ENV{CATALOG_URI} = "jdbc:sqlite:$directory/catalog.db";
	$ENV{CATALOG_WAREHOUSE} = "$directory/warehouse";
	open STDIN, '<', '/dev/null';
	open STDOUT, '>', $log;
	open STDERR, '>&', \*STDOUT;
	exec('java', '-cp', "$ENV{AMORO_ICEBERG}/*", 'org.apache.iceberg.rest.RESTCatalogServer') or POSIX::_exit(1);
}
END
{
	my $status = $?;
	if ($pid) { kill 'KILL', $pid; waitpid $pid, 0; }
	$? = $status;
}
my $http = HTTP::Tiny->new(timeout => 30);
my $uri = "http://127.0.0.1:$port";
poll('the catalog listens', sub { waitpid($pid, POSIX::WNOHANG()) == 0 or die slurp_file($log); $http->get("$uri/v1/config")->{success} });

sub send_json
{
	my ($path, $json) = @_;
	my $answer = $http->request('POST', "$uri/v1/$path", { content => $json, headers => { 'Content-Type' => 'application/json' } });
	die "$path: $answer->{status} $answer->{content}" unless $answer->{success};
	return;
}
sub create_table
{
	my ($namespace, $name, $properties) = @_;
	send_json("namespaces/$namespace/tables", "{\"name\": \"$name\", \"properties\": {$properties},"
		. ' "schema": {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "a", "type": "int", "required": false}]}}');
	return;
}
send_json('namespaces', "{\"namespace\": $_}") for '["sales"]', '["sales", "north"]', '["stock"]';
create_table('sales', 'orders', '"self-optimizing.group": "express"');
create_table('sales%1Fnorth', 'visits', '');
create_table('stock', "item$_", '') for 1 .. 30;

my $server = AmoroCluster->create('main', conf => "amoro_meta.http_allowed_hosts = '127.0.0.1'\namoro_meta.explore_interval = 1h\n");
AmoroCatalog::create($server, 'iceberg', $uri);
my $row = AmoroCatalog::wait_for_round($server, 'iceberg', 1);
is("$row->{tables} $row->{last_error}", '32 ', 'all of its tables');
is($server->safe_psql('postgres', "SELECT string_agg(DISTINCT database_name, ' '), count(DISTINCT table_uuid) FROM external_tables"),
	'sales sales.north stock|32', 'in namespaces of any level, each read');
is($server->safe_psql('postgres', "SELECT properties FROM external_tables WHERE table_name = 'orders'"), '{"self-optimizing.group": "express"}', 'with its properties');
my $old = $server->safe_psql('postgres', "SELECT table_id FROM external_tables WHERE table_name = 'orders'");

$http->request('DELETE', "$uri/v1/namespaces/$_")->{success} or die "cannot delete $_" for 'sales/tables/orders', 'stock/tables/item30', 'sales%1Fnorth/tables/visits', 'sales%1Fnorth';
create_table('sales', 'orders', '');
$row = AmoroCatalog::explore($server, 'iceberg');
is("$row->{tables} $row->{removed} $row->{last_error}", '30 2 ', 'what was dropped is removed');
isnt($server->safe_psql('postgres', "SELECT table_id FROM external_tables WHERE table_name = 'orders'"), $old, 'a table made anew is another one');
$row = AmoroCatalog::explore($server, 'iceberg');
is("$row->{added} $row->{changed} $row->{removed}", '0 0 0', 'then nothing changes');
$server->stop;
done_testing;
