/*
 * loader.c
 *		The pool of threads that reads what is not in memory.
 */
#include "loader.h"

#include <stdlib.h>
#include <string.h>

#include "load_batch.h"
#include "node.h"

void
loader_init(Loader *loader, NodeTime timeout)
{
	memset(loader, 0, sizeof(*loader));
	pthread_mutex_init(&loader->lock, NULL);
	pthread_cond_init(&loader->work, NULL);
	loader->queue_tail = &loader->queue_head;
	loader->timeout = timeout;
}

static Load **
pending_link(Loader *loader, AmoroCacheKind kind, const KeyParts *key, int max_rows)
{
	Load	  **link = &loader->pending[key->hash % LOADER_TABLE_SIZE];

	for (; *link != NULL; link = &(*link)->next_pending)
	{
		const Load *load = *link;

		if (load->kind == kind && load->max_rows == max_rows && load->key.hash == key->hash &&
			strcmp(load->key.text[0], key->text[0]) == 0 &&
			strcmp(load->key.text[1], key->text[1]) == 0 &&
			strcmp(load->key.text[2], key->text[2]) == 0)
			break;
	}
	return link;
}

static Load *
load_create(const LoadSubmission *submission, NodeTime deadline)
{
	const KeyParts *key = &submission->key;
	Load	   *load = calloc(1, sizeof(Load) + key->size[0] + key->size[1] + key->size[2] + 3);
	char	   *name;

	if (load == NULL)
		return NULL;
	load->kind = submission->kind;
	load->max_rows = submission->max_rows;
	load->key = *key;
	load->deadline = deadline;
	name = load->names;
	for (int i = 0; i < 3; i++)
	{
		memcpy(name, key->text[i], key->size[i]);	/* calloc has put the NUL */
		load->key.text[i] = name;
		name += key->size[i] + 1;
	}
	load->names_key = (AmoroKey) {
		load->key.text[0], key->size[1] > 0 ? load->key.text[1] : NULL, key->size[2] > 0 ? load->key.text[2] : NULL
	};
	return load;
}

static void
enqueue(Loader *loader, Load *load)
{
	load->next_queued = NULL;
	*loader->queue_tail = load;
	loader->queue_tail = &load->next_queued;
	pthread_cond_signal(&loader->work);
}

/* Under the lock. NULL: memory is short. */
static Load *
find_or_queue(Loader *loader, const LoadSubmission *submission, NodeTime deadline, uint64_t group)
{
	Load	  **link = pending_link(loader, submission->kind, &submission->key, submission->max_rows);

	if (*link == NULL)
	{
		*link = load_create(submission, deadline);
		if (*link != NULL)
		{
			(*link)->group = group;
			enqueue(loader, *link);
		}
	}
	return *link;
}

/* Under the lock. */
static AmoroResult
submit(Loader *loader, const LoadSubmission *submission, NodeTime deadline, uint64_t group)
{
	LoadWaiter *waiter;
	LoadWaiter **list;
	Load	   *load;

	if (loader->stopping || loader->waiter_count >= LOADER_MAX_WAITERS)
		return AMORO_UNAVAILABLE;
	waiter = malloc(sizeof(LoadWaiter));
	load = waiter != NULL ? find_or_queue(loader, submission, deadline, group) : NULL;
	if (load == NULL)
	{
		free(waiter);
		return AMORO_UNAVAILABLE;
	}
	/* what is being read may be older than this question: it is for those who asked before */
	list = load->running && RULE(RULE_LOAD_AFTER_QUESTION) ? &load->late : &load->waiters;
	*waiter = (LoadWaiter) {*list, submission->callback, submission->argument, deadline};
	*list = waiter;
	loader->waiter_count++;
	return AMORO_OK;
}

