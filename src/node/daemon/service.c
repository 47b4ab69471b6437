/*
 * service.c
 *		The service that this node campaigns for: between the library, which says who leads, and the keeper of the hooks.
 */
#include "service.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hook_keeper.h"
#include "log.h"

enum
{
	PAUSE_AFTER_FAILURE_MS = 1000,
	GRACE_US = 2000000			/* the keeper kills at the end of the lease, and says so soon after it */
};

struct Service
{
	const DaemonOptions *options;
	AmoroLeadership *leadership;
	int			socket;			/* to the keeper */
	pid_t		keeper;
	pthread_t	listener;
	bool		listening;
	_Atomic bool broken;
	pthread_mutex_t lock;		/* of what follows */
	pthread_cond_t stopped;
	int64_t		stopped_token;	/* of which nothing runs any more */
	int64_t		failed_token;	/* whose gain hook has failed */
	int64_t		end_us;
	pid_t		gain_group;		/* 0: none */
	bool		losing;			/* on_loss waits */
};

static int64_t
clock_us(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (int64_t) now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void
tell(Service *service, KeeperMessageKind kind, int64_t token, int64_t stop_us, int64_t end_us)
{
	KeeperMessage message = {.kind = kind, .token = token, .stop_us = stop_us, .end_us = end_us};

	pthread_mutex_lock(&service->lock);
	if (end_us != 0)
		service->end_us = end_us;
	pthread_mutex_unlock(&service->lock);
	/* a keeper that is stuck must not keep us: it stops by the clock */
	if (send(service->socket, &message, sizeof(message), MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno != EAGAIN)
		atomic_store(&service->broken, true);
}

static void
on_gain(void *argument, int64_t token, int64_t stop_us, int64_t end_us)
{
	tell(argument, KEEPER_GAIN, token, stop_us, end_us);
}

static void
on_extended(void *argument, int64_t token, int64_t stop_us, int64_t end_us)
{
	tell(argument, KEEPER_EXTEND, token, stop_us, end_us);
}

/* Returns when nothing of the tenure runs any more; should the keeper not manage, then what we can kill is killed. */
static void
on_loss(void *argument, int64_t token, const char *reason)
{
	Service    *service = argument;
	int64_t		now = clock_us(CLOCK_BOOTTIME);
	int64_t		until;

	tell(service, KEEPER_LOSS, token, 0, 0);
	pthread_mutex_lock(&service->lock);
	service->losing = true;
	/* we may have been stopped until long after the end, and the answer be there unread */
	until = (service->end_us > now ? service->end_us : now) + GRACE_US;
	while (service->stopped_token < token && !atomic_load(&service->broken) && clock_us(CLOCK_BOOTTIME) < until)
	{
		/* in small pieces: a condition cannot be waited for by the clock of the lease */
		int64_t		soon = clock_us(CLOCK_MONOTONIC) + 100000;

		(void) pthread_cond_clockwait(&service->stopped, &service->lock, CLOCK_MONOTONIC,
									  &(struct timespec) {soon / 1000000, soon % 1000000 * 1000});
	}
	if (service->stopped_token < token)
	{
		if (service->gain_group > 0)
			kill(-service->gain_group, SIGKILL);
		atomic_store(&service->broken, true);
		log_write(AMORO_LOG_ERROR, "the hooks of service %s did not end in time and were killed", service->options->service);
	}
	service->gain_group = 0;
	service->losing = false;
	pthread_mutex_unlock(&service->lock);
}

/* Gives the tenure up, unless the campaign is being closed. The lock is held. */
static void
resign(Service *service, int64_t token, int pause_ms)
{
	if (service->leadership != NULL)
		amoro_leadership_resign(service->leadership, token, pause_ms);
}

static void
hear(Service *service, const KeeperMessage *message)
{
	pthread_mutex_lock(&service->lock);
	if (message->kind == KEEPER_STARTED)
		service->gain_group = message->process;
	else if (message->kind == KEEPER_FAILED)
	{
		log_write(AMORO_LOG_WARNING, "the gain hook of service %s has failed: gives the service up", service->options->service);
		service->failed_token = message->token;
		resign(service, message->token, PAUSE_AFTER_FAILURE_MS);
	}
	else if (message->kind == KEEPER_STOPPED && message->token > service->stopped_token)
	{
		service->stopped_token = message->token;
		pthread_cond_broadcast(&service->stopped);
		/* if it has stopped by itself, because it heard too little of us */
		if (!service->losing && service->failed_token != message->token)
			resign(service, message->token, 0);
	}
	pthread_mutex_unlock(&service->lock);
}

static void *
listen_to_keeper(void *argument)
{
	Service    *service = argument;
	KeeperMessage message;

	while (recv(service->socket, &message, sizeof(message), 0) == (ssize_t) sizeof(message))
		hear(service, &message);
	atomic_store(&service->broken, true);
	pthread_mutex_lock(&service->lock);
	pthread_cond_broadcast(&service->stopped);
	pthread_mutex_unlock(&service->lock);
	return NULL;
}

Service *
service_prepare(const DaemonOptions *options)
{
	Service    *service = calloc(1, sizeof(Service));

	if (service == NULL)
		return NULL;
	service->options = options;
	pthread_mutex_init(&service->lock, NULL);
	pthread_cond_init(&service->stopped, NULL);
	service->socket = hook_keeper_start(options->service, options->on_gain, options->on_loss, &service->keeper);
	if (service->socket >= 0)
		return service;
	log_write(AMORO_LOG_ERROR, "cannot start the process for hooks: %s", strerror(errno));
	free(service);
	return NULL;
}

bool
service_start(Service *service, AmoroNode *node)
{
	AmoroLeadershipOptions options = {
		.service = service->options->service,
		.stop_margin_ms = service->options->stop_timeout_ms,
		.on_gain = on_gain,
		.on_extended = on_extended,
		.on_loss = on_loss,
		.argument = service,
	};
	char		error[256];

	if (amoro_leadership_open(node, &options, &service->leadership, error, sizeof(error)) != AMORO_OK)
	{
		log_write(AMORO_LOG_ERROR, "cannot campaign for service %s: %s", service->options->service, error);
		return false;
	}
	service->listening = pthread_create(&service->listener, NULL, listen_to_keeper, service) == 0;
	return service->listening;
}

bool
service_status(Service *service, AmoroLeadershipStatus *status)
{
	if (service == NULL || service->leadership == NULL)
		return false;
	amoro_leadership_status(service->leadership, status);
	return true;
}

bool
service_is_broken(Service *service)
{
	return service != NULL && atomic_load(&service->broken);
}

void
service_stop(Service *service)
{
	AmoroLeadership *leadership;

	if (service == NULL)
		return;
	pthread_mutex_lock(&service->lock);
	leadership = service->leadership;
	service->leadership = NULL;
	pthread_mutex_unlock(&service->lock);
	if (leadership != NULL)
		amoro_leadership_close(leadership);
	shutdown(service->socket, SHUT_RDWR);
	if (service->listening)
		pthread_join(service->listener, NULL);
	close(service->socket);
	waitpid(service->keeper, NULL, 0);
	free(service);
}
