/*
 * explorer_call.h
 *		Calls to the leaders of services, as the explorer delivers them.
 */
#ifndef AMORO_META_EXPLORER_CALL_H
#define AMORO_META_EXPLORER_CALL_H

#include "postgres.h"

#include "clock.h"

/* Begins what is due; returns when there is something to do next, if no answer comes before. An error is logged, and it is tried again. */
extern LeaseTime calls_advance(void);
extern bool calls_are_under_way(void);
/* Whoever woke the explorer may have made a call, or come to lead. */
extern void calls_look_again(void);
/* Gives up what is under way; it is begun anew, from that moment on. */
extern void calls_abandon(LeaseTime again_at);

#endif							/* AMORO_META_EXPLORER_CALL_H */
