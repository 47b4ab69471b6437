/*
 * names.c
 *		The names of states and results, as logs, metrics and HTTP answers show them.
 */
#include "amoro_node.h"

const char *
amoro_node_state_name(AmoroNodeState state)
{
	switch (state)
	{
		case AMORO_NODE_CONNECTING:
			return "connecting";
		case AMORO_NODE_FENCED:
			return "fenced";
		case AMORO_NODE_RECOVERING:
			return "recovering";
		case AMORO_NODE_ACTIVE:
			return "active";
		case AMORO_NODE_SUPERSEDED:
			return "superseded";
		case AMORO_NODE_REMOVED:
			return "removed";
		case AMORO_NODE_REFUSED:
			return "refused";
		case AMORO_NODE_CLOSED:
			return "closed";
	}
	return "unknown";
}

const char *
amoro_result_name(AmoroResult result)
{
	switch (result)
	{
		case AMORO_OK:
			return "ok";
		case AMORO_NOT_FOUND:
			return "not found";
		case AMORO_FENCED:
			return "fenced";
		case AMORO_IN_TRANSITION:
			return "in transition";
		case AMORO_UNAVAILABLE:
			return "unavailable";
		case AMORO_STALE:
			return "stale";
		case AMORO_MISS:
			return "miss";
		case AMORO_INVALID_ARGUMENT:
			return "invalid argument";
	}
	return "unknown";
}

const char *
amoro_node_library_version(void)
{
	return AMORO_NODE_VERSION;
}
