/*
 * change_operation.h
 *		Lists of changes: of a table, a view, a device. Each is an object with the key "op".
 */
#ifndef AMORO_META_CHANGE_OPERATION_H
#define AMORO_META_CHANGE_OPERATION_H

#include "postgres.h"

#include "json/json_place.h"

typedef struct ChangeOperation
{
	const char *name;
	const char *keys[10];		/* that the change may have; ends with NULL */
	void		(*apply) (const JsonPlace *change, void *target);
} ChangeOperation;

/*
 * Applies changes in order to what they are about; NULL: only looks whether they are well-formed. Raises 22023, with the
 * place, when they are not, or when there are too many: they are applied again in a step of the coordinator.
 */
extern void change_operations_apply(Jsonb *changes, const ChangeOperation *operations, int count, void *target);

#endif							/* AMORO_META_CHANGE_OPERATION_H */
