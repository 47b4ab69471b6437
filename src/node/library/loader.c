/*
 * loader.c
 *		The pool of threads that reads what is not in memory.
 */
#include "loader.h"

#include <stdlib.h>
#include <string.h>

#include "node.h"

/* How long to wait before reading again when the server is in another term: it or we are about to catch up. */
#define OTHER_SERVER_PAUSE_US 20000
#define FAILURE_LOG_INTERVAL_US 10000000

typedef struct LoadWaiter LoadWaiter;

struct LoadWaiter
{
	LoadWaiter *next;
	AmoroLoadCallback callback;
	void	   *argument;
	NodeTime	deadline;
};

struct Load
{
	Load	   *next_pending;
	Load	   *next_queued;
	AmoroCacheKind kind;
	KeyParts	key;			/* points into names */
	AmoroKey	names_key;		/* the same, for the transport */
	NodeTime	deadline;
	LoadWaiter *waiters;
	LoadWaiter *late;			/* came while it was being run */
	bool		running;
	bool		again;			/* it has been run, for earlier waiters */
	char		names[];
};

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
pending_link(Loader *loader, AmoroCacheKind kind, const KeyParts *key)
{
	Load	  **link = &loader->pending[key->hash % LOADER_TABLE_SIZE];

	for (; *link != NULL; link = &(*link)->next_pending)
	{
		const Load *load = *link;

		if (load->kind == kind && load->key.hash == key->hash &&
			strcmp(load->key.text[0], key->text[0]) == 0 &&
			strcmp(load->key.text[1], key->text[1]) == 0 &&
			strcmp(load->key.text[2], key->text[2]) == 0)
			break;
	}
	return link;
}

static Load *
load_create(AmoroCacheKind kind, const KeyParts *key, NodeTime deadline)
{
	Load	   *load = calloc(1, sizeof(Load) + key->size[0] + key->size[1] + key->size[2] + 3);
	char	   *name;

	if (load == NULL)
		return NULL;
	load->kind = kind;
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
find_or_queue(Loader *loader, AmoroCacheKind kind, const KeyParts *key, NodeTime deadline)
{
	Load	  **link = pending_link(loader, kind, key);

	if (*link == NULL)
	{
		*link = load_create(kind, key, deadline);
		if (*link != NULL)
			enqueue(loader, *link);
	}
	return *link;
}

AmoroResult
loader_submit(AmoroNode *node, AmoroCacheKind kind, const KeyParts *key, AmoroLoadCallback callback, void *argument)
{
	Loader	   *loader = &node->loader;
	LoadWaiter *waiter = malloc(sizeof(LoadWaiter));
	Load	   *load = NULL;
	bool		fenced;

	if (waiter == NULL)
		return AMORO_UNAVAILABLE;
	waiter->callback = callback;
	waiter->argument = argument;
	waiter->deadline = clock_now(&node->clock) + loader->timeout;

	pthread_mutex_lock(&loader->lock);
	/* tested under the lock: whoever comes after loader_fence sees the fence */
	fenced = !lease_is_valid(&node->lease);
	if (!fenced && !loader->stopping && loader->waiter_count < LOADER_MAX_WAITERS)
		load = find_or_queue(loader, kind, key, waiter->deadline);
	if (load != NULL)
	{
		/* what is being read may be older than this question: it is for those who asked before */
		LoadWaiter **list = load->running && RULE(RULE_LOAD_AFTER_QUESTION) ? &load->late : &load->waiters;

		waiter->next = *list;
		*list = waiter;
		loader->waiter_count++;
	}
	pthread_mutex_unlock(&loader->lock);
	if (load != NULL)
		return AMORO_OK;
	free(waiter);
	return fenced ? AMORO_FENCED : AMORO_UNAVAILABLE;
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
		*pending_link(loader, load->kind, &load->key) = load->next_pending;
		free(load);
	}
	pthread_mutex_unlock(&loader->lock);
	return taken;
}

