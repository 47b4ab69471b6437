# The lease clock of the server in the hands of a test: a lease of ten minutes ends when the test says so, in no time.
package LeaseClock;

use strict;
use warnings;
use AmoroCluster qw(poll);
use Exporter 'import';

our @EXPORT_OK = qw(long_lease advance change outcome_of verdict waits_for);

my $setting = "SELECT setting FROM pg_settings WHERE name = 'amoro_meta.debug_clock_offset_ms'";

# Settings with which nothing ends by itself while a test runs. A lease is owed for 600 s * 1.001 + 200 ms = 600.8 s.
sub long_lease
{
	return <<'CONF';
amoro_meta.metadata_lease_fence_ms = 600s
amoro_meta.ack_timeout = 100s
amoro_meta.heartbeat_interval = 1s
CONF
}

# Moves the clock of every process of the server forward; returns when new sessions live by it, and the coordinator,
# unless the test keeps that from its work (coordinator => 0).
sub advance
{
	my ($server, $milliseconds, %options) = @_;
	my $offset = $server->safe_psql('postgres', $setting) + $milliseconds;
	my $cycles = $server->coordinator->{cycles};
	$server->configure('amoro_meta.debug_clock_offset_ms' => $offset);
	poll('the clock has moved', sub { $server->safe_psql('postgres', $setting) == $offset });
	return unless $options{coordinator} // 1;
	# it reads its settings when a cycle is over, so the second one from now is at the new time
	poll('the coordinator has seen it', sub {
		$server->safe_psql('postgres', 'SELECT amoro_meta.recheck_identity()');
		my $now = $server->coordinator->{cycles};
		return !defined $now || !defined $cycles || $now >= $cycles + 2;
	});
	return;
}

# Appends a change of nothing in particular, as a step of the coordinator does it, without a procedure; returns its version.
sub change
{
	my ($server) = @_;
	return $server->safe_psql('postgres', "SELECT amoro_meta.append_change('table', 'alter', 'c', 'd', 't', 1)");
}

# Submits a procedure, waits for at most 20 s, returns what wait_for_procedure says.
sub outcome_of
{
	my ($server, $submission) = @_;
	my $id = $server->safe_psql('postgres', "SELECT $submission");
	return $server->safe_psql('postgres', "SELECT wait_for_procedure($id, '20 s')");
}

sub verdict
{
	my ($server, $version) = @_;
	return $server->safe_psql('postgres', "SELECT verdict FROM broadcast_verdict($version)");
}

sub waits_for
{
	my ($server, $version) = @_;
	return $server->safe_psql('postgres', "SELECT array_to_string(waits_for, ',') FROM broadcast_verdict($version)");
}

1;
