/*
 * server_answer.h
 *		What the answers of a real server say.
 */
#ifndef AMORO_SERVER_ANSWER_H
#define AMORO_SERVER_ANSWER_H

#include <libpq-fe.h>

#include "transport.h"

/* Reads the result of a request; false when it makes no sense, or memory is short. The answer points into the result. */
extern bool server_answer_read(const PGresult *result, const NodeRequest *request, NodeAnswer *answer);

#endif							/* AMORO_SERVER_ANSWER_H */