static void
answer_waiters(AmoroNode *node, Load *load, bool timed_out, AmoroResult result, AmoroEntry *entry, AmoroTicket ticket)
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

/* One line in ten seconds, however many loads fail. */
static void
note_failure(AmoroNode *node, Load *load, const char *message)
{
	Loader	   *loader = &node->loader;
	NodeTime	now = clock_now(&node->clock);
	char		name[300];
	bool		log;

	atomic_fetch_add_explicit(&node->counters[load->kind].load_failures, 1, memory_order_relaxed);
	pthread_mutex_lock(&loader->lock);
	log = loader->failure_logged == 0 || now - loader->failure_logged > FAILURE_LOG_INTERVAL_US;
	if (log)
		loader->failure_logged = now;
	pthread_mutex_unlock(&loader->lock);
	key_describe(&load->key, name, sizeof(name));
	if (log)
		node_log(node, AMORO_LOG_WARNING, "could not read %s %s: %s", node->kinds[load->kind]->name, name, message);
}

static TransportStatus
ask(LoadWorker *worker, Load *load, NodeAnswer *answer, TransportFailure *failure)
{
	Transport  *transport = worker->transport;
	LookupQuestion question = {.kind_name = worker->node->kinds[load->kind]->name, .key = &load->names_key};
	NodeRequest request = {.kind = REQUEST_LOOKUP};
	TransportStatus status = TRANSPORT_DONE;

	if (!transport->is_open(transport))
		status = transport->open(transport, load->deadline, load->deadline, failure);
	if (status == TRANSPORT_DONE)
		status = transport->send(transport, &request, NULL, &question, load->deadline, failure);
	if (status == TRANSPORT_DONE)
		status = transport->receive(transport, &request, load->deadline, answer, failure);
	return status;
}

/* Errors after which another connection may do better: a standby, a moved extension, a server that goes down. */
static bool
connection_is_useless(const char *sqlstate)
{
	static const char *const classes[] = {"25006", "26000", "42P05", "42", "3F", "08", "57P", "0A000"};

	if (strcmp(sqlstate, "42501") == 0)
		return false;
	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
	{
		if (strncmp(sqlstate, classes[i], strlen(classes[i])) == 0)
			return true;
	}
	return false;
}

typedef enum LoadStep
{
	LOAD_STEP_AGAIN,
	LOAD_STEP_DONE,
	LOAD_STEP_TIMED_OUT
} LoadStep;

/* What a failure to ask means: another try over a new connection (one), or the end. */
static LoadStep
after_failure(LoadWorker *worker, Load *load, TransportStatus status, const TransportFailure *failure,
			  bool *reconnected, AmoroResult *result)
{
	bool		useless = status != TRANSPORT_REFUSED || connection_is_useless(failure->sqlstate);

	*result = AMORO_UNAVAILABLE;
	/* 22023: a kind that the server does not know, being older than this node */
	if (status == TRANSPORT_REFUSED && strncmp(failure->sqlstate, "22", 2) == 0 && strcmp(failure->sqlstate, "22023") != 0)
	{
		*result = AMORO_INVALID_ARGUMENT;	/* no name that the server could have */
		return LOAD_STEP_DONE;
	}
	if (useless)
		worker->transport->close(worker->transport);
	if (status == TRANSPORT_WOKEN)
		return LOAD_STEP_DONE;
	if (status == TRANSPORT_TIMED_OUT)
	{
		note_failure(worker->node, load, "no answer in time");
		return LOAD_STEP_TIMED_OUT;
	}
	if (useless && !*reconnected)
	{
		*reconnected = true;
		return LOAD_STEP_AGAIN;
	}
	note_failure(worker->node, load, failure->message);
	return LOAD_STEP_DONE;
}

