/*
 * explorer_record.c
 *		What the explorer reads from and writes to the database: each function is a transaction of its own.
 */
#include "explorer/explorer_record.h"

#include "catalog/pg_type.h"
#include "explorer/explorer_statement.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "worker/coordinator_transaction.h"

/* How often a transaction is tried that others were in the way of. */
#define MOST_ATTEMPTS 3

/* See explorer_record.h. */
ErrorData *
record_transaction(CoordinatorWork work, void *argument)
{
	ErrorData  *error = NULL;

	for (int i = 0; i < MOST_ATTEMPTS; i++)
	{
		error = coordinator_transaction(work, argument);
		if (error == NULL || (error->sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE &&
							  error->sqlerrcode != ERRCODE_T_R_SERIALIZATION_FAILURE &&
							  error->sqlerrcode != ERRCODE_T_R_DEADLOCK_DETECTED))
			break;
	}
	return error;
}

/* See explorer_record.h. */
void
record_note_error(const char *what, const ErrorData *error)
{
	if (error->sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE)
		ereport(LOG,
				(errcode(error->sqlerrcode),
				 errmsg("amoro_meta could not %s: %s", what, error->message)));
}

static void
begin_work(void *argument)
{
	static Statement statement = {"SELECT amoro_meta.begin_exploring()", 0};

	statement_run(&statement, NULL, NULL);
}

/* See explorer_record.h. */
ErrorData *
record_begin(void)
{
	return record_transaction(begin_work, NULL);
}

static Datum
running_array(dlist_head *rounds)
{
	dlist_iter	iter;
	int			count = 0;
	int64	   *ids;

	dlist_foreach(iter, rounds)
		count++;
	ids = palloc((count + 1) * sizeof(int64));
	count = 0;
	dlist_foreach(iter, rounds)
		ids[count++] = dlist_container(Round, node, iter.cur)->catalog_id;
	return statement_int64_array(ids, count);
}

static char *
without_slash(char *uri)
{
	size_t		length = uri == NULL ? 0 : strlen(uri);

	while (length > 0 && uri[length - 1] == '/')
		uri[--length] = '\0';
	return uri;
}

/* A round from a row of claim_explorations. */
static Round *
make_round(uint64 row)
{
	MemoryContext context = AllocSetContextCreate(TopMemoryContext, "amoro_meta exploration", ALLOCSET_SMALL_SIZES);
	Round	   *round = MemoryContextAllocZero(context, sizeof(Round));
	bool		isnull;

	round->context = context;
	round->catalog_id = DatumGetInt64(statement_column(row, 1, &isnull));
	round->catalog_name = statement_text(row, 2, context);
	round->rest.uri = without_slash(statement_text_to_send(row, 3, context));
	round->rest.warehouse = statement_text_to_send(row, 4, context);
	round->rest.prefix = statement_text_to_send(row, 5, context);
	round->rest.token = statement_text_to_send(row, 6, context);
	round->rest.credential = statement_text_to_send(row, 7, context);
	round->rest.token_uri = statement_text_to_send(row, 8, context);
	round->rest.token_scope = statement_text_to_send(row, 9, context);
	round->rest.trust.ca_certificate = statement_text(row, 10, context);
	round->rest.trust.client_certificate = statement_text(row, 11, context);
	round->rest.trust.client_key = statement_text(row, 12, context);
	round->database_filter = statement_text(row, 13, context);
	round->table_filter = statement_text(row, 14, context);
	round->reads_tables = statement_bool(row, 15);
	round->rest.separator = MemoryContextStrdup(context, "%1F");
	round->namespaces_complete = true;
	dlist_init(&round->queue);
	dlist_init(&round->active);
	return round;
}

typedef struct Claim
{
	dlist_head *rounds;
	int			places;
	List	   *claimed;
	int64		due_us;
} Claim;

static void
claim_work(void *argument)
{
	static Statement statement = {"SELECT * FROM amoro_meta.claim_explorations($1, $2)", 2, {INT8ARRAYOID, INT4OID}};
	Claim	   *claim = argument;
	Datum		values[2];

	values[0] = running_array(claim->rounds);
	values[1] = Int32GetDatum(claim->places);
	statement_run(&statement, values, NULL);
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		Round	   *round = make_round(i);
		MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

		claim->claimed = lappend(claim->claimed, round);
		MemoryContextSwitchTo(old);
	}
}

/* See explorer_record.h. */
ErrorData *
record_claim(dlist_head *rounds, int places)
{
	Claim		claim = {.rounds = rounds, .places = places};
	ErrorData  *error = coordinator_transaction(claim_work, &claim);
	ListCell   *cell;

	foreach(cell, claim.claimed)
	{
		Round	   *round = lfirst(cell);

		if (error != NULL)
			MemoryContextDelete(round->context);
		else
			dlist_push_tail(rounds, &round->node);
	}
	list_free(claim.claimed);
	return error;
}

static void
due_work(void *argument)
{
	static Statement statement = {"SELECT amoro_meta.next_exploration($1)", 1, {INT8ARRAYOID}};
	Claim	   *claim = argument;
	Datum		values[1];
	bool		isnull;
	Datum		due;

	values[0] = running_array(claim->rounds);
	statement_run(&statement, values, NULL);
	due = statement_column(0, 1, &isnull);
	claim->due_us = isnull ? -1 : DatumGetInt64(due) * 1000;
}

