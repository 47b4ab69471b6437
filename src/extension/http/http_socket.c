/*
 * http_socket.c
 *		The sockets of libcurl, waited for together with the latch of the process.
 *
 * A wait event set cannot give up a socket, so it is made anew when libcurl has said that its sockets are others.
 */
#include "http/http_socket.h"

#include "clock.h"
#include "compat.h"
#include "miscadmin.h"
#include "storage/latch.h"

/* More than there are transfers at once, with two each: addresses of a name are tried side by side. */
#define MOST_SOCKETS 1024

typedef struct WatchedSocket
{
	curl_socket_t socket;
	int			what;			/* CURL_POLL_... */
} WatchedSocket;

static WatchedSocket sockets[MOST_SOCKETS];
static int	socket_count = 0;
static bool sockets_changed = true;
static LeaseTime timer_at = 0;	/* 0: none */
static WaitEventSet *wait_set = NULL;

/* libcurl says what it waits for. */
static int
watch_socket(CURL *easy, curl_socket_t socket, int what, void *argument, void *socket_argument)
{
	int			i = 0;

	while (i < socket_count && sockets[i].socket != socket)
		i++;
	sockets_changed = true;
	if (what == CURL_POLL_REMOVE)
	{
		if (i < socket_count)
			sockets[i] = sockets[--socket_count];
		return 0;
	}
	if (i == MOST_SOCKETS)
		return -1;
	if (i == socket_count)
		socket_count++;
	sockets[i].socket = socket;
	sockets[i].what = what;
	return 0;
}

static int
set_timer(CURLM *multi, long timeout_ms, void *argument)
{
	timer_at = timeout_ms < 0 ? 0 : lease_clock_now() + timeout_ms * 1000;
	return 0;
}

/* See http_socket.h. */
void
http_socket_install(CURLM *multi)
{
	curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
	curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, set_timer);
}

static void
make_wait_set(void)
{
	if (wait_set != NULL)
		FreeWaitEventSet(wait_set);
	wait_set = NULL;
	wait_set = compat_create_wait_event_set(socket_count + 2);
	AddWaitEventToSet(wait_set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(wait_set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	for (int i = 0; i < socket_count; i++)
	{
		uint32		events = 0;

		if (sockets[i].what & CURL_POLL_IN)
			events |= WL_SOCKET_READABLE;
		if (sockets[i].what & CURL_POLL_OUT)
			events |= WL_SOCKET_WRITEABLE;
		if (events != 0)
			AddWaitEventToSet(wait_set, events, sockets[i].socket, NULL, NULL);
	}
	sockets_changed = false;
}

static int64
time_to_wait(int64 timeout_us)
{
	if (timer_at != 0)
		timeout_us = Min(timeout_us, timer_at - lease_clock_now());
	return Max(timeout_us, 0);
}

/* See http_socket.h. */
int
http_socket_wait(int64 timeout_us, uint32 wait_event, HttpSocketEvent *events, int size, bool *latch_set)
{
	WaitEvent	occurred[32];
	int			count;
	int			result = 0;

	if (sockets_changed)
		make_wait_set();
	count = WaitEventSetWait(wait_set, (long) ((time_to_wait(timeout_us) + 999) / 1000), occurred, Min(size, lengthof(occurred)), wait_event);
	*latch_set = false;
	for (int i = 0; i < count; i++)
	{
		if (occurred[i].events & WL_LATCH_SET)
		{
			ResetLatch(MyLatch);
			*latch_set = true;
			continue;
		}
		events[result].socket = occurred[i].fd;
		events[result].what = (occurred[i].events & WL_SOCKET_READABLE ? CURL_CSELECT_IN : 0) |
			(occurred[i].events & WL_SOCKET_WRITEABLE ? CURL_CSELECT_OUT : 0);
		result++;
	}
	return result;
}

/* See http_socket.h. */
bool
http_socket_timer_due(void)
{
	if (timer_at == 0 || lease_clock_now() < timer_at)
		return false;
	timer_at = 0;
	return true;
}
