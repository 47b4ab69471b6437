/*
 * http.c
 *		HTTP requests of the explorer: many at once, none of which it waits for in particular.
 *
 * libcurl's multi interface drives the transfers, and the server's own wait event set waits for its sockets together
 * with the latch: whatever sets the latch, SIGTERM above all, is seen at once. Nothing in here raises an error while
 * libcurl is on the stack, and memory is malloc's: a transfer belongs to no memory context.
 */
#include "http/http_transfer.h"

#include <signal.h>
#include <unistd.h>

#include "compat.h"
#include "guc.h"
#include "http/http_socket.h"
#include "miscadmin.h"

#define MOST_REDIRECTS 5

#define IS_REDIRECT(status) ((status) == 301 || (status) == 302 || (status) == 303 || (status) == 307 || (status) == 308)

static CURLM *multi = NULL;

/* Transfers that have ended, in that order. */
typedef struct Finished
{
	HttpTransfer *first;
	HttpTransfer *last;
} Finished;

/* Those that are not urgent, and those that are. */
static Finished finished[2];
static dlist_head running = DLIST_STATIC_INIT(running);
/* Until when we waited; since then the process had something else to do. */
static LeaseTime waited_until = 0;

/* Threads that resolve names inherit the signal mask; a handler of the server must never run in one of them. */
static void
block_signals(sigset_t *old)
{
	sigset_t	all;

	sigfillset(&all);
	(void) pthread_sigmask(SIG_SETMASK, &all, old);
}

static void
restore_signals(const sigset_t *old)
{
	(void) pthread_sigmask(SIG_SETMASK, old, NULL);
}

/* See http.h. */
void
http_initialize(void)
{
	sigset_t	old;

	if (multi != NULL)
		return;
	block_signals(&old);
	if (curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK)
		multi = curl_multi_init();
	restore_signals(&old);
	if (multi == NULL)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("could not initialize libcurl")));
	curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, 64L);
	http_socket_install(multi);
}

static void
set_error(HttpTransfer *transfer, const char *message)
{
	size_t		i;

	for (i = 0; i < sizeof(transfer->answer.error) - 1 && message[i] != '\0'; i++)
		transfer->answer.error[i] = message[i] >= 0x20 && message[i] < 0x7f ? message[i] : '?';
	transfer->answer.error[i] = '\0';
}

static void
finish(HttpTransfer *transfer)
{
	Finished   *queue = &finished[transfer->urgent];

	transfer->next = NULL;
	if (queue->last == NULL)
		queue->first = transfer;
	else
		queue->last->next = transfer;
	queue->last = transfer;
}

/* Hands the transfer to libcurl; what was received of it before is forgotten. */
static void
begin(HttpTransfer *transfer)
{
	sigset_t	old;

	transfer->answer.size = 0;
	transfer->body_bytes = 0;
	transfer->answer.etag[0] = '\0';
	transfer->answer.retry_after = -1;
	transfer->header_bytes = 0;
	transfer->refusal = NULL;
	transfer->error_buffer[0] = '\0';
	block_signals(&old);
	transfer->running = curl_multi_add_handle(multi, transfer->easy) == CURLM_OK;
	restore_signals(&old);
	transfer_note_life(transfer);
	if (transfer->running)
		dlist_push_tail(&running, &transfer->node);
	else
	{
		set_error(transfer, "libcurl refused the request");
		finish(transfer);
	}
}

/* See http.h. */
HttpTransfer *
http_start(const HttpRequest *request, void *owner)
{
	HttpTransfer *transfer = calloc(1, sizeof(HttpTransfer));
	const char *problem;

	if (transfer == NULL)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	transfer->owner = owner;
	transfer->take = request->take;
	transfer->timeout_ms = request->timeout_ms;
	transfer->kept_bytes = request->kept_bytes;
	transfer->urgent = request->urgent;
	/* with all redirects */
	transfer->ends_at = lease_clock_now() + (LeaseTime) (transfer->timeout_ms > 0 ? transfer->timeout_ms : guc_http_timeout) * 1000;
	transfer->easy = curl_easy_init();
	transfer->url = curl_url();
	problem = transfer->easy == NULL || transfer->url == NULL ? "out of memory" : transfer_prepare(transfer, request);
	if (problem != NULL)
	{
		set_error(transfer, problem);
		finish(transfer);
	}
	else
		begin(transfer);
	return transfer;
}

