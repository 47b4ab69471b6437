/*
 * explorer_call.c
 *		Calls to the leaders of services: claimed and committed, called, recorded and committed. An attempt of which nothing is
 *		recorded, because this process has ended, is made again with the same key.
 */
#include "explorer/explorer_call.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "explorer/explorer_record.h"
#include "explorer/explorer_statement.h"
#include "guc.h"
#include "http/http.h"
#include "lib/ilist.h"
#include "mb/pg_wchar.h"
#include "shmem.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/uuid.h"
#include "wire_text.h"

#define SECOND_US INT64CONST(1000000)
#define MOST_CALLS 128
/* An attempt that has been under way for as long may have to give its place to another service. */
#define LASTING_US SECOND_US
#define SHORTEST_PAUSE_US (SECOND_US / 20)
#define LONGEST_PAUSE_US (5 * SECOND_US)
/* Nothing wakes us for a call whose transaction was prepared. */
#define IDLE_PAUSE_US (60 * SECOND_US)
/* What is kept of an answer. */
#define MOST_ANSWER_BYTES (1024 * 1024)

typedef struct Call
{
	dlist_node	node;
	MemoryContext context;
	int64		call_id;
	int64		token;
	LeaseTime	begun_at;
	HttpRequest request;
	HttpTransfer *transfer;
} Call;

/* In the order in which they were begun. */
static dlist_head calls = DLIST_STATIC_INIT(calls);
static LeaseTime look_at = 0;

/* See explorer_call.h. */
void
calls_look_again(void)
{
	look_at = 0;
}

/* See explorer_call.h. */
bool
calls_are_under_way(void)
{
	return !dlist_is_empty(&calls);
}

static void
free_call(Call *call)
{
	dlist_delete(&call->node);
	if (call->transfer != NULL)
		http_release(call->transfer);
	MemoryContextDelete(call->context);
}

/* See explorer_call.h. */
void
calls_abandon(LeaseTime again_at)
{
	while (!dlist_is_empty(&calls))
		free_call(dlist_head_element(Call, node, &calls));
	look_at = again_at;
}

/* How many have been under way for a while: so many at the head of the list. */
static int
count_lasting(LeaseTime now)
{
	dlist_iter	iter;
	int			count = 0;

	dlist_foreach(iter, &calls)
	{
		if (now - dlist_container(Call, node, iter.cur)->begun_at < LASTING_US)
			break;
		count++;
	}
	return count;
}

/* When the next one that is under way may have to give up its place; 0: none, or there are places for all. */
static LeaseTime
next_lasting(LeaseTime now)
{
	dlist_iter	iter;
	LeaseTime	next = 0;
	int			count = 0;

	dlist_foreach(iter, &calls)
	{
		LeaseTime	lasting_at = dlist_container(Call, node, iter.cur)->begun_at + LASTING_US;

		if (next == 0 && lasting_at > now)
			next = lasting_at;
		count++;
	}
	return count < MOST_CALLS ? 0 : next;
}

static Datum
running_calls(void)
{
	dlist_iter	iter;
	int64		ids[MOST_CALLS];
	int			count = 0;

	dlist_foreach(iter, &calls)
		ids[count++] = dlist_container(Call, node, iter.cur)->call_id;
	return statement_int64_array(ids, count);
}

static void
forget_running(int64 call_id)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &calls)
	{
		Call	   *call = dlist_container(Call, node, iter.cur);

		if (call->call_id == call_id)
			free_call(call);
	}
}

/*
 * What the database can keep of an answer: text in its encoding; what is none, or has no character there, is shown as ?. Cut off in the
 * middle of a character nothing is left of it.
 */
static char *
text_of_answer(const HttpAnswer *answer, bool *truncated)
{
	size_t		size = Min(answer->size, MOST_ANSWER_BYTES);
	char	   *text = palloc(size + 1);

	*truncated = answer->size > size;
	if (answer->size > 0)
		memcpy(text, answer->body, size);
	if (*truncated)
		size = pg_encoding_mbcliplen(PG_UTF8, text, (int) size, (int) size);
	text[size] = '\0';
	if (GetDatabaseEncoding() != PG_SQL_ASCII && pg_verify_mbstr(PG_UTF8, text, (int) size, /* noError= */ true) && strlen(text) == size)
		return wire_text_received(text, size, '?');
	for (size_t i = 0; i < size; i++)
	{
		if (text[i] == '\0' || IS_HIGHBIT_SET(text[i]))
			text[i] = '?';
	}
	return text;
}

typedef struct Outcome
{
	const Call *call;
	const HttpAnswer *answer;
	bool		ended;
} Outcome;

static void
outcome_work(void *argument)
{
	static Statement statement = {
		"SELECT amoro_meta.record_call($1, $2, $3, $4, $5, $6, $7)", 7, {INT8OID, INT8OID, INT4OID, TEXTOID, BOOLOID, TEXTOID, INT4OID}
	};
	Outcome    *outcome = argument;
	const HttpAnswer *answer = outcome->answer;
	Datum		values[7];
	char		nulls[] = "       ";
	bool		truncated;

	values[0] = Int64GetDatum(outcome->call->call_id);
	values[1] = Int64GetDatum(outcome->call->token);
	values[2] = Int32GetDatum(answer->status);
	values[3] = CStringGetTextDatum(text_of_answer(answer, &truncated));
	nulls[3] = answer->status == 0 ? 'n' : ' ';
	values[4] = BoolGetDatum(truncated);
	values[5] = statement_text_argument(answer->status == 0 ? answer->error : NULL, &nulls[5]);
	values[6] = Int32GetDatum(answer->retry_after);
	statement_run(&statement, values, nulls);
	outcome->ended = statement_bool(0, 1);
}

