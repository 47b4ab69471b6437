# The first session of the README, typed as it stands: what is printed is what the README prints.
use strict;
use warnings;
use AmoroCluster;
use PostgreSQL::Test::Utils;
use File::Basename qw(dirname);
use Test::More;

my $readme = dirname(__FILE__) . '/../../README.md';
my ($session) = slurp_file($readme) =~ /^## A first session\n(.*?)^## /ms or die 'README.md has no first session';

my $server = AmoroCluster->create('manual', extension => 0);
$server->safe_psql('postgres', 'CREATE DATABASE lakehouse');
local $ENV{PATH} = dirname($ENV{AMORO_NODE}) . ":$ENV{PATH}";
local $ENV{PGHOST} = $server->host;
local $ENV{PGPORT} = $server->port;
local $ENV{PGDATABASE} = 'lakehouse';
# a port of its own: 8080 may be taken
my $port = PostgreSQL::Test::Cluster::get_free_port();
$session =~ s/127\.0\.0\.1:8080/127.0.0.1:$port/g;
local $ENV{AMORO_NODE_LISTEN} = "127.0.0.1:$port";

# One shell for all of it, since it keeps the process id of the node; each output ends with a line that says so.
my @outputs;
my $script = "trap 'kill -CONT \$node; kill \$node' EXIT\n";
my $step = 0;
while ($session =~ /^```(sh|sql)?\n(.*?)^```\n/msg)
{
	my ($kind, $text) = ($1 // 'output', $2);
	if ($kind eq 'output')
	{
		push @outputs, [ $step, $text ];
		next;
	}
	$step++;
	$script .= $kind eq 'sh' ? $text : "psql -X 2>&1 <<'END_OF_SQL'\n${text}END_OF_SQL\n";
	$script .= "echo; echo '--- end of step $step'\n";
}
$script .= "kill \$node; wait \$node; ended=\$?; trap - EXIT; exit \$ended\n";
my $script_file = $server->basedir . '/session.sh';
append_to_file($script_file, $script);
my $printed = `timeout 120 bash $script_file 2>$script_file.err`;
is($?, 0, 'the node of the session stops in good order');

my %printed_in;
$printed_in{$2} = $1 while $printed =~ /(.*?)\n--- end of step (\d+)\n/gs;
cmp_ok(scalar @outputs, '>=', 4, 'the README prints what comes out');
for my $output (@outputs)
{
	my ($number, $expected) = @$output;
	my $got = $printed_in{$number} // '';
	s/\s+\z// for $expected, $got;
	is($got, $expected, "step $number prints what the README says");
}
unlike($printed, qr/ERROR|FATAL/, 'without errors');
$server->stop;
done_testing();
