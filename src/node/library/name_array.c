/*
 * name_array.c
 *		Array literals (the syntax that array_in() of Postgres reads).
 */
#include "name_array.h"

#include <stdlib.h>
#include <string.h>

const char *
name_of_key(const AmoroKey *key, int index)
{
	const char *names[] = {key->catalog_name, key->database_name, key->object_name};

	return names[index];
}

/* Between double quotes only a double quote and a backslash mean something. */
static char *
put_quoted(char *target, const char *name)
{
	*target++ = '"';
	for (; *name != '\0'; name++)
	{
		if (*name == '"' || *name == '\\')
			*target++ = '\\';
		*target++ = *name;
	}
	*target++ = '"';
	return target;
}

char *
name_array(const AmoroKey *keys, int count, int index)
{
	size_t		size = sizeof("{}");
	char	   *array;
	char	   *end;

	for (int i = 0; i < count; i++)
		size += 2 * strlen(name_of_key(&keys[i], index)) + sizeof("\"\",") - 1;
	array = malloc(size);
	if (array == NULL)
		return NULL;
	end = array;
	*end++ = '{';
	for (int i = 0; i < count; i++)
	{
		if (i > 0)
			*end++ = ',';
		end = put_quoted(end, name_of_key(&keys[i], index));
	}
	*end++ = '}';
	*end = '\0';
	return array;
}
