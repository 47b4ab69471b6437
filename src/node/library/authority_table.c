/*
 * authority_table.c
 *		What a user may do: a hash table of scopes in one block of memory.
 */
#include "authority_table.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "key.h"

typedef enum ScopeKind
{
	SCOPE_SYSTEM = 0,
	SCOPE_CATALOG,
	SCOPE_DATABASE,
	SCOPE_TABLE,
	SCOPE_PATH,
	SCOPE_BELOW,				/* everything below a path */
	SCOPE_KIND_COUNT
} ScopeKind;

/* Bits 1 << AmoroPrivilege. */
typedef uint32_t Privileges;

_Static_assert(AMORO_PRIVILEGE_COUNT <= 32, "the privileges do not fit");

/* A slot of the table; free while it allows nothing. Small: a node may have as many as all users have grants. */
typedef struct Scope
{
	uint32_t	hash;
	Privileges	privileges;
	uint32_t	name_offset;	/* of its names, one after the other, from the beginning of the table */
	uint16_t	name_size[3];
	uint8_t		kind;
} Scope;

typedef struct Table
{
	Privileges	privileges[SCOPE_KIND_COUNT];	/* that are in any scope of a kind; of the system just these */
	uint32_t	slot_mask;
	Scope		scopes[];		/* then the names */
} Table;

/* The names of a scope while it is being looked for, or read. */
typedef struct ScopeName
{
	ScopeKind	kind;
	const char *text[3];
	size_t		size[3];
	uint64_t	hash;			/* of catalog and database, as far as they are names of its kind */
} ScopeName;

static const char *const scope_words[] = {"system", "catalog", "database", "table", "path"};
static const int scope_name_counts[] = {0, 1, 2, 3, 3, 3};

static uint32_t
hash_scope(const ScopeName *name)
{
	uint64_t	hash = name->hash + (uint64_t) name->kind;

	return (uint32_t) (scope_name_counts[name->kind] == 3 ? key_hash_text(hash, name->text[2], name->size[2]) : hash);
}

/* Takes the next of the first two names into the hash. */
static void
add_to_hash(ScopeName *name, int part)
{
	name->hash = key_hash_text(name->hash, name->text[part], name->size[part]);
}

static bool
is_scope(const Table *table, const Scope *scope, uint32_t hash, const ScopeName *name)
{
	const char *text = (const char *) table + scope->name_offset;

	if (scope->hash != hash || scope->kind != name->kind)
		return false;
	for (int i = 0; i < scope_name_counts[name->kind]; i++)
	{
		if (scope->name_size[i] != name->size[i] || memcmp(text, name->text[i], name->size[i]) != 0)
			return false;
		text += name->size[i];
	}
	return true;
}

/* What is granted on exactly this scope. */
static Privileges
privileges_on(const Table *table, const ScopeName *name)
{
	uint32_t	hash = hash_scope(name);
	const Scope *scope;

	for (uint32_t slot = hash; (scope = &table->scopes[slot & table->slot_mask])->privileges != 0; slot++)
	{
		if (is_scope(table, scope, hash, name))
			return scope->privileges;
	}
	return 0;
}

/* Where the node of a path that begins here ends: at a dot outside of backquotes, or at the end of the path. */
static const char *
end_of_node(const char *node)
{
	bool		quoted = false;
	const char *c;

	for (c = node; *c != '\0' && (quoted || *c != '.'); c++)
	{
		if (*c == '`')
			quoted = !quoted;
	}
	return c;
}

/* Whether something above the path is granted with all that is below it. */
static bool
allows_from_above(const Table *table, Privileges bit, ScopeName *name)
{
	const char *path = name->text[2];

	name->kind = SCOPE_BELOW;
	for (const char *end = end_of_node(path); *end != '\0'; end = end_of_node(end + 1))
	{
		name->size[2] = (size_t) (end - path);
		if (privileges_on(table, name) & bit)
			return true;
	}
	return false;
}

static bool
allows_on(const Table *table, Privileges bit, ScopeKind kind, ScopeName *name)
{
	name->kind = kind;
	return (table->privileges[kind] & bit) != 0 && (privileges_on(table, name) & bit) != 0;
}

