/*
 * model_server.c
 *		The server's side of the rules, as a model: one slot, one step that waits for a verdict.
 */
#include "model_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMELINE(term) ((term) >> 32)

void
model_init(ModelServer *server)
{
	server->up = true;
	server->term = (INT64_C(1) << 32) | 1;
	server->lease_us = server->longest_lease_us = 2000000;
	server->drift_ppm = 1000;
	server->interval_us = 200000;
	server->margin_us = 100000;
	server->ack_timeout_us = 500000;
	server->chunk_rows = 2;
}

static NodeTime
owed(const ModelServer *server, int64_t lease_us)
{
	return lease_us + (lease_us * server->drift_ppm + 999999) / 1000000 + server->margin_us;
}

static TransportStatus
refuse(TransportFailure *failure, const char *sqlstate, const char *message)
{
	snprintf(failure->sqlstate, sizeof(failure->sqlstate), "%s", sqlstate);
	snprintf(failure->message, sizeof(failure->message), "%s", message);
	return TRANSPORT_REFUSED;
}

static void
fill(const ModelServer *server, GrantAnswer answer, NodeGrant *grant)
{
	*grant = (NodeGrant) {
		.answer = answer,
		.node_id = 7,
		.term = server->term,
		.lease_epoch = server->slot.epoch,
		.lease_ms = server->lease_us / 1000,
		.max_clock_drift_ppm = server->drift_ppm,
		.heartbeat_interval_ms = server->interval_us / 1000,
		.metadata_version = server->version,
	};
}

static void
fence(ModelServer *server)
{
	server->slot.state = SLOT_FENCED;
	if (!server->forgets_fences)
		server->slot.epoch++;
}

static void
grant_lease(ModelServer *server, NodeTime now)
{
	NodeTime	until = now + owed(server, server->lease_us);

	if (server->lease_us > server->longest_lease_us)
		server->longest_lease_us = server->lease_us;
	if (until > server->slot.owed_until)
		server->slot.owed_until = until;
}

static void
note_applied(ModelServer *server, int64_t applied, NodeTime now)
{
	ModelSlot  *slot = &server->slot;

	if (applied > slot->applied)
	{
		slot->applied = applied;
		slot->behind_since = 0;
	}
	if (slot->applied >= server->version)
		slot->behind_since = 0;
	else if (slot->behind_since == 0)
		slot->behind_since = now;
}

static GrantAnswer
heartbeat(ModelServer *server, const NodeRequest *request, NodeTime now)
{
	ModelSlot  *slot = &server->slot;

	if (server->forgets_fences && slot->state == SLOT_FENCED)
	{
		slot->state = SLOT_ACTIVE;
		slot->owed_until = now;
	}
	if (request->term < server->term || request->lease_epoch != slot->epoch || slot->state != SLOT_ACTIVE ||
		request->version > server->version)
		return GRANT_RELOAD;
	if (now > slot->owed_until)
	{
		fence(server);
		return GRANT_RELOAD;
	}
	note_applied(server, request->version, now);
	if (slot->behind_since != 0 && now - slot->behind_since > server->ack_timeout_us)
		return GRANT_HELD;
	grant_lease(server, now);
	return GRANT_GRANTED;
}

static GrantAnswer
activate(ModelServer *server, const NodeRequest *request, NodeTime now)
{
	ModelSlot  *slot = &server->slot;

	if (request->term < server->term || request->lease_epoch != slot->epoch)
		return GRANT_RELOAD;
	if (slot->state == SLOT_ACTIVE && now > slot->owed_until)
	{
		fence(server);
		return GRANT_RELOAD;
	}
	if (request->version < server->version)
		return GRANT_BEHIND;
	if (request->version > server->version)
		return GRANT_RELOAD;
	slot->state = SLOT_ACTIVE;
	note_applied(server, request->version, now);
	grant_lease(server, now);
	return GRANT_GRANTED;
}

