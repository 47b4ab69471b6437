/*
 * load_batch.c
 *		Reading: one request for all loads of a batch, and again for those that were not answered by it.
 */
#include "load_batch.h"

#include <stdio.h>
#include <string.h>

#include "node.h"

/* How long to wait before reading again when the server is in another term: it or we are about to catch up. */
#define OTHER_SERVER_PAUSE_US 20000
#define FAILURE_LOG_INTERVAL_US 10000000

/* One line in ten seconds, however many loads fail. */
static void
note_failure(LoadWorker *worker, int count, const char *message)
{
	AmoroNode  *node = worker->node;
	Loader	   *loader = &node->loader;
	const Load *load = worker->batch->loads[0];
	const char *kind_name = node->kinds[load->kind]->name;
	NodeTime	now = clock_now(&node->clock);
	char		name[300];
	bool		log;

	atomic_fetch_add_explicit(&node->counters[load->kind].load_failures, count, memory_order_relaxed);
	pthread_mutex_lock(&loader->lock);
	log = loader->failure_logged == 0 || now - loader->failure_logged > FAILURE_LOG_INTERVAL_US;
	if (log)
		loader->failure_logged = now;
	pthread_mutex_unlock(&loader->lock);
	if (!log)
		return;
	key_describe(&load->key, name, sizeof(name));
	if (load->max_rows > 0)
		node_log(node, AMORO_LOG_WARNING, "could not list every %s after %s: %s", kind_name, name, message);
	else if (count > 1)
		node_log(node, AMORO_LOG_WARNING, "could not read %s %s and %d others: %s", kind_name, name, count - 1, message);
	else
		node_log(node, AMORO_LOG_WARNING, "could not read %s %s: %s", kind_name, name, message);
}

/* Answers a load and takes it out of the batch, in which its place is then empty. */
static void
answer(LoadWorker *worker, int index, bool timed_out, AmoroResult result, AmoroEntry *entry, AmoroTicket ticket)
{
	Load	   *load = worker->batch->loads[index];

	worker->batch->loads[index] = NULL;
	loader_answer(worker->node, load, timed_out, result, entry, ticket);
}

static void
close_gaps(LoadBatch *batch)
{
	int			count = 0;

	for (int i = 0; i < batch->count; i++)
	{
		if (batch->loads[i] != NULL)
			batch->loads[count++] = batch->loads[i];
	}
	batch->count = count;
}

static void
answer_all(LoadWorker *worker, bool timed_out, AmoroResult result)
{
	AmoroTicket none = {0};

	for (int i = 0; i < worker->batch->count; i++)
		answer(worker, i, timed_out, result, NULL, none);
	worker->batch->count = 0;
}

/* The run before may have stored what these wait for. */
static void
answer_from_memory(LoadWorker *worker)
{
	LoadBatch  *batch = worker->batch;

	for (int i = 0; i < batch->count; i++)
	{
		Load	   *load = batch->loads[i];
		AmoroEntry *entry;
		AmoroTicket ticket;

		if (load->again && load->max_rows == 0 &&
			amoro_cache_peek(worker->node, load->kind, &load->names_key, &entry, &ticket) == AMORO_OK)
			answer(worker, i, false, AMORO_OK, entry, ticket);
	}
	close_gaps(batch);
}

static NodeTime
first_deadline(const LoadBatch *batch)
{
	NodeTime	first = NODE_TIME_NEVER;

	for (int i = 0; i < batch->count; i++)
	{
		if (batch->loads[i]->deadline < first)
			first = batch->loads[i]->deadline;
	}
	return first;
}

/* Notes the generations; what is fenced is answered. */
static void
begin(LoadWorker *worker)
{
	LoadBatch  *batch = worker->batch;
	AmoroNode  *node = worker->node;
	AmoroTicket none = {0};

	for (int i = 0; i < batch->count; i++)
	{
		Load	   *load = batch->loads[i];

		if (!load_begin(&node->lease, &node->cache, &load->key, &load->note))
			answer(worker, i, false, AMORO_FENCED, NULL, none);
		else
			load->note.listing = load->max_rows > 0;
	}
	close_gaps(batch);
}

/*
 * What is asked for instead of an object whose names the database cannot represent: one that it cannot have either. That it
 * is not there is then the answer of a server in its term, at a version, as to any other question.
 */
static AmoroKey
key_of_nothing(const AmoroKey *key)
{
	return (AmoroKey) {"", key->database_name != NULL ? "" : NULL, key->object_name != NULL ? "" : NULL};
}

