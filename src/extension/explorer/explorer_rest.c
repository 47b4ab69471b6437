/*
 * explorer_rest.c
 *		How the Iceberg REST protocol asks for what a catalog holds.
 */
#include "explorer/explorer_rest.h"

#include "lib/stringinfo.h"

#define PAGE_SIZE 1000
#define UNRESERVED "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"

static void
append_byte(StringInfo url, unsigned char byte)
{
	static const char digits[] = "0123456789ABCDEF";

	appendStringInfoChar(url, '%');
	appendStringInfoChar(url, digits[byte >> 4]);
	appendStringInfoChar(url, digits[byte & 15]);
}

static bool
is_dots(const char *text, size_t length)
{
	return (length == 1 && text[0] == '.') || (length == 2 && text[0] == '.' && text[1] == '.');
}

/* Encodes what is not unreserved; of a segment that would lead to another directory, the dots too. */
static void
append_encoded(StringInfo url, const char *text, size_t length)
{
	bool		dots = is_dots(text, length);

	for (size_t i = 0; i < length; i++)
	{
		if (strchr(UNRESERVED, text[i]) != NULL && text[i] != '\0' && !dots)
			appendStringInfoChar(url, text[i]);
		else
			append_byte(url, (unsigned char) text[i]);
	}
}

/* A prefix may have several segments, and comes encoded or not. */
static void
append_prefix(StringInfo url, const char *prefix)
{
	while (*prefix != '\0')
	{
		size_t		length = strcspn(prefix, "/");

		if (length > 0)
		{
			if (is_dots(prefix, length))
				append_encoded(url, prefix, length);
			else
			{
				for (size_t i = 0; i < length; i++)
				{
					if (strchr(UNRESERVED "%:@!$&'()*+,;=", prefix[i]) != NULL)
						appendStringInfoChar(url, prefix[i]);
					else
						append_byte(url, (unsigned char) prefix[i]);
				}
			}
			appendStringInfoChar(url, '/');
		}
		prefix += length + (prefix[length] == '/');
	}
}

static void
append_levels(StringInfo url, const RestCatalog *catalog, const char *path)
{
	for (;;)
	{
		const char *end = strchr(path, LEVEL_SEPARATOR);
		size_t		length = end == NULL ? strlen(path) : (size_t) (end - path);

		append_encoded(url, path, length);
		if (end == NULL)
			return;
		appendStringInfoString(url, catalog->separator);
		path = end + 1;
	}
}

static void
begin_url(StringInfo url, const RestCatalog *catalog)
{
	initStringInfo(url);
	appendStringInfo(url, "%s/v1/", catalog->uri);
	if (catalog->prefix != NULL)
		append_prefix(url, catalog->prefix);
	appendStringInfoString(url, "namespaces");
}

/* The protocol wants the parameter in the first question too: it says that the client knows pages. */
static void
append_page(StringInfo url, char first, const char *page_token)
{
	appendStringInfo(url, "%cpageSize=%d&pageToken=", first, PAGE_SIZE);
	if (page_token != NULL)
		append_encoded(url, page_token, strlen(page_token));
}

/* See explorer_rest.h. */
char *
rest_config_url(const RestCatalog *catalog)
{
	StringInfoData url;

	initStringInfo(&url);
	appendStringInfo(&url, "%s/v1/config", catalog->uri);
	if (catalog->warehouse != NULL)
	{
		appendStringInfoString(&url, "?warehouse=");
		append_encoded(&url, catalog->warehouse, strlen(catalog->warehouse));
	}
	return url.data;
}

/* See explorer_rest.h. */
char *
rest_namespaces_url(const RestCatalog *catalog, const char *parent, const char *page_token)
{
	StringInfoData url;

	begin_url(&url, catalog);
	append_page(&url, '?', page_token);
	if (parent[0] != '\0')
	{
		appendStringInfoString(&url, "&parent=");
		append_levels(&url, catalog, parent);
	}
	return url.data;
}

/* See explorer_rest.h. */
char *
rest_tables_url(const RestCatalog *catalog, const char *path, const char *page_token)
{
	StringInfoData url;

	begin_url(&url, catalog);
	appendStringInfoChar(&url, '/');
	append_levels(&url, catalog, path);
	appendStringInfoString(&url, "/tables");
	append_page(&url, '?', page_token);
	return url.data;
}

/* See explorer_rest.h. */
char *
rest_table_url(const RestCatalog *catalog, const char *path, const char *table_name)
{
	StringInfoData url;

	begin_url(&url, catalog);
	appendStringInfoChar(&url, '/');
	append_levels(&url, catalog, path);
	appendStringInfoString(&url, "/tables/");
	append_encoded(&url, table_name, strlen(table_name));
	/* the history of the table is not needed */
	appendStringInfoString(&url, "?snapshots=refs");
	return url.data;
}

static void
append_field(StringInfo form, const char *name, const char *value, size_t length)
{
	appendStringInfo(form, "&%s=", name);
	append_encoded(form, value, length);
}

/* See explorer_rest.h. */
char *
rest_token_form(const RestCatalog *catalog)
{
	StringInfoData form;
	const char *secret = strchr(catalog->credential, ':');
	const char *scope = catalog->token_scope != NULL ? catalog->token_scope : "catalog";

	initStringInfo(&form);
	appendStringInfoString(&form, "grant_type=client_credentials");
	if (secret != NULL)
		append_field(&form, "client_id", catalog->credential, secret - catalog->credential);
	secret = secret == NULL ? catalog->credential : secret + 1;
	append_field(&form, "client_secret", secret, strlen(secret));
	append_field(&form, "scope", scope, strlen(scope));
	return form.data;
}

/* See explorer_rest.h. */
bool
rest_needs_token(const RestCatalog *catalog)
{
	return catalog->credential != NULL &&
		(catalog->token == NULL || (catalog->token_expires != 0 && lease_clock_now() >= catalog->token_expires));
}

/* See explorer_rest.h. */
char *
rest_path(const char *database_name)
{
	char	   *path = pstrdup(database_name);
	char	   *out = path;

	for (const char *in = database_name; *in != '\0'; in++)
	{
		if (*in == '.')
			*out++ = LEVEL_SEPARATOR;
		else
		{
			if (*in == '\\' && in[1] != '\0')
				in++;
			*out++ = *in;
		}
	}
	*out = '\0';
	return path;
}
