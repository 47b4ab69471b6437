/*
 * world.c
 *		Time and network of the small world; its server is in model_server.c, its readers are in world_reader.c.
 */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heartbeat.h"
#include "model_server.h"

struct WorldEvent
{
	WorldEvent *next;
	NodeTime	time;
	WorldFunction function;
	void	   *argument;
};

/* One request on its way, or its answer. */
typedef struct Message
{
	uint64_t	connection;
	int			boot;			/* of the server that it was sent to */
	NodeRequest request;
	int64_t		after_object_id;	/* of a chunk; 0: it is the first */
	TransportStatus status;
	NodeAnswer	answer;
	TransportFailure failure;
} Message;

typedef struct WorldTransport
{
	Transport	methods;
	World	   *world;
	uint64_t	connection;		/* number of the open one */
	bool		open;
	bool		woken;
	Message    *answer;			/* arrived, not yet taken */
} WorldTransport;

static NodeTime
read_node_clock(void *argument)
{
	return world_node_time(argument);
}

NodeTime
world_node_time(const World *world)
{
	return world->node_offset + (NodeTime) ((double) world->now * world->node_rate);
}

NodeTime
world_server_time(const World *world)
{
	return (NodeTime) ((double) world->now * world->server_rate);
}

void
world_at(World *world, NodeTime time, WorldFunction function, void *argument)
{
	WorldEvent *event = malloc(sizeof(WorldEvent));
	WorldEvent **link = &world->events;

	event->time = time;
	event->function = function;
	event->argument = argument;
	while (*link != NULL && (*link)->time <= time)
		link = &(*link)->next;
	event->next = *link;
	*link = event;
}

static void
run_next_event(World *world)
{
	WorldEvent *event = world->events;

	world->events = event->next;
	if (event->time > world->now)
		world->now = event->time;
	event->function(world, event->argument);
	free(event);
}

/* Lets events happen up to that true time. */
static void
pass_time(World *world, NodeTime until)
{
	while (world->events != NULL && world->events->time <= until)
		run_next_event(world);
	if (world->now < until)
		world->now = until;
}

/* The first true time at which the node's clock shows at least that. */
static NodeTime
true_time_of(const World *world, NodeTime node_time)
{
	NodeTime	time = (NodeTime) ((double) (node_time - world->node_offset) / world->node_rate);

	while (world->node_offset + (NodeTime) ((double) time * world->node_rate) < node_time)
		time++;
	return time;
}

/* Hands the turn over and waits for it to come back. */
static void
pass_baton(World *world, bool to_node)
{
	pthread_mutex_lock(&world->baton);
	world->node_runs = to_node;
	pthread_cond_broadcast(&world->passed);
	while (world->node_runs == to_node && !(to_node && world->thread_ended))
		pthread_cond_wait(&world->passed, &world->baton);
	pthread_mutex_unlock(&world->baton);
}

static void *
node_thread(void *argument)
{
	World	   *world = argument;

	heartbeat_main(world->node);
	pthread_mutex_lock(&world->baton);
	world->thread_ended = true;
	world->node_runs = false;
	pthread_cond_broadcast(&world->passed);
	pthread_mutex_unlock(&world->baton);
	return NULL;
}

/* The node waits: for an answer (transport->answer), or with want_answer false just for the time. */
static TransportStatus
wait_in_world(WorldTransport *transport, bool want_answer, NodeTime node_deadline)
{
	World	   *world = transport->world;

	for (;;)
	{
		NodeTime	next = node_deadline == NODE_TIME_NEVER ? world->end : true_time_of(world, node_deadline);

		if (world->now >= world->paused_until)
		{
			if (transport->woken)
				return TRANSPORT_WOKEN;
			if (want_answer && transport->answer != NULL)
				return TRANSPORT_DONE;
			if (world_node_time(world) >= node_deadline)
				return TRANSPORT_TIMED_OUT;
		}
		else
			next = world->paused_until;
		if (world->now >= world->end)
		{
			pass_baton(world, false);
			continue;
		}
		if (next > world->end)
			next = world->end;
		if (world->events != NULL && world->events->time <= next)
			run_next_event(world);
		else
			world->now = next;
	}
}

static void
message_free(Message *message)
{
	if (message != NULL)
	{
		free(message->answer.changes);
		free(message->answer.rows);
	}
	free(message);
}

static NodeTime
delay(World *world)
{
	return random_between(&world->random, world->least_delay, world->most_delay + 1);
}

static bool
is_lost(World *world, bool cut)
{
	return cut || random_between(&world->random, 0, 1000) < world->loss_permille;
}

static WorldTransport *
transport_of(World *world)
{
	return (WorldTransport *) world->node->heartbeat.transport;
}

