/*
 * http.h
 *		HTTP requests of the explorer: many at once, none of which it waits for in particular.
 */
#ifndef AMORO_META_HTTP_H
#define AMORO_META_HTTP_H

#include "postgres.h"

#include "clock.h"
#include "http/http_address.h"

/* Whom to trust beyond the authorities that the system knows, and who we are; PEM, each may be NULL. */
typedef struct HttpTrust
{
	const char *ca_certificate;
	const char *client_certificate;
	const char *client_key;
} HttpTrust;

typedef struct HttpTransfer HttpTransfer;

/* Headers of one request beside those that all have. */
#define HTTP_MOST_HEADERS 3

typedef struct HttpRequest
{
	const char *url;
	const char *method;			/* NULL: POST with a form, else GET */
	const char *authorization;	/* a whole header, sent to the origin of the URL alone; or NULL */
	const char *if_none_match;	/* or NULL */
	const char *form;			/* POST this form; or NULL */
	const char *body;			/* of any other method than GET; or NULL */
	const char *headers[HTTP_MOST_HEADERS];	/* whole headers, sent to the origin of the URL alone; each may be NULL */
	int			timeout_ms;		/* it may be silent for that long; 0: amoro_meta.http_timeout, and silent for a third of it */
	size_t		kept_bytes;		/* so much of the answer is kept; 0: all of it, as long as there is room for it beside other answers */
	bool		urgent;			/* to be taken before those that are not */
	void		(*take) (HttpTransfer *transfer);	/* called for it once it has ended; to release it */
	HttpTrust	trust;
} HttpRequest;

/* What came of a request; belongs to the transfer. */
typedef struct HttpAnswer
{
	int			status;			/* 0: there was no whole answer, and error says why */
	char		error[256];		/* one line of ASCII, without secrets */
	char	   *body;			/* ends with a zero byte, which size does not count */
	size_t		size;			/* of what was kept */
	char		etag[256];		/* empty: none */
	int			retry_after;	/* seconds; -1: the server did not say */
} HttpAnswer;

/* To be called in the process that makes the requests, never before a fork. */
extern void http_initialize(void);
/*
 * Starts a request; everything in it is copied. It ends by itself, and is then taken by http_take_finished. Never fails: a request that cannot be made ends at once, with an error.
 */
extern HttpTransfer *http_start(const HttpRequest *request, void *owner);
/* Hands the next transfer that has ended, of those that are urgent or of the others, to the function of its request; false when there is none. */
extern bool http_take_finished(bool urgent);
/* Whether there is one that has ended. */
extern bool http_has_finished(void);
extern void *http_owner(const HttpTransfer *transfer);
extern HttpAnswer *http_answer(HttpTransfer *transfer);
/* Frees a transfer; one that is under way is given up. */
extern void http_release(HttpTransfer *transfer);
/*
 * Waits until something has happened on the network, the latch is set, or the time is over, whichever is first; true when the latch was
 * set. It reacts to signals at once, and serves no interrupts itself.
 */
extern bool http_wait(int64 timeout_us, uint32 wait_event);

#endif							/* AMORO_META_HTTP_H */
