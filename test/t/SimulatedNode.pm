# A node that is SQL alone: it says to the server exactly what a test has it say, and notes what it is told.
package SimulatedNode;

use strict;
use warnings;

my $started = 0;

# Options: role (who speaks), incarnation, register => 0 to be somebody who has not registered.
sub new
{
	my ($class, $server, $name, %options) = @_;
	my $self = bless { server => $server, name => $name, role => $options{role} // 'postgres', version => 0 }, $class;
	$self->{incarnation} = $options{incarnation} // sprintf('%08x-0000-4000-8000-%012x', $$, ++$started);
	$self->register if $options{register} // 1;
	return $self;
}

# A node that has registered, loaded and activated.
sub active
{
	my $self = new(@_);
	$self->recover;
	return $self;
}

# Calls a function that returns node_grant; notes the answer, or the SQLSTATE of the error, which is returned.
sub ask
{
	my ($self, $call) = @_;
	my ($state, $text) = $self->{server}->outcome(
		"SELECT answer, node_id, term, lease_epoch, lease_ms, metadata_version, reason FROM $call", 'postgres',
		extra_params => [ '-U', $self->{role} ]);
	$self->{error} = $state eq '00000' ? '' : $text;
	return $self->{answer} = $state if $state ne '00000';
	@$self{qw(answer node_id term epoch lease_ms metadata_version reason)} = split /\|/, $text, -1;
	return $self->{answer};
}

sub register
{
	my ($self) = @_;
	return $self->ask("register_node('$self->{name}', '$self->{incarnation}')");
}

# Options: term, epoch, version and incarnation to say something else than what it was told; wait, detail.
sub heartbeat
{
	my ($self, %say) = @_;
	my %with = (%$self, %say);
	my $detail = defined $say{detail} ? ", detail => '$say{detail}'" : '';
	my $wait = $say{wait} // '0';
	my $answer = $self->ask_keeping(\%say,
		"node_heartbeat($with{node_id}, '$with{incarnation}', $with{term}, $with{epoch}, $with{version}, '$wait'$detail)");
	return $answer;
}

sub activate
{
	my ($self, %say) = @_;
	my %with = (%$self, %say);
	return $self->ask_keeping(\%say,
		"activate_node($with{node_id}, '$with{incarnation}', $with{term}, $with{epoch}, $with{version})");
}

# What was said in place of the truth is not what the node goes on with.
sub ask_keeping
{
	my ($self, $say, $call) = @_;
	my %kept = map { $_ => $self->{$_} } qw(term epoch);
	my $answer = $self->ask($call);
	@$self{ keys %kept } = values %kept if %$say && $answer ne 'reload';
	return $answer;
}

# Loads the newest version (in thought) and activates.
sub recover
{
	my ($self) = @_;
	for (1 .. 10)
	{
		$self->{version} = $self->{metadata_version};
		return 'granted' if $self->activate eq 'granted';
	}
	die "node $self->{name} cannot be activated: $self->{answer} $self->{error}";
}

# Applies everything there is, and says so.
sub apply
{
	my ($self) = @_;
	$self->{version} = $self->{server}->safe_psql('postgres', 'SELECT version FROM amoro_meta.metadata_version');
	return $self->heartbeat;
}

sub release
{
	my ($self) = @_;
	return ($self->{server}->outcome("SELECT release_node($self->{node_id}, '$self->{incarnation}')", 'postgres',
		extra_params => [ '-U', $self->{role} ]))[1];
}

# A column of node_status for this very incarnation; undef when it has no row.
sub status
{
	my ($self, $column) = @_;
	my $value = $self->{server}->safe_psql('postgres',
		"SELECT coalesce(($column)::text, 'null') FROM node_status WHERE incarnation = '$self->{incarnation}'");
	return $value eq '' ? undef : $value;
}

# For how many milliseconds the server owes it a lease; 0: for none.
sub owed_ms
{
	my ($self) = @_;
	return $self->status("coalesce(extract(epoch FROM lease_owed_for) * 1000, 0)::bigint") // 0;
}

1;
