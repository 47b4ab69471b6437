/*
 * privilege.c
 *		Whether a user may do something, from memory.
 */
#include <string.h>
#include <strings.h>

#include "authority_table.h"
#include "node.h"

/* As the server spells them. */
static const char *const privilege_names[AMORO_PRIVILEGE_COUNT] = {
	[AMORO_PRIVILEGE_SELECT] = "SELECT",
	[AMORO_PRIVILEGE_INSERT] = "INSERT",
	[AMORO_PRIVILEGE_DELETE] = "DELETE",
	[AMORO_PRIVILEGE_CREATE] = "CREATE",
	[AMORO_PRIVILEGE_ALTER] = "ALTER",
	[AMORO_PRIVILEGE_DROP] = "DROP",
	[AMORO_PRIVILEGE_READ_DATA] = "READ_DATA",
	[AMORO_PRIVILEGE_WRITE_DATA] = "WRITE_DATA",
	[AMORO_PRIVILEGE_READ_SCHEMA] = "READ_SCHEMA",
	[AMORO_PRIVILEGE_WRITE_SCHEMA] = "WRITE_SCHEMA",
	[AMORO_PRIVILEGE_MANAGE_DATABASE] = "MANAGE_DATABASE",
	[AMORO_PRIVILEGE_MANAGE_CATALOG] = "MANAGE_CATALOG",
	[AMORO_PRIVILEGE_MANAGE_USER] = "MANAGE_USER",
	[AMORO_PRIVILEGE_MANAGE_ROLE] = "MANAGE_ROLE",
	[AMORO_PRIVILEGE_MANAGE_OPTIMIZER] = "MANAGE_OPTIMIZER",
	[AMORO_PRIVILEGE_EXTEND_TEMPLATE] = "EXTEND_TEMPLATE",
	[AMORO_PRIVILEGE_USE_TRIGGER] = "USE_TRIGGER",
	[AMORO_PRIVILEGE_USE_UDF] = "USE_UDF",
	[AMORO_PRIVILEGE_USE_CQ] = "USE_CQ",
	[AMORO_PRIVILEGE_USE_PIPE] = "USE_PIPE",
	[AMORO_PRIVILEGE_MAINTAIN] = "MAINTAIN",
};

const char *
amoro_privilege_name(AmoroPrivilege privilege)
{
	return (unsigned) privilege < AMORO_PRIVILEGE_COUNT ? privilege_names[privilege] : "unknown";
}

bool
amoro_privilege_parse(const char *name, AmoroPrivilege *privilege)
{
	for (int i = 0; i < AMORO_PRIVILEGE_COUNT; i++)
	{
		if (strcasecmp(name, privilege_names[i]) == 0)
		{
			*privilege = (AmoroPrivilege) i;
			return true;
		}
	}
	return false;
}

AmoroResult
amoro_privilege_allowed(const AmoroEntry *entry, AmoroPrivilege privilege, const AmoroScope *scope)
{
	if (entry->kind != AMORO_CACHE_AUTHORITY || !amoro_scope_is_valid(scope) || !amoro_privilege_fits(privilege, scope))
		return AMORO_INVALID_ARGUMENT;
	return authority_table_allows(entry_table(entry), privilege, scope) ? AMORO_OK : AMORO_NOT_FOUND;
}

AmoroResult
amoro_privilege_check(AmoroNode *node, const char *user_name, AmoroPrivilege privilege, const AmoroScope *scope, AmoroTicket *ticket)
{
	AmoroKey	key = {.catalog_name = user_name};
	AmoroEntry *entry;
	AmoroResult result;

	/* what is no question gets no answer, whether the user exists or not */
	if (!amoro_scope_is_valid(scope) || !amoro_privilege_fits(privilege, scope))
		return AMORO_INVALID_ARGUMENT;
	result = amoro_cache_get(node, AMORO_CACHE_AUTHORITY, &key, &entry, ticket);
	if (result != AMORO_OK)
		return result;
	result = authority_table_allows(entry_table(entry), privilege, scope) ? AMORO_OK : AMORO_NOT_FOUND;
	amoro_entry_release(entry);
	return result;
}
