/*
 * answer_text.c
 *		The answer to a heartbeat as one value. It comes from the server alone, and yet is read strictly: a lease or a
 *		change that was misunderstood would be worse than none.
 */
#include "answer_text.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Of a line: version, ordinal, object kind, operation, catalog, database, name, object id, detail. */
#define COLUMN_COUNT 9

bool
grant_answer_read(const char *word, size_t length, GrantAnswer *answer)
{
	static const char *const words[] = {
		[GRANT_GRANTED] = "granted",
		[GRANT_RELOAD] = "reload",
		[GRANT_BEHIND] = "behind",
		[GRANT_HELD] = "held",
		[GRANT_LEAVE] = "leave",
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
	{
		if (strlen(words[i]) == length && memcmp(words[i], word, length) == 0)
		{
			*answer = (GrantAnswer) i;
			return true;
		}
	}
	return false;
}

/* A number without sign, space or leading plus, and what has to follow it. */
static bool
read_number(const char **at, char end, int64_t *number)
{
	char	   *after;

	if (**at < '0' || **at > '9')
		return false;
	errno = 0;
	*number = strtoll(*at, &after, 10);
	if (errno != 0 || *after != end)
		return false;
	*at = after + 1;
	return true;
}

/* The reason, in quotes, or nothing; then the end of the row. */
static bool
read_reason(const char **at, NodeGrant *grant)
{
	size_t		length;

	grant->reason[0] = '\0';
	if (**at == '"')
	{
		length = strcspn(++*at, "\"\\\n");
		if ((*at)[length] != '"' || length >= sizeof(grant->reason))
			return false;
		memcpy(grant->reason, *at, length);
		grant->reason[length] = '\0';
		*at += length + 1;
	}
	return *(*at)++ == ')';
}

static bool
read_grant(const char **at, NodeGrant *grant)
{
	size_t		word;

	if (*(*at)++ != '(')
		return false;
	word = strcspn(*at, ",");
	if (!grant_answer_read(*at, word, &grant->answer) || (*at)[word] != ',')
		return false;
	*at += word + 1;
	return read_number(at, ',', &grant->node_id) && read_number(at, ',', &grant->term) &&
		read_number(at, ',', &grant->lease_epoch) && read_number(at, ',', &grant->lease_ms) &&
		read_number(at, ',', &grant->max_clock_drift_ppm) && read_number(at, ',', &grant->heartbeat_interval_ms) &&
		read_number(at, ',', &grant->metadata_version) && read_reason(at, grant);
}

/* Takes the escapes out of one column, in place; false when there is one that COPY does not write. */
static bool
unescape(char *column)
{
	char	   *to = column;

	for (const char *from = column; *from != '\0'; from++)
	{
		if (*from == '\\')
		{
			from++;
			if (*from == 't')
				*to++ = '\t';
			else if (*from == 'n')
				*to++ = '\n';
			else if (*from == 'r')
				*to++ = '\r';
			else if (*from == '\\')
				*to++ = '\\';
			else
				return false;
		}
		else
			*to++ = *from;
	}
	*to = '\0';
	return true;
}

/* Cuts a line into its columns, NULL where there is no value. */
static bool
read_columns(char *line, char **columns)
{
	for (int i = 0; i < COLUMN_COUNT; i++)
	{
		char	   *tab = strchr(line, '\t');

		if ((tab != NULL) != (i < COLUMN_COUNT - 1))
			return false;
		if (tab != NULL)
			*tab = '\0';
		columns[i] = strcmp(line, "\\N") == 0 ? NULL : line;
		if (columns[i] != NULL && !unescape(columns[i]))
			return false;
		line = tab + 1;
	}
	return true;
}

/* One line. The versions come without gaps, and the changes of one in their order. */
static bool
read_change(char *line, int64_t *version, int64_t *ordinal, MetadataChange *change)
{
	char	   *columns[COLUMN_COUNT];
	const char *at;
	int64_t		number;

	if (!read_columns(line, columns) || columns[0] == NULL || columns[1] == NULL || columns[2] == NULL || columns[3] == NULL)
		return false;
	at = columns[0];
	if (!read_number(&at, '\0', &change->version))
		return false;
	at = columns[1];
	if (!read_number(&at, '\0', &number))
		return false;
	if (change->version == *version ? number != *ordinal + 1 : (change->version != *version + 1 || number != 0))
		return false;
	*version = change->version;
	*ordinal = number;
	change->object_kind = columns[2];
	change->operation = columns[3];
	change->catalog_name = columns[4];
	change->database_name = columns[5];
	change->object_name = columns[6];
	return true;
}

static bool
read_changes(const char *text, int64_t version, NodeAnswer *answer)
{
	size_t		size = strlen(text) + 1;
	size_t		count = 1;
	int64_t		ordinal = INT_MAX;	/* no change of after_version itself may follow */
	char	   *line;
	char	   *next;

	for (const char *c = text; *c != '\0'; c++)
		count += *c == '\n';
	answer->changes = calloc(1, count * sizeof(MetadataChange) + size);
	if (answer->changes == NULL)
		return false;
	line = memcpy(answer->changes + count, text, size);
	for (; line != NULL; line = next)
	{
		next = strchr(line, '\n');
		if (next != NULL)
			*next++ = '\0';
		if (!read_change(line, &version, &ordinal, &answer->changes[answer->change_count]))
			return false;
		answer->change_count++;
	}
	return version == answer->grant.metadata_version;
}

bool
answer_text_read(const char *text, int64_t after_version, NodeAnswer *answer)
{
	if (!read_grant(&text, &answer->grant))
		return false;
	if (*text == '\0')
		return true;
	return *text == '\n' && read_changes(text + 1, after_version, answer);
}
