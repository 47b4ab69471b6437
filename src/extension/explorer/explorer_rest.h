/*
 * explorer_rest.h
 *		How the Iceberg REST protocol asks for what a catalog holds.
 */
#ifndef AMORO_META_EXPLORER_REST_H
#define AMORO_META_EXPLORER_REST_H

#include "postgres.h"

#include "clock.h"
#include "http/http.h"

/* Separates the levels of a namespace in a path, as the protocol does unless a server says otherwise. */
#define LEVEL_SEPARATOR '\x1f'

/* Of one catalog, for one round. All texts here and below are UTF-8. */
typedef struct RestCatalog
{
	char	   *uri;			/* without a slash at the end */
	char	   *warehouse;		/* or NULL */
	char	   *prefix;			/* or NULL */
	char	   *separator;		/* of levels in URLs, encoded */
	char	   *token;			/* to be sent; NULL: none */
	char	   *credential;		/* id:secret, for which a token is to be had; or NULL */
	char	   *token_uri;
	char	   *token_scope;
	LeaseTime	token_expires;	/* 0: not known */
	int			token_generation;
	HttpTrust	trust;
} RestCatalog;

/* The URLs, in the current memory context; page_token is NULL for the first page. */
extern char *rest_config_url(const RestCatalog *catalog);
extern char *rest_namespaces_url(const RestCatalog *catalog, const char *parent, const char *page_token);
extern char *rest_tables_url(const RestCatalog *catalog, const char *path, const char *page_token);
extern char *rest_table_url(const RestCatalog *catalog, const char *path, const char *table_name);
/* The form by which a token is asked for. */
extern char *rest_token_form(const RestCatalog *catalog);
/* Whether a token is to be had before anything else is asked. */
extern bool rest_needs_token(const RestCatalog *catalog);
/* The path of a namespace from the name under which it is kept (amoro_meta.namespace_name). */
extern char *rest_path(const char *database_name);

#endif							/* AMORO_META_EXPLORER_REST_H */
