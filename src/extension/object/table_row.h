/*
 * table_row.h
 *		The rows of tables and views, as the steps of procedures read, mark and settle them.
 */
#ifndef AMORO_META_TABLE_ROW_H
#define AMORO_META_TABLE_ROW_H

#include "compat.h"
#include "object/object_action.h"

typedef struct TableRow
{
	int64		table_id;
	char	   *catalog_name;
	char	   *database_name;
	char	   *table_name;
	char	   *relation_kind;	/* "table" or "view" */
	int64		base_id;		/* of a view: its table; 0: it is a table */
	char	   *state;
	int64		procedure_id;	/* that works on it, or else on its database; 0: none */
	char	   *database_state;
	Jsonb	   *definition;
} TableRow;

/* Locks and reads; false: there is none. */
extern bool table_row_read(int64 table_id, TableRow *table);
/* What the procedure works on: before it is marked, and while it carries the marker. Raise 42704 and AM401. */
extern void table_row_lock_unmarked(const Procedure *procedure, TableRow *table);
extern void table_row_lock_marked(const Procedure *procedure, TableRow *table);
/* The table of a view that the procedure works on; raises 42704 and AM401. */
extern void table_row_lock_base(const Procedure *procedure, int64 base_id, TableRow *base);
pg_noreturn extern void table_row_raise_in_transition(const TableRow *table);

extern MetadataChange table_row_change(const TableRow *table, const char *operation);
extern void table_row_mark(const Procedure *procedure, int64 table_id, const char *state);
extern void table_row_define(int64 table_id, Jsonb *definition);
/* Before the change is appended: it locks the rows of the group and of the runtime. */
extern void table_row_put_runtime(int64 table_id);
/*
 * Inserts what is in the making, under the names, kind and base of the row; raises 42710 when something has its name, in
 * whatever state, and as database_require_normal.
 */
extern void table_row_insert_marked(const Procedure *procedure, int64 database_id, const TableRow *table);
/* After the change was appended; of everything that carries a marker of the procedure. */
extern void table_row_settle(const Procedure *procedure);

/*
 * view_dependent.c: what becomes of the views of a table when it changes. except_id: a view that is looked after by the
 * caller; 0: none.
 */
/* Raises 2BP01 when views show columns that the new definition no longer has, or has with another type. */
extern void views_refuse_change(const TableRow *base, Jsonb *definition, int64 except_id);
/* Raises 2BP01 when there are views. */
extern void views_refuse_drop(const TableRow *base, int64 except_id);
/* Whether views show the table otherwise with the new definition. */
extern bool views_notice(const TableRow *base, Jsonb *definition);
/* Marks the views, whose names the procedure has claimed; raises AM401 otherwise. Collects the changes. */
extern void views_mark(const Procedure *procedure, int64 base_id, int64 except_id, const char *state, ChangeList *changes);
/* Has the marked views follow their table to its new definition; those that have no column left are deleted. */
extern void views_follow(const Procedure *procedure, int64 base_id, int64 except_id, Jsonb *definition, ChangeList *changes);
/* Deletes the row, runtime and blockers of a table or view, and collects the change. */
extern void table_row_delete(const TableRow *table, bool purge, ChangeList *changes);
/* The same for the marked views of a table. */
extern void views_delete(const Procedure *procedure, int64 base_id, ChangeList *changes);

#endif							/* AMORO_META_TABLE_ROW_H */
