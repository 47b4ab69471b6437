/*
 * element_text.c
 *		Writing the elements of arrays, and keeping what was written.
 */
#include "change/element_text.h"

#include "common/hashfn.h"

#define TEXTS_KEPT 64			/* a power of two */
#define LARGEST_KEPT 4096		/* bytes of an array; a larger one is written each time */

/* An array, byte by byte, and its text; of the arrays with one place the last is kept. */
typedef struct KeptText
{
	int			array_size;		/* 0: none */
	int			text_size;
	char	   *array;			/* the text follows */
} KeptText;

typedef struct KeptTexts
{
	KeptText	texts[TEXTS_KEPT];
} KeptTexts;

/* A lookup asks once, for which there is nothing to be kept: false at the first call. */
static bool
keeps(FmgrInfo *function)
{
	static char asked_once;

	if (function->fn_extra == NULL)
		function->fn_extra = &asked_once;
	else if (function->fn_extra == &asked_once)
		function->fn_extra = MemoryContextAllocZero(function->fn_mcxt, sizeof(KeptTexts));
	return function->fn_extra != &asked_once;
}

/* At least four bytes: the header. */
static KeptText *
place_of(FmgrInfo *function, const JsonbValue *array)
{
	KeptTexts  *kept = function->fn_extra;
	uint32		hash = hash_bytes((const unsigned char *) array->val.binary.data, array->val.binary.len);

	return &kept->texts[hash & (TEXTS_KEPT - 1)];
}

static void
keep(KeptText *kept, FmgrInfo *function, const JsonbValue *array, const char *text, int text_size)
{
	int			size = array->val.binary.len;

	if (kept->array != NULL)
		pfree(kept->array);
	kept->array_size = 0;
	kept->array = MemoryContextAlloc(function->fn_mcxt, size + text_size);
	memcpy(kept->array, array->val.binary.data, size);
	memcpy(kept->array + size, text, text_size);
	kept->text_size = text_size;
	kept->array_size = size;
}

void
element_text_put(StringInfo out, const JsonbValue *array, FmgrInfo *function)
{
	StringInfoData text;
	KeptText   *kept = NULL;
	int			size = array->val.binary.len;

	if (size <= LARGEST_KEPT && keeps(function))
	{
		kept = place_of(function, array);
		if (kept->array_size == size && memcmp(kept->array, array->val.binary.data, size) == 0)
		{
			appendBinaryStringInfo(out, kept->array + size, kept->text_size);
			return;
		}
	}
	initStringInfo(&text);
	JsonbToCString(&text, array->val.binary.data, size);
	/* without its brackets */
	appendBinaryStringInfo(out, text.data + 1, text.len - 2);
	if (kept != NULL)
		keep(kept, function, array, text.data + 1, text.len - 2);
	pfree(text.data);
}
