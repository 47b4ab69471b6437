/*
 * process_cancel.c
 *		Asks the leader that runs a process to cancel it, and waits for what it answers.
 *
 * The leader is asked once the request is committed, so this is a procedure of several transactions: one that asks, one
 * that waits, and one that sees what the answer has changed.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "nodes/parsenodes.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(amoro_meta_cancel_process_and_wait);

#define ASKED "asked: call "
/* The explorer notices a moment after its deadline that a call has expired. */
#define EXPIRY_US (4 * USECS_PER_SEC)
#define RESULT_COLUMNS 4

/* What the caller is told; the strings are in his context. */
typedef struct Cancellation
{
	const char *schema;			/* of the functions, quoted */
	Datum		process_id;
	char	   *answer;
	int64		call_id;		/* 0: no leader was asked */
	int32		status;			/* 0: it has not answered */
	char	   *body;
} Cancellation;

/* Runs a query that returns one row, of which text is read: NULL where it has none, or is null. */
static void
run_query(const char *query, int count, Oid *types, Datum *values, const char *nulls)
{
	int			result = SPI_execute_with_args(query, count, types, values, nulls, /* read_only= */ false, 1);

	if (result != SPI_OK_SELECT)
		elog(ERROR, "could not cancel a process: %s", SPI_result_code_string(result));
}

static char *
text_column(int column, MemoryContext context)
{
	char	   *value = SPI_processed == 0 ? NULL : SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, column);

	return value == NULL ? NULL : MemoryContextStrdup(context, value);
}

/* Asks for the end of the process: decided at once, or a call to its leader is recorded. */
static void
ask(Cancellation *cancellation, FunctionCallInfo fcinfo, MemoryContext caller)
{
	Oid			types[] = {INT8OID, TEXTOID, INTERVALOID};
	Datum		values[] = {PG_GETARG_DATUM(0), PG_GETARG_DATUM(1), PG_GETARG_DATUM(2)};
	char		nulls[] = {PG_ARGISNULL(0) ? 'n' : ' ', PG_ARGISNULL(1) ? 'n' : ' ', PG_ARGISNULL(2) ? 'n' : ' ', '\0'};

	run_query(psprintf("SELECT %s.cancel_process($1, $2, $3)", cancellation->schema), 3, types, values, nulls);
	cancellation->answer = text_column(1, caller);
	if (strncmp(cancellation->answer, ASKED, strlen(ASKED)) == 0)
		cancellation->call_id = strtoll(cancellation->answer + strlen(ASKED), NULL, 10);
}

/* How the process has ended meanwhile, in whatever way; NULL: it has not. */
static char *
find_end(const Cancellation *cancellation, MemoryContext caller)
{
	Oid			types[] = {INT8OID};
	Datum		values[] = {cancellation->process_id};

	run_query(psprintf("SELECT p.status FROM %s.processes p WHERE p.process_id OPERATOR(pg_catalog.=) $1 AND p.ended_at IS NOT NULL",
					   cancellation->schema), 1, types, values, NULL);
	return text_column(1, caller);
}

/* Waits for the end of the call; the answer is what the leader has said, and what the process shows of it. */
static void
await(Cancellation *cancellation, const Interval *timeout, MemoryContext caller)
{
	Oid			types[] = {INT8OID, INTERVALOID};
	Interval	longest = *timeout;
	Datum		values[] = {Int64GetDatum(cancellation->call_id), IntervalPGetDatum(&longest)};
	char	   *state;
	char	   *error;
	char	   *status;
	char	   *end;

	longest.time += EXPIRY_US;
	run_query(psprintf("SELECT r.state, r.status, r.body, r.error FROM %s.call_result($1, $2) r", cancellation->schema), 2, types, values, NULL);
	state = text_column(1, caller);
	status = text_column(2, caller);
	cancellation->body = text_column(3, caller);
	error = text_column(4, caller);
	cancellation->status = status == NULL ? 0 : pg_strtoint32(status);
	/* whatever the isolation level: the end may have come with the answer */
	SPI_commit();
	end = find_end(cancellation, caller);
	MemoryContextSwitchTo(caller);
	if (end != NULL && strcmp(end, "CANCELED") == 0 && strcmp(state, "answered") == 0 && cancellation->status < 300)
		cancellation->answer = "cancelled";
	else if (end != NULL)
		cancellation->answer = psprintf("already finished: %s", end);
	else if (strcmp(state, "answered") == 0)
		cancellation->answer = psprintf("refused: status %d", cancellation->status);
	else if (strcmp(state, "expired") == 0)
		cancellation->answer = error != NULL ? psprintf("no answer: %s", error) : psprintf("no answer: status %d", cancellation->status);
}

static Datum
result_row(const Cancellation *cancellation, FunctionCallInfo fcinfo)
{
	TupleDesc	shape;
	Datum		values[RESULT_COLUMNS] = {0};
	bool		nulls[RESULT_COLUMNS] = {false};

	if (get_call_result_type(fcinfo, NULL, &shape) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "the procedure does not return a row");
	values[0] = CStringGetTextDatum(cancellation->answer);
	values[1] = Int64GetDatum(cancellation->call_id);
	nulls[1] = cancellation->call_id == 0;
	values[2] = Int32GetDatum(cancellation->status);
	nulls[2] = cancellation->status == 0;
	nulls[3] = cancellation->body == NULL;
	if (cancellation->body != NULL)
		values[3] = CStringGetTextDatum(cancellation->body);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(shape), values, nulls));
}

/*
 * amoro_meta_cancel_process_and_wait(process_id bigint, reason text, timeout interval, and its results): what CALL
 * cancel_process_and_wait does and answers. Errors: 25001 in a transaction block, and those of cancel_process and call_result.
 */
Datum
amoro_meta_cancel_process_and_wait(PG_FUNCTION_ARGS)
{
	MemoryContext caller = CurrentMemoryContext;
	Cancellation cancellation = {.process_id = PG_GETARG_DATUM(0)};

	if (fcinfo->context == NULL || !IsA(fcinfo->context, CallContext) || castNode(CallContext, fcinfo->context)->atomic)
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("cancel_process_and_wait cannot run inside a transaction block, or a function"),
				 errdetail("The leader is asked once the request is committed."),
				 errhint("CALL it by itself; or SELECT cancel_process(...), COMMIT, and SELECT * FROM call_result(...) of the call that it names.")));
	cancellation.schema = quote_identifier(get_namespace_name(get_func_namespace(fcinfo->flinfo->fn_oid)));
	SPI_connect_ext(SPI_OPT_NONATOMIC);
	ask(&cancellation, fcinfo, caller);
	SPI_commit();
	if (cancellation.call_id != 0)
		await(&cancellation, PG_GETARG_INTERVAL_P(2), caller);
	SPI_finish();
	return result_row(&cancellation, fcinfo);
}
