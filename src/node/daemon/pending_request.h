/*
 * pending_request.h
 *		A request that waits for the database: how the answer comes back from a loader's thread to that of the request,
 *		which may be gone by then.
 */
#ifndef AMORO_PENDING_REQUEST_H
#define AMORO_PENDING_REQUEST_H

#include <h2o.h>

#include "http_server.h"

typedef struct PendingRequest PendingRequest;

/* Goes on with it, in the thread of the request, and frees what it is part of. request is NULL when the request is gone. */
typedef void (*PendingResume) (PendingRequest *pending, h2o_req_t *request);

/* To be the first member of what was allocated with h2o_mem_alloc for the request. */
struct PendingRequest
{
	h2o_multithread_message_t message;
	HttpThread *thread;
	h2o_req_t  *request;		/* NULL: the request is gone */
	PendingRequest **request_link;	/* in the request's memory; how the request finds us when it goes */
	PendingResume resume;
};

extern void pending_request_begin(PendingRequest *pending, h2o_req_t *request, PendingResume resume);
/* From any thread: the answer is there. */
extern void pending_request_post(PendingRequest *pending);

/* Readies a thread for requests that come back from the loaders. */
extern void pending_request_attach(HttpThread *thread);
extern void pending_request_detach(HttpThread *thread);

#endif							/* AMORO_PENDING_REQUEST_H */