/* True when the URL has the scheme, host and port of the transfer's. */
static bool
is_same_origin(HttpTransfer *transfer, CURLU *other)
{
	static const CURLUPart parts[] = {CURLUPART_SCHEME, CURLUPART_HOST, CURLUPART_PORT};
	bool		same = true;

	for (int i = 0; i < lengthof(parts) && same; i++)
	{
		char	   *ours = NULL;
		char	   *theirs = NULL;

		same = curl_url_get(transfer->url, parts[i], &ours, CURLU_DEFAULT_PORT) == CURLUE_OK &&
			curl_url_get(other, parts[i], &theirs, CURLU_DEFAULT_PORT) == CURLUE_OK && pg_strcasecmp(ours, theirs) == 0;
		curl_free(ours);
		curl_free(theirs);
	}
	return same;
}

/* Follows a redirect, without what is secret when it leads elsewhere; returns why not. */
static const char *
follow(HttpTransfer *transfer)
{
	char	   *location = NULL;
	CURLU	   *target;
	const char *problem = NULL;

	curl_easy_getinfo(transfer->easy, CURLINFO_REDIRECT_URL, &location);
	if (location == NULL)
		return "the answer is a redirect to nowhere";
	if (++transfer->redirects > MOST_REDIRECTS)
		return "the answer is one redirect too many";
	target = curl_url();
	if (target == NULL || curl_url_set(target, CURLUPART_URL, location, CURLU_PATH_AS_IS) != CURLUE_OK)
		problem = "the answer is a redirect to something that is no URL of http or https";
	else if (!is_same_origin(transfer, target))
	{
		curl_easy_setopt(transfer->easy, CURLOPT_HTTPHEADER, transfer->public_headers);
		curl_easy_setopt(transfer->easy, CURLOPT_SSLCERT_BLOB, NULL);
		curl_easy_setopt(transfer->easy, CURLOPT_SSLKEY_BLOB, NULL);
	}
	if (problem == NULL)
	{
		/* libcurl frees the text with the next request */
		char	   *copy = strdup(location);

		problem = copy == NULL ? "out of memory" : transfer_set_url(transfer, copy);
		free(copy);
	}
	curl_url_cleanup(target);
	return problem;
}

/* A transfer has come to its end, one way or the other. */
static void
conclude(HttpTransfer *transfer, CURLcode result)
{
	long		status = 0;
	const char *problem = NULL;
	char	   *method = NULL;
	sigset_t	old;

	curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(transfer->easy, CURLINFO_EFFECTIVE_METHOD, &method);
	block_signals(&old);
	curl_multi_remove_handle(multi, transfer->easy);
	restore_signals(&old);
	transfer->running = false;
	dlist_delete(&transfer->node);
	if (transfer->misled)
	{
		transfer->misled = false;
		curl_easy_setopt(transfer->easy, CURLOPT_FRESH_CONNECT, 1L);
		begin(transfer);
		return;
	}
	/* of several addresses of a name one may have been refused, and another one have answered */
	if (result != CURLE_OK && transfer->refusal != NULL)
		problem = transfer->refusal;
	else if (result != CURLE_OK)
		problem = transfer->error_buffer[0] != '\0' ? transfer->error_buffer : curl_easy_strerror(result);
	else if (IS_REDIRECT(status) && method != NULL && strcmp(method, "GET") == 0)
	{
		problem = follow(transfer);
		if (problem == NULL)
		{
			begin(transfer);
			return;
		}
	}
	if (problem != NULL)
		set_error(transfer, problem);
	else
		transfer->answer.status = (int) status;
	finish(transfer);
}

/* Collects the transfers that have ended. */
static void
collect(void)
{
	CURLMsg    *message;
	int			left;

	while ((message = curl_multi_info_read(multi, &left)) != NULL)
	{
		HttpTransfer *transfer;

		if (message->msg == CURLMSG_DONE &&
			curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer) == CURLE_OK)
			conclude(transfer, message->data.result);
	}
}

