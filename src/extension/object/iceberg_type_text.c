/*
 * iceberg_type_text.c
 *		Types that are spelled as text: "decimal(10,2)", "map<string, list<int>>", "struct<a: int>".
 */
#include "postgres.h"

#include "object/iceberg_type_text.h"
#include "object/object_name.h"

#define MAX_PRECISION 38

typedef struct TypeText
{
	const JsonPlace *place;		/* for errors */
	const char *text;
	const char *next;			/* what is not read yet */
} TypeText;

static IcebergType *parse_type(TypeText *source, int depth);

static const char *const plain_types[] = {
	"boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz", "timestamp_ns",
	"timestamptz_ns", "string", "uuid", "binary", "variant", "unknown", "geometry", "geography"
};

static void
refuse_type(const TypeText *source)
{
	json_refuse(source->place, "unknown type \"%s\"", json_excerpt(source->text));
}

static void
skip_blanks(TypeText *source)
{
	while (*source->next == ' ')
		source->next++;
}

static bool
accept_character(TypeText *source, char c)
{
	skip_blanks(source);
	if (*source->next != c)
		return false;
	source->next++;
	return true;
}

static void
expect_character(TypeText *source, char c)
{
	if (!accept_character(source, c))
		refuse_type(source);
}

/* Everything up to one of the characters that have a meaning here, without the blanks around it. */
static char *
parse_word(TypeText *source)
{
	size_t		length;
	char	   *word;

	skip_blanks(source);
	length = strcspn(source->next, "<>()[],:");
	word = pnstrdup(source->next, length);
	source->next += length;
	while (length > 0 && word[length - 1] == ' ')
		word[--length] = '\0';
	return word;
}

static int
parse_number(TypeText *source, int smallest, int largest)
{
	char	   *word = parse_word(source);
	int64		number = 0;

	if (*word == '\0' || strlen(word) > 10 || strspn(word, "0123456789") != strlen(word))
		refuse_type(source);
	for (const char *digit = word; *digit; digit++)
		number = number * 10 + (*digit - '0');
	if (number < smallest || number > largest)
		json_refuse(source->place, "type \"%s\" is out of range: %s is not from %d to %d",
					json_excerpt(source->text), word, smallest, largest);
	return (int) number;
}

static IcebergType *
primitive(char *spelling)
{
	IcebergType *type = palloc0_object(IcebergType);

	type->kind = ICEBERG_PRIMITIVE;
	type->spelling = spelling;
	return type;
}

static IcebergType *
parse_decimal(TypeText *source)
{
	IcebergType *type;
	int			precision;
	int			scale;

	expect_character(source, '(');
	precision = parse_number(source, 1, MAX_PRECISION);
	expect_character(source, ',');
	scale = parse_number(source, 0, precision);
	expect_character(source, ')');
	type = primitive(psprintf("decimal(%d,%d)", precision, scale));
	type->precision = precision;
	type->scale = scale;
	return type;
}

static IcebergType *
parse_fixed(TypeText *source)
{
	int			length;

	expect_character(source, '[');
	length = parse_number(source, 1, PG_INT32_MAX);
	expect_character(source, ']');
	return primitive(psprintf("fixed[%d]", length));
}

static IcebergField *
parse_struct_field(TypeText *source, int depth)
{
	char	   *name = parse_word(source);
	const char *problem = object_name_problem(name);

	if (problem != NULL)
		json_refuse(source->place, "invalid name of a column in type \"%s\": %s",
					json_excerpt(source->text), problem);
	expect_character(source, ':');
	return iceberg_field(name, false, parse_type(source, depth + 1));
}

static IcebergType *
parse_struct(TypeText *source, int depth)
{
	List	   *fields = NIL;

	expect_character(source, '<');
	do
		fields = lappend(fields, parse_struct_field(source, depth));
	while (accept_character(source, ','));
	expect_character(source, '>');
	iceberg_refuse_duplicates(source->place, fields);
	return iceberg_nested_type(ICEBERG_STRUCT, fields);
}

static IcebergType *
parse_list(TypeText *source, int depth)
{
	IcebergType *element;

	expect_character(source, '<');
	element = parse_type(source, depth + 1);
	expect_character(source, '>');
	return iceberg_nested_type(ICEBERG_LIST, list_make1(iceberg_field(pstrdup("element"), false, element)));
}

static IcebergType *
parse_map(TypeText *source, int depth)
{
	IcebergType *key;
	IcebergType *value;

	expect_character(source, '<');
	key = parse_type(source, depth + 1);
	expect_character(source, ',');
	value = parse_type(source, depth + 1);
	expect_character(source, '>');
	return iceberg_nested_type(ICEBERG_MAP,
							   list_make2(iceberg_field(pstrdup("key"), true, key),
										  iceberg_field(pstrdup("value"), false, value)));
}

static IcebergType *
parse_type(TypeText *source, int depth)
{
	char	   *word = parse_word(source);

	iceberg_check_depth(source->place, depth);
	if (strcmp(word, "decimal") == 0)
		return parse_decimal(source);
	if (strcmp(word, "fixed") == 0)
		return parse_fixed(source);
	if (strcmp(word, "struct") == 0)
		return parse_struct(source, depth);
	if (strcmp(word, "list") == 0)
		return parse_list(source, depth);
	if (strcmp(word, "map") == 0)
		return parse_map(source, depth);
	for (int i = 0; i < lengthof(plain_types); i++)
	{
		if (strcmp(word, plain_types[i]) == 0)
			return primitive(word);
	}
	refuse_type(source);
	return NULL;				/* keep the compiler quiet */
}

/*
 * iceberg_type_parse reads a whole text as one type.
 */
IcebergType *
iceberg_type_parse(const JsonPlace *place, const char *text, int depth)
{
	TypeText	source = {place, text, text};
	IcebergType *type = parse_type(&source, depth);

	skip_blanks(&source);
	if (*source.next != '\0')
		refuse_type(&source);
	return type;
}
