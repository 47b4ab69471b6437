/*
 * metrics.h
 *		/metrics, in the text format of Prometheus.
 */
#ifndef AMORO_METRICS_H
#define AMORO_METRICS_H

#include <h2o.h>

extern void metrics_answer(h2o_req_t *request);

#endif							/* AMORO_METRICS_H */
