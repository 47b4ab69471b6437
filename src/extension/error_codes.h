/*
 * error_codes.h
 *		SQLSTATEs of class AM (README.md). They are part of the contract and never change meaning.
 */
#ifndef AMORO_META_ERROR_CODES_H
#define AMORO_META_ERROR_CODES_H

#include "utils/elog.h"

#define ERRCODE_AMORO_LEASE_FENCED			MAKE_SQLSTATE('A', 'M', '0', '0', '1')
#define ERRCODE_AMORO_UNKNOWN_NODE			MAKE_SQLSTATE('A', 'M', '0', '0', '2')
#define ERRCODE_AMORO_STALE_INCARNATION		MAKE_SQLSTATE('A', 'M', '0', '0', '3')
#define ERRCODE_AMORO_STALE_TERM			MAKE_SQLSTATE('A', 'M', '0', '0', '4')
#define ERRCODE_AMORO_COORDINATOR_NOT_RUNNING MAKE_SQLSTATE('A', 'M', '0', '0', '5')
#define ERRCODE_AMORO_HISTORY_PRUNED		MAKE_SQLSTATE('A', 'M', '0', '0', '6')
#define ERRCODE_AMORO_BLOCKER_CONFLICT		MAKE_SQLSTATE('A', 'M', '1', '0', '1')
#define ERRCODE_AMORO_BLOCKER_NOT_HELD		MAKE_SQLSTATE('A', 'M', '1', '0', '2')
#define ERRCODE_AMORO_GROUP_IN_USE			MAKE_SQLSTATE('A', 'M', '2', '0', '1')
#define ERRCODE_AMORO_OBJECT_IN_TRANSITION	MAKE_SQLSTATE('A', 'M', '4', '0', '1')
#define ERRCODE_AMORO_NO_TERMINAL_SESSION	MAKE_SQLSTATE('A', 'M', '5', '0', '1')

#endif							/* AMORO_META_ERROR_CODES_H */
