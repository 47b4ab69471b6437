/*
 * term.h
 *		The reign of a coordinator: its number, whose data it works on, and the settings of its leases.
 */
#ifndef AMORO_META_TERM_H
#define AMORO_META_TERM_H

#include "postgres.h"

/*
 * For the coordinator, outside a transaction: keeps the term of this server start, or begins a new one. False when the
 * data belongs to another database: there is no term then. Raises what SQL raises.
 */
extern bool term_establish(void);
/* Whether the term is to be established (again). */
extern bool term_is_lost(void);
/* Publishes changed settings, once the longest lease is durable; keeps the old ones if the new do not fit together. */
extern void term_apply_settings(void);

#endif							/* AMORO_META_TERM_H */
