/*
 * json_clean.h
 *		Makes JSON from a stranger fit for the server's own parser.
 */
#ifndef AMORO_META_JSON_CLEAN_H
#define AMORO_META_JSON_CLEAN_H

#include "postgres.h"

/*
 * Rewrites the text in place: what the database cannot store (bytes that are not UTF-8, NULs, halves of a pair of
 * surrogates) becomes U+007F, which no name may have, so that the one entry can be skipped and the others read. All
 * other escapes beyond ASCII become the characters. The text gets no longer. Returns NULL, or why the text is refused:
 * nested too deeply, or too many values.
 */
extern const char *json_clean(char *text, size_t *size);
/* The text, which json_clean has been over, in the encoding of the database; in a transaction. */
extern char *json_to_server(char *text, size_t size);

#endif							/* AMORO_META_JSON_CLEAN_H */
