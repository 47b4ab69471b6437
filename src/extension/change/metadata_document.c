/*
 * metadata_document.c
 *		The documents that nodes serve of tables and devices, as json_build_object would write them: a node that loads a
 *		million of them waits for nothing else, and that takes three times as long.
 */
#include "postgres.h"

#include "change/document_text.h"
#include "change/element_text.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/numeric.h"

PG_FUNCTION_INFO_V1(amoro_meta_table_document);
PG_FUNCTION_INFO_V1(amoro_meta_device_document);

/* A member of a definition; NULL: there is none. */
static JsonbValue *
member_of(FunctionCallInfo fcinfo, int argument, const char *name, JsonbValue *space)
{
	JsonbContainer *definition;

	if (PG_ARGISNULL(argument))
		return NULL;
	definition = &PG_GETARG_JSONB_P(argument)->root;
	return JsonContainerIsObject(definition) ? getKeyJsonValueFromContainer(definition, name, strlen(name), space) : NULL;
}

/*
 * amoro_meta_table_document(catalog_name text, database_name text, table_name text, table_id bigint, version bigint,
 * definition jsonb, database_ttl_ms bigint) returns text. A table without a time to live has that of its database.
 */
Datum
amoro_meta_table_document(PG_FUNCTION_ARGS)
{
	StringInfoData out;
	JsonbValue	space;
	JsonbValue *ttl;

	initStringInfo(&out);
	document_put_text(&out, "catalog", fcinfo, 0);
	document_put_text(&out, "database", fcinfo, 1);
	document_put_text(&out, "table", fcinfo, 2);
	document_put_number(&out, "table_id", fcinfo, 3);
	document_put_number(&out, "version", fcinfo, 4);
	document_put_name(&out, "relation_kind");
	appendStringInfoString(&out, "\"table\"");
	ttl = member_of(fcinfo, 5, "ttl", &space);
	if (ttl != NULL && ttl->type == jbvNumeric)
	{
		document_put_name(&out, "ttl_ms");
		appendStringInfoString(&out, numeric_normalize(ttl->val.numeric));
	}
	else
		document_put_number(&out, "ttl_ms", fcinfo, 6);
	document_put_jsonb(&out, "definition", fcinfo, 5);
	appendStringInfoChar(&out, '}');
	PG_RETURN_TEXT_P(cstring_to_text_with_len(out.data, out.len));
}

/* The array of measurements in a definition; NULL: there is none. */
static JsonbValue *
measurements_of(FunctionCallInfo fcinfo, int argument, JsonbValue *space)
{
	JsonbValue *measurements = member_of(fcinfo, argument, "measurements", space);

	if (measurements == NULL || measurements->type != jbvBinary || !JsonContainerIsArray(measurements->val.binary.data))
		return NULL;
	return measurements;
}

static int
count_of(const JsonbValue *array)
{
	return array != NULL ? (int) JsonContainerSize(array->val.binary.data) : 0;
}

/*
 * amoro_meta_device_document(catalog_name text, database_name text, device_path text, device_id bigint, version bigint,
 * definition jsonb, ttl_ms bigint, template_name text, template jsonb) returns text: its own measurements, then those of its template.
 */
Datum
amoro_meta_device_document(PG_FUNCTION_ARGS)
{
	StringInfoData out;
	JsonbValue	space[3];
	JsonbValue *own = measurements_of(fcinfo, 5, &space[0]);
	JsonbValue *of_template = measurements_of(fcinfo, 8, &space[1]);
	JsonbValue *aligned = member_of(fcinfo, 5, "aligned", &space[2]);

	initStringInfo(&out);
	document_put_text(&out, "catalog", fcinfo, 0);
	document_put_text(&out, "database", fcinfo, 1);
	document_put_text(&out, "device", fcinfo, 2);
	document_put_number(&out, "device_id", fcinfo, 3);
	document_put_number(&out, "version", fcinfo, 4);
	document_put_number(&out, "ttl_ms", fcinfo, 6);
	document_put_name(&out, "aligned");
	appendStringInfoString(&out, aligned == NULL || aligned->type != jbvBool ? "null" : aligned->val.boolean ? "true" : "false");
	document_put_text(&out, "template", fcinfo, 7);
	document_put_name(&out, "template_measurement_count");
	appendStringInfo(&out, "%d", count_of(of_template));
	document_put_name(&out, "measurement_count");
	appendStringInfo(&out, "%d", count_of(own) + count_of(of_template));
	document_put_name(&out, "measurements");
	appendStringInfoChar(&out, '[');
	if (count_of(own) > 0)
		element_text_put(&out, own, fcinfo->flinfo);
	if (count_of(own) > 0 && count_of(of_template) > 0)
		appendStringInfoString(&out, ", ");
	if (count_of(of_template) > 0)
		element_text_put(&out, of_template, fcinfo->flinfo);
	appendStringInfoString(&out, "]}");
	PG_RETURN_TEXT_P(cstring_to_text_with_len(out.data, out.len));
}
