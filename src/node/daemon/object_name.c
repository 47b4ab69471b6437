/*
 * object_name.c
 *		Percent-decoding (RFC 3986, 2.1) and the check of names, in one pass each.
 */
#include "object_name.h"

#include <stdint.h>

enum
{
	MAX_NAME_CHARACTERS = 255
};

static int
hexadecimal_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/*
 * The length of the UTF-8 sequence at bytes (RFC 3629: no surrogates, no overlong forms, nothing above U+10FFFF), or 0.
 */
static size_t
utf8_sequence_length(const unsigned char *bytes, size_t available)
{
	unsigned char lead = bytes[0];
	unsigned char low = 0x80;	/* bounds of the second byte */
	unsigned char high = 0xbf;
	size_t		length;

	if (lead < 0x80)
		return 1;
	if (lead >= 0xc2 && lead <= 0xdf)
		length = 2;
	else if (lead >= 0xe0 && lead <= 0xef)
		length = 3;
	else if (lead >= 0xf0 && lead <= 0xf4)
		length = 4;
	else
		return 0;
	if (length > available)
		return 0;
	if (lead == 0xe0)
		low = 0xa0;
	else if (lead == 0xed)
		high = 0x9f;
	else if (lead == 0xf0)
		low = 0x90;
	else if (lead == 0xf4)
		high = 0x8f;
	if (bytes[1] < low || bytes[1] > high)
		return 0;
	for (size_t i = 2; i < length; i++)
		if (bytes[i] < 0x80 || bytes[i] > 0xbf)
			return 0;
	return length;
}

const char *
object_name_check(const char *text, size_t length)
{
	const unsigned char *name = (const unsigned char *) text;
	size_t		characters = 0;
	size_t		step;

	for (size_t i = 0; i < length; i += step)
	{
		if (name[i] < 0x20 || name[i] == 0x7f)
			return "has a control character";
		step = utf8_sequence_length(name + i, length - i);
		if (step == 0)
			return "is not valid UTF-8";
		characters++;
	}
	if (characters == 0)
		return "is empty";
	if (characters > MAX_NAME_CHARACTERS)
		return "is longer than 255 characters";
	return NULL;
}

const char *
object_name_decode(const char *segment, size_t length, char *name)
{
	size_t		decoded = 0;

	for (size_t i = 0; i < length; i++)
	{
		if (segment[i] != '%')
		{
			name[decoded++] = segment[i];
			continue;
		}
		if (i + 2 >= length || hexadecimal_digit(segment[i + 1]) < 0 || hexadecimal_digit(segment[i + 2]) < 0)
			return "has a percent sign without two hexadecimal digits";
		name[decoded++] = (char) (hexadecimal_digit(segment[i + 1]) * 16 + hexadecimal_digit(segment[i + 2]));
		i += 2;
	}
	name[decoded] = '\0';
	return object_name_check(name, decoded);
}