void
loader_submit(AmoroNode *node, LoadSubmission *submissions, int count)
{
	Loader	   *loader = &node->loader;
	NodeTime	deadline = clock_now(&node->clock) + loader->timeout;
	uint64_t	group = 0;
	bool		fenced;

	pthread_mutex_lock(&loader->lock);
	if (count > 1)
		group = ++loader->groups;
	/* tested under the lock: whoever comes after loader_fence sees the fence */
	fenced = !lease_is_valid(&node->lease);
	for (int i = 0; i < count; i++)
		submissions[i].result = fenced ? AMORO_FENCED : submit(loader, &submissions[i], deadline, group);
	pthread_mutex_unlock(&loader->lock);
}

/* Under the lock. Takes all waiters of a load and puts them before others. */
static LoadWaiter *
take_all(Load *load, LoadWaiter *others)
{
	LoadWaiter **tail = &load->waiters;
	LoadWaiter *first;

	while (*tail != NULL)
		tail = &(*tail)->next;
	*tail = load->late;
	while (*tail != NULL)
		tail = &(*tail)->next;
	*tail = others;
	first = load->waiters;
	load->waiters = load->late = NULL;
	return first;
}

/* The loads stay, those in the queue to be dropped by next_load, those being run to find nobody who waits. */
void
loader_fence(AmoroNode *node)
{
	Loader	   *loader = &node->loader;
	LoadWaiter *waiters = NULL;
	LoadWaiter *next;
	AmoroTicket none = {0};

	pthread_mutex_lock(&loader->lock);
	for (int i = 0; i < LOADER_TABLE_SIZE; i++)
	{
		for (Load *load = loader->pending[i]; load != NULL; load = load->next_pending)
			waiters = take_all(load, waiters);
	}
	loader->waiter_count = 0;
	pthread_mutex_unlock(&loader->lock);
	for (LoadWaiter *waiter = waiters; waiter != NULL; waiter = next)
	{
		next = waiter->next;
		waiter->callback(waiter->argument, AMORO_FENCED, NULL, none);
		free(waiter);
	}
}

/* Under the lock. Gives the load its next waiters: those that were not answered, and those that came too late for this run. */
static void
set_next_waiters(Load *load, LoadWaiter *kept)
{
	LoadWaiter **tail = &kept;

	while (*tail != NULL)
		tail = &(*tail)->next;
	*tail = load->late;
	load->waiters = kept;
	load->late = NULL;
	load->running = false;
	load->again = true;
	load->deadline = NODE_TIME_NEVER;
	for (LoadWaiter *waiter = kept; waiter != NULL; waiter = waiter->next)
	{
		if (waiter->deadline < load->deadline)
			load->deadline = waiter->deadline;
	}
}

/*
 * Takes out of a load the waiters that are to be answered: all that it was run for, or, when it ran out of time, those
 * whose time is over. A load that others still wait for goes back into the queue.
 */
static LoadWaiter *
take_waiters(AmoroNode *node, Load *load, bool timed_out)
{
	Loader	   *loader = &node->loader;
	NodeTime	now = clock_now(&node->clock);
	LoadWaiter *taken = NULL;
	LoadWaiter *kept = NULL;
	LoadWaiter *next;

	pthread_mutex_lock(&loader->lock);
	for (LoadWaiter *waiter = load->waiters; waiter != NULL; waiter = next)
	{
		LoadWaiter **list = timed_out && !loader->stopping && waiter->deadline > now ? &kept : &taken;

		next = waiter->next;
		waiter->next = *list;
		*list = waiter;
		if (list == &taken)
			loader->waiter_count--;
	}
	set_next_waiters(load, kept);
	if (load->waiters != NULL)
		enqueue(loader, load);
	else
	{
		*pending_link(loader, load->kind, &load->key, load->max_rows) = load->next_pending;
		free(load);
	}
	pthread_mutex_unlock(&loader->lock);
	return taken;
}

void
loader_answer(AmoroNode *node, Load *load, bool timed_out, AmoroResult result, AmoroEntry *entry, AmoroTicket ticket)
{
	LoadWaiter *next;

	for (LoadWaiter *waiter = take_waiters(node, load, timed_out); waiter != NULL; waiter = next)
	{
		next = waiter->next;
		if (entry != NULL)
			entry_reference(entry);
		waiter->callback(waiter->argument, result, entry, ticket);
		free(waiter);
	}
	amoro_entry_release(entry);
}

