/*
 * node.c
 *		A node from open to close.
 */
#include "amoro_node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct AmoroNode
{
	AmoroNodeState state;
};

AmoroResult
amoro_node_open(const AmoroNodeOptions *options, AmoroNode **node, char *error, size_t error_size)
{
	if (options->node_name == NULL || options->conninfo == NULL)
	{
		snprintf(error, error_size, "node name and connection string are required");
		return AMORO_INVALID_ARGUMENT;
	}
	*node = calloc(1, sizeof(AmoroNode));
	return *node ? AMORO_OK : AMORO_INVALID_ARGUMENT;
}

void
amoro_node_status(AmoroNode *node, AmoroNodeStatus *status)
{
	memset(status, 0, sizeof(*status));
	status->state = node->state;
	status->heartbeat_age_ms = -1;
	status->last_recovery_ms = -1;
}

void
amoro_node_close(AmoroNode *node)
{
	free(node);
}

AmoroResult
amoro_cache_peek(AmoroNode *node, AmoroCacheKind kind, const AmoroKey *key, AmoroEntry **entry, AmoroTicket *ticket)
{
	return AMORO_FENCED;
}

AmoroResult
amoro_cache_get(AmoroNode *node, AmoroCacheKind kind, const AmoroKey *key, AmoroEntry **entry, AmoroTicket *ticket)
{
	return AMORO_FENCED;
}

void
amoro_cache_load(AmoroNode *node, AmoroCacheKind kind, const AmoroKey *key, AmoroLoadCallback callback, void *argument)
{
	AmoroTicket ticket = {0};

	callback(argument, AMORO_FENCED, NULL, ticket);
}

AmoroResult
amoro_ticket_check(AmoroNode *node, const AmoroTicket *ticket)
{
	return AMORO_FENCED;
}

const char *
amoro_entry_document(const AmoroEntry *entry, size_t *size)
{
	*size = 0;
	return "";
}

int64_t
amoro_entry_version(const AmoroEntry *entry)
{
	return 0;
}

void
amoro_entry_release(AmoroEntry *entry)
{
}

const char *
amoro_cache_kind_name(AmoroCacheKind kind)
{
	return kind == AMORO_CACHE_TABLE ? "table" : "unknown";
}
