/*
 * answer_text.h
 *		The answer to a heartbeat as one value: node_grant in its text form, and the changes it may carry after it
 *		(docs/protocol.md, section 5).
 */
#ifndef AMORO_ANSWER_TEXT_H
#define AMORO_ANSWER_TEXT_H

#include "transport.h"

/*
 * Reads it into *answer; false when it is not such an answer, or the changes are not those of all versions after
 * after_version up to that of the grant, in their order. The changes, if any, are one piece of memory for free().
 */
extern bool answer_text_read(const char *text, int64_t after_version, NodeAnswer *answer);
/* The answer that the word stands for; false when it stands for none. */
extern bool grant_answer_read(const char *word, size_t length, GrantAnswer *answer);

#endif							/* AMORO_ANSWER_TEXT_H */
