/*
 * clock.c
 *		The one clock that leases are measured with: CLOCK_BOOTTIME, which goes on
 *		while the machine sleeps and never jumps (docs/protocol.md, section 3).
 */
#include "postgres.h"

#include <time.h>

#include "clock.h"
#include "guc.h"
#include "storage/proc.h"

/*
 * lease_clock_now returns microseconds since boot, shifted by the developer
 * setting amoro_meta.debug_clock_offset_ms so that tests can make leases end.
 */
LeaseTime
lease_clock_now(void)
{
	struct timespec now;

	if (clock_gettime(CLOCK_BOOTTIME, &now) != 0)
		elog(ERROR, "could not read CLOCK_BOOTTIME: %m");
	return (LeaseTime) now.tv_sec * 1000000 + now.tv_nsec / 1000 +
		(LeaseTime) guc_debug_clock_offset_ms * 1000;
}

/* Whoever asks again and again would else be cancelled again and again: a node would hold no lease. See clock.h. */
int64
wait_within_statement(int64 wait_us)
{
	return StatementTimeout > 0 ? Min(wait_us, StatementTimeout * INT64CONST(500)) : wait_us;
}
