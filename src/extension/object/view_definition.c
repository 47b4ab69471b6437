/*
 * view_definition.c
 *		Definitions of views: validated at the door, stored in one canonical form, and held against their table.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "object/object_name.h"
#include "object/view_definition.h"
#include "object/view_parts.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(amoro_meta_view_base);
PG_FUNCTION_INFO_V1(amoro_meta_view_definition);
PG_FUNCTION_INFO_V1(amoro_meta_altered_view);

ViewColumn *
view_column_find(const List *columns, const char *name)
{
	ListCell   *cell;

	foreach(cell, columns)
	{
		if (strcmp(((ViewColumn *) lfirst(cell))->name, name) == 0)
			return lfirst(cell);
	}
	return NULL;
}

void
view_column_add(const JsonPlace *place, ViewDefinition *view, const char *name, char *comment, int32 column_id)
{
	const char *problem = object_name_problem(name);
	ViewColumn *column;

	if (problem != NULL)
		json_refuse(place, "invalid name of a column: %s", problem);
	if (view_column_find(view->columns, name) != NULL)
		json_refuse(place, "column \"%s\" already exists", json_excerpt(name));
	if (list_length(view->columns) >= ICEBERG_MAX_FIELDS)
		json_refuse(place, "more than %d columns", ICEBERG_MAX_FIELDS);
	column = palloc_object(ViewColumn);
	*column = (ViewColumn) {pstrdup(name), comment, column_id};
	view->columns = lappend(view->columns, column);
}

/* What is written of a view in the same way by a user and in the canonical form. */
static ViewDefinition *
read_common(const JsonPlace *document)
{
	ViewDefinition *view = palloc0_object(ViewDefinition);
	JsonPlace	member;

	view->comment = json_optional_string(document, "comment");
	if (json_member(document, "ttl", &member))
		view->ttl = json_integer(&member, 1, PG_INT64_MAX);
	if (json_member(document, "properties", &member))
		view->properties = properties_read(&member);
	return view;
}

ViewDefinition *
view_read(const JsonPlace *document)
{
	ViewDefinition *view = read_common(document);
	JsonPlace	columns = json_required_member(document, "columns");
	int			size = json_array_size(&columns);

	for (int i = 0; i < size; i++)
	{
		JsonPlace	place = json_array_item(&columns, i);
		JsonPlace	id = json_required_member(&place, "column_id");
		ViewColumn *column = palloc_object(ViewColumn);

		column->name = json_optional_string(&place, "name");
		column->comment = json_optional_string(&place, "comment");
		column->column_id = (int32) json_integer(&id, 1, PG_INT32_MAX);
		view->columns = lappend(view->columns, column);
	}
	return view;
}

Jsonb *
view_write(const ViewDefinition *view)
{
	JsonbParseState *state = NULL;
	ListCell   *cell;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	json_write_key(&state, "columns");
	pushJsonbValue(&state, WJB_BEGIN_ARRAY, NULL);
	foreach(cell, view->columns)
	{
		const ViewColumn *column = lfirst(cell);

		pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
		json_write_string(&state, "name", column->name);
		json_write_integer(&state, "column_id", column->column_id);
		if (column->comment != NULL)
			json_write_string(&state, "comment", column->comment);
		pushJsonbValue(&state, WJB_END_OBJECT, NULL);
	}
	pushJsonbValue(&state, WJB_END_ARRAY, NULL);
	if (view->comment != NULL)
		json_write_string(&state, "comment", view->comment);
	if (view->ttl != 0)
		json_write_integer(&state, "ttl", view->ttl);
	properties_write(&state, view->properties);
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
}

/* A column as a user wrote it: its name in the table, or an object. */
static void
read_column(const JsonPlace *place, const Definition *base, ViewDefinition *view)
{
	static const char *const keys[] = {"name", "source", "comment", NULL};
	JsonPlace	source = *place;
	char	   *source_name;
	char	   *name;
	char	   *comment = NULL;
	IcebergField *field;

	if (json_is_string(place))
		name = source_name = json_string(place);
	else
	{
		JsonPlace	member;

		json_require_known_keys(place, keys);
		member = json_required_member(place, "name");
		name = json_string(&member);
		comment = json_optional_string(place, "comment");
		source_name = json_member(place, "source", &source) ? json_string(&source) : name;
	}
	field = iceberg_field_find(base->columns, source_name);
	if (field == NULL)
		json_refuse(&source, "the table has no column \"%s\"", json_excerpt(source_name));
	view_column_add(place, view, name, comment, field->id);
}

/*
 * view_definition_check validates a definition. See the header.
 */
Jsonb *
view_definition_check(Jsonb *input, Jsonb *base_document)
{
	static const char *const keys[] = {"base", "columns", "comment", "ttl", "properties", NULL};
	JsonPlace	document = json_document(input);
	JsonPlace	base_place = json_document(base_document);
	Definition *base = definition_read(&base_place);
	ViewDefinition *view;
	JsonPlace	columns;
	ListCell   *cell;

	json_require_known_keys(&document, keys);
	view = read_common(&document);
	if (json_member(&document, "columns", &columns))
	{
		int			size = json_array_size(&columns);

		if (size == 0)
			json_refuse(&columns, "expected at least one column");
		for (int i = 0; i < size; i++)
		{
			JsonPlace	place = json_array_item(&columns, i);

			CHECK_FOR_INTERRUPTS();
			read_column(&place, base, view);
		}
		return view_write(view);
	}
	foreach(cell, base->columns)
	{
		const IcebergField *field = lfirst(cell);

		view_column_add(&document, view, field->name, NULL, field->id);
	}
	return view_write(view);
}

