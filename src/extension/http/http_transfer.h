/*
 * http_transfer.h
 *		One request under way, for the files http*.c.
 */
#ifndef AMORO_META_HTTP_TRANSFER_H
#define AMORO_META_HTTP_TRANSFER_H

#include <curl/curl.h>

#include "http/http.h"
#include "lib/ilist.h"

struct HttpTransfer
{
	CURL	   *easy;
	CURLU	   *url;
	struct curl_slist *headers;
	struct curl_slist *public_headers;	/* without the authorization */
	char	   *host;			/* of the URL, for amoro_meta.http_allowed_hosts */
	void	   *owner;
	HttpAnswer	answer;
	size_t		capacity;
	size_t		kept_bytes;		/* 0: all */
	size_t		body_bytes;		/* received, kept or not */
	size_t		header_bytes;
	int			redirects;
	const char *refusal;		/* why we gave it up ourselves */
	bool		plain;			/* the URL is one of http */
	bool		misled;			/* it was given a connection with TLS all the same */
	bool		running;
	bool		urgent;
	int			timeout_ms;		/* 0: as the setting says */
	void		(*take) (HttpTransfer *transfer);
	LeaseTime	ends_at;		/* when it has taken too long altogether */
	LeaseTime	stalls_at;		/* when it has been quiet for too long */
	HttpTransfer *next;			/* of those that have ended */
	dlist_node	node;			/* of those that run */
	char		error_buffer[CURL_ERROR_SIZE];
};

/* http_request.c: everything about a request that libcurl is told before it begins; returns why it cannot be made, or NULL. */
extern const char *transfer_prepare(HttpTransfer *transfer, const HttpRequest *request);
/* The URL must be one of http or https without a password; its host is noted. Returns why it is none, or NULL. */
extern const char *transfer_set_url(HttpTransfer *transfer, const char *url);
/* http_receive.c: what libcurl calls while a transfer runs. The memory of all answers that are kept in whole is bounded there. */
extern void transfer_install_callbacks(HttpTransfer *transfer);
/* It is not silent. */
extern void transfer_note_life(HttpTransfer *transfer);
extern void transfer_free_body(HttpTransfer *transfer);

#endif							/* AMORO_META_HTTP_TRANSFER_H */