/* Under the lock. Takes the first load out of the queue; NULL when there is none. */
static Load *
dequeue(Loader *loader)
{
	Load	   *load = loader->queue_head;

	if (load == NULL)
		return NULL;
	loader->queue_head = load->next_queued;
	if (loader->queue_head == NULL)
		loader->queue_tail = &loader->queue_head;
	return load;
}

/* Under the lock. A load that nobody waits for any more is not worth a read; true when it was dropped. */
static bool
drop_if_unwanted(Loader *loader, Load *load)
{
	if (load->waiters != NULL)
		return false;
	*pending_link(loader, load->kind, &load->key, load->max_rows) = load->next_pending;
	free(load);
	return true;
}

/* Under the lock. What was asked for together with a load, and comes after it in the queue, is read together. */
static void
take_group(Loader *loader, LoadBatch *batch)
{
	uint64_t	group = batch->loads[0]->group;

	while (batch->count < LOAD_BATCH_LIMIT && group != 0 && loader->queue_head != NULL && loader->queue_head->group == group)
	{
		Load	   *load = dequeue(loader);

		if (!drop_if_unwanted(loader, load))
			batch->loads[batch->count++] = load;
	}
}

/*
 * The next loads; false when the loader stops. What is left in the queue is then run too, and finds the node
 * closing.
 */
static bool
next_batch(Loader *loader, LoadBatch *batch)
{
	Load	   *load;

	batch->count = 0;
	pthread_mutex_lock(&loader->lock);
	do
	{
		while (loader->queue_head == NULL && !loader->stopping)
			pthread_cond_wait(&loader->work, &loader->lock);
		load = dequeue(loader);
	} while (load != NULL && drop_if_unwanted(loader, load));
	if (load != NULL)
	{
		batch->loads[batch->count++] = load;
		take_group(loader, batch);
	}
	for (int i = 0; i < batch->count; i++)
		batch->loads[i]->running = true;
	pthread_mutex_unlock(&loader->lock);
	return load != NULL;
}

static void *
worker_main(void *argument)
{
	LoadWorker *worker = argument;

	while (next_batch(&worker->node->loader, worker->batch))
		load_batch_run(worker);
	worker->transport->close(worker->transport);
	return NULL;
}

bool
loader_add_worker(Loader *loader, AmoroNode *node, Transport *transport)
{
	LoadWorker *worker = &loader->workers[loader->worker_count++];

	worker->node = node;
	worker->transport = transport;
	worker->batch = malloc(sizeof(LoadBatch));
	worker->started = worker->batch != NULL && pthread_create(&worker->thread, NULL, worker_main, worker) == 0;
	return worker->started;
}

void
loader_stop(AmoroNode *node)
{
	Loader	   *loader = &node->loader;

	pthread_mutex_lock(&loader->lock);
	loader->stopping = true;
	pthread_cond_broadcast(&loader->work);
	pthread_mutex_unlock(&loader->lock);
	for (int i = 0; i < loader->worker_count; i++)
		loader->workers[i].transport->wake(loader->workers[i].transport);
	for (int i = 0; i < loader->worker_count; i++)
	{
		if (loader->workers[i].started)
			pthread_join(loader->workers[i].thread, NULL);
		loader->workers[i].started = false;
	}
}

void
loader_destroy(Loader *loader)
{
	Load	   *load;

	/* what a fence has left in the queue, where no thread came to take it out */
	while ((load = dequeue(loader)) != NULL)
		(void) drop_if_unwanted(loader, load);
	for (int i = 0; i < loader->worker_count; i++)
	{
		loader->workers[i].transport->destroy(loader->workers[i].transport);
		free(loader->workers[i].batch);
	}
	pthread_cond_destroy(&loader->work);
	pthread_mutex_destroy(&loader->lock);
}
