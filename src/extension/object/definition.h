/*
 * definition.h
 *		Definitions of tables: validated at the door, stored in one canonical form.
 */
#ifndef AMORO_META_DEFINITION_H
#define AMORO_META_DEFINITION_H

#include "postgres.h"

#include "utils/jsonb.h"

/*
 * Validates a definition that a user gave and returns its canonical form: every column has its id, types are spelled
 * in one way, last_column_id tells the highest id ever used. Raises 22023 with the path of what is wrong.
 */
extern Jsonb *definition_check(Jsonb *input);
/* Applies a list of changes to a canonical definition, in order; all or nothing. Raises 22023 as definition_check. */
extern Jsonb *definition_alter(Jsonb *definition, Jsonb *changes);
/* An empty object: the definition of a name that is only reserved. */
extern Jsonb *definition_empty(void);

#endif							/* AMORO_META_DEFINITION_H */
