/*
 * json_clean.c
 *		Makes JSON from a stranger fit for the server's own parser.
 */
#include "postgres.h"

#include "json/json_clean.h"
#include "mb/pg_wchar.h"
#include "wire_text.h"

/* A parser recurses once a level, and makes an object of each value. */
#define MOST_LEVELS 100
#define MOST_VALUES 1000000
/* Stands for what cannot be kept. */
#define UNSTORABLE 0x7f

typedef struct Cleaning
{
	const unsigned char *in;
	const unsigned char *end;
	unsigned char *out;
} Cleaning;

/* The code of \uXXXX at the place; -1 when it is not one. */
static int
read_escape(const unsigned char *place, const unsigned char *end)
{
	int			code = 0;

	if (end - place < 6 || place[0] != '\\' || place[1] != 'u')
		return -1;
	for (int i = 2; i < 6; i++)
	{
		int			digit = place[i];

		if (digit >= '0' && digit <= '9')
			code = code * 16 + digit - '0';
		else if ((digit | 0x20) >= 'a' && (digit | 0x20) <= 'f')
			code = code * 16 + (digit | 0x20) - 'a' + 10;
		else
			return -1;
	}
	return code;
}

/* A backslash and what belongs to it. */
static void
clean_escape(Cleaning *text)
{
	int			code = read_escape(text->in, text->end);
	int			second;
	unsigned char encoded[8];

	if (code < 0)
	{
		/* the character after it is never the end of the string; if there is none, the parser complains */
		*text->out++ = *text->in++;
		if (text->in < text->end && *text->in < 0x80)
			*text->out++ = *text->in++;
		return;
	}
	if (code > 0 && code < 0x80)
	{
		memmove(text->out, text->in, 6);
		text->out += 6;
		text->in += 6;
		return;
	}
	text->in += 6;
	if (code >= 0xd800 && code <= 0xdbff)
	{
		second = read_escape(text->in, text->end);
		if (second >= 0xdc00 && second <= 0xdfff)
		{
			code = 0x10000 + ((code - 0xd800) << 10) + (second - 0xdc00);
			text->in += 6;
		}
	}
	if (code == 0 || (code >= 0xd800 && code <= 0xdfff))
	{
		*text->out++ = UNSTORABLE;
		return;
	}
	unicode_to_utf8((pg_wchar) code, encoded);
	memcpy(text->out, encoded, pg_utf_mblen(encoded));
	text->out += pg_utf_mblen(encoded);
}

/* One character inside of a string. */
static void
clean_character(Cleaning *text)
{
	int			length;

	if (*text->in == '\\')
	{
		clean_escape(text);
		return;
	}
	if (*text->in < 0x80)
	{
		unsigned char c = *text->in++;

		*text->out++ = c == '\0' ? UNSTORABLE : c;
		return;
	}
	length = pg_utf_mblen(text->in);
	if (length > text->end - text->in || !pg_utf8_islegal(text->in, length))
	{
		*text->out++ = UNSTORABLE;
		text->in++;
		return;
	}
	memmove(text->out, text->in, length);
	text->out += length;
	text->in += length;
}

/* See json_clean.h. */
const char *
json_clean(char *buffer, size_t *size)
{
	Cleaning	text = {
		.in = (unsigned char *) buffer,
		.end = (unsigned char *) buffer + *size,
		.out = (unsigned char *) buffer
	};
	bool		in_string = false;
	int			level = 0;
	int			values = 0;

	while (text.in < text.end)
	{
		unsigned char c = *text.in;

		if (c == '"')
			in_string = !in_string;
		if (in_string && c != '"')
		{
			clean_character(&text);
			continue;
		}
		if (c == '[' || c == '{')
			level++;
		else if (c == ']' || c == '}')
			level--;
		if (c == '[' || c == '{' || c == ',' || c == ':')
			values++;
		if (level > MOST_LEVELS)
			return "the answer is nested too deeply";
		if (values > MOST_VALUES)
			return "the answer has too many values";
		/* a byte that cannot be there is left to the parser, except for the one that ends its text */
		*text.out++ = c == '\0' || c >= 0x80 ? UNSTORABLE : c;
		text.in++;
	}
	*size = text.out - (unsigned char *) buffer;
	return NULL;
}

/* See json_clean.h. */
char *
json_to_server(char *text, size_t size)
{
	return wire_text_received(text, size, UNSTORABLE);
}
