# P01 (KillEveryStep): the server is killed at every step of the procedures of devices, templates and nodes.
use strict;
use warnings;
use KillEveryStep qw(kill_every_step);
use Test::More;

kill_every_step('301_kill_every_step');

done_testing();
