# A server that is asked through one session of psql, which lasts until the server stops: for tests that ask thousands of times.
# A psql for each question costs ten times as much.
package AmoroSession;

use strict;
use warnings;
use parent 'AmoroCluster';
use AmoroCluster qw(poll);
use Carp;
use IO::Select;
use IPC::Open3 qw(open3);
use PostgreSQL::Test::Utils;

# The session, begun anew where there is none.
sub session
{
	my ($self) = @_;
	return $self->{session} if $self->{session};
	my %session = (errors => "$PostgreSQL::Test::Utils::tmp_check/session_errors", asked => 0);
	open my $errors, '>', $session{errors} or die "$session{errors}: $!";
	$session{pid} = open3($session{in}, $session{out}, '>&' . fileno $errors,
		'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $self->connstr('postgres'), '-f', '-');
	return $self->{session} = \%session;
}

sub end_session
{
	my ($self) = @_;
	my $session = delete $self->{session} or return;
	close $session->{$_} for qw(in out);
	local $?;
	waitpid $session->{pid}, 0;
	return;
}

# As in PostgreSQL::Test::Cluster. Other databases, and calls with options, have a psql of their own.
sub safe_psql
{
	my ($self, $database, $statement, %options) = @_;
	return $self->SUPER::safe_psql($database, $statement, %options) if $database ne 'postgres' || %options;
	my $session = $self->session;
	my $end = 'answered ' . ++$session->{asked};
	local $SIG{PIPE} = 'IGNORE';
	syswrite $session->{in}, "$statement\n;\n\\echo $end\n";
	my $answer = '';
	until ($answer =~ s/\n?\Q$end\E\n\z//)
	{
		my $answers = IO::Select->new($session->{out})->can_read($PostgreSQL::Test::Utils::timeout_default);
		next if $answers && sysread $session->{out}, $answer, 65536, length $answer;
		kill 'KILL', $session->{pid};
		$self->end_session;
		croak "$statement: " . ($answers ? slurp_file($session->{errors}) : 'timed out');
	}
	return $answer;
}

sub psql
{
	my ($self, $database, $statement, %options) = @_;
	return $self->SUPER::psql($database, $statement, %options) if $database ne 'postgres' || %options;
	my $answer = eval { $self->safe_psql($database, $statement) };
	my $code = defined $answer ? 0 : 2;
	return wantarray ? ($code, $answer // '', $code ? $@ : '') : $code;
}

# As in AmoroCluster; returns when the session, too, has the new values.
sub configure
{
	my ($self, %values) = @_;
	my $loaded = $self->safe_psql('postgres', 'SELECT pg_conf_load_time()');
	$self->SUPER::configure(%values);
	poll('the settings are loaded', sub { $self->safe_psql('postgres', 'SELECT pg_conf_load_time()') ne $loaded });
	return;
}

sub reload { $_[0]->safe_psql('postgres', 'SELECT pg_reload_conf()'); return }

sub stop
{
	my ($self, @mode) = @_;
	$self->end_session;
	return $self->SUPER::stop(@mode);
}

1;