/* An attempt has come to its end. What cannot be recorded is made again. */
static void
take_outcome(HttpTransfer *transfer)
{
	Call	   *call = http_owner(transfer);
	Outcome		outcome = {.call = call, .answer = http_answer(transfer)};
	ErrorData  *error = record_transaction(outcome_work, &outcome);

	if (error != NULL)
		ereport(LOG,
				(errcode(error->sqlerrcode),
				 errmsg("amoro_meta could not record the answer to call " INT64_FORMAT ": %s", call->call_id, error->message)));
	free_call(call);
	/* a place is free, and what is to be tried again has its time */
	look_at = error != NULL ? lease_clock_now() + SECOND_US : 0;
	if (outcome.ended)
		ConditionVariableBroadcast(&AmoroShared->call_ended);
}

/* A call from a row of claim_calls; without a URL it is one that is under way, and to be given up. */
static Call *
make_call(uint64 row)
{
	MemoryContext context = AllocSetContextCreate(TopMemoryContext, "amoro_meta call", ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	Call	   *call = palloc0(sizeof(Call));
	HttpRequest *request = &call->request;
	char	   *content_type = statement_text(row, 4, context);
	bool		isnull;

	call->context = context;
	call->call_id = DatumGetInt64(statement_column(row, 1, &isnull));
	call->token = DatumGetInt64(statement_column(row, 7, &isnull));
	request->url = statement_text_to_send(row, 3, context);
	if (request->url == NULL)
	{
		MemoryContextSwitchTo(old);
		return call;
	}
	request->method = statement_text(row, 2, context);
	request->body = statement_text_to_send(row, 5, context);
	request->headers[0] = psprintf("Idempotency-Key: %s", statement_text(row, 6, context));
	request->headers[1] = psprintf("Amoro-Leader-Token: " INT64_FORMAT, call->token);
	request->headers[2] = content_type == NULL ? NULL : psprintf("Content-Type: %s", content_type);
	request->timeout_ms = DatumGetInt32(statement_column(row, 8, &isnull));
	request->timeout_ms = Min(request->timeout_ms, guc_http_timeout);
	request->kept_bytes = MOST_ANSWER_BYTES + 1;
	request->urgent = true;
	request->take = take_outcome;
	MemoryContextSwitchTo(old);
	return call;
}

typedef struct CallClaim
{
	List	   *claimed;		/* in TopMemoryContext */
	LeaseTime	begun_at;
	int64		due_ms;			/* -1: none waits */
} CallClaim;

static void
claim_work(void *argument)
{
	static Statement statement = {"SELECT * FROM amoro_meta.claim_calls($1, $2, $3)", 3, {INT8ARRAYOID, INT4OID, INT4OID}};
	CallClaim  *claim = argument;
	Datum		values[3];

	values[0] = running_calls();
	values[1] = Int32GetDatum(count_lasting(lease_clock_now()));
	values[2] = Int32GetDatum(MOST_CALLS);
	statement_run(&statement, values, NULL);
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		Call	   *call = make_call(i);
		MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

		claim->claimed = lappend(claim->claimed, call);
		MemoryContextSwitchTo(old);
	}
}

/* Begins what is due, now that it is committed that it was begun, and gives up what has to make room; returns NULL, or the error. */
static ErrorData *
claim_calls(void)
{
	CallClaim	claim = {NIL};
	ErrorData  *error = coordinator_transaction(claim_work, &claim);
	ListCell   *cell;

	foreach(cell, claim.claimed)
	{
		Call	   *call = lfirst(cell);

		if (error == NULL)
			forget_running(call->call_id);
		if (error != NULL || call->request.url == NULL)
		{
			MemoryContextDelete(call->context);
			continue;
		}
		call->begun_at = lease_clock_now();
		call->transfer = http_start(&call->request, call);
		dlist_push_tail(&calls, &call->node);
	}
	list_free(claim.claimed);
	return error;
}

static void
due_work(void *argument)
{
	static Statement statement = {"SELECT amoro_meta.next_call($1, $2)", 2, {INT8ARRAYOID, INT8OID}};
	CallClaim  *claim = argument;
	Datum		values[2];
	Datum		due;
	bool		isnull;

	values[0] = running_calls();
	values[1] = Int64GetDatum(lease_clock_now() - claim->begun_at);
	statement_run(&statement, values, NULL);
	due = statement_column(0, 1, &isnull);
	claim->due_ms = isnull ? -1 : DatumGetInt64(due);
}

/* See explorer_call.h. */
LeaseTime
calls_advance(void)
{
	CallClaim	claim = {NIL, lease_clock_now()};
	ErrorData  *error;
	LeaseTime	lasting_at;

	if (claim.begun_at < look_at)
		return look_at;
	error = claim_calls();
	/* those that were given up because their time is over */
	ConditionVariableBroadcast(&AmoroShared->call_ended);
	if (error == NULL)
		error = record_transaction(due_work, &claim);
	if (error != NULL)
	{
		record_note_error("look for calls to make", error);
		look_at = lease_clock_now() + SECOND_US;
		return look_at;
	}
	/* what waits for a place is looked for when an answer makes one, and who comes to lead wakes us */
	look_at = claim.begun_at + (claim.due_ms < 0 ? IDLE_PAUSE_US :
								Max(SHORTEST_PAUSE_US, Min(claim.due_ms * 1000, LONGEST_PAUSE_US)));
	lasting_at = next_lasting(lease_clock_now());
	if (lasting_at != 0)
		look_at = Min(look_at, lasting_at);
	return look_at;
}
