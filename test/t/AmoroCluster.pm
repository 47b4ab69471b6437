# A private server with amoro_meta preloaded, small leases, and what tests ask of it again and again.
package AmoroCluster;

use strict;
use warnings;
use parent 'PostgreSQL::Test::Cluster';
use Carp;
use Exporter 'import';
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

our @EXPORT_OK = qw(poll);

my $settings = <<'CONF';
shared_preload_libraries = 'amoro_meta'
max_worker_processes = 16
fsync = off
log_line_prefix = '%m [%p] %b '
amoro_meta.metadata_lease_fence_ms = 2s
amoro_meta.ack_timeout = 500ms
amoro_meta.heartbeat_interval = 200ms
CONF

# Makes and starts a server whose database postgres has the extension. Options: conf (more lines of postgresql.conf),
# init and new (options of these functions of PostgreSQL::Test::Cluster), extension => 0 for none, start => 0 to start it yourself.
sub create
{
	my ($class, $name, %options) = @_;
	my $self = $class->new($name, %{ $options{new} // {} });
	$self->init(%{ $options{init} // {} });
	$self->append_conf('postgresql.conf', $settings . ($options{conf} // ''));
	return $self if defined $options{start} && !$options{start};
	$self->start;
	if ($options{extension} // 1)
	{
		$self->safe_psql('postgres', 'CREATE EXTENSION amoro_meta');
		$self->wait_for_state('running');
	}
	return $self;
}

# Polls until the code returns something true, which is returned. Otherwise the test file ends with the description.
sub poll
{
	my ($description, $code, $timeout) = @_;
	my $deadline = time + ($timeout // $PostgreSQL::Test::Utils::timeout_default);
	while (1)
	{
		my $result = $code->();
		return $result if $result;
		croak "timed out waiting until $description" if time > $deadline;
		sleep 0.02;
	}
}

# As in PostgreSQL::Test::Cluster. A server that is starting again refuses psql, which may be gone before all of the statement
# was written to it: that, too, is a connection that failed (2, as psql says it), and no reason to end the test.
sub psql
{
	my ($self, $database, $statement, %options) = @_;
	my ($stdout, $stderr) = ('', '');
	$options{stdout} //= \$stdout;
	$options{stderr} //= \$stderr;
	my $code = eval { $self->SUPER::psql($database, $statement, %options) };
	die $@ if $@ && ($@ !~ /Broken pipe/ || $options{on_error_die});
	$code = 2 if $@;
	return wantarray ? ($code, ${ $options{stdout} }, ${ $options{stderr} }) : $code;
}

# The row of amoro_stat_coordinator of a database as a hash, seen from any database that has the extension.
sub coordinator
{
	my ($self, $database, $from) = @_;
	$database //= 'postgres';
	my ($code, $json) = $self->psql($from // $database,
		"SELECT coalesce((SELECT to_jsonb(c)::text FROM amoro_stat_coordinator c WHERE datname = '$database'), '{}')");
	return {} if !defined $code || $code != 0 || $json eq '';
	# a flat object without nested values: no JSON module is needed to read it
	my %row;
	while ($json =~ /"(\w+)": (?:"((?:[^"\\]|\\.)*)"|([^,}]+))/g)
	{
		my ($key, $text, $other) = ($1, $2, $3);
		$row{$key} = defined $text ? $text =~ s/\\(.)/$1/gr : $other eq 'null' ? undef : $other;
	}
	return \%row;
}

# Waits until the coordinator of a database is in that state; returns its row.
sub wait_for_state
{
	my ($self, $state, $database, $timeout, $from) = @_;
	$database //= 'postgres';
	return poll(
		"the coordinator of $database is $state",
		sub {
			my $row = $self->coordinator($database, $from);
			return ($row->{state} // '') eq $state && $row;
		},
		$timeout);
}

# Waits until it runs as another process than before; returns its row.
sub wait_for_successor
{
	my ($self, $pid, $database, $timeout) = @_;
	return poll(
		"the coordinator has a successor of $pid",
		sub {
			my $row = $self->coordinator($database);
			return ($row->{state} // '') eq 'running' && $row->{pid} != $pid && $row;
		},
		$timeout);
}

# Changes settings of the whole server for as long as it lives, undef resets one; returns at once.
sub configure
{
	my ($self, %values) = @_;
	for my $name (sort keys %values)
	{
		my $value = $values{$name};
		$self->safe_psql('postgres',
			defined $value ? "ALTER SYSTEM SET $name = '$value'" : "ALTER SYSTEM RESET $name");
	}
	$self->reload;
	return;
}

# SQLSTATE and text of the error that a statement raises; ('00000', result) when it raises none. Options are those of
# psql: user => role, replication …
sub outcome
{
	my ($self, $statement, $database, @connection) = @_;
	my ($code, $out, $err) = $self->psql($database // 'postgres', "\\set VERBOSITY verbose\n$statement",
		on_error_stop => 1, @connection);
	return ($1, $err) if $err =~ /(?:ERROR|FATAL):\s+(\w{5}):/;
	return $code == 0 ? ('00000', $out) : ('XX000', $err);
}

# Milliseconds that the code took.
sub elapsed
{
	my ($self, $code) = @_;
	my $start = time;
	$code->();
	return (time - $start) * 1000;
}

# A command that has to take under a second with a request under way, on a machine that may be busy: at most that much longer
# than the same command took with none, $baseline milliseconds. Both are printed.
sub is_prompt
{
	my ($self, $what, $took, $baseline) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return Test::More::cmp_ok($took - $baseline, '<', 1000, sprintf '%s: %.0f ms; with no request under way %.0f ms', $what, $took, $baseline);
}

# What the server has logged since a position of the log, 0 for all of it.
sub log_text
{
	my ($self, $position) = @_;
	return substr(slurp_file($self->logfile), $position // 0);
}

sub log_position { my ($self) = @_; return -s $self->logfile }

1;