static void
answer_arrives(World *world, void *argument)
{
	WorldTransport *transport = transport_of(world);
	Message    *message = argument;

	if ((message->connection != transport->connection || !transport->open) && !world->deliver_strays)
	{
		message_free(message);
		return;
	}
	message_free(transport->answer);
	transport->answer = message;
}

static void
send_answer(World *world, void *argument)
{
	Message    *message = argument;

	model_answer(world, &message->request, &message->answer);
	if (is_lost(world, world->cut_to_node))
		message_free(message);
	else
		world_at(world, world->now + delay(world), answer_arrives, message);
}

/* A heartbeat that waits at the server looks now and then for news, as a latch would tell it. */
static void
wait_for_news(World *world, void *argument)
{
	Message    *message = argument;

	if (!world->server.up || world->server.boot != message->boot)
	{
		message_free(message);
		return;
	}
	if (message->request.wait_ms <= 0 || message->answer.grant.answer != GRANT_GRANTED ||
		world->server.version > message->request.version)
	{
		send_answer(world, message);
		return;
	}
	message->request.wait_ms -= 5;
	world_at(world, world->now + 5000, wait_for_news, message);
}

static void
request_arrives(World *world, void *argument)
{
	Message    *message = argument;

	if (!world->server.up || world->server.boot != message->boot)
	{
		message_free(message);
		return;
	}
	if (message->request.kind == REQUEST_SNAPSHOT)
		message->status = model_snapshot(&world->server, message->after_object_id, &message->answer, &message->failure);
	else
		message->status = model_handle(world, &message->request, &message->answer, &message->failure);
	if (message->request.kind == REQUEST_HEARTBEAT && message->status == TRANSPORT_DONE)
		wait_for_news(world, message);
	else if (is_lost(world, world->cut_to_node))
		message_free(message);
	else
		world_at(world, world->now + delay(world) + (message->request.kind == REQUEST_SNAPSHOT ? world->chunk_time : 0),
				 answer_arrives, message);
}

void
server_crash(World *world)
{
	Message    *message = calloc(1, sizeof(Message));

	world->server.up = false;
	message->connection = transport_of(world)->connection;
	message->status = TRANSPORT_BROKEN;
	snprintf(message->failure.message, sizeof(message->failure.message), "the server went down");
	if (is_lost(world, world->cut_to_node))
		message_free(message);
	else
		world_at(world, world->now + delay(world), answer_arrives, message);
}

static TransportStatus
transport_open(Transport *self, NodeTime wait_until, NodeTime deadline, TransportFailure *failure)
{
	WorldTransport *transport = (WorldTransport *) self;
	World	   *world = transport->world;
	NodeTime	latency = delay(world) + delay(world);
	TransportStatus status = wait_in_world(transport, false, world_node_time(world) + latency);

	if (status == TRANSPORT_WOKEN)
		return status;
	world->opens++;
	if (!world->server.up || world->cut_to_node || world->cut_to_server)
	{
		snprintf(failure->message, sizeof(failure->message), "connection refused");
		return TRANSPORT_BROKEN;
	}
	transport->open = true;
	transport->connection++;
	return TRANSPORT_DONE;
}

static bool
transport_is_open(const Transport *self)
{
	return ((const WorldTransport *) self)->open;
}

static void
transport_close(Transport *self)
{
	WorldTransport *transport = (WorldTransport *) self;

	transport->open = false;
	if (!transport->world->deliver_strays)
	{
		message_free(transport->answer);
		transport->answer = NULL;
	}
}

static bool
transport_can_wait(const Transport *self)
{
	return !((const WorldTransport *) self)->world->pooled;
}

static TransportStatus
transport_send(Transport *self, const NodeRequest *request, const char *detail,
			   const LookupQuestion *question, NodeTime deadline, TransportFailure *failure)
{
	WorldTransport *transport = (WorldTransport *) self;
	World	   *world = transport->world;
	Message    *message;

	if (world->pause_before_send > 0)
	{
		world->paused_until = world->now + world->pause_before_send;
		world->pause_before_send = 0;
		wait_in_world(transport, false, world_node_time(world));
	}
	world->sends[request->kind]++;
	world->last[request->kind] = *request;
	if (request->kind == REQUEST_HEARTBEAT)
		snprintf(world->last_detail, sizeof(world->last_detail), "%s", detail);
	if (is_lost(world, world->cut_to_server))
		return TRANSPORT_DONE;
	message = calloc(1, sizeof(Message));
	message->connection = transport->connection;
	message->boot = world->server.boot;
	message->request = *request;
	message->after_object_id = question != NULL && question->key != NULL ? question->after_object_id : 0;
	world_at(world, world->now + delay(world), request_arrives, message);
	return TRANSPORT_DONE;
}