static bool
is_given(const char *name)
{
	return name != NULL && name[0] != '\0';
}

bool
amoro_scope_is_valid(const AmoroScope *scope)
{
	const char *path = scope->path;

	if (is_given(scope->table_name) && is_given(path))
		return false;
	if ((is_given(scope->table_name) || is_given(path)) && !is_given(scope->database_name))
		return false;
	if (is_given(path) && (strncmp(path, "root", 4) != 0 || (path[4] != '.' && path[4] != '\0')))
		return false;
	return !is_given(scope->database_name) || is_given(scope->catalog_name);
}

/* As amoro_meta.privilege_kinds() has it. */
bool
amoro_privilege_fits(AmoroPrivilege privilege, const AmoroScope *scope)
{
	if (privilege <= AMORO_PRIVILEGE_DROP)
		return !is_given(scope->path);
	if (privilege <= AMORO_PRIVILEGE_WRITE_SCHEMA)
		return !is_given(scope->table_name);
	if (privilege == AMORO_PRIVILEGE_MANAGE_DATABASE)
		return !is_given(scope->database_name);
	return (unsigned) privilege < AMORO_PRIVILEGE_COUNT && !is_given(scope->catalog_name);
}

bool
authority_table_allows(const void *block, AmoroPrivilege privilege, const AmoroScope *scope)
{
	const Table *table = block;
	Privileges	bit = UINT32_C(1) << privilege;
	ScopeName	name = {.text = {scope->catalog_name, scope->database_name, scope->table_name}};

	if (table->privileges[SCOPE_SYSTEM] & bit)
		return true;
	if (!is_given(scope->catalog_name))
		return false;
	name.size[0] = strlen(name.text[0]);
	add_to_hash(&name, 0);
	if (allows_on(table, bit, SCOPE_CATALOG, &name))
		return true;
	if (!is_given(scope->database_name))
		return false;
	name.size[1] = strlen(name.text[1]);
	add_to_hash(&name, 1);
	if (allows_on(table, bit, SCOPE_DATABASE, &name))
		return true;
	if (is_given(scope->table_name))
	{
		name.size[2] = strlen(name.text[2]);
		return allows_on(table, bit, SCOPE_TABLE, &name);
	}
	if (!is_given(scope->path))
		return false;
	name.text[2] = scope->path;
	name.size[2] = strlen(scope->path);
	/* a grant on everything below a path is, of the same pattern, one as well */
	return allows_on(table, bit, SCOPE_PATH, &name) ||
		((table->privileges[SCOPE_BELOW] & bit) != 0 && allows_from_above(table, bit, &name));
}

/* Takes the text up to the next tab or the end of the line, without its backslashes; false when there is none. */
static bool
read_field(char **cursor, char *end, const char **text, size_t *size)
{
	char	   *from = *cursor;
	char	   *to = *cursor;

	if (from > end)
		return false;
	*text = to;
	for (; from < end && *from != '\t'; from++)
	{
		if (*from == '\\' && from + 1 < end)
			from++;
		*to++ = *from;
	}
	*size = (size_t) (to - *text);
	*cursor = from + 1;
	return *size <= UINT16_MAX;
}

static int
read_kind(const char *word, size_t size)
{
	for (int kind = 0; kind < (int) (sizeof(scope_words) / sizeof(scope_words[0])); kind++)
	{
		if (strlen(scope_words[kind]) == size && memcmp(scope_words[kind], word, size) == 0)
			return kind;
	}
	return -1;
}

/* The bits of names with commas between; one that is unknown here is of a newer server, and nobody asks for it. */
static Privileges
read_privileges(const char *text, size_t size)
{
	Privileges	privileges = 0;
	const char *end = text + size;

	while (text < end)
	{
		const char *comma = memchr(text, ',', (size_t) (end - text));
		size_t		length = (size_t) ((comma != NULL ? comma : end) - text);

		for (int privilege = 0; privilege < AMORO_PRIVILEGE_COUNT; privilege++)
		{
			const char *name = amoro_privilege_name((AmoroPrivilege) privilege);

			if (strlen(name) == length && memcmp(name, text, length) == 0)
				privileges |= UINT32_C(1) << privilege;
		}
		text += length + 1;
	}
	return privileges;
}