/* Reads once, and stores. */
static LoadStep
read_once(LoadWorker *worker, Load *load, bool *reconnected,
		  AmoroResult *result, AmoroEntry **entry, AmoroTicket *ticket)
{
	AmoroNode  *node = worker->node;
	NodeAnswer	answer = {0};
	TransportFailure failure = {"", ""};
	TransportStatus status;
	LoadNote	note;
	LoadVerdict verdict;
	bool		deposed;

	if (!load_begin(&node->lease, &node->cache, &load->key, &note))
	{
		*result = AMORO_FENCED;
		return LOAD_STEP_DONE;
	}
	atomic_fetch_add_explicit(&node->counters[load->kind].loads, 1, memory_order_relaxed);
	status = ask(worker, load, &answer, &failure);
	if (status != TRANSPORT_DONE)
		return after_failure(worker, load, status, &failure, reconnected, result);

	verdict = load_finish(&node->lease, &node->cache, load->kind, &load->key, &note, &answer.lookup,
						  result, entry, ticket);
	deposed = answer.lookup.term < atomic_load_explicit(&node->lease.term, memory_order_relaxed);
	worker->transport->answer_release(worker->transport, &answer);
	if (verdict == LOAD_ANSWERED)
		return LOAD_STEP_DONE;
	atomic_fetch_add_explicit(&node->counters[load->kind].loads_refused, 1, memory_order_relaxed);
	if (verdict == LOAD_OTHER_SERVER && deposed)
		worker->transport->close(worker->transport);
	if (verdict == LOAD_OTHER_SERVER)
		worker->transport->sleep(worker->transport, clock_now(&node->clock) + OTHER_SERVER_PAUSE_US);
	return LOAD_STEP_AGAIN;
}

static void
run(LoadWorker *worker, Load *load)
{
	AmoroNode  *node = worker->node;
	AmoroResult result = AMORO_UNAVAILABLE;
	AmoroEntry *entry = NULL;
	AmoroTicket ticket = {0};
	bool		reconnected = false;
	LoadStep	step = LOAD_STEP_AGAIN;

	/* the run before may have stored what these wait for */
	if (load->again && amoro_cache_peek(node, load->kind, &load->names_key, &entry, &ticket) == AMORO_OK)
	{
		result = AMORO_OK;
		step = LOAD_STEP_DONE;
	}
	while (step == LOAD_STEP_AGAIN)
	{
		if (atomic_load_explicit(&node->closing, memory_order_acquire))
			break;
		if (clock_now(&node->clock) >= load->deadline)
			step = LOAD_STEP_TIMED_OUT;
		else
			step = read_once(worker, load, &reconnected, &result, &entry, &ticket);
	}
	if (step != LOAD_STEP_DONE)
		result = AMORO_UNAVAILABLE;
	answer_waiters(node, load, step == LOAD_STEP_TIMED_OUT, result, entry, ticket);
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
	*pending_link(loader, load->kind, &load->key) = load->next_pending;
	free(load);
	return true;
}

/* The next load, or NULL when the loader stops; what is left in the queue is then run too, and finds the node closing. */
static Load *
next_load(Loader *loader)
{
	Load	   *load;

	pthread_mutex_lock(&loader->lock);
	do
	{
		while (loader->queue_head == NULL && !loader->stopping)
			pthread_cond_wait(&loader->work, &loader->lock);
		load = dequeue(loader);
	} while (load != NULL && drop_if_unwanted(loader, load));
	if (load != NULL)
		load->running = true;
	pthread_mutex_unlock(&loader->lock);
	return load;
}

static void *
worker_main(void *argument)
{
	LoadWorker *worker = argument;
	Load	   *load;

	while ((load = next_load(&worker->node->loader)) != NULL)
		run(worker, load);
	worker->transport->close(worker->transport);
	return NULL;
}

bool
loader_add_worker(Loader *loader, AmoroNode *node, Transport *transport)
{
	LoadWorker *worker = &loader->workers[loader->worker_count++];

	worker->node = node;
	worker->transport = transport;
	worker->started = pthread_create(&worker->thread, NULL, worker_main, worker) == 0;
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
		loader->workers[i].transport->destroy(loader->workers[i].transport);
	pthread_cond_destroy(&loader->work);
	pthread_mutex_destroy(&loader->lock);
}
