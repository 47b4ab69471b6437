/*
 * pending_request.c
 *		From the loaders back to the thread of the request.
 */
#include "pending_request.h"

static void
request_gone(void *link)
{
	PendingRequest *pending = *(PendingRequest **) link;

	if (pending != NULL)
		pending->request = NULL;
}

void
pending_request_begin(PendingRequest *pending, h2o_req_t *request, PendingResume resume)
{
	pending->thread = http_thread_of(request);
	pending->request = request;
	pending->request_link = h2o_mem_alloc_shared(&request->pool, sizeof(*pending->request_link), request_gone);
	*pending->request_link = pending;
	pending->resume = resume;
	pending->thread->pending_lookups++;
}

void
pending_request_post(PendingRequest *pending)
{
	h2o_multithread_send_message(&pending->thread->finished_loads, &pending->message);
}

static void
on_finished_loads(h2o_multithread_receiver_t *receiver, h2o_linklist_t *messages)
{
	while (!h2o_linklist_is_empty(messages))
	{
		PendingRequest *pending = H2O_STRUCT_FROM_MEMBER(PendingRequest, message.link, messages->next);
		h2o_req_t  *request = pending->request;

		h2o_linklist_unlink(&pending->message.link);
		pending->thread->pending_lookups--;
		if (request != NULL)
			*pending->request_link = NULL;
		pending->resume(pending, request);
	}
}

void
pending_request_attach(HttpThread *thread)
{
	h2o_multithread_register_receiver(thread->context.queue, &thread->finished_loads, on_finished_loads);
}

void
pending_request_detach(HttpThread *thread)
{
	h2o_multithread_unregister_receiver(thread->context.queue, &thread->finished_loads);
}
