/*
 * http_socket.h
 *		The sockets of libcurl, waited for together with the latch of the process.
 */
#ifndef AMORO_META_HTTP_SOCKET_H
#define AMORO_META_HTTP_SOCKET_H

#include "postgres.h"

#include <curl/curl.h>

typedef struct HttpSocketEvent
{
	curl_socket_t socket;
	int			what;			/* CURL_CSELECT_... */
} HttpSocketEvent;

extern void http_socket_install(CURLM *multi);
/* Waits for at most the time given, or until libcurl's own timer is due; how many events there are. */
extern int	http_socket_wait(int64 timeout_us, uint32 wait_event, HttpSocketEvent *events, int size, bool *latch_set);
/* Whether libcurl's timer is due. It is asked once: then it counts as served. */
extern bool http_socket_timer_due(void);

#endif							/* AMORO_META_HTTP_SOCKET_H */
