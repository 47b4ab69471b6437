/*
 * wire_text.h
 *		Text in the encoding of the database, and in UTF-8, which is what is sent and received.
 */
#ifndef AMORO_META_WIRE_TEXT_H
#define AMORO_META_WIRE_TEXT_H

#include "postgres.h"

/* UTF-8 of a text of the database, in the context; what has no character there becomes a question mark. In a transaction, unless it is ASCII. */
extern char *wire_text_to_send(const char *text, MemoryContext context);
/* Valid UTF-8 in the encoding of the database; a character that this encoding lacks becomes the given byte. In a transaction. */
extern char *wire_text_received(const char *text, size_t size, char replacement);

#endif							/* AMORO_META_WIRE_TEXT_H */
