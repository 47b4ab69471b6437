/*
 * change_operation.c
 *		Lists of changes: of a table, a view, a device. Each is an object with the key "op".
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "object/change_operation.h"

#define MAX_CHANGES 1000
#define MAX_CHANGES_SIZE (1024 * 1024)

/* "a, b or c" */
static char *
list_names(const ChangeOperation *operations, int count)
{
	StringInfoData names;

	initStringInfo(&names);
	for (int i = 0; i < count; i++)
		appendStringInfo(&names, "%s%s", i == 0 ? "" : i == count - 1 ? " or " : ", ", operations[i].name);
	return names.data;
}

static const ChangeOperation *
find_operation(const JsonPlace *change, const ChangeOperation *operations, int count)
{
	JsonPlace	member;
	char	   *name;

	json_require_object(change);
	member = json_required_member(change, "op");
	name = json_string(&member);
	for (int i = 0; i < count; i++)
	{
		if (strcmp(operations[i].name, name) == 0)
			return &operations[i];
	}
	json_refuse(&member, "unknown operation \"%s\", expected %s", json_excerpt(name), list_names(operations, count));
}

/* See the header. */
void
change_operations_apply(Jsonb *changes, const ChangeOperation *operations, int count, void *target)
{
	JsonPlace	list = json_document(changes);
	int			size = json_array_size(&list);

	if (size == 0)
		json_refuse(&list, "expected at least one change");
	if (size > MAX_CHANGES)
		json_refuse(&list, "more than %d changes", MAX_CHANGES);
	if (VARSIZE(changes) > MAX_CHANGES_SIZE)
		json_refuse(&list, "the changes have more than %d bytes", MAX_CHANGES_SIZE);
	for (int i = 0; i < size; i++)
	{
		JsonPlace	change = json_array_item(&list, i);
		const ChangeOperation *operation = find_operation(&change, operations, count);

		CHECK_FOR_INTERRUPTS();
		json_require_known_keys(&change, operation->keys);
		if (target != NULL)
			operation->apply(&change, target);
	}
}
