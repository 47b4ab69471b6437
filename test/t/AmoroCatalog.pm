# Catalogs to be explored: the server of test/explorer, and what tests ask about them again and again.
package AmoroCatalog;

use strict;
use warnings;
use AmoroChild qw(child_started end_child);
use AmoroCluster qw(poll);
use File::Basename qw(dirname);
use PostgreSQL::Test::Utils;

my $program = dirname(__FILE__) . '/../explorer/catalog_server.py';

# Starts a catalog server; options: arguments of the program.
sub start
{
	my ($class, @arguments) = @_;
	my $directory = PostgreSQL::Test::Utils::tempdir();
	my $pid = fork // die "fork: $!";
	if ($pid == 0)
	{
		open STDIN, '<', '/dev/null';
		exec('/usr/bin/python3', $program, '--directory', $directory, @arguments) or POSIX::_exit(1);
	}
	child_started($pid);
	poll('the catalog server listens', sub { -e "$directory/port" });
	chomp(my $port = slurp_file("$directory/port"));
	return bless { directory => $directory, pid => $pid, port => $port,
		scheme => (grep { $_ eq '--certificate' } @arguments) ? 'https' : 'http' }, $class;
}

sub uri
{
	my ($self, $path, $host) = @_;
	return "$self->{scheme}://" . ($host // '127.0.0.1') . ":$self->{port}/$path";
}

# What lake/NAME holds from now on: a JSON text.
sub write_lake
{
	my ($self, $name, $json) = @_;
	open my $file, '>:encoding(UTF-8)', "$self->{directory}/$name.new" or die $!;
	print $file $json;
	close $file;
	rename "$self->{directory}/$name.new", "$self->{directory}/$name.json" or die $!;
	return;
}

# Lines "METHOD path authorization" of the requests since the last call.
sub requests
{
	my ($self) = @_;
	my $log = -e "$self->{directory}/log" ? slurp_file("$self->{directory}/log") : '';
	my $new = substr($log, $self->{seen} // 0);
	$self->{seen} = length $log;
	return split /\n/, $new;
}

sub stop { my ($self) = @_; return end_child($self->{pid}) }

# Creates a catalog of the metastore iceberg_rest; $auth: the JSON of auth_config.
sub create
{
	my ($server, $name, $uri, $auth, $more) = @_;
	$auth //= '{}';
	$more //= '{}';
	$server->safe_psql('postgres',
		"SELECT create_catalog('$name', 'iceberg_rest', jsonb_build_object('uri', '$uri') || '$more', auth_config => \$\$$auth\$\$)");
	return;
}

# Has a catalog explored and waits until that round is over; its row of amoro_stat_explorer as a hash.
sub explore
{
	my ($server, $name, $timeout) = @_;
	my $round = $server->safe_psql('postgres', "SELECT explore_catalog('$name')");
	return wait_for_round($server, $name, $round, $timeout);
}

sub wait_for_round
{
	my ($server, $name, $round, $timeout) = @_;
	return poll("round $round of catalog $name is over", sub {
		my $row = status($server, $name);
		($row->{rounds} // 0) >= $round && $row }, $timeout);
}

# The row of amoro_stat_explorer of a catalog.
sub status
{
	my ($server, $name) = @_;
	my @columns = qw(pid phase done tables rounds added changed removed skipped skipped_name held failures last_error);
	my %row;
	my $text = $server->safe_psql('postgres',
		'SELECT ' . join(" || E'\\x1f' || ", map { "coalesce($_\::text, '')" } @columns) . " FROM amoro_stat_explorer WHERE catalog_name = '$name'");
	@row{@columns} = split /\x1f/, $text, -1;
	return \%row;
}

# The tables of a catalog as "database/table", sorted, with a blank between them.
sub tables
{
	my ($server, $name) = @_;
	return $server->safe_psql('postgres',
		"SELECT coalesce(string_agg(database_name || '/' || table_name, ' ' ORDER BY database_name COLLATE \"C\", table_name COLLATE \"C\"), '')"
		. " FROM external_tables WHERE catalog_name = '$name'");
}

# Names as a JSON list.
sub list { return '[' . join(', ', map { "\"$_\"" } @_) . ']' }

1;