/* Asks for the first count loads. */
static TransportStatus
ask(LoadWorker *worker, int count, NodeTime deadline, NodeAnswer *answer, TransportFailure *failure)
{
	Transport  *transport = worker->transport;
	LoadBatch  *batch = worker->batch;
	const Load *first = batch->loads[0];
	LookupQuestion question = {
		.kind_name = worker->node->kinds[first->kind]->name, .key = batch->keys, .key_count = count, .max_rows = first->max_rows
	};
	NodeRequest request = {
		.kind = count > 1 ? REQUEST_LOOKUP_MANY : first->max_rows > 0 ? REQUEST_LISTING : REQUEST_LOOKUP
	};
	TransportStatus status = TRANSPORT_DONE;

	for (int i = 0; i < count; i++)
		batch->keys[i] = batch->loads[i]->unrepresentable ? key_of_nothing(&batch->loads[i]->names_key) : batch->loads[i]->names_key;
	if (!transport->is_open(transport))
		status = transport->open(transport, deadline, deadline, failure);
	if (status == TRANSPORT_DONE)
		status = transport->send(transport, &request, NULL, &question, deadline, failure);
	if (status == TRANSPORT_DONE)
		status = transport->receive(transport, &request, deadline, answer, failure);
	if (status == TRANSPORT_DONE && count > 1 && answer->row_count != count)
	{
		transport->answer_release(transport, answer);
		snprintf(failure->message, sizeof(failure->message), "the server answered with %d objects for %d",
				 answer->row_count, count);
		status = TRANSPORT_BROKEN;
	}
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

/* No name that the server could have. 22023 is something else: a kind that it does not know, being older than this node. */
static bool
name_is_refused(TransportStatus status, const char *sqlstate)
{
	return status == TRANSPORT_REFUSED && strncmp(sqlstate, "22", 2) == 0 && strcmp(sqlstate, "22023") != 0;
}

/* One load alone was refused for its names. */
static void
take_refused_name(LoadWorker *worker, const char *sqlstate)
{
	Load	   *load = worker->batch->loads[0];
	AmoroTicket none = {0};

	/* the name after which a listing goes on is none of an object that is looked for */
	if (strcmp(sqlstate, "22P05") == 0 && !load->unrepresentable && (load->max_rows == 0 || load->names_key.object_name == NULL))
	{
		load->unrepresentable = true;
		return;
	}
	answer(worker, 0, false, AMORO_INVALID_ARGUMENT, NULL, none);
	close_gaps(worker->batch);
}

/* What a failure to ask for the first count loads means: another try over a new connection (one), or in smaller parts, or the end. */
static void
after_failure(LoadWorker *worker, int count, TransportStatus status, const TransportFailure *failure)
{
	LoadBatch  *batch = worker->batch;
	bool		useless = status != TRANSPORT_REFUSED || connection_is_useless(failure->sqlstate);

	if (name_is_refused(status, failure->sqlstate))
	{
		/* which one it is, is found by asking for half as many, again and again */
		if (count == 1)
			take_refused_name(worker, failure->sqlstate);
		batch->most = count > 1 ? count / 2 : 1;
		return;
	}
	if (useless)
		worker->transport->close(worker->transport);
	if (status == TRANSPORT_TIMED_OUT)
	{
		note_failure(worker, count, "no answer in time");
		answer_all(worker, true, AMORO_UNAVAILABLE);
	}
	else if (useless && status != TRANSPORT_WOKEN && !batch->reconnected)
		batch->reconnected = true;
	else
	{
		if (status != TRANSPORT_WOKEN)
			note_failure(worker, count, failure->message);
		answer_all(worker, false, AMORO_UNAVAILABLE);
	}
}

/* Stores and answers the first count loads; those that have to be read again stay. */
static void
take(LoadWorker *worker, int count, NodeAnswer *read)
{
	AmoroNode  *node = worker->node;
	LoadBatch  *batch = worker->batch;
	int64_t		term = atomic_load_explicit(&node->lease.term, memory_order_relaxed);
	bool		other_server = false;
	bool		deposed = false;

	for (int i = 0; i < count; i++)
	{
		Load	   *load = batch->loads[i];
		const LookupAnswer *lookup = count > 1 ? &read->rows[i].answer : &read->lookup;
		AmoroResult result;
		AmoroEntry *entry;
		AmoroTicket ticket;
		LoadVerdict verdict = load_finish(&node->lease, &node->cache, load->kind, &load->key, &load->note, lookup,
										  &result, &entry, &ticket);

		if (verdict == LOAD_ANSWERED)
		{
			answer(worker, i, false, result, entry, ticket);
			continue;
		}
		atomic_fetch_add_explicit(&node->counters[load->kind].loads_refused, 1, memory_order_relaxed);
		other_server |= verdict == LOAD_OTHER_SERVER;
		deposed |= verdict == LOAD_OTHER_SERVER && lookup->term < term;
	}
	close_gaps(batch);
	worker->transport->answer_release(worker->transport, read);
	if (deposed)
		worker->transport->close(worker->transport);
	if (other_server)
		worker->transport->sleep(worker->transport, clock_now(&node->clock) + OTHER_SERVER_PAUSE_US);
}

/* Reads once, and stores. */
static void
read_once(LoadWorker *worker, NodeTime deadline)
{
	LoadBatch  *batch = worker->batch;
	AmoroNode  *node = worker->node;
	NodeAnswer	answer = {0};
	TransportFailure failure = {"", ""};
	TransportStatus status;
	int			count;

	begin(worker);
	if (batch->count == 0)
		return;
	count = batch->count < batch->most ? batch->count : batch->most;
	atomic_fetch_add_explicit(&node->counters[batch->loads[0]->kind].loads, count, memory_order_relaxed);
	status = ask(worker, count, deadline, &answer, &failure);
	if (status != TRANSPORT_DONE)
	{
		after_failure(worker, count, status, &failure);
		return;
	}
	take(worker, count, &answer);
	batch->most *= 2;
	if (batch->most > LOAD_BATCH_LIMIT)
		batch->most = LOAD_BATCH_LIMIT;
}

void
load_batch_run(LoadWorker *worker)
{
	AmoroNode  *node = worker->node;
	LoadBatch  *batch = worker->batch;

	batch->most = LOAD_BATCH_LIMIT;
	batch->reconnected = false;
	answer_from_memory(worker);
	while (batch->count > 0)
	{
		NodeTime	deadline = first_deadline(batch);

		if (atomic_load_explicit(&node->closing, memory_order_acquire))
			answer_all(worker, false, AMORO_UNAVAILABLE);
		else if (clock_now(&node->clock) >= deadline)
			answer_all(worker, true, AMORO_UNAVAILABLE);
		else
			read_once(worker, deadline);
	}
}