/* Reads one line in place; false when it is broken. A kind of scope that is unknown here leaves no privileges. */
static bool
read_line(char *line, char *end, ScopeName *name, Privileges *privileges)
{
	const char *text;
	size_t		size;
	int			kind;

	*privileges = 0;
	if (!read_field(&line, end, &text, &size))
		return false;
	kind = read_kind(text, size);
	if (kind < 0)
		return true;
	name->kind = (ScopeKind) kind;
	for (int i = 0; i < scope_name_counts[kind]; i++)
	{
		if (!read_field(&line, end, &name->text[i], &name->size[i]) || name->size[i] == 0)
			return false;
	}
	if (!read_field(&line, end, &text, &size) || line <= end)
		return false;
	*privileges = read_privileges(text, size);
	if (kind == SCOPE_PATH && name->size[2] > 3 && memcmp(name->text[2] + name->size[2] - 3, ".**", 3) == 0)
	{
		name->kind = SCOPE_BELOW;
		name->size[2] -= 3;
	}
	return true;
}

static void
add_scope(Table *table, ScopeName *name, Privileges privileges, char **names)
{
	uint32_t	slot;
	Scope	   *scope;

	table->privileges[name->kind] |= privileges;
	if (name->kind == SCOPE_SYSTEM)
		return;
	for (int i = 0; i < scope_name_counts[name->kind] && i < 2; i++)
		add_to_hash(name, i);
	slot = hash_scope(name);
	while ((scope = &table->scopes[slot & table->slot_mask])->privileges != 0)
		slot++;
	*scope = (Scope) {
		.hash = hash_scope(name),
		.privileges = privileges,
		.name_offset = (uint32_t) (*names - (char *) table),
		.kind = (uint8_t) name->kind
	};
	for (int i = 0; i < scope_name_counts[name->kind]; i++)
	{
		scope->name_size[i] = (uint16_t) name->size[i];
		memcpy(*names, name->text[i], name->size[i]);
		*names += name->size[i];
	}
}

/* An empty table with room for count scopes whose names have no more than so many bytes. */
static Table *
table_create(size_t count, size_t names_size, char **names, size_t *size)
{
	size_t		slots = 2;
	size_t		names_offset;
	Table	   *table;

	/* at most two thirds are taken, so every search meets a free one */
	while (slots * 2 < count * 3)
		slots *= 2;
	names_offset = offsetof(Table, scopes) + slots * sizeof(Scope);
	*size = names_offset + names_size;
	table = *size <= UINT32_MAX ? calloc(1, *size) : NULL;
	if (table == NULL)
		return NULL;
	table->slot_mask = (uint32_t) slots - 1;
	*names = (char *) table + names_offset;
	return table;
}

/* Adds the scopes of all lines, which are changed on the way; false when one is broken. */
static bool
read_lines(Table *table, char *lines, char *end, char *names)
{
	while (lines < end)
	{
		char	   *line_end = memchr(lines, '\n', (size_t) (end - lines));
		ScopeName	name = {0};
		Privileges	privileges;

		if (line_end == NULL)
			line_end = end;
		if (!read_line(lines, line_end, &name, &privileges))
			return false;
		if (privileges != 0)
			add_scope(table, &name, privileges, &names);
		lines = line_end + 1;
	}
	return true;
}

bool
authority_table_make(const char *document, size_t size, size_t *shown, void **table, size_t *table_size)
{
	const char *lines = memchr(document, '\n', size);
	size_t		lines_size;
	size_t		count = 1;
	char	   *names;
	char	   *copy;

	*shown = lines != NULL ? (size_t) (lines - document) : size;
	lines = lines != NULL ? lines + 1 : document + size;
	lines_size = (size_t) (document + size - lines);
	for (const char *c = lines; (c = memchr(c, '\n', (size_t) (document + size - c))) != NULL; c++)
		count++;
	*table = table_create(count, lines_size, &names, table_size);
	copy = malloc(lines_size + 1);
	if (*table != NULL && copy != NULL)
	{
		memcpy(copy, lines, lines_size);
		if (read_lines(*table, copy, copy + lines_size, names))
		{
			free(copy);
			return true;
		}
	}
	free(copy);
	free(*table);
	return false;
}
