/*
 * wire_text.c
 *		Text in the encoding of the database, and in UTF-8, which is what is sent and received.
 */
#include "wire_text.h"

#include "catalog/namespace.h"
#include "common/string.h"
#include "mb/pg_wchar.h"
#include "utils/memutils.h"

/* Of texts in SQL_ASCII nothing is known but their bytes. */
static bool
is_sent_as_it_is(int encoding)
{
	return encoding == PG_UTF8 || encoding == PG_SQL_ASCII;
}

/* Every byte that is not ASCII becomes the replacement. */
static char *
ascii_of(const char *text, size_t size, char replacement)
{
	char	   *result = pnstrdup(text, size);

	for (char *c = result; *c != '\0'; c++)
	{
		if (IS_HIGHBIT_SET(*c))
			*c = replacement;
	}
	return result;
}

/* Without an error: a character that the target lacks becomes the replacement. */
static char *
convert(const char *text, size_t size, int source, int target, char replacement)
{
	Oid			procedure = FindDefaultConversionProc(source, target);
	char	   *result;
	size_t		done = 0;
	size_t		written = 0;

	if (!OidIsValid(procedure))
		return ascii_of(text, size, replacement);
	result = MemoryContextAllocHuge(CurrentMemoryContext, size * MAX_CONVERSION_GROWTH + 1);
	while (done < size)
	{
		done += pg_do_encoding_conversion_buf(procedure, source, target, (unsigned char *) unconstify(char *, text) + done, (int) (size - done),
											  (unsigned char *) result + written,
											  (int) Min((size - done) * MAX_CONVERSION_GROWTH + 1, (size_t) INT_MAX), /* noError= */ true);
		written += strlen(result + written);
		if (done < size)
		{
			size_t		length = (size_t) pg_encoding_mblen(source, text + done);

			done += Min(length, size - done);
			result[written++] = replacement;
		}
	}
	result[written] = '\0';
	return result;
}

/* See wire_text.h. */
char *
wire_text_to_send(const char *text, MemoryContext context)
{
	MemoryContext old = MemoryContextSwitchTo(context);
	char	   *result = is_sent_as_it_is(GetDatabaseEncoding()) || pg_is_ascii(text) ? pstrdup(text) :
		convert(text, strlen(text), GetDatabaseEncoding(), PG_UTF8, '?');

	MemoryContextSwitchTo(old);
	return result;
}

/* See wire_text.h. */
char *
wire_text_received(const char *text, size_t size, char replacement)
{
	return is_sent_as_it_is(GetDatabaseEncoding()) ? pnstrdup(text, size) : convert(text, size, PG_UTF8, GetDatabaseEncoding(), replacement);
}
