/*
 * listing.c
 *		Which page of a listing is asked for.
 */
#include "listing.h"

#include <stdlib.h>
#include <string.h>

#include "query.h"

static const char *const parameters[] = {"after", "limit"};

enum
{
	USUAL_LIMIT = 1000,
	MOST_LISTED = 10000
};

/* 0: it is none. */
static int
read_limit(const char *text)
{
	long		limit;

	if (text == NULL)
		return USUAL_LIMIT;
	if (strlen(text) > 5 || strspn(text, "0123456789") != strlen(text))
		return 0;
	limit = strtol(text, NULL, 10);
	return limit <= MOST_LISTED ? (int) limit : 0;
}

bool
listing_read_question(h2o_req_t *request, ObjectQuestion *question)
{
	const char *values[] = {NULL, NULL};

	if (!query_read(request, parameters, 2, values))
		return false;
	question->key.object_name = values[0];
	question->max_rows = read_limit(values[1]);
	if (question->max_rows > 0)
		return true;
	query_refuse(request, "limit", "is not a number from 1 to 10000");
	return false;
}
