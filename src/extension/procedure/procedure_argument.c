/*
 * procedure_argument.c
 *		What the steps of a procedure work with: the members of its arguments.
 */
#include "postgres.h"

#include "procedure/procedure_machine.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/numeric.h"

static JsonbValue *
find_argument(const Procedure *procedure, const char *name)
{
	if (!JB_ROOT_IS_OBJECT(procedure->arguments))
		return NULL;
	return getKeyJsonValueFromContainer(&procedure->arguments->root, name, strlen(name), NULL);
}

bool
argument_has(const Procedure *procedure, const char *name)
{
	return find_argument(procedure, name) != NULL;
}

static JsonbValue *
argument(const Procedure *procedure, const char *name, enum jbvType type)
{
	JsonbValue *value = find_argument(procedure, name);

	if (value == NULL || value->type != type)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
				 errmsg("procedure " INT64_FORMAT " has no valid argument \"%s\"",
						procedure->procedure_id, name)));
	return value;
}

int64
argument_bigint(const Procedure *procedure, const char *name)
{
	JsonbValue *value = argument(procedure, name, jbvNumeric);

	return DatumGetInt64(DirectFunctionCall1(numeric_int8, NumericGetDatum(value->val.numeric)));
}

bool
argument_boolean(const Procedure *procedure, const char *name)
{
	return argument(procedure, name, jbvBool)->val.boolean;
}

char *
argument_text(const Procedure *procedure, const char *name)
{
	JsonbValue *value = argument(procedure, name, jbvString);

	return pnstrdup(value->val.string.val, value->val.string.len);
}

char *
argument_optional_text(const Procedure *procedure, const char *name)
{
	return find_argument(procedure, name) == NULL ? NULL : argument_text(procedure, name);
}

Jsonb *
argument_jsonb(const Procedure *procedure, const char *name)
{
	return JsonbValueToJsonb(argument(procedure, name, jbvBinary));
}