static TransportStatus
send_changes(const ModelServer *server, int64_t after, NodeAnswer *answer, TransportFailure *failure)
{
	static const char *const databases[] = {"sales", "stock"};

	if (server->refuse_changes_with != NULL)
		return refuse(failure, server->refuse_changes_with, "refused by the test");
	if (after < server->pruned || after > server->version)
		return refuse(failure, "AM006", "change history was pruned");
	answer->changes = calloc((size_t) server->change_count + 1, sizeof(MetadataChange));
	for (int i = 0; i < server->change_count; i++)
	{
		const ModelChange *from = &server->changes[i];
		MetadataChange *to = &answer->changes[answer->change_count];
		AmoroKey	key = object_key(from->object >= 0 ? from->object : 0);

		if (from->version <= after)
			continue;
		to->version = from->version;
		to->object_kind = from->object >= 0 ? "table" : "database";
		to->operation = "alter";
		to->catalog_name = "lake";
		to->database_name = from->object >= 0 ? key.database_name : databases[-1 - from->object];
		to->object_name = from->object >= 0 ? key.object_name : NULL;
		answer->change_count++;
	}
	return TRANSPORT_DONE;
}

/* What is known of an object, as the database says it. */
static LookupAnswer
answer_of(const ModelServer *server, const ModelObject *object)
{
	static const char *const states[] = {"normal", "pre_create", "pre_alter", "pre_drop", NULL};

	return (LookupAnswer) {
		.metadata_version = server->version,
		.term = server->term,
		.found = object->state != OBJECT_ABSENT,
		.state = states[object->state],
		.object_version = object->version,
		.document = "{}",
		.document_size = 2,
	};
}

TransportStatus
model_snapshot(const ModelServer *server, int64_t after_object_id, NodeAnswer *answer, TransportFailure *failure)
{
	if (server->refuse_with != NULL || server->refuse_snapshots_with != NULL)
		return refuse(failure, server->refuse_with != NULL ? server->refuse_with : server->refuse_snapshots_with,
					  "refused by the test");
	answer->rows = calloc(OBJECT_COUNT, sizeof(ObjectRow));
	answer->last = true;
	for (int i = (int) after_object_id; i < OBJECT_COUNT; i++)
	{
		if (server->objects[i].state == OBJECT_ABSENT)
			continue;
		if (answer->row_count >= server->chunk_rows)
		{
			answer->last = false;
			break;
		}
		answer->rows[answer->row_count++] = (ObjectRow) {
			.object_id = i + 1, .key = object_key(i), .answer = answer_of(server, &server->objects[i])
		};
	}
	answer->lookup.metadata_version = server->version;
	answer->lookup.term = server->term;
	return TRANSPORT_DONE;
}

void
model_read(const ModelServer *server, int object, LookupAnswer *answer)
{
	*answer = answer_of(server, &server->objects[object]);
}

void
model_answer(World *world, const NodeRequest *request, NodeAnswer *answer)
{
	ModelServer *server = &world->server;
	TransportFailure none;

	answer->grant.metadata_version = server->version;
	if ((answer->grant.answer == GRANT_GRANTED || answer->grant.answer == GRANT_HELD) &&
		answer->grant.term == request->term && request->version < server->version &&
		random_between(&world->random, 0, 1000) < server->carries_permille)
		(void) send_changes(server, request->version, answer, &none);
}

static void
attach(ModelServer *server, const NodeRequest *request)
{
	ModelSlot  *slot = &server->slot;

	if (slot->state != SLOT_UNKNOWN && strcmp(slot->incarnation, request->incarnation) == 0)
		return;
	slot->state = SLOT_JOINING;
	slot->epoch++;
	slot->applied = 0;
	snprintf(slot->incarnation, sizeof(slot->incarnation), "%s", request->incarnation);
}

