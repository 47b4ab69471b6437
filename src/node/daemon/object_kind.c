/*
 * object_kind.c
 *		The table of what can be looked up.
 */
#include "object_kind.h"

#include <stdio.h>
#include <string.h>

static const ObjectKind kinds[] = {
	{"/v1/tables/", AMORO_CACHE_TABLE, "table", "NoSuchTableException", "TableInTransitionException",
	{"catalog", "database", "table"}, "tables", false},
	{"/v1/devices/", AMORO_CACHE_DEVICE, "device", "NoSuchDeviceException", "DeviceInTransitionException",
	{"catalog", "database", "device"}, "devices", false},
	{"/v1/partitions/", AMORO_CACHE_PARTITION, "partition", "NoSuchPartitionException", "PartitionInTransitionException",
	{"catalog", "database", "partition"}, NULL, false},
	{"/v1/buckets/", AMORO_CACHE_BUCKET, "bucket", "NoSuchBucketException", "BucketInTransitionException",
	{"service", "bucket", NULL}, NULL, false},
	{"/v1/users/", AMORO_CACHE_AUTHORITY, "user", "NoSuchUserException", "UserInTransitionException",
	{"user", NULL, NULL}, NULL, false},
	{.path = "/v1/privileges/", .cache = AMORO_CACHE_AUTHORITY, .noun = "user", .labels = {"user"}, .asks_privilege = true},
};

const ObjectKind *
object_kind_of_path(const char *path, size_t length)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
	{
		size_t		prefix = strlen(kinds[i].path);

		if (length > prefix && memcmp(path, kinds[i].path, prefix) == 0)
			return &kinds[i];
	}
	return NULL;
}

const ObjectKind *
object_kind_at(int index)
{
	return index < (int) (sizeof(kinds) / sizeof(kinds[0])) ? &kinds[index] : NULL;
}

const ObjectKind *
object_kind_database(void)
{
	static const ObjectKind database = {
		.noun = "database", .absent_type = "NoSuchDatabaseException", .transition_type = "DatabaseInTransitionException",
		.labels = {"catalog", "database"}
	};

	return &database;
}

int
object_kind_names(const ObjectKind *kind)
{
	int			count = 0;

	while (count < MAX_OBJECT_NAMES && kind->labels[count] != NULL)
		count++;
	return count;
}

void
object_kind_describe(const AmoroKey *key, char *text, size_t size)
{
	const char *names[MAX_OBJECT_NAMES] = {key->catalog_name, key->database_name, key->object_name};
	size_t		length = 0;

	text[0] = '\0';
	for (int i = 0; i < MAX_OBJECT_NAMES && names[i] != NULL && length < size; i++)
		length += (size_t) snprintf(text + length, size - length, "%s\"%s\"", i > 0 ? "." : "", names[i]);
}
