/*
 * scripted_database.c
 *		A database in the test, over a transport that notes what is asked and may do something meanwhile; and a node before it.
 */
#include "scripted_database.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "change_feed.h"
#include "scenario.h"

ScriptedDatabase database;
AmoroNode  *node;
static char document[LARGEST_DOCUMENT];

static TransportStatus
test_open(Transport *transport, NodeTime wait_until, NodeTime deadline, TransportFailure *failure)
{
	return TRANSPORT_DONE;
}

static bool
test_is_open(const Transport *transport)
{
	return true;
}

static void
test_nothing(Transport *transport)
{
}

typedef struct TestTransport
{
	Transport	methods;
	char		asked[MANY][32];
	int			asked_count;
} TestTransport;

/* What is asked for by a name: the last one, but there is nothing in a catalog without one, and a database may have a name that is refused. */
static const char *
name_asked_for(const AmoroKey *key)
{
	if (key->catalog_name[0] == '\0')
		return "absent";
	if (key->database_name[0] == 'x')
		return key->database_name;
	return key->object_name ? key->object_name : "";
}

static TransportStatus
test_send(Transport *self, const NodeRequest *request, const char *detail, const LookupQuestion *question, NodeTime deadline,
		  TransportFailure *failure)
{
	TestTransport *transport = (TestTransport *) self;
	int			count = request->kind == REQUEST_LOOKUP_MANY ? question->key_count : 1;

	assert_in_range(count, 1, MANY);
	transport->asked_count = count;
	for (int i = 0; i < count; i++)
		snprintf(transport->asked[i], sizeof(transport->asked[i]), "%s", name_asked_for(&question->key[i]));
	pthread_mutex_lock(&database.lock);
	if (database.request_count < MOST_REQUESTS)
	{
		database.requests[database.request_count].kind = request->kind;
		database.requests[database.request_count].keys = count;
		memcpy(database.requests[database.request_count].first, transport->asked[0], sizeof(transport->asked[0]));
	}
	database.request_count++;
	pthread_mutex_unlock(&database.lock);
	return TRANSPORT_DONE;
}

/* By their first letter: absent, dropped (in transition), marked; every other name is there. */
static LookupAnswer
answer_for(const char *name)
{
	const char *state = name[0] == 'a' ? NULL : name[0] == 'd' ? "pre_drop" : name[0] == 'm' ? "pre_alter" : "normal";

	return (LookupAnswer) {
		.metadata_version = database.version, .term = 5, .found = state != NULL, .state = state,
		.object_version = database.version, .document = document, .document_size = database.document_size
	};
}

static TransportStatus
test_receive(Transport *self, const NodeRequest *request, NodeTime deadline, NodeAnswer *answer, TransportFailure *failure)
{
	TestTransport *transport = (TestTransport *) self;
	void		(*meanwhile) (void);

	pthread_mutex_lock(&database.lock);
	meanwhile = database.meanwhile;
	database.meanwhile = NULL;
	pthread_mutex_unlock(&database.lock);
	if (database.silent)
	{
		while (clock_now(&clock_boottime) < deadline)
			usleep(1000);
		return TRANSPORT_TIMED_OUT;
	}
	for (int i = 0; i < transport->asked_count; i++)
	{
		if (database.sqlstate != NULL && transport->asked[i][0] == 'x')
		{
			snprintf(failure->sqlstate, sizeof(failure->sqlstate), "%s", database.sqlstate);
			if (meanwhile != NULL)
				meanwhile();
			return TRANSPORT_REFUSED;
		}
	}
	answer->lookup = answer_for(transport->asked[0]);
	answer->rows = calloc((size_t) transport->asked_count, sizeof(ObjectRow));
	answer->row_count = transport->asked_count - database.loses_rows;
	for (int i = 0; i < transport->asked_count; i++)
		answer->rows[i].answer = answer_for(transport->asked[i]);
	if (meanwhile != NULL)
		meanwhile();
	return TRANSPORT_DONE;
}

static void
test_answer_release(Transport *transport, NodeAnswer *answer)
{
	free(answer->rows);
	answer->rows = NULL;
}

static TransportStatus
test_sleep(Transport *transport, NodeTime until)
{
	usleep(1000);
	return TRANSPORT_TIMED_OUT;
}

static void
test_destroy(Transport *transport)
{
	free(transport);
}

static Transport *
make_transport(void)
{
	TestTransport *transport = calloc(1, sizeof(TestTransport));

	transport->methods = (Transport) {
		.open = test_open, .is_open = test_is_open, .close = test_nothing, .send = test_send, .receive = test_receive,
		.answer_release = test_answer_release, .sleep = test_sleep, .wake = test_nothing, .destroy = test_destroy
	};
	return &transport->methods;
}

void
database_add_loader(void)
{
	loader_add_worker(&node->loader, node, make_transport());
}

void
database_begin(size_t cache_bytes)
{
	memset(&database, 0, sizeof(database));
	pthread_mutex_init(&database.lock, NULL);
	database.version = 10;
	database.document_size = 2;
	memset(document, ' ', sizeof(document));
	memcpy(document, "{}", 2);
	node = node_create(&clock_boottime, make_transport(), cache_bytes, 30000000, 0);
	node->cache.seed = 42;		/* names that share a generation would be stale together: the same ones, or none, each time */
	node->lease.state = AMORO_NODE_ACTIVE;
	node->lease.term = 5;
	node->lease.applied_version = 10;
	node->lease.end = clock_now(&clock_boottime) + 3600000000;
	database_add_loader();
}

void
database_end(void)
{
	if (node != NULL)
		amoro_node_close(node);
	node = NULL;
}

void
change_device(const char *database_name, const char *name)
{
	MetadataChange change = {++database.version, "device", "alter", "lake", database_name, name};
	int64_t		applied = change_feed_apply(node, &change, 1, database.version - 1, database.version);

	atomic_store(&node->lease.applied_version, applied);
}

void
fence(void)
{
	pthread_mutex_lock(&node->lease_lock);
	lease_fence(&node->lease, AMORO_NODE_FENCED, "by the test");
	pthread_mutex_unlock(&node->lease_lock);
}