/* See explorer_record.h. */
ErrorData *
record_next_due(dlist_head *rounds, int64 *due_us)
{
	Claim		claim = {.rounds = rounds};
	ErrorData  *error = record_transaction(due_work, &claim);

	*due_us = claim.due_us;
	return error;
}

static const char *
phase_name(RoundPhase phase)
{
	switch (phase)
	{
		case ROUND_CONFIG:
			return "config";
		case ROUND_NAMESPACES:
			return "namespaces";
		case ROUND_TABLES:
			return "tables";
		case ROUND_PROPERTIES:
			return "properties";
	}
	return "waiting";
}

static void
progress_work(void *argument)
{
	static Statement statement = {
		"SELECT amoro_meta.report_exploration($1, $2, $3, $4, $5, $6, $7, $8, $9)", 9,
		{INT8OID, TEXTOID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, TEXTOID}
	};
	Round	   *round = argument;
	Datum		values[9];
	char		nulls[] = "         ";

	values[0] = Int64GetDatum(round->catalog_id);
	values[1] = CStringGetTextDatum(phase_name(round->phase));
	values[2] = Int64GetDatum(round->done);
	values[3] = Int64GetDatum(round->listed_count);
	values[4] = Int64GetDatum(round->tables);
	values[5] = Int64GetDatum(round->added);
	values[6] = Int64GetDatum(round->changed);
	values[7] = Int64GetDatum(round->skipped);
	values[8] = statement_text_argument(round->skipped_name, &nulls[8]);
	statement_run(&statement, values, nulls);
}

/* See explorer_record.h. */
void
record_progress(Round *round)
{
	/* somebody has the row locked: the next report may find it free */
	(void) coordinator_transaction(progress_work, round);
}

static void
end_work(void *argument)
{
	static Statement statement = {
		"SELECT amoro_meta.end_exploration($1, $2, $3, $4, $5)", 5, {INT8OID, BOOLOID, TEXTOID, INT8OID, INT4OID}
	};
	Round	   *round = argument;
	Datum		values[5];
	char		nulls[] = "     ";

	progress_work(argument);
	values[0] = Int64GetDatum(round->catalog_id);
	values[1] = BoolGetDatum(round->failed);
	values[2] = statement_text_argument(round->error == NULL || round->errors <= 1 ? round->error :
							 psprintf("%s (and %d errors more)", round->error, round->errors - 1), &nulls[2]);
	values[3] = Int64GetDatum(round->removed);
	values[4] = Int32GetDatum(round->retry_after);
	statement_run(&statement, values, nulls);
}

/* See explorer_record.h. */
bool
record_end(Round *round)
{
	return coordinator_transaction(end_work, round) == NULL;
}

static void
settle_work(void *argument)
{
	static Statement databases = {"SELECT amoro_meta.missing_databases($1, $2)", 2, {INT8OID, TEXTARRAYOID}};
	static Statement settle = {
		"SELECT s.removed, s.held FROM amoro_meta.settle_listing($1, $2) s", 2, {INT8OID, INT8ARRAYOID}
	};
	Round	   *round = argument;
	Datum		values[2];
	bool		isnull;
	int			before = round->missing_count;

	values[0] = Int64GetDatum(round->catalog_id);
	if (round->namespaces_complete)
	{
		values[1] = statement_text_array(round->listed, round->listed_count);
		statement_run(&databases, values, NULL);
		statement_append_ids(round->context, statement_column(0, 1, &isnull), &round->missing, &round->missing_count, &round->missing_capacity);
	}
	values[1] = statement_int64_array(round->missing, round->missing_count);
	/* the transaction may be tried again */
	round->missing_count = before;
	statement_run(&settle, values, NULL);
	round->removed = statement_int64(1);
	if (statement_int64(2) > 0)
		ereport(LOG,
				(errmsg("amoro_meta keeps " INT64_FORMAT " tables of catalog \"%s\" that are no longer listed: too many at once",
						statement_int64(2), round->catalog_name),
				 errhint("See held_tables. If they are really gone: SELECT confirm_removal(%s).", quote_literal_cstr(round->catalog_name))));
}

/* See explorer_record.h. */
ErrorData *
record_settle(Round *round)
{
	return record_transaction(settle_work, round);
}

typedef struct Reading
{
	Round	   *round;
	bool		unread;
	int			most;
	int			count;
} Reading;

static void
reading_work(void *argument)
{
	static Statement statement = {
		"SELECT * FROM amoro_meta.tables_to_read($1, $2, $3, $4)", 4, {INT8OID, BOOLOID, INT8OID, INT4OID}
	};
	Reading    *reading = argument;
	Round	   *round = reading->round;
	Datum		values[4];

	values[0] = Int64GetDatum(round->catalog_id);
	values[1] = BoolGetDatum(reading->unread);
	values[2] = Int64GetDatum(round->read_after);
	values[3] = Int32GetDatum(reading->most);
	statement_run(&statement, values, NULL);
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		bool		isnull;
		char	   *database = SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 2);
		char	   *table = SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 3);
		Job		   *job = round_add_job(round, JOB_TABLE, rest_path(database), table);

		job->table_id = DatumGetInt64(statement_column(i, 1, &isnull));
		round->read_after = job->table_id;
	}
	reading->count = (int) SPI_processed;
}

/* See explorer_record.h. */
int
record_tables_to_read(Round *round, bool unread, int most)
{
	Reading		reading = {round, unread, most};
	ErrorData  *error = record_transaction(reading_work, &reading);

	if (error != NULL)
		round_fail(round, error->message);
	return error != NULL ? 0 : reading.count;
}