/* What a first chunk and the changes since its version leave out is not there. */
static void
note_snapshot(World *world, int64_t version)
{
	for (int i = 0; i < OBJECT_COUNT; i++)
		world->absent_since[i] = version;
}

static TransportStatus
transport_receive(Transport *self, const NodeRequest *request, NodeTime deadline,
				  NodeAnswer *answer, TransportFailure *failure)
{
	WorldTransport *transport = (WorldTransport *) self;
	TransportStatus status = wait_in_world(transport, true, deadline);
	Message    *message = transport->answer;

	if (status != TRANSPORT_DONE)
		return status;
	transport->answer = NULL;
	status = message->status;
	if (request->kind == REQUEST_SNAPSHOT && status == TRANSPORT_DONE && message->after_object_id == 0)
		note_snapshot(transport->world, message->answer.lookup.metadata_version);
	*answer = message->answer;
	*failure = message->failure;
	free(message);
	return status;
}

static void
transport_answer_release(Transport *self, NodeAnswer *answer)
{
	free(answer->changes);
	free(answer->rows);
	memset(answer, 0, sizeof(*answer));
}

static TransportStatus
transport_sleep(Transport *self, NodeTime until)
{
	return wait_in_world((WorldTransport *) self, false, until);
}

static void
transport_wake(Transport *self)
{
	((WorldTransport *) self)->woken = true;
}

static void
transport_wake_reset(Transport *self)
{
	((WorldTransport *) self)->woken = false;
}

static void
transport_destroy(Transport *self)
{
	message_free(((WorldTransport *) self)->answer);
	free(self);
}

static const Transport transport_methods = {
	.open = transport_open,
	.is_open = transport_is_open,
	.close = transport_close,
	.set_aside = transport_close,
	.can_wait = transport_can_wait,
	.send = transport_send,
	.receive = transport_receive,
	.answer_release = transport_answer_release,
	.sleep = transport_sleep,
	.wake = transport_wake,
	.wake_reset = transport_wake_reset,
	.destroy = transport_destroy,
};

World *
world_create(uint64_t seed)
{
	World	   *world = calloc(1, sizeof(World));

	world->now = 1000000;
	world->end = NODE_TIME_NEVER;
	world->node_rate = world->server_rate = 1.0;
	world->random.state = seed;
	world->least_delay = world->most_delay = 500;
	pthread_mutex_init(&world->baton, NULL);
	pthread_cond_init(&world->passed, NULL);
	model_init(&world->server);
	return world;
}

void
world_add_node(World *world)
{
	NodeClock	clock = {read_node_clock, world};
	WorldTransport *transport = calloc(1, sizeof(WorldTransport));

	transport->methods = transport_methods;
	transport->world = world;
	world->node = node_create(&clock, &transport->methods, 0, 1000000, 0);
	world->node->reload.wanted = world->node->reload.left = world->preload;
	world->node->heartbeat.random.state = world->random.state;
}

static void
free_nothing(World *world, void *argument)
{
}

void
world_destroy(World *world)
{
	if (world->thread_started)
	{
		node_begin_close(world->node);
		world->node->release_wanted = false;
		world->paused_until = 0;
		if (!world->thread_ended)
			pass_baton(world, true);
		pthread_join(world->thread, NULL);
	}
	/* what is under way is delivered to nobody: answers free themselves, everything else is only let go */
	world->server.up = false;
	if (world->node != NULL)
	{
		transport_of(world)->open = false;
		world->deliver_strays = false;
	}
	while (world->events != NULL)
	{
		if (world->events->function != answer_arrives && world->events->function != request_arrives &&
			world->events->function != wait_for_news)
			world->events->function = free_nothing;
		run_next_event(world);
	}
	if (world->node != NULL)
		node_destroy(world->node);
	pthread_cond_destroy(&world->passed);
	pthread_mutex_destroy(&world->baton);
	free(world);
}

void
world_run(World *world, NodeTime duration)
{
	world->end = world->now + duration;
	if (!world->thread_started)
	{
		world->node_runs = world->thread_started = true;
		pthread_create(&world->thread, NULL, node_thread, world);
	}
	if (!world->thread_ended)
		pass_baton(world, true);
	/* a node that has ended lets time pass */
	if (world->thread_ended)
		pass_time(world, world->end);
}

World *
world_create_active(void)
{
	World	   *world = world_create(1);

	world_add_node(world);
	world_run(world, 100000);
	return world;
}

void
world_stop_node(World *world, NodeTime duration)
{
	pass_time(world, world->now + duration);
}
