/*
 * world_reader.c
 *		The readers of the small world, and what their answers are held against.
 */
#include "world.h"

#include <stdio.h>
#include <string.h>

#include "model_server.h"

AmoroKey
object_key(int object)
{
	static const char *const databases[] = {"sales", "sales", "stock", "stock"};
	static const char *const tables[] = {"orders", "lines", "orders", "parts"};

	return (AmoroKey) {"lake", databases[object], tables[object]};
}

AmoroResult
reader_peek(World *world, Reader *reader, int object)
{
	memset(reader, 0, sizeof(*reader));
	reader->object = object;
	reader->names = object_key(object);
	key_parts(&reader->key, AMORO_CACHE_TABLE, &reader->names, world->node->cache.seed);
	reader->result = amoro_cache_peek(world->node, AMORO_CACHE_TABLE, &reader->names, &reader->entry, &reader->ticket);
	reader->answered = reader->result == AMORO_OK || reader->result == AMORO_NOT_FOUND;
	reader->from_memory = reader->answered;
	return reader->result;
}

bool
reader_begin_load(World *world, Reader *reader, int object)
{
	memset(reader, 0, sizeof(*reader));
	reader->object = object;
	reader->names = object_key(object);
	key_parts(&reader->key, AMORO_CACHE_TABLE, &reader->names, world->node->cache.seed);
	reader->result = AMORO_FENCED;
	return load_begin(&world->node->lease, &world->node->cache, &reader->key, &reader->note);
}

void
reader_read(Reader *reader, const ModelServer *server)
{
	model_read(server, reader->object, &reader->answer);
}

LoadVerdict
reader_finish_load(World *world, Reader *reader)
{
	LoadVerdict verdict = load_finish(&world->node->lease, &world->node->cache, AMORO_CACHE_TABLE, &reader->key,
									  &reader->note, &reader->answer, &reader->result, &reader->entry, &reader->ticket);

	reader->answered = verdict == LOAD_ANSWERED && reader->result != AMORO_FENCED;
	if (reader->answered && reader->result == AMORO_NOT_FOUND)
		world->absent_since[reader->object] = reader->answer.metadata_version;
	return verdict;
}

/* Whether a version is of a history that a failover has lost, after a step has needed a version of the new one. */
static bool
is_of_lost_history(const ModelServer *server, int64_t version)
{
	if (version == 0 || server->needed_done <= ((server->term >> 32) - 1) << 40)
		return false;
	for (int i = 0; i < server->change_count; i++)
	{
		if (server->changes[i].version == version)
			return false;
	}
	return true;
}

/* Whether an answer from version read misses a change that a committed step needed everywhere. */
static bool
breaks_promise(World *world, const Reader *reader, int64_t read)
{
	const ModelServer *server = &world->server;

	for (int i = 0; i < server->change_count; i++)
	{
		const ModelChange *change = &server->changes[i];
		bool		touches = change->object == reader->object || change->object == -1 - reader->object / 2;

		if (touches && change->version > read && change->version <= server->needed_done)
			return true;
	}
	return false;
}

AmoroResult
reader_answer(World *world, Reader *reader)
{
	AmoroResult result = reader->answered ? amoro_ticket_check(world->node, &reader->ticket) : reader->result;

	if (reader->answered && result == AMORO_OK)
	{
		int64_t		known = reader->entry != NULL ? amoro_entry_version(reader->entry) :
			reader->from_memory ? world->absent_since[reader->object] : 0;
		int64_t		read = reader->answer.metadata_version > known ? reader->answer.metadata_version : known;

		world->answers++;
		world->cached_answers += reader->from_memory;
		world->absent_answers += reader->from_memory && reader->entry == NULL;
		if (breaks_promise(world, reader, read) || is_of_lost_history(&world->server, known))
		{
			world->violations++;
			snprintf(world->violation, sizeof(world->violation),
					 "at %lld us an answer of version %lld for object %d after the step that needed version %lld",
					 (long long) world->now, (long long) read, reader->object, (long long) world->server.needed_done);
		}
	}
	else
		world->refused_answers++;
	amoro_entry_release(reader->entry);
	reader->entry = NULL;
	return result;
}

AmoroNodeStatus
world_status(World *world)
{
	AmoroNodeStatus status;

	amoro_node_status(world->node, &status);
	return status;
}

bool
world_fill(World *world, int object)
{
	Reader		reader;

	if (!reader_begin_load(world, &reader, object))
		return false;
	reader_read(&reader, &world->server);
	reader_finish_load(world, &reader);
	amoro_entry_release(reader.entry);
	return reader_peek(world, &reader, object) == AMORO_OK && (amoro_entry_release(reader.entry), true);
}

AmoroResult
world_peek(World *world, int object)
{
	Reader		reader;
	AmoroResult result = reader_peek(world, &reader, object);

	amoro_entry_release(reader.entry);
	return result;
}
