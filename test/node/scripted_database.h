/*
 * scripted_database.h
 *		A database in the test, over a transport that notes what is asked and may do something meanwhile; and a node before it. By
 *		their first letter names are absent, dropped (in transition) or marked; every other one is there. Those with an x are refused
 *		while there is an sqlstate.
 */
#ifndef SCRIPTED_DATABASE_H
#define SCRIPTED_DATABASE_H

#include "node.h"

#define MANY 1000
#define MOST_REQUESTS 4000
#define LARGEST_DOCUMENT 8192

/* What was asked, in order, and what the database does. */
typedef struct ScriptedDatabase
{
	pthread_mutex_t lock;		/* of requests: what else is here changes while nobody asks */
	struct
	{
		RequestKind kind;
		int			keys;
		char		first[32];	/* last name of the first key */
	}			requests[MOST_REQUESTS];
	int			request_count;
	void		(*meanwhile) (void);	/* called once, while a request is answered */
	const char *sqlstate;
	bool		loses_rows;
	bool		silent;			/* until the deadline */
	_Atomic int64_t version;
	size_t		document_size;
} ScriptedDatabase;

extern ScriptedDatabase database;
extern AmoroNode *node;

/* A node that holds a long lease, with one loader, so that requests have an order. */
extern void database_begin(size_t cache_bytes);
extern void database_end(void);
/* Another loader, over a transport of its own. */
extern void database_add_loader(void);
/* The node applies a change of a device. */
extern void change_device(const char *database_name, const char *name);
extern void fence(void);

#endif							/* SCRIPTED_DATABASE_H */
