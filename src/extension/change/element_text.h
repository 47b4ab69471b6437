/*
 * element_text.h
 *		The elements of an array of JSON as text. A statement that asks for many objects keeps the texts of the arrays that
 *		it has seen: the devices of a fleet have few kinds of definitions, and to write one anew is most of the cost of a device.
 */
#ifndef AMORO_META_ELEMENT_TEXT_H
#define AMORO_META_ELEMENT_TEXT_H

#include "postgres.h"

#include "fmgr.h"
#include "lib/stringinfo.h"
#include "utils/jsonb.h"

/*
 * Appends what is between the brackets of the array, a value of type jbvBinary. Texts are kept in fn_extra of the function,
 * which nothing else may use.
 */
extern void element_text_put(StringInfo out, const JsonbValue *array, FmgrInfo *function);

#endif							/* AMORO_META_ELEMENT_TEXT_H */
