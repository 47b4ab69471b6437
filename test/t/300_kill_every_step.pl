# P01 (KillEveryStep): the server is killed at every step of the procedures of databases, tables, views and times to live.
use strict;
use warnings;
use KillEveryStep qw(kill_every_step);
use Test::More;

kill_every_step('300_kill_every_step');

done_testing();
