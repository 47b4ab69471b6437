/*
 * listing.h
 *		What is in a database, over HTTP, page by page: /v1/tables/CATALOG/DATABASE?after=NAME&limit=1000
 */
#ifndef AMORO_LISTING_H
#define AMORO_LISTING_H

#include "lookup.h"

/* Adds the page that the query of a request asks for to a question; false: it has been answered, because the query is wrong. */
extern bool listing_read_question(h2o_req_t *request, ObjectQuestion *question);

#endif							/* AMORO_LISTING_H */
