/*
 * hook_keeper.c
 *		The process that keeps the hooks of a service. It has one thread and waits for three things: messages, the end of its
 *		children, and the end of the lease.
 */
#include "hook_keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum
{
	STOPPING_CHECK_MS = 10		/* members of a process group that are not our children do not say when they end */
};

typedef struct Keeper
{
	const char *service;
	const char *on_gain;
	const char *on_loss;
	int			socket;
	int			child_signal;
	bool		orphaned;		/* the node is gone */
	bool		stopping;
	int64_t		token;			/* 0: nothing is led */
	int64_t		end_us;
	int64_t		stop_us;
	pid_t		gain;			/* leader of its process group, kept unreaped until the tenure is over; 0: none */
	pid_t		loss;
} Keeper;

static int64_t
now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (int64_t) now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void
say(Keeper *keeper, KeeperMessageKind kind, pid_t process)
{
	KeeperMessage message = {.kind = kind, .token = keeper->token, .process = process};

	if (send(keeper->socket, &message, sizeof(message), MSG_NOSIGNAL) < 0)
		keeper->orphaned = true;
}

/* In the child: the hook is a program, not a line for a shell; service and token are in its environment. */
static void
become_hook(const Keeper *keeper, const char *command)
{
	char		token[32];
	int			null = open("/dev/null", O_RDONLY);
	sigset_t	none;
	char	   *arguments[] = {(char *) command, NULL};

	setpgid(0, 0);
	/* should the keeper be killed */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(token, sizeof(token), "%lld", (long long) keeper->token);
	setenv("AMORO_SERVICE", keeper->service, 1);
	setenv("AMORO_TOKEN", token, 1);
	if (null > STDIN_FILENO)
	{
		dup2(null, STDIN_FILENO);
		close(null);
	}
	for (int i = 1; i < NSIG; i++)
		signal(i, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execvp(command, arguments);
	fprintf(stderr, "amoro-node: %s: %s\n", command, strerror(errno));
	_exit(127);
}

/* The process of a hook, or 0. */
static pid_t
start_hook(const Keeper *keeper, const char *command)
{
	pid_t		process = fork();

	if (process == 0)
		become_hook(keeper, command);
	if (process > 0)
		setpgid(process, process);
	return process > 0 ? process : 0;
}

static void
signal_group(pid_t group, int number)
{
	if (group > 0)
		kill(-group, number);
}

/* Whether anything of a hook is left; reaps its leader. */
static bool
group_lives(pid_t *group)
{
	if (*group == 0)
		return false;
	while (waitpid(-*group, NULL, WNOHANG) > 0)
		;
	if (kill(-*group, 0) < 0 && errno == ESRCH)
		*group = 0;
	return *group != 0;
}

static void
begin_stopping(Keeper *keeper)
{
	if (keeper->token == 0 || keeper->stopping)
		return;
	keeper->stopping = true;
	signal_group(keeper->gain, SIGTERM);
	keeper->loss = keeper->on_loss != NULL ? start_hook(keeper, keeper->on_loss) : 0;
}

/* What has not ended by itself is killed at the end of the lease. */
static void
go_on_stopping(Keeper *keeper)
{
	bool		gain_lives;
	bool		loss_lives;

	if (now_us() >= keeper->end_us)
	{
		signal_group(keeper->gain, SIGKILL);
		signal_group(keeper->loss, SIGKILL);
	}
	gain_lives = group_lives(&keeper->gain);
	loss_lives = group_lives(&keeper->loss);
	if (gain_lives || loss_lives)
		return;
	say(keeper, KEEPER_STOPPED, 0);
	keeper->token = 0;
	keeper->stopping = false;
}

static bool
is_leader(const Keeper *keeper, pid_t process)
{
	return process == keeper->gain || process == keeper->loss;
}

/* All that have ended but the leaders, one by one. */
static void
reap_around_leaders(const Keeper *keeper)
{
	FILE	   *children = fopen("/proc/thread-self/children", "re");
	pid_t		child;

	if (children == NULL)
		return;
	while (fscanf(children, "%d", &child) == 1)
	{
		if (!is_leader(keeper, child))
			waitpid(child, NULL, WNOHANG);
	}
	fclose(children);
}

/*
 * Processes whose parents have ended are ours (PR_SET_CHILD_SUBREAPER); the leaders of the groups are kept. One that has
 * ended is told of again and again, and hides all that end after it.
 */
static void
reap_orphans(const Keeper *keeper)
{
	siginfo_t	ended = {0};

	while (waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid != 0)
	{
		if (is_leader(keeper, ended.si_pid))
		{
			reap_around_leaders(keeper);
			return;
		}
		waitpid(ended.si_pid, NULL, 0);
	}
}

/* A gain hook that ends well has started something elsewhere; one that does not could not lead. */
static void
look_at_children(Keeper *keeper)
{
	struct signalfd_siginfo ignored;
	siginfo_t	ended = {0};

	while (read(keeper->child_signal, &ignored, sizeof(ignored)) > 0)
		;
	reap_orphans(keeper);
	if (keeper->gain == 0 || keeper->stopping ||
		waitid(P_PID, (id_t) keeper->gain, &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid == 0)
		return;
	if (ended.si_code == CLD_EXITED && ended.si_status == 0)
		return;
	say(keeper, KEEPER_FAILED, keeper->gain);
	begin_stopping(keeper);
}

static void
obey(Keeper *keeper)
{
	KeeperMessage message;
	ssize_t		size = recv(keeper->socket, &message, sizeof(message), MSG_DONTWAIT);

	if (size < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (size != (ssize_t) sizeof(message))
	{
		keeper->orphaned = true;
		begin_stopping(keeper);
		return;
	}
	if (message.kind == KEEPER_GAIN && keeper->token == 0)
	{
		keeper->token = message.token;
		keeper->end_us = message.end_us;
		keeper->stop_us = message.stop_us;
		if (keeper->on_gain != NULL)
		{
			keeper->gain = start_hook(keeper, keeper->on_gain);
			say(keeper, keeper->gain != 0 ? KEEPER_STARTED : KEEPER_FAILED, keeper->gain);
		}
	}
	else if (message.kind == KEEPER_EXTEND && message.token == keeper->token)
	{
		keeper->end_us = message.end_us;
		keeper->stop_us = message.stop_us;
	}
	else if (message.kind == KEEPER_LOSS && message.token == keeper->token)
		begin_stopping(keeper);
	else if (message.kind == KEEPER_LOSS)
	{
		/* stopped by itself, before it was told to */
		message.kind = KEEPER_STOPPED;
		(void) send(keeper->socket, &message, sizeof(message), MSG_NOSIGNAL);
	}
}

static int
milliseconds_to_wait(const Keeper *keeper)
{
	int64_t		left;

	if (keeper->stopping)
		return STOPPING_CHECK_MS;
	if (keeper->token == 0)
		return -1;
	left = keeper->stop_us - now_us();
	return left <= 0 ? 0 : left > 3600000000 ? 3600000 : (int) ((left + 999) / 1000);
}

static void
keep(Keeper *keeper)
{
	while (!keeper->orphaned || keeper->token != 0)
	{
		struct pollfd fds[] = {{.fd = keeper->orphaned ? -1 : keeper->socket, .events = POLLIN}, {.fd = keeper->child_signal, .events = POLLIN}};

		if (poll(fds, 2, milliseconds_to_wait(keeper)) > 0)
		{
			/* what the node has sent before it was lost counts; the clock decides after it */
			if (fds[0].revents != 0)
				obey(keeper);
			if (fds[1].revents != 0)
				look_at_children(keeper);
		}
		if (keeper->token != 0 && !keeper->stopping && fds[0].revents == 0 && now_us() >= keeper->stop_us)
			begin_stopping(keeper);
		if (keeper->stopping)
			go_on_stopping(keeper);
	}
}

int
hook_keeper_start(const char *service, const char *on_gain, const char *on_loss, pid_t *process)
{
	int			sockets[2];
	sigset_t	children;
	Keeper		keeper = {.service = service, .on_gain = on_gain, .on_loss = on_loss};

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
		return -1;
	*process = fork();
	if (*process != 0)
	{
		close(sockets[1]);
		if (*process > 0)
			return sockets[0];
		close(sockets[0]);
		return -1;
	}
	close(sockets[0]);
	/* it goes when the node has gone, and not because somebody presses Ctrl-C */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	sigemptyset(&children);
	sigaddset(&children, SIGCHLD);
	sigprocmask(SIG_BLOCK, &children, NULL);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	prctl(PR_SET_NAME, "amoro-node hooks");
	keeper.socket = sockets[1];
	keeper.child_signal = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
	keep(&keeper);
	_exit(0);
}
