/*
 * status.h
 *		What may be asked of a node that is fenced: is it serving, and if not, why.
 */
#ifndef AMORO_STATUS_H
#define AMORO_STATUS_H

#include <h2o.h>

/* /healthz: 200 when a lookup could be answered now, else 503; one line of text. */
extern void status_answer_health(h2o_req_t *request);
/* /v1/status: everything the node knows of itself, as JSON; times and sizes have their units in the names. */
extern void status_answer(h2o_req_t *request);

#endif							/* AMORO_STATUS_H */
