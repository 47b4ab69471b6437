/*
 * database_content.h
 *		What hangs on a database: what keeps it from being dropped, and how it is dropped with it. Whatever else comes to
 *		belong to a database gets a line in database_content.c.
 */
#ifndef AMORO_META_DATABASE_CONTENT_H
#define AMORO_META_DATABASE_CONTENT_H

#include "procedure/procedure_machine.h"

typedef struct DatabaseContent
{
	const char *noun;			/* "table" */
	/* Name of one, or NULL. No function: nothing of it keeps the database from being dropped without cascade. */
	char	   *(*find_one) (int64 database_id);
	/*
	 * Deletes at most limit rows of the database that the procedure drops, in an order of its own, and returns how many;
	 * 0: none is left. No node serves anything of the database by then, and its own change follows: a change is for those
	 * who want to know more (where the files of a table are), not for caches. No function: another line deletes it.
	 */
	int			(*drop_some) (const Procedure *procedure, int limit, ChangeList *changes);
} DatabaseContent;

/* Raises 2BP01, and names one, when something keeps the database from being dropped without cascade. */
extern void database_require_empty(int64 database_id, const char *catalog_name, const char *database_name);
/* Deletes at most limit rows of what hangs on the database of the procedure; returns how many, 0: none is left. */
extern int database_drop_some(const Procedure *procedure, int limit, ChangeList *changes);

/* table_action.c; views are dropped with the tables */
extern char *table_find_one(int64 database_id);
extern char *view_find_one(int64 database_id);
extern int	table_drop_some(const Procedure *procedure, int limit, ChangeList *changes);

/* device_batch.c */
extern char *device_find_one(int64 database_id);
extern int	device_drop_some(const Procedure *procedure, int limit, ChangeList *changes);
/* ttl_action.c */
extern int	ttl_drop_some(const Procedure *procedure, int limit, ChangeList *changes);

/* partition_action.c */
extern int	partition_drop_some(const Procedure *procedure, int limit, ChangeList *changes);

/* template_path_action.c */
extern char *template_find_one(int64 database_id);
extern int	template_drop_some(const Procedure *procedure, int limit, ChangeList *changes);

#endif							/* AMORO_META_DATABASE_CONTENT_H */
