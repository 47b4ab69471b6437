/*
 * hook_keeper.h
 *		Hooks of a service, in a process of their own: whatever happens to the node, killed, stopped or stuck, what the gain hook
 *		has started is ended before the lease is.
 */
#ifndef AMORO_HOOK_KEEPER_H
#define AMORO_HOOK_KEEPER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef enum KeeperMessageKind
{
	KEEPER_GAIN,				/* to the keeper: run the gain hook */
	KEEPER_EXTEND,				/* to the keeper: the lease ends later */
	KEEPER_LOSS,				/* to the keeper: stop */
	KEEPER_STARTED,				/* from it: the gain hook runs, process is its process group */
	KEEPER_FAILED,				/* from it: the gain hook could not be run, or has failed */
	KEEPER_STOPPED				/* from it: nothing of that tenure runs any more */
} KeeperMessageKind;

typedef struct KeeperMessage
{
	KeeperMessageKind kind;
	pid_t		process;
	int64_t		token;
	int64_t		end_us;			/* of the lease, CLOCK_BOOTTIME */
	int64_t		stop_us;		/* when the keeper stops by itself */
} KeeperMessage;

/*
 * Starts the keeper of a service; to be called before the process has threads. A hook may be NULL. Returns the socket to talk to
 * it by (SOCK_SEQPACKET, a KeeperMessage a packet), or -1 with errno; *process is its process id. It ends when the socket is closed.
 */
extern int	hook_keeper_start(const char *service, const char *on_gain, const char *on_loss, pid_t *process);

#endif							/* AMORO_HOOK_KEEPER_H */
