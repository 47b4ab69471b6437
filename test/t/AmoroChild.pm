# Processes that a test has started by itself: none of them outlives it.
package AmoroChild;

use strict;
use warnings;
use Exporter 'import';
# before our END, so that the servers end after what is connected to them
use PostgreSQL::Test::Cluster ();

our @EXPORT_OK = qw(child_started child_ended end_child);

my %running;    # by process id

sub child_started { my ($pid) = @_; $running{$pid} = 1; return }

# Somebody has waited for it.
sub child_ended { my ($pid) = @_; delete $running{$pid}; return }

# Kills it, also one that is stopped, and waits for its end; does nothing to one that has ended.
sub end_child
{
	my ($pid) = @_;
	return unless delete $running{$pid};
	kill 'KILL', $pid;
	waitpid $pid, 0;
	return;
}

END
{
	my $status = $?;
	end_child($_) for keys %running;
	$? = $status;
}

1;
