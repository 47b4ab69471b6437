/*
 * exit_code.h
 *		How amoro-node ends. A supervisor reads these (see amoro-node.service), so a number never changes its meaning.
 */
#ifndef AMORO_EXIT_CODE_H
#define AMORO_EXIT_CODE_H

typedef enum ExitCode
{
	EXIT_CODE_STOPPED = 0,		/* asked to stop; the lease was released */
	EXIT_CODE_FAILED = 1,		/* something that should not happen, named in the log */
	EXIT_CODE_USAGE = 2,		/* options that cannot work; starting again changes nothing */
	EXIT_CODE_CANNOT_LISTEN = 3,	/* the HTTP address is taken or not ours */
	EXIT_CODE_REFUSED = 4,		/* the database refuses this node: privilege, protocol version, extension missing */
	EXIT_CODE_SUPERSEDED = 5,	/* a newer process runs under this name; starting again would end that one */
	EXIT_CODE_REMOVED = 6		/* an operator removed the node; starting again would register it anew */
} ExitCode;

#endif							/* AMORO_EXIT_CODE_H */