static int
compare_ids(const void *left, const void *right)
{
	int32		a = *(const int32 *) left;
	int32		b = *(const int32 *) right;

	return (a > b) - (a < b);
}

/* The ids of the columns of the table itself, sorted. */
static int32 *
sorted_ids(const Definition *base, int *count)
{
	int32	   *ids = palloc_array(int32, Max(list_length(base->columns), 1));
	ListCell   *cell;

	*count = 0;
	foreach(cell, base->columns)
		ids[(*count)++] = ((IcebergField *) lfirst(cell))->id;
	qsort(ids, *count, sizeof(int32), compare_ids);
	return ids;
}

/*
 * view_definition_follow leaves out what the table no longer has. See the header.
 */
Jsonb *
view_definition_follow(Jsonb *view_document, Jsonb *base_document)
{
	JsonPlace	view_place = json_document(view_document);
	JsonPlace	base_place = json_document(base_document);
	ViewDefinition *view = view_read(&view_place);
	Definition *base = definition_read(&base_place);
	List	   *kept = NIL;
	ListCell   *cell;
	int			count;
	int32	   *ids = sorted_ids(base, &count);

	foreach(cell, view->columns)
	{
		if (bsearch(&((ViewColumn *) lfirst(cell))->column_id, ids, count, sizeof(int32), compare_ids) != NULL)
			kept = lappend(kept, lfirst(cell));
	}
	view->columns = kept;
	return kept == NIL ? NULL : view_write(view);
}

/*
 * view_definition_covers tells whether every column of the table is shown. See the header.
 */
bool
view_definition_covers(Jsonb *view_document, Jsonb *base_document)
{
	JsonPlace	view_place = json_document(view_document);
	JsonPlace	base_place = json_document(base_document);
	ViewDefinition *view = view_read(&view_place);
	Definition *base = definition_read(&base_place);
	ListCell   *cell;
	int			count;
	int			shown = 0;
	int32	   *ids = sorted_ids(base, &count);

	/* each that is shown is struck out: ids are positive */
	foreach(cell, view->columns)
	{
		int32	   *id = bsearch(&((ViewColumn *) lfirst(cell))->column_id, ids, count, sizeof(int32), compare_ids);

		if (id == NULL)
			continue;
		shown++;
		memmove(id, id + 1, sizeof(int32) * (ids + count - id - 1));
		count--;
	}
	return count == 0 && shown > 0;
}

/*
 * amoro_meta_view_base(definition) returns the names of the table that a user's definition is about, the database null
 * when it is not said; raises 22023.
 */
Datum
amoro_meta_view_base(PG_FUNCTION_ARGS)
{
	static const char *const keys[] = {"database", "table", NULL};
	JsonPlace	document = json_document(PG_GETARG_JSONB_P(0));
	JsonPlace	base;
	JsonPlace	table;
	char	   *database;
	TupleDesc	descriptor;
	Datum		values[2];
	bool		nulls[2] = {false, false};

	json_require_object(&document);
	base = json_required_member(&document, "base");
	json_require_known_keys(&base, keys);
	table = json_required_member(&base, "table");
	database = json_optional_string(&base, "database");
	nulls[0] = database == NULL;
	if (get_call_result_type(fcinfo, NULL, &descriptor) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "amoro_meta.view_base does not return a row");
	values[0] = database == NULL ? (Datum) 0 : CStringGetTextDatum(database);
	values[1] = CStringGetTextDatum(json_string(&table));
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), values, nulls)));
}

/*
 * amoro_meta_view_definition(definition, base) returns the canonical form; raises 22023.
 */
Datum
amoro_meta_view_definition(PG_FUNCTION_ARGS)
{
	PG_RETURN_JSONB_P(view_definition_check(PG_GETARG_JSONB_P(0), PG_GETARG_JSONB_P(1)));
}

/*
 * amoro_meta_altered_view(view, changes, cascade, base) returns the definitions of the view and of its table after the
 * changes; raises 22023.
 */
Datum
amoro_meta_altered_view(PG_FUNCTION_ARGS)
{
	Jsonb	   *base = PG_GETARG_JSONB_P(3);
	Jsonb	   *view = view_definition_alter(PG_GETARG_JSONB_P(0), PG_GETARG_JSONB_P(1), PG_GETARG_BOOL(2), &base);
	TupleDesc	descriptor;
	Datum		values[2] = {JsonbPGetDatum(view), JsonbPGetDatum(base)};
	bool		nulls[2] = {false, false};

	if (get_call_result_type(fcinfo, NULL, &descriptor) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "amoro_meta.altered_view does not return a row");
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), values, nulls)));
}