/* What the process did between two waits is not the fault of the servers. */
static void
forgive(LeaseTime busy_us)
{
	dlist_iter	iter;

	dlist_foreach(iter, &running)
	{
		HttpTransfer *transfer = dlist_container(HttpTransfer, node, iter.cur);

		transfer->ends_at += busy_us;
		transfer->stalls_at += busy_us;
	}
}

/* Gives up the transfers that take too long; returns when the next one would. */
static LeaseTime
give_up_late(LeaseTime now)
{
	dlist_mutable_iter iter;
	LeaseTime	next = now + INT64CONST(3600) * 1000000;

	dlist_foreach_modify(iter, &running)
	{
		HttpTransfer *transfer = dlist_container(HttpTransfer, node, iter.cur);

		if (now >= transfer->ends_at)
			transfer->refusal = "the answer took longer than amoro_meta.http_timeout";
		else if (now >= transfer->stalls_at)
			transfer->refusal = "the server was silent for a third of amoro_meta.http_timeout";
		else
		{
			next = Min(next, Min(transfer->ends_at, transfer->stalls_at));
			continue;
		}
		conclude(transfer, CURLE_OPERATION_TIMEDOUT);
	}
	return next;
}

/* See http.h. */
bool
http_has_finished(void)
{
	return finished[false].first != NULL || finished[true].first != NULL;
}

/* See http.h. */
bool
http_wait(int64 timeout_us, uint32 wait_event)
{
	HttpSocketEvent events[16];
	int			count;
	bool		latch_set;
	int			still_running;
	sigset_t	old;
	LeaseTime	now = lease_clock_now();
	int64		given_up_in;
	bool		had_finished = http_has_finished();

	if (waited_until != 0 && now > waited_until)
		forgive(now - waited_until);
	given_up_in = give_up_late(now) - now;
	timeout_us = Min(timeout_us, given_up_in);
	if (!had_finished && http_has_finished())
		timeout_us = 0;
	count = http_socket_wait(timeout_us, wait_event, events, lengthof(events), &latch_set);
	block_signals(&old);
	for (int i = 0; i < count; i++)
		(void) curl_multi_socket_action(multi, events[i].socket, events[i].what, &still_running);
	if (http_socket_timer_due())
		(void) curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, &still_running);
	restore_signals(&old);
	collect();
	waited_until = lease_clock_now();
	return latch_set;
}

/* See http.h. */
bool
http_take_finished(bool urgent)
{
	Finished   *queue = &finished[urgent];
	HttpTransfer *transfer = queue->first;

	if (transfer == NULL)
		return false;
	queue->first = transfer->next;
	if (queue->first == NULL)
		queue->last = NULL;
	transfer->next = NULL;
	transfer->take(transfer);
	return true;
}

/* See http.h. */
void *
http_owner(const HttpTransfer *transfer)
{
	return transfer->owner;
}

/* See http.h. */
HttpAnswer *
http_answer(HttpTransfer *transfer)
{
	return &transfer->answer;
}

/* Takes a transfer out of those that have ended, when it is among them. */
static void
unlink_finished(HttpTransfer *transfer)
{
	Finished   *queue = &finished[transfer->urgent];
	HttpTransfer **link = &queue->first;
	HttpTransfer *last = NULL;

	while (*link != NULL)
	{
		if (*link == transfer)
			*link = transfer->next;
		else
		{
			last = *link;
			link = &(*link)->next;
		}
	}
	queue->last = last;
}

/* See http.h. */
void
http_release(HttpTransfer *transfer)
{
	sigset_t	old;

	unlink_finished(transfer);
	block_signals(&old);
	if (transfer->running)
	{
		curl_multi_remove_handle(multi, transfer->easy);
		dlist_delete(&transfer->node);
	}
	curl_easy_cleanup(transfer->easy);
	curl_url_cleanup(transfer->url);
	curl_slist_free_all(transfer->headers);
	curl_slist_free_all(transfer->public_headers);
	curl_free(transfer->host);
	restore_signals(&old);
	transfer_free_body(transfer);
	free(transfer);
}