TransportStatus
model_handle(World *world, const NodeRequest *request, NodeAnswer *answer, TransportFailure *failure)
{
	ModelServer *server = &world->server;
	NodeTime	now = world_server_time(world);
	GrantAnswer what = GRANT_RELOAD;

	if (server->refuse_with != NULL)
		return refuse(failure, server->refuse_with, "refused by the test");
	if (request->kind == REQUEST_CHANGES)
		return send_changes(server, request->version, answer, failure);
	if (request->kind == REQUEST_REGISTER)
		attach(server, request);
	else if (server->slot.state == SLOT_UNKNOWN)
		return refuse(failure, "AM002", "unknown node");
	else if (strcmp(server->slot.incarnation, request->incarnation) != 0)
		return refuse(failure, "AM003", "a newer process has this name");
	if (request->kind == REQUEST_RELEASE)
	{
		server->slot.state = SLOT_RELEASED;
		server->slot.owed_until = 0;
		answer->released = true;
		return TRANSPORT_DONE;
	}
	if (request->term > server->term)
		return refuse(failure, "AM004", "the node has seen a newer term");
	if (request->kind == REQUEST_HEARTBEAT)
		what = heartbeat(server, request, now);
	else if (request->kind == REQUEST_ACTIVATE)
		what = activate(server, request, now);
	fill(server, server->leaving ? GRANT_LEAVE : what, &answer->grant);
	return TRANSPORT_DONE;
}

static void
append(ModelServer *server, int object)
{
	int64_t		least = ((TIMELINE(server->term) - 1) << 40) + 1;

	server->version = server->version + 1 > least ? server->version + 1 : least;
	server->changes[server->change_count].version = server->version;
	server->changes[server->change_count++].object = object;
	if (server->slot.state == SLOT_ACTIVE && server->slot.behind_since == 0)
		server->slot.behind_since = 1;	/* until note_applied or the tick says since when */
}

void
server_change(World *world, int object, ObjectState state)
{
	append(&world->server, object);
	world->server.slot.behind_since = world_server_time(world);
	world->server.objects[object].state = state;
	world->server.objects[object].version = world->server.version;
}

void
server_change_database(World *world, int database)
{
	append(&world->server, -1 - database);
	world->server.slot.behind_since = world_server_time(world);
	for (int i = 0; i < OBJECT_COUNT; i++)
	{
		if (i / 2 == database)
			world->server.objects[i].version = world->server.version;
	}
}

/* The verdict, and rule 4: fence before the step that relies on it commits. */
void
server_tick(World *world)
{
	ModelServer *server = &world->server;
	ModelSlot  *slot = &server->slot;
	NodeTime	now = world_server_time(world);

	if (!server->up || server->waited_version == 0)
		return;
	if (slot->state == SLOT_ACTIVE && slot->applied < server->waited_version)
	{
		if (now <= slot->owed_until)
			return;
		fence(server);
	}
	if (slot->state == SLOT_JOINING && now <= slot->owed_until)
		return;
	if (server->waited_version > server->needed_done)
		server->needed_done = server->waited_version;
	server->waited_version = 0;
}

/* Rule 5. A failover to a new timeline may lose the newest versions, unless a committed step needed them. */
void
server_restart(World *world, bool new_timeline, int64_t lost_versions)
{
	ModelServer *server = &world->server;
	int64_t		kept = server->version - lost_versions;

	world->zombie = *server;
	if (kept < server->needed_done)
		kept = server->needed_done;
	if (new_timeline)
	{
		while (server->change_count > 0 && server->changes[server->change_count - 1].version > kept)
			server->change_count--;
		/* the first version of a timeline follows no other: what is kept ends with a change */
		kept = server->change_count > 0 ? server->changes[server->change_count - 1].version : 0;
		server->version = kept;
		server->waited_version = server->waited_version > kept ? 0 : server->waited_version;
		server->term = ((TIMELINE(server->term) + 1) << 32) | ((server->term & UINT32_MAX) + 1);
		for (int i = 0; i < OBJECT_COUNT; i++)
		{
			server->objects[i].version = 0;
			for (int c = 0; c < server->change_count; c++)
			{
				if (server->changes[c].object == i || server->changes[c].object == -1 - i / 2)
					server->objects[i].version = server->changes[c].version;
			}
		}
	}
	else
		server->term++;
	server->up = true;
	server->boot++;
	if (server->slot.state == SLOT_UNKNOWN)
		return;
	server->slot.state = SLOT_JOINING;
	server->slot.epoch = 1;
	server->slot.applied = 0;
	server->slot.behind_since = 0;
	server->slot.owed_until = world_server_time(world) + owed(server, server->longest_lease_us);
}
