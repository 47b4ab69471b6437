/*
 * http_receive.c
 *		What libcurl calls while a transfer runs: where it may connect, and what it may receive, within bounds. Nothing in here
 *		raises an error, and memory is malloc's.
 */
#include "http/http_transfer.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include "guc.h"

#define MOST_HEADER_BYTES (64 * 1024)
/* Answers that are kept in whole may together be this many times as large as one may be. */
#define MOST_BODIES 8

static size_t all_bodies = 0;

/* See http_transfer.h. */
void
transfer_note_life(HttpTransfer *transfer)
{
	transfer->stalls_at = lease_clock_now() +
		(transfer->timeout_ms > 0 ? (LeaseTime) transfer->timeout_ms : (LeaseTime) guc_http_timeout / 3) * 1000;
}

/* Makes room for so many bytes; returns why there is none. */
static const char *
grow_body(HttpTransfer *transfer, size_t wanted, size_t most)
{
	size_t		capacity = Max(wanted, Min(transfer->capacity * 2, most + 1));
	bool		counts = transfer->kept_bytes == 0;
	char	   *body;

	if (wanted <= transfer->capacity)
		return NULL;
	if (counts && all_bodies - transfer->capacity + capacity > most * MOST_BODIES)
		return "too many large answers at once";
	body = realloc(transfer->answer.body, capacity);
	if (body == NULL)
		return "out of memory";
	if (counts)
		all_bodies += capacity - transfer->capacity;
	transfer->answer.body = body;
	transfer->capacity = capacity;
	return NULL;
}

/* Counts what comes out of decompression, not what comes over the line. */
static size_t
receive_body(char *data, size_t size, size_t count, void *argument)
{
	HttpTransfer *transfer = argument;
	HttpAnswer *answer = &transfer->answer;
	size_t		most = (size_t) guc_http_max_body * 1024;
	size_t		length = size * count;
	size_t		kept;

	transfer_note_life(transfer);
	if (length > most || transfer->body_bytes + length > most)
	{
		transfer->refusal = "the answer is larger than amoro_meta.http_max_body";
		return 0;
	}
	transfer->body_bytes += length;
	kept = transfer->kept_bytes == 0 ? length : Min(length, transfer->kept_bytes - answer->size);
	transfer->refusal = grow_body(transfer, answer->size + kept + 1, transfer->kept_bytes == 0 ? most : Min(most, transfer->kept_bytes));
	if (transfer->refusal != NULL)
		return 0;
	memcpy(answer->body + answer->size, data, kept);
	answer->size += kept;
	answer->body[answer->size] = '\0';
	return length;
}

static void
copy_header(char *target, size_t target_size, const char *value, size_t length)
{
	while (length > 0 && (*value == ' ' || *value == '\t'))
	{
		value++;
		length--;
	}
	while (length > 0 && (unsigned char) value[length - 1] <= ' ')
		length--;
	target[0] = '\0';
	if (length < target_size)
	{
		memcpy(target, value, length);
		target[length] = '\0';
	}
}

static size_t
receive_header(char *data, size_t size, size_t count, void *argument)
{
	HttpTransfer *transfer = argument;
	size_t		length = size * count;
	char		value[32];

	transfer_note_life(transfer);
	transfer->header_bytes += length;
	if (transfer->header_bytes > MOST_HEADER_BYTES)
	{
		transfer->refusal = "the header of the answer is too large";
		return 0;
	}
	if (length > 5 && pg_strncasecmp(data, "etag:", 5) == 0)
		copy_header(transfer->answer.etag, sizeof(transfer->answer.etag), data + 5, length - 5);
	else if (length > 12 && pg_strncasecmp(data, "retry-after:", 12) == 0)
	{
		copy_header(value, sizeof(value), data + 12, length - 12);
		/* a date is left aside: clocks are not compared */
		if (value[0] != '\0' && strlen(value) < 9 && strspn(value, "0123456789") == strlen(value))
			transfer->answer.retry_after = (int) strtol(value, NULL, 10);
	}
	return length;
}

/* Each attempt of libcurl to connect to an address that a name was resolved to comes by here. */
static curl_socket_t
open_socket(void *argument, curlsocktype purpose, struct curl_sockaddr *address)
{
	HttpTransfer *transfer = argument;

	if (!http_address_allowed(&address->addr, transfer->host))
	{
		transfer->refusal = "its address is not a public one; see amoro_meta.http_allowed_hosts";
		return CURL_SOCKET_BAD;
	}
	return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* A connection that is used again was allowed for another request, perhaps under other settings. */
static int
check_connection(void *argument, char *address, char *local_address, int port, int local_port)
{
	HttpTransfer *transfer = argument;
	struct curl_tlssessioninfo *tls = NULL;

	/* libcurl 8.14 uses one of https again for http; whether there is one must not decide what becomes of a request */
	if (transfer->plain && curl_easy_getinfo(transfer->easy, CURLINFO_TLS_SSL_PTR, &tls) == CURLE_OK && tls != NULL && tls->internals != NULL)
	{
		transfer->misled = true;
		return CURL_PREREQFUNC_ABORT;
	}
	if (http_address_text_allowed(address, transfer->host))
		return CURL_PREREQFUNC_OK;
	transfer->refusal = "its address is not a public one; see amoro_meta.http_allowed_hosts";
	return CURL_PREREQFUNC_ABORT;
}

/* See http_transfer.h. */
void
transfer_install_callbacks(HttpTransfer *transfer)
{
	CURL	   *easy = transfer->easy;

	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, receive_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, receive_header);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer);
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, transfer);
	curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, check_connection);
	curl_easy_setopt(easy, CURLOPT_PREREQDATA, transfer);
}

/* See http_transfer.h. */
void
transfer_free_body(HttpTransfer *transfer)
{
	if (transfer->kept_bytes == 0)
		all_bodies -= transfer->capacity;
	free(transfer->answer.body);
}
