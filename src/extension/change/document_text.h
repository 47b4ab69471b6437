/*
 * document_text.h
 *		A JSON object as text, member by member, of the arguments of an SQL function; null for those that are NULL.
 */
#ifndef AMORO_META_DOCUMENT_TEXT_H
#define AMORO_META_DOCUMENT_TEXT_H

#include "postgres.h"

#include "fmgr.h"
#include "lib/stringinfo.h"
#include "utils/jsonb.h"

/* Begins a member, the first one with the brace that opens the object. */
extern void document_put_name(StringInfo out, const char *name);
extern void document_put_text(StringInfo out, const char *name, FunctionCallInfo fcinfo, int argument);
/* bigint */
extern void document_put_number(StringInfo out, const char *name, FunctionCallInfo fcinfo, int argument);
extern void document_put_jsonb(StringInfo out, const char *name, FunctionCallInfo fcinfo, int argument);

#endif							/* AMORO_META_DOCUMENT_TEXT_H */
